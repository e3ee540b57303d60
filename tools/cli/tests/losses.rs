//! What fell while something was measured stands beside every figure of every workload.

mod common;

use common::{farcall, records};
use serde_json::Value;

/// A tenth of the packets is lost: some of any measurement's are.
const LOSSY: [&str; 4] = ["--quiet", "--set", "fault.drop_permille=100", "--seed=7"];

const MSGRATE: &str = "msgrate --transport basic+udp --mode futures --sizes 1K --in-flight 8 --count 500";
const SHUFFLES: [&str; 3] = [
    "shuffle --transport basic+udp --nodes 2 --sizes 1000 --count 60 --runs 1",
    "shuffle --transport basic+udp --nodes 2 --sizes 1000 --count 60 --runs 1 --ranks threads",
    "shuffle --transport basic+sim --nodes 4 --sizes 1000 --count 60 --runs 2",
];

fn words<'a>(line: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    line.split(' ').chain(LOSSY).chain(more.iter().copied()).collect()
}

fn losses(line: &str) -> Vec<Value> {
    let found = records(&words(line, &["--json", "-"]));
    found.into_iter().map(|record| record["losses"].clone()).filter(|losses| !losses.is_null()).collect()
}

#[test]
fn losses_are_in_the_records_of_messages_and_of_collective_operations() {
    for line in SHUFFLES.into_iter().chain([MSGRATE]) {
        let found = losses(line);
        assert!(!found.is_empty(), "{line}");
        for losses in found {
            let count = |kind: &str| losses[kind].as_u64().expect("a number");
            assert!(count("injected") > 0 && count("dropped") >= count("injected"), "{line}: {losses}");
            assert!(count("resent") > 0, "{line}: {losses}");
        }
    }
}

#[test]
fn rows_say_what_fell() {
    for line in [MSGRATE, SHUFFLES[0]] {
        let output = farcall(&words(line, &[]));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let says =
            |row: &str| !row.starts_with('#') && row.contains(" dropped; ") && row.contains(" sent again");
        assert!(text.lines().any(says), "{line}: {text}");
    }
}

#[test]
fn losses_of_the_store_are_those_of_its_daemons() {
    let found = losses("benchkv --transport basic+udp --ranks 2 --seconds 2 --runs 1");
    assert!(found.iter().any(|losses| losses["injected"].as_u64() > Some(0)), "{found:?}");
}
