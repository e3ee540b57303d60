//! Daemons under load, and whether all counts agree.

mod common;

use common::records;
use serde_json::Value;

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
fn every_traced_run_has_its_own_calls_and_no_others() {
    // Short runs: a ring keeps the records of about 20,000 calls, and forgets the oldest of more.
    let arguments =
        ["--ranks", "2", "--clients", "1", "--queue-depth", "1", "--seconds", "0.1", "--runs", "3"];
    let found = records(&[&["benchkv"], &arguments[..], &["--trace", "--json", "-"]].concat());
    let traced: Vec<_> = found.iter().filter(|record| record.get("trace").is_some()).collect();
    // On a busy machine so short a run has too few calls for a summary.
    let were_few = |record: &Value| record["remote_requests"].as_u64().is_some_and(|calls| calls < 100);
    assert!(traced.len() == 3 || found.iter().any(were_few), "{found:?}");
    for record in traced {
        let trace = &record["trace"];
        let calls = ["calls", "incomplete", "disordered"].map(|of| trace[of].as_u64().expect("a number"));
        assert!(calls[0] > 0, "{trace}");
        assert_eq!(Some(calls.iter().sum()), record["remote_requests"].as_u64(), "{trace}");
    }
}
