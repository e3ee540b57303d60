//! Durable writes as `perf` and `compare` measure them: to a disk, and to backups that are started for it.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{farcall, farcall_with, in_kept_blocks, records_with, sentence};
use serde_json::Value;

/// A folder for temporary files of a test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-bars-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("room");
        Self(path)
    }

    fn records(&self, arguments: &[&str]) -> Vec<Value> {
        records_with(arguments, &[("TMPDIR", &self.0.to_string_lossy())])
    }

    fn entries(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).expect("it is there").map(|entry| entry.expect("an entry").path()).collect()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What a failed test has left.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Basic over a transport with few objects and calls.
fn basic<'a>(transport: &'a str, level: &'a str, sizes: &'a str) -> Vec<&'a str> {
    let few = ["--objects", "200", "--count", "30", "--seconds", "60", "--json", "-"];
    let what = ["perf", "basic", "--sizes", sizes, "--transport", transport, "--durability", level];
    [&what[..], &few].concat()
}

#[test]
fn writes_are_measured_to_backups_that_are_started_for_it() {
    let temporary = Temporary::new("backups");
    for (transport, level, backups, size) in [
        ("ring+shm", "replicated=2", 2, "100"),
        ("ring+shm", "replicated=1,flushed", 1, "100K"),
        ("basic+udp", "replicated=1", 1, "1K"),
        ("tcp", "replicated=3", 3, "100"),
    ] {
        let found = temporary.records(&basic(transport, level, size));
        for row in ["basic.read", "basic.write", "basic.writeBw"].map(|row| format!("{row}{size}")) {
            let record = found.iter().find(|record| record["name"] == *row);
            let record = record.unwrap_or_else(|| panic!("{transport}, {level}: no {row}"));
            assert_eq!((&record["durability"], &record["backups"]), (&level.into(), &backups.into()));
            // Every call was answered, and a write at no lesser level: that would have ended the measurement.
            assert!(record["samples"].as_u64() >= Some(in_kept_blocks(30, record)), "{record}");
            let processes = record["processes"].as_array().expect("a list");
            let roles: Vec<_> = processes.iter().map(|process| process["role"].as_str()).collect();
            let expected = [vec![Some("server"), Some("client")], vec![Some("backup"); backups]].concat();
            assert_eq!(roles, expected, "{record}");
        }
        let writes = format!("basic.write{size}");
        let writes = found.iter().find(|record| record["name"] == *writes).expect("it is there");
        let groups = writes["server_counters"]["kv-log#0.groups"].as_u64();
        assert!(
            groups >= Some(in_kept_blocks(30, writes)),
            "one write in flight is a group of its own: {writes}"
        );
        assert_eq!(temporary.entries(), Vec::<PathBuf>::new(), "{level} left something");
    }
}

/// More is in flight than a log takes at a time: what it refuses is asked for again.
#[test]
fn a_log_that_is_busy_makes_writes_slower_and_ends_no_measurement() {
    let temporary = Temporary::new("busy");
    let what = ["perf", "basic", "--transport", "ring+shm", "--durability", "flushed", "--sizes", "100K"];
    let more = ["--in-flight", "64", "--objects", "200", "--count", "300", "--seconds", "60", "--json", "-"];
    let found = temporary.records(&[&what[..], &more].concat());
    let writes = found.iter().find(|record| record["name"] == "basic.writeBw100K").expect("it is there");
    assert!(writes["samples"].as_u64() > Some(0), "{writes}");
}

#[test]
fn several_servers_share_the_backups() {
    let temporary = Temporary::new("servers");
    let arguments = ["perf", "writeThroughput", "--transport", "ring+shm", "--durability", "replicated=1"];
    let more = ["--servers", "2", "--clients", "2", "--objects", "100", "--count", "20", "--seconds", "60"];
    let found = temporary.records(&[&arguments[..], &more, &["--json", "-"]].concat());
    let names: Vec<_> = found.iter().filter_map(|record| record["name"].as_str()).collect();
    assert_eq!(names, ["writeThroughput100.1", "writeThroughput100.2"]);
    for record in &found {
        let counters = record["server_counters"].as_object().expect("an object");
        for shard in ["kv-log#0.groups", "kv-log#1.groups"] {
            assert!(counters.get(shard).and_then(Value::as_u64) > Some(0), "{shard} in {record}");
        }
    }
}

#[test]
fn the_heading_names_the_level_and_its_backups() {
    let arguments = ["perf", "writeDist", "--transport", "ring+shm", "--durability", "replicated=2,flushed"];
    let output = farcall(&[&arguments[..], &["--objects", "50", "--count", "10"]].concat());
    let text = String::from_utf8(output.stdout).expect("tables are text");
    let heading = text.lines().find(|line| line.contains("writeDist")).unwrap_or_default();
    assert_eq!(
        heading,
        "# ring+shm: writeDist, replicated=2,flushed, 1 in flight for each client, 1 client, 1 server, 2 backups"
    );
}

#[test]
fn stores_with_backups_are_not_simulated() {
    let said = sentence(&basic("basic+sim", "replicated=2", "100"), 2);
    assert!(said.ends_with("stores are measured between processes of this machine"), "{said}");
}

#[test]
fn durable_rows_stand_beside_their_limits_and_leave_nothing() {
    let temporary = Temporary::new("rows");
    let rows = "write100.replicated2,write100.flushed,writeRate100.flushed64,recovery8M";
    let found = temporary.records(&[
        "compare",
        "--limit",
        "--rows",
        rows,
        "--log-size",
        "8M",
        "--blocks",
        "1",
        "--seconds-per-block",
        "0.05",
        "--json",
        "-",
    ]);
    for (row, over, unit, in_flight, budget) in [
        ("write100.replicated2", "ring+shm", "ns", 1, "ratio_at_most"),
        ("write100.flushed", "ring+shm", "ns", 1, "ratio_at_most"),
        ("writeRate100.flushed64", "ring+shm", "1/s", 64, "ratio_at_least"),
        ("recovery8M", "disk", "ns", 1, "ratio_at_most"),
    ] {
        let record = found.iter().find(|record| record["name"] == row);
        let record = record.unwrap_or_else(|| panic!("no {row} in {found:?}"));
        assert_eq!((&record["transport"], &record["unit"]), (&over.into(), &unit.into()));
        assert_eq!(record["in_flight"], in_flight);
        let positive = |field: &str| record[field].as_f64() > Some(0.0);
        assert!(positive("value") && positive("other") && positive("ratio"), "{record}");
        assert!(record["budget"][budget].is_number(), "{record}");
    }
    assert_eq!(temporary.entries(), Vec::<PathBuf>::new());
}

#[test]
fn the_absolute_budget_is_of_a_log_of_1g() {
    let plan = ["compare", "--limit", "--rows", "recovery1G", "--log-size", "1G", "--dry-run"];
    let output = farcall(&plan);
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    // A machine without so much room says so instead.
    assert!(text.contains("disk recovery1G") || text.contains("--log-size: "), "{text}");
    let said = sentence(&["compare", "--limit", "--rows", "recovery1G"], 2);
    assert!(said.contains("there is no row `recovery1G`") && said.contains("recovery64M"), "{said}");
    let said = sentence(&["compare", "--limit", "--log-size", "1K"], 2);
    assert!(said.contains("`1K` is no length of a log; give 1M to 64G"), "{said}");
}

#[test]
fn a_folder_for_temporary_files_that_takes_none_is_said_before_anything_is_measured() {
    let nowhere = [("TMPDIR", "/proc/1/none")];
    for arguments in [
        &["compare", "--limit", "--rows", "write100.flushed"][..],
        &["perf", "basic", "--transport", "ring+shm", "--durability", "replicated=2"],
    ] {
        let output = farcall_with(arguments, &nowhere);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("cannot write to /proc/1/none"), "{said}");
    }
}
