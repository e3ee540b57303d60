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
        (&["perf", "ecko"], "farcall: `ecko` is no value of TEST; choose from echo"),
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
fn processes_shuffle_over_every_real_transport() {
    let records = records(&[
        "shuffle",
        "--nodes=3",
        "--sizes=0,9000",
        "--chunk=4000",
        "--ops=5",
        "--warmup=1",
        "--transport=ring+shm,basic+udp,basic+shm,homa+udp,homa+shm",
        "--json=-",
    ]);
    let medians: Vec<_> = records.iter().filter(|record| record["statistic"] == "p50").collect();
    let times = medians.iter().filter(|record| record["unit"] == "ns");
    assert_eq!(times.clone().count(), 5 * 2, "{records:#?}");
    assert!(times.clone().all(|record| record["samples"] == 5 && record["value"].as_f64() > Some(0.0)));
}

#[test]
fn ways_to_push_are_compared_on_one_simulated_fabric() {
    let arguments = [
        "shuffle",
        "--nodes=20",
        "--sizes=1000",
        "--ops=10",
        "--launches=5",
        "--push=deterministic,random",
        "--fabric=omni-path-100",
        "--json=-",
    ];
    let (first, second) = (records(&arguments), records(&arguments));
    assert_eq!(first, second, "the same seed gives the same records");
    let named = |name: &str| {
        let of_name = |record: &&Value| record["name"].as_str().is_some_and(|text| text.ends_with(name));
        first.iter().filter(of_name).collect::<Vec<_>>()
    };
    let ratios = named(".timeToFirst");
    assert_eq!((ratios.len(), &ratios[0]["push"]), (1, &Value::from("random")));
    assert!(named(".p50").iter().all(|record| record["p50_interval_ns"].is_array()), "{first:#?}");
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
fn a_seed_of_the_swarm_is_described_and_gives_the_same_run_twice() {
    let seed = ["sim", "swarm", "--seeds", "1", "--seed", "7"];
    let runs = records(&[&seed[..], &["--json", "-"]].concat());
    let mut transports: Vec<_> = runs.iter().map(|run| run["transport"].as_str()).collect();
    transports.sort_unstable();
    assert_eq!(transports, [Some("basic+sim"), Some("homa+sim"), Some("ring+sim")]);
    let command = |run: &Value| run["again"].as_str().expect("a command").to_owned();
    for run in &runs {
        let again = command(run);
        let words: Vec<_> = again.split(' ').skip(1).chain(["--json", "-"]).collect();
        assert_eq!(records(&words), core::slice::from_ref(run));
    }
    let table = farcall(&seed);
    let table = String::from_utf8(table.stdout).expect("tables are text");
    for part in
        ["fabric: nic.mtu_bytes=", "settings: endpoint.peer_timeout=", "call 0: ", "3 runs, 0 of which"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn the_swarm_runs_on_simulated_fabrics_only() {
    assert_eq!(
        sentence(&["sim", "swarm", "--transport", "ring+shm"], 2),
        "farcall: --transport: ring+shm is not simulated; choose from basic+sim, homa+sim and ring+sim"
    );
    assert_eq!(
        sentence(&["sim", "swarm", "--seeds", "0"], 2),
        "farcall: --seeds: `0` is not a whole number from 1 to 4294967295"
    );
}
