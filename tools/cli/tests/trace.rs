//! Traced calls.

mod common;

use std::process::{Command, Output};

use serde_json::Value;

fn farcall(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_farcall")).args(arguments).output().expect("the program runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// A path that is not there, in a folder of this test process.
fn path(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("farcall-trace-{}-{name}", std::process::id()));
    path.to_str().expect("a path of text").to_owned()
}

#[test]
fn traced_calls_are_shown_part_by_part_and_written_for_perfetto() {
    for transport in ["ring+sim", "homa+sim", "ring+shm", "basic+udp"] {
        let file = path(transport);
        let trace = format!("--trace={file}");
        let run = ["perf", "--transport", transport, "--sizes", "100", "--count", "300", "--quiet", &trace];
        let shown = text(&farcall(&run));
        for word in ["request_on_its_way", "handler", "typical", "servers had work"] {
            assert!(shown.contains(word), "{transport}: {shown}");
        }
        let written = std::fs::read_to_string(&file).expect("the file was written");
        std::fs::remove_file(&file).expect("it can be removed");
        let document: Value = serde_json::from_str(&written).expect("JSON");
        let events = document["traceEvents"].as_array().expect("a list");
        let handlers = events.iter().filter(|event| event["ph"] == "X").count();
        assert!(handlers >= 100, "{transport}: {handlers}");
        let (begun, ended) = ("b", "e");
        let count = |phase| events.iter().filter(|event| event["ph"] == phase).count();
        assert_eq!(count(begun), count(ended), "{transport}");
    }
}

#[test]
fn the_slowest_traced_calls_are_written_as_spans() {
    let file = path("spans.jsonl");
    let trace = format!("--trace={file}");
    text(&farcall(&[
        "perf",
        "--transport",
        "ring+sim",
        "--sizes",
        "100",
        "--count",
        "300",
        "--quiet",
        &trace,
    ]));
    let written = std::fs::read_to_string(&file).expect("the file was written");
    std::fs::remove_file(&file).expect("it can be removed");
    let of_end = |kind| written.matches(&format!("\"kind\":{kind}")).count();
    assert_eq!((of_end(3), of_end(2), of_end(1)), (100, 100, 800));
    let refused = farcall(&["msgrate", "--transport", "ring+sim", &trace]);
    assert_eq!(refused.status.code(), Some(2), "spans are of calls");
}

#[test]
fn every_workload_that_makes_calls_shows_their_parts() {
    let workloads: [&[&str]; 6] = [
        &["perf", "readDist", "--transport", "ring+shm", "--count", "600", "--objects", "100"],
        &["perf", "echoWorkload", "--transport", "homa+sim", "--nodes", "4", "--count", "200"],
        &[
            "perf",
            "echoWorkload",
            "--transport",
            "basic+udp",
            "--link-gbps",
            "1",
            "--workload",
            "W1",
            "--count",
            "300",
        ],
        &["shuffle", "--nodes", "4", "--sizes", "4000", "--ops", "6"],
        &["shuffle", "--nodes", "3", "--sizes", "4000", "--ops", "6", "--transport", "ring+shm"],
        &["benchkv", "--ranks", "2", "--runs", "1", "--seconds", "0.2"],
    ];
    for workload in workloads {
        let (folder, file) = (path("workload"), path("workload.json"));
        let trace = format!("--trace={file}");
        let shown = text(&farcall(&[workload, &["--quiet", "--record", &folder, &trace]].concat()));
        let kept = std::fs::read_to_string(format!("{folder}/results.jsonl")).expect("results");
        let written = std::fs::read_to_string(&file).expect("the file was written");
        std::fs::remove_dir_all(&folder).expect("the run can be removed");
        std::fs::remove_file(&file).expect("it can be removed");
        assert!(shown.contains("request_on_its_way") && shown.contains("typical"), "{workload:?}: {shown}");
        let traced: Vec<Value> = kept
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
            .filter(|record| record.get("trace").is_some())
            .collect();
        assert_eq!(traced.len(), 1, "{workload:?}: the record of the median");
        let part = |name: &str| traced[0]["trace"]["parts"][name]["mean"].as_f64().expect("a time");
        let names = ["submit", "request_on_its_way", "gather", "dispatch", "handler", "reply"];
        let sum: f64 = names.into_iter().chain(["response_on_its_way", "complete"]).map(part).sum();
        let total = traced[0]["trace"]["total"]["mean"].as_f64().expect("a time");
        assert!((sum / total - 1.0).abs() < 0.02, "{workload:?}: {sum} of {total}");
        assert!(written.contains("\"handler\""), "{workload:?}");
        let is_simulated =
            workload.contains(&"homa+sim") || !workload.contains(&"--transport") && workload[0] == "shuffle";
        assert_eq!(kept.contains("\"test\":\"reference\""), !is_simulated, "{workload:?}");
    }
}

#[test]
fn a_delay_that_was_put_in_is_on_the_way_and_nowhere_else() {
    let delay = ["--set", "fault.delay_permille=1000", "--set", "fault.delay_time=200us"];
    for transport in ["ring+shm", "basic+udp", "ring+sim", "homa+sim"] {
        let folder = path("delay");
        let run =
            ["perf", "--transport", transport, "--sizes", "100", "--count", "150", "--quiet", "--trace"];
        text(&farcall(&[&run[..], &delay, &["--record", &folder]].concat()));
        let kept = std::fs::read_to_string(format!("{folder}/results.jsonl")).expect("results");
        std::fs::remove_dir_all(&folder).expect("the run can be removed");
        let traced = kept.lines().find(|line| line.contains("\"trace\":")).expect("a traced record");
        let record: Value = serde_json::from_str(traced).expect("JSON");
        let least = |part: &str| record["trace"]["parts"][part]["least"].as_f64().expect("a time");
        for part in ["request_on_its_way", "response_on_its_way"] {
            assert!(least(part) >= 200_000.0, "{transport}: {part} took {} ns", least(part));
        }
        for part in ["submit", "gather", "handler", "reply", "complete"] {
            assert!(least(part) < 200_000.0, "{transport}: {part} took {} ns", least(part));
        }
    }
}

#[test]
fn what_is_varied_is_confirmed_and_drawn() {
    let (folder, page) = (path("varied"), path("varied.html"));
    let echo = ["perf", "--transport", "basic+sim", "--fabric", "connectx2-qdr", "--sizes", "10K", "--quiet"];
    let factors = ["--vary", "fabric.link.gbps=16/64,basic.calls_max=2/8", "--count", "60", "--blocks", "4"];
    text(&farcall(&[&echo[..], &factors, &["--record", &folder]].concat()));
    let explained = text(&farcall(&["explain", &folder]));
    text(&farcall(&["report", &folder, "--output", &page]));
    let drawn = std::fs::read_to_string(&page).expect("the page");
    std::fs::remove_dir_all(&folder).expect("the run can be removed");
    std::fs::remove_file(&page).expect("it can be removed");
    let confirmed =
        "confirmed: the figure depends on `fabric.link.gbps 16 → 64`, which acts on the rate of the links";
    assert!(explained.contains(confirmed), "{explained}");
    assert!(
        explained.contains("refuted: the figure does not depend on `basic.calls_max 2 → 8`"),
        "{explained}"
    );
    assert!(drawn.contains("<path class=\"reach\"") && drawn.contains("fabric.link.gbps 16 → 64: "));
}

#[test]
fn what_is_traced_is_explained() {
    let folder = path("run");
    let run = ["perf", "--transport", "ring+sim", "--sizes", "1K", "--quiet", "--trace", "--handler", "2us"];
    text(&farcall(&[&run[..], &["--concurrent-ops", "16", "--record", &folder]].concat()));
    let explained = text(&farcall(&["explain", &folder]));
    std::fs::remove_dir_all(&folder).expect("the run can be removed");
    assert!(
        explained.contains("hypotheses") && explained.contains("1. the handler: it takes"),
        "{explained}"
    );
}

#[test]
fn the_reference_is_kept_with_a_run_and_nowhere_else() {
    let folder = path("reference");
    let run = ["perf", "--transport", "ring+shm", "--sizes", "100", "--count", "300", "--quiet"];
    let objects = text(&farcall(&[&run[..], &["--record", &folder, "--json", "-"]].concat()));
    let kept = std::fs::read_to_string(format!("{folder}/results.jsonl")).expect("results");
    let explained = text(&farcall(&["explain", &folder]));
    std::fs::remove_dir_all(&folder).expect("the run can be removed");
    assert!(!objects.contains("\"reference\""), "{objects}");
    let of_reference = kept.lines().filter(|line| line.contains("\"test\":\"reference\"")).count();
    assert!(of_reference >= 6, "before and after three blocks: {kept}");
    assert!(!explained.contains("perf reference"), "the reference is no figure: {explained}");
}

#[test]
fn what_cannot_be_traced_gets_one_sentence() {
    let sentence = |arguments: &[&str]| {
        let output = farcall(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).expect("text").trim_end().to_owned()
    };
    let varied = ["perf", "--transport", "ring+sim", "--vary", "ring.batch_bytes=4K", "--trace"];
    assert!(sentence(&varied).starts_with("farcall: --trace is for one configuration"));
    let runs = ["benchkv", "--runs", "2", "--trace=x.json"];
    assert!(sentence(&runs).ends_with("give --runs 1 and no --sweep"));
    let many = ["perf", "--transport", "ring+sim", "--sizes", "1K,2K", "--trace=x.json"];
    assert!(sentence(&many).starts_with("farcall: --trace=FILE takes the calls of one measurement"));
    let both = ["perf", "basic", "--transport", "ring+shm", "--sizes", "100", "--trace=x.json"];
    let refused = sentence(&both);
    assert!(
        refused.contains("one test that makes one: echo, ") && !refused.contains("basic"),
        "reads and overwrites are two measurements: {refused}"
    );
}
