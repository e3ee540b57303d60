//! The tests of clusterperf between processes of this machine and on simulated fabrics.

mod common;

use common::{farcall, in_kept_blocks, records, sentence};

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
    let samples = in_kept_blocks(600, &found[0]);
    assert_eq!((&found[0]["name"], &found[0]["samples"]), (&"echo100".into(), &samples.into()));
    assert!(
        found[0]["counters"]["ring+shm#0.calls"].as_u64().is_some_and(|calls| calls >= samples),
        "{}",
        found[0]
    );
}

#[test]
fn writes_are_measured_to_the_disk_if_that_is_asked_for() {
    let basic = ["perf", "basic", "--transport", "ring+shm", "--sizes", "100", "--objects", "500"];
    let found = records(
        &[&basic[..], &["--count", "30", "--seconds", "60", "--durability", "flushed", "--json", "-"]]
            .concat(),
    );
    let writes: Vec<_> = found.iter().filter(|record| record["name"] == "basic.write100").collect();
    assert_eq!(writes.len(), 1);
    assert!(found.iter().all(|record| record["durability"] == "flushed"));
    let least = in_kept_blocks(30, writes[0]);
    assert!(writes[0]["samples"].as_u64() >= Some(least), "every write was answered: {}", writes[0]);
    let counted = |name: &str| writes[0]["server_counters"][format!("kv-log#0.{name}")].as_u64().unwrap_or(0);
    assert!(counted("groups") > 0 && counted("flush_time") > 0, "{}", writes[0]);
    let sentence = sentence(&[&basic[..], &["--durability", "replicated=8"]].concat(), 2);
    assert!(sentence.contains("`replicated=8` is no level of a table"), "{sentence}");
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
        ["--transport", "basic+udp,homa+udp", "--link-gbps", "1", "--clients", "1", "--servers", "2"];
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
        "no limit has eight calls in flight"
    );
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
fn two_builds_are_compared_in_the_rows_of_the_limits() {
    let other = env!("CARGO_BIN_EXE_farcall");
    let rows = "echo100,messageRate8.futures,read100";
    let asked =
        ["compare", "--program", other, "--within", "2", "--rows", rows, "--blocks", "1", "--json", "-"];
    let found = records(&asked);
    for row in ["echo100", "messageRate8.futures", "read100"] {
        let records: Vec<_> = found.iter().filter(|record| record["name"] == row).collect();
        assert!(!records.is_empty(), "{row} is missing");
        for record in records {
            assert_eq!((&record["test"], &record["budget"]["ratio_within"]), (&"build".into(), &0.02.into()));
            assert!(record["other"].as_f64() > Some(0.0), "{record}");
            assert!(record["description"].as_str().is_some_and(|what| what.ends_with(" / the other build")));
        }
    }
}

#[test]
fn a_comparison_has_a_record_for_each_row() {
    let found = records(&[
        "compare",
        "--limit",
        "--blocks",
        "1",
        "--seconds-per-block",
        "0.1",
        "--log-size",
        "8M",
        "--json",
        "-",
    ]);
    let rows = ["compare", "--rows", "callRate8,bulk64K", "--blocks", "1", "--json", "-"];
    let names: Vec<_> = records(&rows).iter().map(|record| record["name"].clone()).collect();
    assert!(["callRate8", "bulk64K"].iter().all(|row| names.contains(&(*row).into())), "{names:?}");
    assert!(!names.contains(&"echo100".into()), "{names:?}");
    for record in &found {
        assert!(
            ["undecided", "-"].contains(&record["verdict"].as_str().expect("a word")),
            "one block decides nothing"
        );
    }
}
