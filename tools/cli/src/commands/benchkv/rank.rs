//! What a rank's daemon did, turn by turn and phase by phase.

use farcall_kv::daemon::Phase;
use farcall_lab::run::benchkv::RankResult;
use farcall_lab::statistics::histogram::{LatencyCounts, LatencyHistogram};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::output::Report;

/// Counters that the table shows, for each turn, and by which names; all are in the records under their own.
const COUNTERS: [(&str, &str); 13] = [
    ("slot_requests", "slot requests"),
    ("local", "local"),
    ("remote", "remote"),
    ("incoming", "incoming"),
    ("responses", "responses"),
    ("unanswered", "unanswered"),
    ("records_received", "batches received"),
    ("records_sent", "batches sent"),
    ("credit_records_sent", "credit-only batches"),
    ("wrap_records_sent", "wraps"),
    ("waited_for_room", "waits for room"),
    ("requests", "requests received"),
    ("answered", "responses received"),
];

/// What a daemon did in each turn, and what the turns' phases took.
pub fn show_rank(rank: usize, found: &RankResult, report: &mut Report) -> Result<(), Failure> {
    let turns = found.counted("turns");
    let window = found.phases.window_nanos as f64 / 1e9;
    let empty = found.empty_turn_nanos;
    report.line(format_args!(
        "# rank {rank}: {turns} turns in {window:.3} s; a turn without clients takes {empty:.1} ns"
    ))?;
    for (counter, name) in COUNTERS {
        let count = found.counted(counter);
        // That there were no stalls is worth a line where there could have been some.
        if count > 0 || (counter == "waited_for_room" && found.counted("records_sent") > 0) {
            let each = count as f64 / turns.max(1) as f64;
            report.line(format_args!("{name:<20} {count:>12} {each:>10.4} a turn"))?;
        }
    }
    let messages = found.counted("requests") + found.counted("answered");
    if let Some(records) = Some(found.counted("records_received")).filter(|&records| records > 0) {
        report.line(format_args!(
            "{:<20} {:>12.2} in a batch",
            "messages",
            messages as f64 / records as f64
        ))?;
    }
    for (phase, times) in Phase::ALL.into_iter().zip(&found.phases.phases) {
        for (hit, counts) in ["idle", "hit"].into_iter().zip(times) {
            show_times(&format!("{}.{hit}", phase.name()), &histogram_of(counts), report)?;
        }
        let share = 100.0 * found.phases.sums_nanos[phase as usize] as f64 / found.phases.window_nanos as f64;
        report.line(format_args!("{:<20} {share:>8.2} %     of the window", phase.name()))?;
    }
    let yielded = 100.0 * found.phases.yielded_nanos as f64 / found.phases.window_nanos as f64;
    if yielded > 0.0 {
        report.line(format_args!(
            "{:<20} {yielded:>8.2} %     of the window, to others on its core",
            "yielded"
        ))?;
    }
    let turns = histogram_of(&found.phases.turns);
    show_times("turn", &turns, report)?;
    for (nanos, count) in turns.octaves() {
        let share = 100.0 * count as f64 / turns.summary().map_or(1, |summary| summary.samples) as f64;
        report.line(format_args!("turn < {nanos:<13} {share:>8.2} %     {count} times"))?;
    }
    Ok(())
}

fn show_times(name: &str, histogram: &LatencyHistogram, report: &mut Report) -> Result<(), Failure> {
    let Some(summary) = histogram.summary() else { return Ok(()) };
    let nanos = |nanos: Option<u64>| nanos.map_or("-".to_owned(), |nanos| nanos.to_string());
    let (p50, p90, p99) = (nanos(summary.p50_nanos), nanos(summary.p90_nanos), nanos(summary.p99_nanos));
    report.line(format_args!(
        "{name:<20} {p50:>8} ns    median; 90 % {p90}, 99 % {p99} ns; {} times",
        summary.samples
    ))
}

/// The same as JSON.
pub fn rank_object(found: &RankResult) -> Value {
    let phases = Phase::ALL.into_iter().zip(&found.phases.sums_nanos);
    let sums: Map<String, Value> = phases.map(|(phase, sum)| (phase.name().to_owned(), json!(sum))).collect();
    let times = Phase::ALL.into_iter().zip(&found.phases.phases);
    let times = times.map(|(phase, [idle, hit])| {
        (phase.name().to_owned(), json!({ "idle": times_object(idle), "hit": times_object(hit) }))
    });
    json!({
        "per_second": found.per_second,
        "counters": found.counters,
        "phases": Map::from_iter(times),
        "turn": times_object(&found.phases.turns),
        "turn_histogram": histogram_of(&found.phases.turns).octaves(),
        "phase_nanos": sums,
        "yielded_nanos": found.phases.yielded_nanos,
        "window_nanos": found.phases.window_nanos,
        "empty_turn_nanos": found.empty_turn_nanos,
    })
}

/// How often something happened, and how long it took.
fn times_object(counts: &LatencyCounts) -> Value {
    let Some(summary) = histogram_of(counts).summary() else { return json!({ "samples": 0 }) };
    json!({
        "samples": summary.samples,
        "p50": summary.p50_nanos,
        "p90": summary.p90_nanos,
        "p99": summary.p99_nanos,
    })
}

fn histogram_of(counts: &LatencyCounts) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new();
    histogram.add_counts(counts);
    histogram
}
