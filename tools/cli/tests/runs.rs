//! Figures that are read instead of measured: audits of published notes; runs that are recorded, explained
//! and told apart.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn farcall(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_farcall")).args(arguments).output().expect("the program runs")
}

fn text(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// The one line on standard error of a command that fails with that status.
fn sentence(arguments: &[&str], status: i32) -> String {
    let output = farcall(arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

/// A folder that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-runs-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).expect("a new folder");
        Self(path)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path of text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn published(name: &str) -> String {
    format!("{}/../lab/data/audit/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn an_audit_is_read_from_contradictions_to_the_next_experiment() {
    let text = text(&farcall(&["audit", &published("shuffle.toml")]));
    let place = |heading: &str| text.find(heading).unwrap_or_else(|| panic!("no `{heading}` in {text}"));
    let headings = ["\ncautions", "\nregimes", "\neffects of changes", "\nhypotheses", "\nnext experiment"];
    assert!(headings.map(place).is_sorted(), "{text}");
    assert!(text.contains("throughput is nodes x bytes x 8 / p50 in 211 of 211 rows"), "{text}");
}

#[test]
fn an_audit_gives_its_findings_as_objects() {
    let text = text(&farcall(&["audit", &published("tuner.toml"), "--json", "-"]));
    let finding: Value = serde_json::from_str(text.trim()).expect("one object");
    assert_eq!(finding["schema"], "farcall.finding.v1");
    assert_eq!(finding["figures"]["tied"], 29_206.0);
}

#[test]
fn what_cannot_be_audited_gets_one_sentence() {
    let folder = Folder::new("audit");
    let file = folder.at("t.csv");
    std::fs::write(&file, "p50_us\nfast\n").expect("a writable file");
    let expected =
        format!("farcall: {file}: line 2 of the table `t`: `fast` in column `p50_us` is not a number");
    assert_eq!(sentence(&["audit", &file], 1), expected);
    assert!(sentence(&["audit", &folder.at("none.toml")], 1).starts_with("farcall: cannot read "));
    assert_eq!(sentence(&["audit"], 2), "farcall: FILE is missing; the command is `farcall audit <FILE>...`");
}

#[test]
fn an_audit_can_be_told_what_does_not_hold() {
    let folder = Folder::new("told");
    let file = folder.at("loop.csv");
    std::fs::write(&file, "in_flight,operations_per_s,mean_us\n1,1000000,1.3\n").expect("a writable file");
    assert!(text(&farcall(&["audit", &file])).contains("1.300 implied, 1 stated"));
    assert!(text(&farcall(&["audit", &file, "--tolerance", "little=40%"])).contains("within 40 %"));
    assert!(!text(&farcall(&["audit", &file, "--strike", "closed_loop"])).contains("in flight"));
    assert!(
        sentence(&["audit", &file, "--tolerance", "big=1%"], 2).contains("little, product, balance, same")
    );
    assert!(sentence(&["audit", &file, "--strike", "luck"], 2).contains("closed_loop"));
}

fn record(folder: &Folder, name: &str, more: &[&str]) -> String {
    let path = folder.at(name);
    let run = [
        "perf",
        "--transport",
        "ring+sim",
        "--sizes",
        "100,1K",
        "--count",
        "400",
        "--quiet",
        "--record",
        &path,
    ];
    text(&farcall(&[&run[..], more].concat()));
    path
}

#[test]
fn a_recorded_run_is_explained_and_told_apart_from_another() {
    let folder = Folder::new("record");
    let (first, second) =
        (record(&folder, "a", &[]), record(&folder, "b", &["--seed", "2", "--set", "fabric.link.gbps=10"]));
    let explained = text(&farcall(&["explain", &first]));
    assert!(explained.contains("rate x mean time is what is in flight in all 2 rows"), "{explained}");
    let page = folder.at("page.html");
    text(&farcall(&["report", &first, &second, "--output", &page]));
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg role=\"img\""), "{page}");
    let difference = text(&farcall(&["diff", &first, &second]));
    assert!(difference.contains("# seed differs: 1 before, 2 after"), "{difference}");
    assert!(
        difference.contains("fabric.link.gbps=10") && difference.contains("nothing is decided"),
        "{difference}"
    );
}

#[test]
fn a_difference_beyond_doubt_ends_with_status_1() {
    let folder = Folder::new("diff");
    let (fast, slow) =
        (record(&folder, "a", &[]), record(&folder, "b", &["--set", "fabric.link.propagation_ns=5000"]));
    let five = |run: &str| [run; 5].join(",");
    let (before, after) = (five(&fast), five(&slow));
    assert!(sentence(&["diff", &before, &after], 1).ends_with("figures are worse by more than 1 %"));
    assert!(text(&farcall(&["diff", &before, &before])).contains("same"));
    assert_eq!(
        sentence(&["diff", &before, &slow], 2),
        "farcall: give as many runs before as after; they are compared pair by pair"
    );
}

#[test]
fn folders_that_are_no_runs_get_one_sentence() {
    let folder = Folder::new("foreign");
    let run = record(&folder, "a", &[]);
    let again = ["perf", "--transport", "ring+sim", "--quiet", "--record", &run];
    assert_eq!(
        sentence(&again, 1),
        format!("farcall: {run} is there already and is not empty; choose another folder")
    );
    std::fs::write(folder.0.join("a/run.json"), r#"{"schema":"farcall.run.v0"}"#).expect("a writable file");
    assert_eq!(
        sentence(&["explain", &run], 1),
        "farcall: run a: run.json is of version `farcall.run.v0`, and this program reads `farcall.run.v1`"
    );
    assert!(sentence(&["explain", &folder.at("none")], 1).contains("is it a folder made by --record?"));
}

#[test]
fn a_run_has_the_parameters_that_were_in_force() {
    let folder = Folder::new("parameters");
    let workload = ["perf", "echoWorkload", "--transport", "homa+sim", "--fabric", "connectx2-qdr"];
    let short = ["--workload", "W2", "--nodes", "2", "--load", "0.1", "--count", "50", "--quiet"];
    text(&farcall(&[&workload[..], &short, &["--record", &folder.at("workload")]].concat()));
    let echo = record(&folder, "echo", &["--fabric", "connectx2-qdr"]);
    let parameters = |path: &str| {
        let run = std::fs::read_to_string(PathBuf::from(path).join("run.json")).expect("a run");
        let run: Value = serde_json::from_str(&run).expect("JSON");
        run["parameters"].as_array().expect("a list").clone()
    };
    // Echo is configured like the system whose figures stand beside it; a workload is not.
    let published = Value::from("homa.rtt_bytes=32000");
    assert!(parameters(&echo).contains(&published));
    assert!(!parameters(&folder.at("workload")).contains(&published));
    let mixed = ["perf", "echo", "--transport", "ring+shm,ring+sim", "--record", &folder.at("mixed")];
    assert_eq!(
        sentence(&mixed, 2),
        "farcall: --record: echo over ring+shm and echo over ring+sim do not have the same parameters; record each in a run of its own"
    );
}

#[test]
fn what_every_measuring_command_records_can_be_read_explained_and_reported() {
    let folder = Folder::new("commands");
    let benchkv = ["benchkv", "--ranks", "1", "--clients", "1", "--seconds", "0.2", "--runs", "1", "--quiet"];
    let compare = ["compare", "--limit", "--blocks", "1", "--seconds-per-block", "0.05", "--log-size", "8M"];
    let compare = [&compare[..], &["--quiet"]].concat();
    for (name, command) in [("benchkv", &benchkv[..]), ("compare", &compare[..])] {
        let path = folder.at(name);
        text(&farcall(&[command, &["--record", &path]].concat()));
        let run: Value = serde_json::from_str(
            &std::fs::read_to_string(folder.0.join(name).join("run.json")).expect("a run"),
        )
        .expect("JSON");
        assert_eq!(run["arguments"][0], *name);
        assert!(run["window_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{run}");
        let results = std::fs::read_to_string(folder.0.join(name).join("results.jsonl")).expect("results");
        assert!(results.lines().count() > 1 && results.lines().all(|line| line.contains(name)), "{results}");
        let explained = text(&farcall(&["explain", &path]));
        assert!(explained.starts_with(&format!("# {name}: farcall {name} ")), "{explained}");
        let page = folder.at(&format!("{name}.html"));
        text(&farcall(&["report", &path, "--output", &page]));
        assert!(std::fs::read_to_string(page).expect("a page").contains("<table"), "{name}");
    }
}
