//! How tests run the program.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod clients;
pub mod etcd;
pub mod places;
pub mod ranks;
pub mod slurm;
pub mod stores;
pub mod surroundings;

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The tests of this file run in threads, and measurements need the cores for themselves.
static CORES: Mutex<()> = Mutex::new(());

/// How long what must happen may take: far longer than it ever does.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something holds that another process brings about, and fails where it never does.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not in {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// Runs the program to its end.
pub fn farcall(arguments: &[&str]) -> Output {
    farcall_with(arguments, &[])
}

/// The same with variables in its environment. What was measured while others moved the cores is measured
/// again.
pub fn farcall_with(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let _cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let end = Instant::now() + PATIENCE;
    loop {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
        command.envs(variables.iter().copied());
        let output = command.args(arguments).output().expect("the program runs");
        if !was_never_steady(&output) || Instant::now() > end {
            return output;
        }
    }
}

fn was_never_steady(output: &Output) -> bool {
    output.status.code() == Some(1)
        && String::from_utf8_lossy(&output.stderr).contains("the cores moved during every one of ")
}

/// How many of so many calls a record rests on: of three blocks it may have kept fewer.
pub fn in_kept_blocks(calls: u64, record: &Value) -> u64 {
    let kept = record["blocks"].as_u64().unwrap_or_else(|| panic!("no blocks in {record}"));
    assert!((1..=3).contains(&kept), "{record}");
    calls / 3 * kept
}

/// The one line that a failing command leaves on standard error.
pub fn sentence(arguments: &[&str], status: i32) -> String {
    let output = farcall(arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    let text = String::from_utf8(output.stderr).expect("messages are text");
    assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
    text.trim_end().to_owned()
}

/// What a command writes with `--json -`. Whatever it is, the documentation names its fields.
pub fn records(arguments: &[&str]) -> Vec<Value> {
    records_with(arguments, &[])
}

/// The same with variables in its environment.
pub fn records_with(arguments: &[&str], variables: &[(&str, &str)]) -> Vec<Value> {
    let documentation = include_str!("../../../../docs/results.md");
    let output = farcall_with(arguments, variables);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect();
    for field in records.iter().flat_map(|record| record.as_object().expect("an object").keys()) {
        let is_documented = documentation.contains(&format!("`{field}`"));
        assert!(is_documented, "docs/results.md does not say what `{field}` of {arguments:?} is");
    }
    records
}
