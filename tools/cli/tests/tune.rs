//! `farcall tune` as its users and their shells see it: killed, interrupted, resumed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const FARCALL: &str = env!("CARGO_BIN_EXE_farcall");

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-cli-tune-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the folder can be made");
        Self(path)
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("the file can be written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SPACE: &str = r#"
[[parameter]]
name = "a"
kind = "integer"
range = "1..512 *2"
default = 8
environment = "A"

[[parameter]]
name = "b"
kind = "categorical"
values = ["x", "y", "z"]
environment = "B"

[[parameter]]
name = "c"
kind = "size"
range = "1K..64K *2"
environment = "C"
"#;

fn tune(arguments: &[&str]) -> Command {
    let mut command = Command::new(FARCALL);
    command.arg("tune").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(arguments: &[&str]) -> Output {
    tune(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("it is text")
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

/// A number that looks random and is the same in every run.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

#[test]
fn a_tuning_that_is_killed_fifty_times_ends_with_the_same_journal() {
    let folder = Folder::new("kill");
    let file = folder.file("space.toml", SPACE);
    let (calm, killed) = (folder.0.join("calm"), folder.0.join("killed"));
    let begin = |record: &Path| {
        tune(&[path(&file), "--rehearse", "--record", path(record), "--budget", "900", "--quiet"])
    };
    assert!(begin(&calm).output().expect("it starts").status.success());
    let (calm, journal) = (calm.join("journal.jsonl"), killed.join("journal.jsonl"));
    let whole = length(&calm);
    let mut kills = 0;
    let mut begun = false;
    while kills < 50 {
        let mut child: Child = match begun {
            false => begin(&killed).spawn().expect("it starts"),
            true => tune(&["--resume", path(&killed), "--quiet"]).spawn().expect("it starts"),
        };
        // Some moment within the next fiftieth of the journal; the last kills may come when it is whole.
        let until = (length(&journal) + scattered(kills) % (whole / 50)).min(whole);
        while length(&journal) < until && child.try_wait().expect("it is ours").is_none() {
            std::thread::yield_now();
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it is ours");
        kills += 1;
        // Without a trial there is nothing to go on with: it is begun again.
        begun = fs::read(&journal).is_ok_and(|bytes| bytes.iter().filter(|byte| **byte == b'\n').count() > 1);
    }
    let last = output(&["--resume", path(&killed), "--quiet"]);
    assert!(last.status.success(), "{}", text(&last.stderr));
    assert!(fs::read(&journal).expect("it is there") == fs::read(&calm).expect("it is there"));
}

#[test]
fn an_interrupted_tuning_shows_what_it_has_and_how_to_go_on() {
    let folder = Folder::new("interrupt");
    let objective = "[objective]\ncommand = [\"sh\", \"-c\", \"echo $((A + 100)); test $C = 1024 || sleep 100\"]\n[[metric]]\nname = \"m\"\npattern = '([0-9]+)'\n";
    let file = folder.file("space.toml", &format!("{objective}{SPACE}"));
    let record = folder.0.join("run");
    let mut child = tune(&[path(&file), "--record", path(&record), "--quiet"]).spawn().expect("it starts");
    // One line of the beginning, one of the reference; then a trial hangs.
    let journal = record.join("journal.jsonl");
    let lines = || fs::read(&journal).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count());
    while lines() < 2 {
        assert!(child.try_wait().expect("it is ours").is_none(), "it ended early");
        std::thread::yield_now();
    }
    let busy = output(&["--resume", path(&record)]);
    assert!(
        text(&busy.stderr).starts_with("farcall: another tuning is running in "),
        "{}",
        text(&busy.stderr)
    );
    let asked = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(asked.success());
    let output = child.wait_with_output().expect("it ends");
    let sentence = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{sentence}");
    assert!(
        sentence.ends_with(&format!("interrupted; go on with `farcall tune --resume {}`\n", path(&record))),
        "{sentence}"
    );
    assert!(text(&output.stdout).contains("cannot be told apart from the best"), "{}", text(&output.stdout));
    assert!(record.join("report.txt").exists());
}

#[test]
fn a_tuner_that_is_killed_leaves_nothing_of_its_trial_behind() {
    let folder = Folder::new("orphan");
    let started = folder.0.join("started");
    // The shell is asked to end by the kernel, and what it has started is not.
    let script = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", path(&started));
    let objective = format!(
        "[objective]\ncommand = [\"sh\", \"-c\", \"{script}\"]\n[[metric]]\nname = \"m\"\npattern = '([0-9]+)'\n"
    );
    let file = folder.file("space.toml", &format!("{objective}{SPACE}"));
    let record = folder.0.join("run");
    let mut child = tune(&[path(&file), "--record", path(&record), "--quiet"]).spawn().expect("it starts");
    while !started.exists() {
        assert!(child.try_wait().expect("it is ours").is_none(), "it ended early");
        std::thread::yield_now();
    }
    let orphan = fs::read_to_string(&started).expect("it is there");
    child.kill().expect("it can be killed");
    child.wait().expect("it is ours");
    // Whoever takes over orphans may leave it as a zombie.
    let is_alive = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", orphan.trim())).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    };
    while is_alive() {
        std::thread::yield_now();
    }
}

#[test]
fn a_budget_below_the_least_search_is_refused_with_what_it_takes() {
    let folder = Folder::new("budget");
    let space = folder.file("space.toml", SPACE);
    let refused = |arguments: &[&str]| {
        let refused = output(&[&[path(&space), "--rehearse", "--quiet"], arguments].concat());
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
        text(&refused.stderr)
    };
    for more in [&[][..], &["--dry-run"], &["--strategy", "exhaustive"]] {
        let sentence = refused(&[&["--budget", "1"], more].concat());
        let least = sentence.rsplit("give --budget ").next().and_then(|rest| rest.split(' ').next());
        let least = least.filter(|least| least.parse::<u64>().is_ok()).expect("a number").to_owned();
        let enough = [&[path(&space), "--rehearse", "--quiet", "--confirm", "1", "--budget", &least], more];
        assert!(output(&enough.concat()).status.success(), "{sentence}");
    }
}

#[test]
fn a_finished_tuning_leaves_files_to_use_and_can_be_merged() {
    let folder = Folder::new("files");
    let file =
        folder.file("space.toml", &SPACE.replace("\"A\"", "\"OMPI_MCA_a\"").replace("\"B\"", "\"UCX_B\""));
    let records: Vec<PathBuf> = ["1", "2"].iter().map(|seed| folder.0.join(seed)).collect();
    for (record, seed) in records.iter().zip(["1", "2"]) {
        let run =
            output(&[path(&file), "--rehearse", "--seed", seed, "--record", path(record), "--budget", "600"]);
        assert!(run.status.success(), "{}", text(&run.stderr));
        assert!(run.stderr.is_empty(), "nothing but the result on a pipe");
    }
    let read = |name: &str| {
        fs::read_to_string(records[0].join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(read("best.env").contains("export OMPI_MCA_a="), "{}", read("best.env"));
    assert!(read("mca-params.conf").starts_with("a = "));
    assert!(read("ucx.conf").starts_with("UCX_B="));
    assert!(read("report.txt").contains("confirmed cost"), "{}", read("report.txt"));
    let result: serde_json::Value = serde_json::from_str(&read("result.json")).expect("it is JSON");
    assert_eq!(result["environments"], 210);
    let report = output(&["report", path(&records[0]), "--json", "-"]);
    let object: serde_json::Value = serde_json::from_slice(&report.stdout).expect("it is JSON");
    assert_eq!((&object["kind"], &object["trials"]), (&"result".into(), &result["trials"]));

    let page = folder.0.join("page.html");
    let arguments = ["report", path(&records[0]), path(&records[1]), "--output", path(&page)];
    let written = Command::new(FARCALL).args(arguments).output().expect("it starts");
    assert!(written.status.success(), "{}", text(&written.stderr));
    let page = fs::read_to_string(&page).expect("it is there");
    assert!(page.contains("<h2>Tuning 1</h2>") && page.contains("<h2>Tuning 2</h2>"), "{page}");
    assert!(page.contains("aria-label=\"Ratios of medians") && page.contains("<!DOCTYPE html>"), "{page}");

    let merged = output(&["merge", "union", path(&records[0]), path(&records[1])]);
    assert!(merged.status.success(), "{}", text(&merged.stderr));
    let smaller = folder.file("merged.toml", &text(&merged.stdout));
    let dry = output(&[path(&smaller), "--dry-run"]);
    assert!(dry.status.success(), "{}{}", text(&merged.stdout), text(&dry.stderr));

    let again = output(&["--revalidate", path(&records[0]), "--confirm", "6", "--json", "-"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    let object: serde_json::Value = serde_json::from_slice(&again.stdout).expect("it is JSON");
    assert_eq!(object["confirmation"][0]["blocks"], 6);
    assert!(records[0].join("revalidation-1.json").exists());
    assert_eq!(read("sessions.jsonl").lines().count(), 2);
}

#[test]
fn a_dry_run_says_what_a_search_with_these_options_does() {
    let folder = Folder::new("dry");
    let space = folder.file("space.toml", SPACE);
    let dry = |more: &[&str]| {
        let output = output(&[&[path(&space), "--dry-run", "--json", "-"], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("it is JSON")
    };
    let trials = |more: &[&str]| dry(more)["trials"].as_u64().expect("a number");
    let said = dry(&["--strategy", "race", "--confirm", "6", "--seed", "9"]);
    assert_eq!((&said["strategy"], &said["confirm"], &said["seed"]), (&"race".into(), &6.into(), &9.into()));
    assert_eq!(dry(&[])["strategy"], "halving");
    assert!(trials(&["--budget", "400"]) > trials(&["--budget", "100"]));
    assert!(trials(&["--confirm", "30"]) > trials(&["--confirm", "1"]));

    // It is about what the search does.
    let record = folder.0.join("run");
    let plan = ["--strategy", "exhaustive", "--budget", "210", "--confirm", "1"];
    let search = [&[path(&space), "--rehearse", "--quiet", "--record", path(&record)], &plan[..]].concat();
    assert!(output(&search).status.success());
    let journal = fs::read_to_string(record.join("journal.jsonl")).expect("it is there");
    let (done, planned) = (journal.lines().count() as u64 - 1, trials(&plan));
    assert!((done * 9 / 10..=done * 11 / 10).contains(&planned), "{planned} trials were planned of {done}");

    let proposer = output(&[path(&space), "--dry-run", "--strategy", "proposer"]);
    assert!(text(&proposer.stdout).contains("warning: the file names no proposer"), "{proposer:?}");
    let synthetic = output(&[path(&space), "--dry-run", "--rehearse", "flat"]);
    assert!(text(&synthetic.stdout).contains("trials on a flat synthetic landscape"), "{synthetic:?}");
    let refused = output(&[path(&space), "--dry-run", "--record", path(&record)]);
    assert_eq!(refused.status.code(), Some(2), "nothing is recorded");
}

#[test]
fn mistakes_are_one_sentence_and_a_status() {
    let folder = Folder::new("mistakes");
    let sentence = |arguments: &[&str], status: i32| {
        let output = output(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr).lines().count(), 1, "{}", text(&output.stderr));
        text(&output.stderr)
    };
    assert!(sentence(&["missing.toml"], 1).starts_with("farcall: cannot read missing.toml: "));
    let space = folder.file("space.toml", SPACE);
    assert_eq!(
        sentence(&[path(&space)], 1),
        "farcall: the file says nothing to run; add an [objective], or use --rehearse\n"
    );
    let wrong = folder.file("wrong.toml", &SPACE.replace("..512 *2", "..512"));
    assert!(sentence(&[path(&wrong), "--dry-run"], 1).contains("parameter `a`: `1..512` is not a range"));
    let lines = folder.file("wrong.params", "a -p 1\nb 10");
    assert!(
        sentence(&[path(&lines), "--dry-run"], 1)
            .ends_with("line 2: `10` belongs to no option; values are listed after -p\n")
    );
    assert!(sentence(&["--resume", path(&folder.0)], 1).ends_with(" has no journal of a tuning\n"));
    assert!(sentence(&[], 2).contains("is missing"));
    assert!(sentence(&[path(&space), "--strategy", "guess"], 2).contains("choose from"));
}

#[test]
fn a_report_writes_only_if_it_should_and_never_through_links() {
    let folder = Folder::new("links");
    let file = folder.file("space.toml", SPACE);
    let record = folder.0.join("run");
    let run = output(&[path(&file), "--rehearse", "--record", path(&record), "--budget", "300"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let victim = folder.file("victim", "mine");
    let names = ["best.env", "report.txt", "result.json", "set.jsonl"];
    for name in names {
        fs::remove_file(record.join(name)).expect("it was written");
        std::os::unix::fs::symlink(&victim, record.join(name)).expect("a link");
    }
    assert!(output(&["report", path(&record)]).status.success());
    assert!(names.iter().all(|name| record.join(name).is_symlink()), "nothing was written");
    let written = output(&["report", path(&record), "--write"]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "mine");
    for name in names {
        assert!(!record.join(name).is_symlink(), "{name}");
        assert_ne!(fs::read_to_string(record.join(name)).expect("it is there"), "mine");
    }
}

#[test]
fn a_tuning_that_goes_on_says_what_it_runs() {
    let folder = Folder::new("says");
    let objective = "[objective]\ncommand = [\"sh\", \"-c\", \"echo $A; exit 3\"]\n[[metric]]\nname = \"m\"\npattern = '([0-9]+)'\n";
    let file = folder.file("space.toml", &format!("{objective}{SPACE}"));
    let record = folder.0.join("run");
    let begun = output(&[path(&file), "--record", path(&record), "--budget", "10", "--quiet"]);
    assert!(record.join("journal.jsonl").exists(), "{}", text(&begun.stderr));
    let says = "# runs A=8 B=x C=1024 sh -c \"echo $A; exit 3\"";
    let resumed = output(&["--resume", path(&record), "--quiet"]);
    assert!(text(&resumed.stdout).lines().any(|line| line == says), "{}", text(&resumed.stdout));
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let folder = Folder::new("names");
    let refused = |content: &str, expected: &str| {
        let file = folder.file("space.toml", content);
        let output = output(&[path(&file), "--dry-run"]);
        assert_eq!(output.status.code(), Some(1), "{content}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    };
    let shell = SPACE.replace("environment = \"A\"", "environment = \"X=1;touch pwned;Y\"");
    refused(&shell, "`X=1;touch pwned;Y` is no name for an environment variable");
    let file = "[[objective.file]]\nname = \"../../profile\"\ncontent = \"{a}\"\n";
    let objective =
        format!("[objective]\ncommand = [\"true\"]\n{file}[[metric]]\nname = \"m\"\npattern = '([0-9]+)'\n");
    refused(&format!("{objective}{SPACE}"), "`../../profile` is no name for a file of a trial");
}

#[test]
fn listings_become_spaces() {
    let import = |source: &str, listing: &str| {
        let mut child = tune(&["import", source]).stdin(Stdio::piped()).spawn().expect("it starts");
        let written = child.stdin.take().expect("it is piped").write_all(listing.as_bytes());
        written.expect("it listens");
        child.wait_with_output().expect("it ends")
    };
    let space = import(
        "openmpi",
        "mca:btl:x:param:btl_x_limit:value:4096\nmca:btl:x:param:btl_x_limit:status:writeable\nmca:btl:x:param:btl_x_limit:type:size_t\n",
    );
    assert!(
        text(&space.stdout).contains("environment = \"OMPI_MCA_btl_x_limit\""),
        "{}",
        text(&space.stdout)
    );
    let nothing = import("ucx", "hello\n");
    assert_eq!(
        text(&nothing.stderr),
        "farcall: there is no parameter in it; give it the output of `ucx_info -c -f`\n"
    );
    assert!(text(&output(&["import", "farcall"]).stdout).contains("set = \"ring.batch_bytes\""));
}
