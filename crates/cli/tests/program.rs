//! The program as people and scripts meet it: output, exit status, and one sentence when something is wrong.

mod common;

use common::{farcall, records, sentence};
use serde_json::Value;

#[test]
fn a_wrong_command_line_gets_one_sentence_and_status_2() {
    let cases: [(&[&str], &str); 23] = [
        (&[], "farcall: name a command, such as `farcall perf`; see `farcall --help`"),
        (&["pref"], "farcall: there is no command `pref`; did you mean `perf`?"),
        (
            &["perf", "ecko"],
            "farcall: `ecko` is no value of TEST; choose from echo, echoWorkload, basic, readDist, writeDist, readThroughput, writeThroughput, multiRead",
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
        (
            &["perf", "--transport", "ring+shm", "--fabric", "ideal"],
            "farcall: --fabric is for simulated transports, such as --transport basic+sim",
        ),
        (
            &["perf", "--transport", "ring+shm", "--set", "fabric.link.gbps=1"],
            "farcall: --set fabric.… is for simulated transports, such as --transport basic+sim",
        ),
        (
            &["perf", "--transport", "homa+sim", "--fabric", "connectx2-qdr", "--clients", "80"],
            "farcall: --fabric: fabric profile `connectx2-qdr`, `topology`: there are places for 80 hosts, not for 81",
        ),
        (
            &["perf", "echoWorkload", "--transport", "basic+udp"],
            "farcall: --load is a part of the links' rate, which is not known for basic+udp; add --link-gbps",
        ),
        (
            &["perf", "echoWorkload", "--transport", "basic+sim", "--link-gbps", "10"],
            "farcall: --link-gbps is not for simulated fabrics, whose links have a rate; see --set fabric.link.gbps",
        ),
        (
            &["perf", "echoWorkload", "--load", "1.5"],
            "farcall: --load: `1.5` is not a part of a link's rate, such as 0.8",
        ),
        (
            &["perf", "echoWorkload", "--transport", "ring+shm", "--nodes", "1", "--link-gbps", "10"],
            "farcall: --nodes: a workload needs at least 2",
        ),
        (
            &["msgrate", "--raw", "waitany"],
            "farcall: --raw: there is no library below ring+shm; choose --transport ucx or mpi",
        ),
        (
            &["msgrate", "--transport", "mpi,ucx", "--raw", "test,testany"],
            "farcall: --raw: ucx has no loop of `testany`; choose from waitany, test",
        ),
        (
            &["compare", "--peers", "netpype"],
            "farcall: --peers: there is no peer `netpype`; choose from all, ucx, netpipe, libfabric, redis, memcached",
        ),
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
fn records_say_what_was_measured() {
    let found = records(&[
        "perf",
        "--transport",
        "ring+shm",
        "--sizes",
        "100",
        "--count",
        "600",
        "--seconds",
        "60",
        "--json",
        "-",
    ]);
    assert_eq!(found.len(), 7, "one record for each row");
    for record in &found {
        let record = record.as_object().expect("a record is an object");
        assert_eq!(record["schema"], "farcall.result.v1");
        assert_eq!((&record["command"], &record["transport"]), (&"perf".into(), &"ring+shm".into()));
        assert!(record["value"].as_f64().is_some_and(|value| value > 0.0));
    }
    assert_eq!((&found[0]["name"], &found[0]["samples"]), (&"echo100".into(), &600.into()));
    assert!(
        found[0]["counters"]["ring+shm#0.calls"].as_u64().is_some_and(|calls| calls >= 600),
        "{}",
        found[0]
    );
}

#[test]
fn a_simulated_fabric_stands_beside_what_was_published_for_it() {
    let arguments =
        ["perf", "--transport", "basic+sim,homa+sim", "--fabric", "connectx2-qdr", "--sizes", "100,10K"];
    let found = records(&[&arguments[..], &["--count", "300", "--json", "-"]].concat());
    assert_eq!(found.len(), 2 * 2 * 5);
    for record in &found {
        let figure = |field: &str| record[field].as_f64().unwrap_or_else(|| panic!("{field} in {record}"));
        let error = figure("value") / figure("published") - 1.0;
        assert!((figure("error") - error).abs() < 1e-9, "{record}");
    }
    let medians: Vec<_> = found.iter().filter(|record| record["statistic"] == "p50").collect();
    assert_eq!(medians[0]["published"], 3_900.0);
    for median in medians {
        let error = median["error"].as_f64().expect("a number");
        assert!(error.abs() < 0.25, "the model is of that machine: {median}");
    }
}

#[test]
fn a_simulation_is_the_same_every_time_and_follows_its_profile() {
    let arguments = ["perf", "--transport", "homa+sim", "--fabric", "ideal", "--sizes", "100K"];
    let run = |more: &[&str]| {
        let found = records(&[&arguments[..], &["--count", "100", "--json", "-"], more].concat());
        (found[0]["trace_hash"].clone(), found[0]["value"].as_f64().expect("a number"))
    };
    let (trace, median) = run(&[]);
    assert_eq!(run(&[]), (trace.clone(), median));
    let (slower_trace, slower) = run(&["--set", "fabric.link.gbps=10"]);
    assert_ne!(trace, slower_trace);
    let on_the_wire = 102_400.0 * 8.0 / 10.0;
    assert!(slower > on_the_wire && median < on_the_wire, "{median} ns, {slower} ns");
}

#[test]
fn a_workload_tells_slowdowns_by_length_on_this_machine_and_on_a_simulated_fabric() {
    let on_machine =
        ["--transport", "basic+shm,homa+udp", "--link-gbps", "1", "--clients", "1", "--servers", "2"];
    let simulated = ["--transport", "homa+sim", "--nodes", "4"];
    for site in [&on_machine[..], &simulated] {
        let arguments = ["perf", "echoWorkload", "--workload", "W2", "--load", "0.05,0.1", "--count", "1000"];
        let found = records(&[&arguments[..], site, &["--json", "-"]].concat());
        for load in [5, 10] {
            let name = format!("echoWorkload.W2.{load}.all.slowdown");
            let slowdown = found.iter().find(|record| record["name"] == *name).expect(&name);
            assert_eq!((&slowdown["unit"], &slowdown["statistic"]), (&"1".into(), &"p50".into()));
            assert!(slowdown["value"].as_f64() >= Some(0.9), "{slowdown}");
            assert!(slowdown["samples"].as_u64() >= Some(800), "{slowdown}");
        }
    }
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
    let found =
        records(&["compare", "--limit", "--blocks", "1", "--seconds-per-block", "0.1", "--json", "-"]);
    for record in &found {
        assert!(
            ["undecided", "-"].contains(&record["verdict"].as_str().expect("a word")),
            "one block decides nothing"
        );
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
