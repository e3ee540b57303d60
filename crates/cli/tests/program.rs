//! The program as people and scripts meet it: output, exit status, and one sentence when something is wrong.

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// The tests of this file run in threads, and measurements need the cores for themselves.
static CORES: Mutex<()> = Mutex::new(());

fn farcall(arguments: &[&str]) -> Output {
    let _cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    command.args(arguments).output().expect("the program runs")
}

/// The one line that a failing command leaves on standard error.
fn sentence(arguments: &[&str], status: i32) -> String {
    let output = farcall(arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    let text = String::from_utf8(output.stderr).expect("messages are text");
    assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
    text.trim_end().to_owned()
}

fn records(arguments: &[&str]) -> Vec<Value> {
    let output = farcall(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
}

#[test]
fn a_wrong_command_line_gets_one_sentence_and_status_2() {
    let cases: [(&[&str], &str); 14] = [
        (&[], "farcall: name a command, such as `farcall perf`; see `farcall --help`"),
        (&["pref"], "farcall: there is no command `pref`; did you mean `perf`?"),
        (
            &["perf", "ecko"],
            "farcall: `ecko` is no value of TEST; choose from echo, basic, readDist, writeDist, readThroughput, writeThroughput, multiRead",
        ),
        (&["perf", "--sice", "1"], "farcall: there is no option `--sice`; did you mean `--sizes`?"),
        (
            &["perf", "--sizes", "100,1x"],
            "farcall: --sizes: `1x` is not a size; write a whole number of bytes such as 100, 10K or 1M",
        ),
        (
            &["perf", "--sizes", "1G"],
            "farcall: --sizes: 1G is longer than the 8M that ring+shm carries; add --set ring.message_bytes_max=1G",
        ),
        (&["perf", "--count", "0"], "farcall: --count: `0` is not a whole number above 0"),
        (&["perf", "--clients", "257"], "farcall: --clients: `257` is not a whole number from 1 to 256"),
        (
            &["perf", "--seconds", "0"],
            "farcall: --seconds: `0` is not a number of seconds above 0 and up to 86400, such as 10 or 0.5",
        ),
        (&["perf", "--seed"], "farcall: --seed needs a value"),
        (
            &["perf", "--set", "ring.ring_byte=1M"],
            "farcall: unknown parameter `ring.ring_byte`; did you mean `ring.ring_bytes`?",
        ),
        (
            &["perf", "--set", "ring.ring_bytes=1"],
            "farcall: ring.ring_bytes=1 is out of range; the nearest valid value is 4K",
        ),
        (&["compare"], "farcall: --limit is missing; see `farcall --help`"),
        (&["stat", "self"], "farcall: PID: `self` is not a whole number from 1 to 2147483647"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(sentence(arguments, 2), expected);
    }
}

#[test]
fn an_unknown_transport_is_answered_with_those_that_exist() {
    let found = sentence(&["perf", "--transport", "ring+shn"], 2);
    assert!(
        found.starts_with("farcall: --transport: unknown transport `ring+shn`; the transports here are ")
    );
    assert!(found.contains("ring+shm"), "{found}");
}

#[test]
fn a_failure_gets_one_sentence_and_status_1() {
    let own_parent_has_no_counters = std::process::id().to_string();
    let found = sentence(&["stat", &own_parent_has_no_counters], 1);
    assert_eq!(found, format!("farcall: process {own_parent_has_no_counters} has no farcall counters"));
    let found = sentence(&["perf", "--json", "/nonexistent/results"], 1);
    assert!(found.starts_with("farcall: cannot write to /nonexistent/results: "), "{found}");
}

#[test]
fn echo_prints_the_rows_of_clusterperf() {
    let output = farcall(&[
        "perf",
        "echo",
        "--transport",
        "ring+shm",
        "--sizes",
        "100,1M",
        "--count",
        "300",
        "--seconds",
        "60",
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no progress bar on a pipe");
    let text = String::from_utf8(output.stdout).expect("tables are text");
    assert!(text.starts_with("# sizes and bandwidths are binary"), "{text}");
    let names: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("echo"))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let rows = |size: &str| {
        let names = ["echo@", "echo@.min", "echo@.9", "echo@.99", "echoBw@", "echo@.limit", "echo@.ratio"];
        names.map(|name| name.replace('@', size))
    };
    assert_eq!(names, [rows("100"), rows("1M")].concat());
}

#[test]
fn records_have_the_documented_fields() {
    let documentation = include_str!("../../../docs/results.md");
    let found =
        records(&["perf", "--transport", "ring+shm", "--sizes", "100", "--count", "600", "--json", "-"]);
    assert_eq!(found.len(), 7, "one record for each row");
    for record in &found {
        let record = record.as_object().expect("a record is an object");
        assert_eq!(record["schema"], "farcall.result.v1");
        assert_eq!((&record["command"], &record["transport"]), (&"perf".into(), &"ring+shm".into()));
        assert!(record["value"].as_f64().is_some_and(|value| value > 0.0));
        for field in record.keys() {
            assert!(
                documentation.contains(&format!("`{field}`")),
                "docs/results.md does not say what `{field}` is"
            );
        }
    }
    assert_eq!((&found[0]["name"], &found[0]["samples"]), (&"echo100".into(), &600.into()));
    assert!(
        found[0]["counters"]["ring+shm#0.calls"].as_u64().is_some_and(|calls| calls >= 600),
        "{}",
        found[0]
    );
}

#[test]
fn many_calls_clients_and_servers_are_stated() {
    let arguments =
        ["--concurrent-ops", "4", "--clients", "2", "--servers", "2", "--seconds", "1", "--count", "300"];
    let found = records(
        &[&["perf", "--transport", "ring+shm", "--sizes", "100", "--json", "-"], &arguments[..]].concat(),
    );
    assert!(
        found
            .iter()
            .all(|record| record["in_flight"] == 8 && record["clients"] == 2 && record["servers"] == 2)
    );
    assert!(
        found.iter().all(|record| record["name"] != "echo100.ratio"),
        "no limit has eight calls under way"
    );
}

#[test]
fn a_comparison_has_a_record_for_each_row() {
    let documentation = include_str!("../../../docs/results.md");
    let found =
        records(&["compare", "--limit", "--blocks", "1", "--seconds-per-block", "0.1", "--json", "-"]);
    for record in &found {
        assert!(
            ["undecided", "-"].contains(&record["verdict"].as_str().expect("a word")),
            "one block decides nothing"
        );
        for field in record.as_object().expect("a record is an object").keys() {
            assert!(
                documentation.contains(&format!("`{field}`")),
                "docs/results.md does not say what `{field}` is"
            );
        }
    }
}

#[test]
fn info_lists_transports_and_parameters() {
    let transports = records(&["info", "--json", "-"]);
    assert!(transports.iter().any(|transport| transport["name"] == "ring+shm"));
    let parameters = records(&["info", "--parameters", "--set", "ring.ring_bytes=1M", "--json", "-"]);
    let ring_bytes =
        parameters.iter().find(|parameter| parameter["name"] == "ring.ring_bytes").expect("it is declared");
    assert_eq!((&ring_bytes["value"], &ring_bytes["default"]), (&"1M".into(), &"256K".into()));
    let text = String::from_utf8(farcall(&["info", "--parameters"]).stdout).expect("listings are text");
    assert!(text.contains("ring.ring_bytes=256K\n") && text.contains("FARCALL_RING_RING_BYTES"));
}

#[test]
fn help_goes_to_standard_output() {
    let output = farcall(&["perf", "--help"]);
    assert!(output.status.success() && output.stderr.is_empty());
    assert!(String::from_utf8_lossy(&output.stdout).contains("--concurrent-ops"));
}

#[test]
fn a_call_reads_as_many_objects_as_fit_into_its_answer() {
    let arguments = ["--transport", "ring+shm", "--sizes", "200K", "--count", "20", "--seconds", "1"];
    let found = records(&[&["perf", "multiRead", "--json", "-"], &arguments[..]].concat());
    let names: Vec<_> = found.iter().filter_map(|record| record["name"].as_str()).collect();
    for (name, fits) in [("multiRead200K.5", true), ("multiRead200K.10", false)] {
        assert_eq!(names.contains(&name), fits, "{names:?}");
    }
}

#[test]
fn a_daemon_counts_what_its_clients_got() {
    let arguments = ["--ranks", "2", "--queue-depth", "3", "--seconds", "0.3", "--runs", "2", "--json", "-"];
    let found = records(&[&["benchkv"], &arguments[..]].concat());
    let documentation = include_str!("../../../docs/results.md");
    let fields = found.iter().flat_map(|record| record.as_object().expect("an object").keys());
    for field in fields {
        assert!(
            documentation.contains(&format!("`{field}`")),
            "docs/results.md does not say what `{field}` is"
        );
    }
    let runs: Vec<_> = found.iter().filter(|record| record["name"] == "rps").collect();
    assert_eq!(runs.len(), 2);
    for record in runs {
        let number = |value: &Value| value.as_u64().expect("a number");
        let daemons = record["daemons"].as_array().expect("one for each rank");
        let counted = |name: &str| {
            let of_daemon = |(rank, daemon): (usize, &Value)| {
                daemon["counters"][format!("kv-daemon#{rank}.{name}")].as_u64().unwrap_or(0)
            };
            daemons.iter().enumerate().map(of_daemon).sum::<u64>()
        };
        assert_eq!(counted("local"), number(&record["local_requests"]));
        assert_eq!(counted("remote"), number(&record["remote_requests"]));
        assert_eq!(counted("slot_requests"), number(&record["samples"]));
        assert_eq!((counted("incoming"), counted("responses")), (counted("remote"), counted("remote")));
        // Latencies and what slots did are measured apart; both must account for the whole time of all slots.
        let slots = |what: &str| number(&record["slot_nanos"][what]);
        let slot_window = number(&record["slot_window_nanos"]);
        assert_eq!(slots("local") + slots("remote") + slots("idle"), slot_window);
        let implied = record["implied_in_flight"].as_f64().expect("a number");
        let window_nanos = record["window_seconds"].as_f64().expect("a number") * 1e9;
        let by_latencies = (implied * window_nanos + slots("idle") as f64) / slot_window as f64;
        assert!((by_latencies - 1.0).abs() < 0.01, "{by_latencies}");
        for daemon in daemons {
            let phases = daemon["phase_nanos"].as_object().expect("an object").values().map(number);
            assert_eq!(
                phases.sum::<u64>() + number(&daemon["yielded_nanos"]),
                number(&daemon["window_nanos"])
            );
        }
    }
}

/// A store's shard, ended when the test is over.
struct Shard(std::process::Child);

impl Drop for Shard {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_store_is_used_from_a_shell() {
    use std::io::{BufRead, BufReader};
    // The port may be another's: then the next one is tried.
    let (shard, at) = (0..100)
        .find_map(|attempt| {
            let at = format!("127.0.0.1:{}", 20_000 + (std::process::id() + attempt * 331) % 20_000);
            let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
            command.args(["kv", "serve", "--at", &at, "--memory", "16M"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
            let mut shard = Shard(command.spawn().expect("the program runs"));
            let mut lines = BufReader::new(shard.0.stdout.take().expect("it is piped")).lines();
            lines.next().map(|line| {
                let line = line.expect("lines are text");
                assert_eq!(line, format!("shard 0 of 1 serves at {at} over ring+shm"));
                (shard, at)
            })
        })
        .expect("a free port");
    let kv = |arguments: &[&str]| {
        let output = farcall(&[&["kv"], arguments, &["--at", &at]].concat());
        (
            output.status.code(),
            String::from_utf8(output.stdout).expect("text"),
            String::from_utf8(output.stderr).expect("text"),
        )
    };
    let said = |text: &str| (Some(0), text.to_owned(), String::new());
    let failed = |text: &str| (Some(1), String::new(), format!("farcall: {text}\n"));
    assert_eq!(kv(&["put", "k", "v"]), said("version 1\n"));
    assert_eq!(kv(&["get", "k"]), said("v"), "the value as it is");
    assert_eq!(
        kv(&["put", "k", "w", "--if-absent"]),
        failed("the object has version 1, not the one that was asked for")
    );
    assert_eq!(kv(&["put", "k", "w", "--if-version", "1"]), said("version 2\n"));
    assert_eq!(kv(&["put", "f", "--file", "/proc/self/comm"]), said("version 3\n"));
    assert_eq!(kv(&["get", "f"]), said("farcall\n"));
    assert_eq!(kv(&["incr", "n", "5"]), said("5\n"));
    assert_eq!(kv(&["incr", "n", "-7"]), said("-2\n"));
    assert_eq!(kv(&["incr", "k"]), failed("the object is not a decimal number from -2^63 to 2^63 - 1"));
    let (status, listing, _) = kv(&["scan"]);
    let mut lines: Vec<_> = listing.lines().collect();
    lines.sort_unstable();
    assert_eq!((status, lines), (Some(0), vec!["f\t3\tfarcall\\n", "k\t2\tw", "n\t5\t-2"]));
    let (status, json, _) = kv(&["get", "k", "--json", "-"]);
    let object: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((status, &object["value"], &object["version"]), (Some(0), &"w".into(), &2.into()));
    assert_eq!(kv(&["delete", "k"]), said("deleted version 2\n"));
    assert_eq!(kv(&["get", "k"]), failed("there is no object `k` in table `default`"));
    assert_eq!(kv(&["get", "k", "--table", "none"]), failed("there is no table `none`"));
    let (status, json, _) = kv(&["stat", "--json", "-"]);
    let shard_object: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (status, &shard_object["objects"], &shard_object["tables"][0]),
        (Some(0), &2.into(), &"default".into())
    );
    drop(shard);
    let (status, _, error) = kv(&["get", "k"]);
    assert_eq!(status, Some(1));
    assert!(error.contains("cannot be reached within 5s"), "{error}");
}
