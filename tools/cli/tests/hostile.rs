//! Text of others, shown by every command that shows some: it cannot control a terminal, hide or turn around.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use common::farcall;
use farcall_base::is_printable;

/// Sets a title, clears the screen by one byte, turns the writing around, hides.
const HOSTILE: &str = "a\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}txt\u{2066}\u{200b}\u{feff}b";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-hostile-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("a new folder");
        Self(path)
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).expect("a writable file");
        path.to_str().expect("a path of text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Checks that what was written shows itself only, and that the hostile text, which is in it, can be told.
fn check(output: &Output, what: &str) {
    for bytes in [&output.stdout, &output.stderr] {
        let text = core::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
        let bad = text.chars().find(|c| !is_printable(*c) && !matches!(c, '\n' | '\t'));
        assert_eq!(bad, None, "{what} writes {text:?}");
    }
}

fn shown(arguments: &[&str]) -> String {
    let output = farcall(arguments);
    check(&output, &arguments.join(" "));
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("checked")).concat()
}

/// A process, ended when the test is over.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn names_of_tables_and_keys_of_a_store() {
    let serve = |at: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
        let tables = format!("default,{HOSTILE}");
        command.args(["kv", "serve", "--at", at, "--memory", "16M", "--tables", &tables]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut running = Running(command.spawn().expect("the program runs"));
        let mut lines = BufReader::new(running.0.stdout.take().expect("it is piped")).lines();
        lines.next().map(|_| running)
    };
    let places = (0..100).map(|n| format!("127.0.0.1:{}", 40_000 + (std::process::id() + n * 331) % 20_000));
    let (_running, at) = places.into_iter().find_map(|at| Some((serve(&at)?, at))).expect("a free port");
    let kv = |arguments: &[&str]| shown(&[&["kv"], arguments, &["--at", &at]].concat());
    assert!(kv(&["stat"]).contains("\\u{1b}]0;owned"), "{}", kv(&["stat"]));
    let object: serde_json::Value = serde_json::from_str(&kv(&["stat", "--json", "-"])).expect("JSON");
    assert!(object["tables"].as_array().expect("a list").contains(&HOSTILE.into()), "{object}");
    kv(&["put", HOSTILE, HOSTILE]);
    assert!(kv(&["scan"]).contains("owned"));
    let object: serde_json::Value = serde_json::from_str(&kv(&["scan", "--json", "-"])).expect("JSON");
    assert_eq!((&object["key"], &object["value"]), (&HOSTILE.into(), &HOSTILE.into()));
    assert!(kv(&["get", "k", "--table", &format!("{HOSTILE}2")]).contains("there is no table"));
    assert!(kv(&["drop", &format!("{HOSTILE}2")]).contains("there is no table"));
    assert!(kv(&["drop", HOSTILE]).contains("dropped table"));
}

#[test]
fn documents_and_recorded_runs() {
    let folder = Folder::new("runs");
    let toml = toml_text(HOSTILE);
    let document = folder.file("a.toml", &format!(
        "schema = \"farcall.audit.v1\"\nsource = {toml}\n[[search]]\nname = {toml}\nus = [3.87, 3.88]\nconfigurations = [1, 619]\nstep_us = 0.01\ntotal = 37730\n"
    ));
    let audited = shown(&["audit", &document]);
    assert!(audited.contains("owned"), "{audited}");
    shown(&["audit", &folder.file("b.csv", &format!("{HOSTILE},p50_us\n1,2\n2,3\n"))]);
    shown(&["audit", &folder.file("c.toml", &format!("{HOSTILE}\n"))]);

    let run = folder.0.join("run").to_str().expect("text").to_owned();
    let perf = ["perf", "--transport", "ring+sim", "--sizes", "100", "--count", "400", "--quiet", "--record"];
    assert!(farcall(&[&perf[..], &[&run]].concat()).status.success());
    for name in ["run.json", "results.jsonl"] {
        let path = folder.0.join("run").join(name);
        let text = fs::read_to_string(&path).expect("it was recorded");
        let json = serde_json::to_string(HOSTILE).expect("JSON");
        let inside = json.trim_matches('"');
        let text = text.replace("\"ring+sim\"", &format!("\"ring+sim{inside}\"")).replace("echo", inside);
        fs::write(&path, text).expect("it is ours");
    }
    let copy = folder.0.join("copy").to_str().expect("text").to_owned();
    assert!(Command::new("cp").args(["-r", &run, &copy]).status().expect("cp starts").success());
    assert!(shown(&["explain", &run]).contains("owned"));
    shown(&["explain", &run, "--json", "-"]);
    shown(&["diff", &run, &copy]);
    let page = folder.0.join("page.html").to_str().expect("text").to_owned();
    shown(&["report", &run, "--output", &page]);
    let page = fs::read_to_string(page).expect("a page");
    let bad = page.chars().find(|c| !is_printable(*c) && !matches!(c, '\n' | '\t'));
    assert_eq!(bad, None, "the page has no character that cannot be seen");
}

/// Runs farcall and ends it, and the test, if it waits for what never comes.
fn refused(arguments: &[&str]) -> String {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "60", env!("CARGO_BIN_EXE_farcall")]).args(arguments);
    let output = command.stdin(Stdio::null()).output().expect("timeout starts");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn pipes_and_devices_in_the_place_of_files() {
    let folder = Folder::new("pipes");
    let run = folder.0.join("run").to_str().expect("text").to_owned();
    let perf = ["perf", "--transport", "ring+sim", "--sizes", "100", "--count", "400", "--quiet", "--record"];
    assert!(farcall(&[&perf[..], &[&run]].concat()).status.success());
    let page = folder.0.join("page.html").to_str().expect("text").to_owned();
    let pipe = folder.0.join("pipe").to_str().expect("text").to_owned();
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo starts").success());
    for name in ["results.jsonl", "run.json"] {
        let place = folder.0.join("run").join(name);
        let recorded = fs::read(&place).expect("it was recorded");
        fs::remove_file(&place).expect("it was recorded");
        for target in [&*pipe, "/dev/zero"] {
            std::os::unix::fs::symlink(target, &place).expect("there is nothing");
            for command in [&["explain", &run][..], &["diff", &run, &run], &["report", &run, "-o", &page]] {
                let said = refused(command);
                assert!(said.contains(name) && said.contains("it is no regular file"), "{said}");
            }
            fs::remove_file(&place).expect("it was just made");
        }
        fs::write(&place, recorded).expect("there is nothing");
    }
    let document = folder.file(
        "a.toml",
        "schema = \"farcall.audit.v1\"\nsource = \"x\"\n[[table]]\nname = \"a\"\nfile = \"pipe\"\n",
    );
    for file in [&*pipe, "/dev/zero", &document] {
        let said = refused(&["audit", file]);
        assert!(said.contains("it is no regular file"), "{said}");
    }
    assert!(Command::new("cp").args(["-a", &pipe]).arg(folder.0.join("run/journal.jsonl")).status().is_ok());
    for command in [&["tune", "report", &run][..], &["tune", "--resume", &run]] {
        refused(command);
    }
}

#[test]
fn what_comes_through_a_pipe_of_ones_own_is_audited() {
    let script = "printf 'size,p50_us\n1,2\n2,3\n' | \"$0\" audit /dev/stdin";
    let output = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_farcall")]).output();
    let output = output.expect("a shell starts");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_recorded_command_of_others_is_not_run() {
    let folder = Folder::new("commands");
    let run = folder.0.join("run").to_str().expect("text").to_owned();
    let perf = ["perf", "--transport", "ring+sim", "--sizes", "100", "--count", "400", "--quiet", "--record"];
    assert!(farcall(&[&perf[..], &[&run]].concat()).status.success());
    let trace = folder.0.join("trace");
    let made = folder.0.join("made");
    let evil = folder.file(
        "evil.toml",
        &format!("[command]\nrun = [\"touch\", {}]\n", toml_text(made.to_str().expect("text"))),
    );
    let about = fs::read_to_string(folder.0.join("run/run.json")).expect("it was recorded");
    let about: serde_json::Value = serde_json::from_str(&about).expect("JSON");
    let traced = format!("--trace={}", trace.display());
    let here = ["perf", "--transport", "ring+shm", "--sizes", "100", &traced];
    let files = [&perf[..4], &["--sizes", "100", "--fabric", &evil]].concat();
    for words in [&["tune", &evil][..], &here, &files] {
        let mut changed = about.clone();
        changed["arguments"] = words.into();
        fs::write(folder.0.join("run/run.json"), changed.to_string()).expect("it is ours");
        let output = farcall(&["explain", &run, "--try"]);
        let said = String::from_utf8_lossy(&output.stderr);
        let refused = said.contains("--try does not run") && said.contains("yourself: `farcall ");
        assert!(refused && output.status.code() == Some(2), "{said}");
        assert!(!made.exists() && !trace.exists(), "{words:?} was run");
    }
    // Trust is about what a measurement names: no other command is run.
    let mut changed = about;
    changed["arguments"] = ["tune", &evil][..].into();
    fs::write(folder.0.join("run/run.json"), changed.to_string()).expect("it is ours");
    let output = farcall(&["explain", &run, "--try", "--trust"]);
    assert!(output.status.code() == Some(2) && !made.exists(), "it was run");
}

#[test]
fn spaces_of_tunings_and_arguments() {
    let folder = Folder::new("tune");
    let toml = toml_text(HOSTILE);
    let space = format!(
        "[[parameter]]\nname = \"a\"\nkind = \"categorical\"\nvalues = [{toml}, \"x\"]\nenvironment = \"A\"\n"
    );
    let file = folder.file("space.toml", &space);
    assert!(shown(&["tune", &file, "--dry-run", "--rows"]).contains("owned"));
    let record = folder.0.join("run").to_str().expect("text").to_owned();
    shown(&["tune", &file, "--rehearse", "--record", &record, "--budget", "60", "--quiet"]);
    shown(&["tune", "report", &record]);
    shown(&["tune", "report", &record, "--json", "-"]);
    shown(&["tune", "merge", "union", &record, &record]);
    shown(&["tune", &folder.file("bad.toml", &space.replace("\"a\"", &toml)), "--dry-run"]);
    for arguments in [&["perf", HOSTILE][..], &["kv", HOSTILE], &["info", "--set", HOSTILE], &[HOSTILE]] {
        shown(arguments);
    }
}

/// A string of TOML.
fn toml_text(text: &str) -> String {
    let escaped = |c: char| if is_printable(c) { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}
