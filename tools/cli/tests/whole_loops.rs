//! Closed loops hide nothing: a call that began in the window counts, however slow it is, and what was lost
//! stands beside the figures. A short run and a long one therefore find the same.

mod common;

use common::records;
use serde_json::Value;

/// The figures of 64 calls in flight over a network that loses a packet in a hundred.
fn run(transport: &str, count: &str, more: &[&str]) -> Vec<Value> {
    let arguments = ["perf", "echo", "--transport", transport, "--sizes", "1K", "--concurrent-ops", "64"];
    let loss = ["--set", "fault.drop_permille=10", "--seconds", "600", "--json", "-", "--count", count];
    let found = records(&[&arguments[..], &loss, more].concat());
    for record in &found {
        // Of three blocks those are left out that others' use of the cores has set apart.
        let of_one_block = count.parse::<u64>().expect("a number") / 3;
        assert!(record["samples"].as_u64() >= Some(of_one_block), "{record}");
        assert!(record["losses"]["dropped"].as_u64() > Some(100), "{record}");
        assert!(record["losses"]["resent"].as_u64() > Some(100), "{record}");
        assert!(record["in_flight_at_end"].as_u64() > Some(0), "{record}");
    }
    found
}

/// The one that has the calls per second.
fn bandwidth(transport: &str, count: &str, more: &[&str]) -> Value {
    let found = run(transport, count, more);
    found.into_iter().find(|record| record["name"] == "echoBw1K").expect("there is a bandwidth")
}

/// Between which calls per second the truth lies, with 95 %.
fn interval(record: &Value) -> (f64, f64) {
    let figure = |field: &str| record[field].as_f64().unwrap_or_else(|| panic!("{field} in {record}"));
    let (rate, error) = (figure("calls_per_second"), figure("relative_error"));
    (rate / (1.0 + error), rate * (1.0 + error))
}

fn assert_agree(short: &Value, long: &Value) {
    let (of_short, of_long) = (interval(short), interval(long));
    assert!(of_short.0 <= of_long.1 && of_long.0 <= of_short.1, "{of_short:?} and {of_long:?}");
}

#[test]
fn simulated_ten_thousand_calls_and_a_million_agree_within_their_intervals() {
    let short = bandwidth("basic+sim", "10000", &[]);
    let dropped = short["losses"]["dropped"].as_u64();
    assert!(short["drops"].as_u64() >= dropped, "what faults drop are drops: {short}");
    assert_agree(&short, &bandwidth("basic+sim", "1000000", &["--seed", "2"]));
}

/// On a real machine the mean follows whoever else uses it, but what a lost packet costs is in the figures of
/// a short run as in those of a long one: one call in fifty waits for it to be sent again.
#[test]
fn real_ten_thousand_calls_show_the_loss_that_a_million_show() {
    let slow = ["--set", "basic.resend_interval=50ms"];
    for count in ["10000", "1000000"] {
        let found = run("basic+udp", count, &slow);
        let p99 = found.iter().find(|record| record["name"] == "echo1K.99").expect("there are enough calls");
        assert!(p99["value"].as_f64() > Some(25e6), "{p99}");
    }
}

#[test]
fn rows_say_what_was_lost_and_what_was_waited_for() {
    let arguments = ["perf", "echo", "--transport", "basic+sim", "--sizes", "1K", "--concurrent-ops", "8"];
    let loss = ["--set", "fault.drop_permille=10", "--count", "500"];
    let output = common::farcall(&[&arguments[..], &loss].concat());
    let text = String::from_utf8(output.stdout).expect("tables are text");
    let mut rows = text.lines().filter(|line| line.starts_with("echo"));
    assert!(rows.all(|row| row.contains(" dropped; ") && row.contains(" sent again")), "{text}");
    assert!(text.contains("in flight at the end of the window, waited for"), "{text}");
    assert!(text.contains("figures settle from about --count"), "{text}");
}

#[test]
fn another_seed_loses_other_packets() {
    let dropped = |seed: &str| {
        let more = ["--seed", seed];
        bandwidth("basic+sim", "10000", &more)["trace_hash"].clone()
    };
    assert_ne!(dropped("1"), dropped("2"));
    assert_eq!(dropped("3"), dropped("3"));
}
