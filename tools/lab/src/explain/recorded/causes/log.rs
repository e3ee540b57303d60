//! What limits durable writes: causes read from what the servers' logs counted.
//!
//! A log flushes one group at a time, and a write is answered when its group is on the disk. So the share of
//! the time for which a log flushes says whether it is the ceiling (utilisation law), and how many writes
//! share a flush is how much more it could do with more of them in flight.

use serde_json::Value;

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::recorded::{RecordedFigure, RecordedRun};

/// No gain is more than that: what is left always takes something.
const GAIN_MAX: f64 = 1000.0;

/// From this share of the time on it is the log that writes wait for.
const BUSY_MIN: f64 = 0.5;

/// What twice as many in flight multiply the writes of a flush by at most.
const TWICE: f64 = 2.0;

/// A prediction for more in flight: a longer group takes longer to write.
const MORE_IN_FLIGHT: (f64, f64) = (1.3, 2.1);

/// What a faster disk gains at least, as a power of what it may gain, and what chance may add.
const LEAST_POWER: f64 = 0.45;
const MARGIN: f64 = 0.06;

/// Writes of a measurement whose servers have logs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DurableWrites {
    in_flight: f64,
    /// Each has a log; what these counted is known of all together.
    servers: f64,
    /// The share of the time for which a log flushes: of several the mean.
    busy: f64,
    /// The time of a flush, in nanoseconds.
    flush_nanos: f64,
    /// Writes that share a flush.
    together: f64,
}

impl DurableWrites {
    /// What a figure says, if it is the rate or the median of durable writes.
    pub fn of(figure: &RecordedFigure) -> Option<Self> {
        let more = &figure.more;
        let number = |field: &str| more.get(field).and_then(Value::as_f64);
        let counted = |name: &str| -> f64 {
            let counters = more.get("server_counters").and_then(Value::as_object);
            let of_name = counters
                .into_iter()
                .flatten()
                .filter(|(full, _)| full.starts_with("kv-log#") && full.rsplit('.').next() == Some(name));
            of_name.filter_map(|(_, count)| count.as_f64()).sum()
        };
        // Where backups confirm a group, its time is not that of a disk.
        if number("backups").is_some_and(|backups| backups > 0.0) {
            return None;
        }
        let stands_for_all =
            matches!((figure.unit.as_str(), figure.statistic.as_str()), ("1/s", _) | ("ns", "p50"));
        let (groups, records, rate) = (counted("groups"), counted("records"), number("calls_per_second")?);
        if !stands_for_all || groups == 0.0 || records == 0.0 || rate <= 0.0 {
            return None;
        }
        let servers = number("servers").unwrap_or(1.0).max(1.0);
        // A long object is several records.
        let each = (records / figure.samples.max(1) as f64).round().max(1.0);
        let (together, flush_nanos) = (records / groups / each, counted("flush_time") / groups);
        let busy = (rate / servers / together * flush_nanos / 1e9).min(1.0);
        let in_flight = figure.in_flight.max(1) as f64;
        Some(Self { in_flight, servers, busy, flush_nanos, together })
    }

    /// Whether the log is what they wait for.
    pub fn limit(&self) -> bool {
        self.busy >= BUSY_MIN
    }

    fn words(&self) -> String {
        let logs = match self.servers {
            1.0 => "it flushes".to_owned(),
            servers => format!("the logs of {servers:.0} servers flush on average"),
        };
        format!(
            "{logs} {:.0} % of the time, {:.1} us each, and {:.1} of {:.0} writes in flight share one",
            self.busy * 100.0,
            self.flush_nanos / 1e3,
            self.together,
            self.in_flight
        )
    }
}

/// What limits the durable writes of each measurement of the runs.
pub fn durable_writes(runs: &[RecordedRun]) -> Vec<Finding> {
    let several = runs.len() > 1;
    let of_run = |run: &RecordedRun| {
        let name = if several { format!("{} ", run.name) } else { String::new() };
        let measured = run.figures.iter().filter_map(|figure| Some((figure, DurableWrites::of(figure)?)));
        let said = |(figure, writes): (&RecordedFigure, DurableWrites)| {
            let about = format!("{name}{} {}, {} in flight", figure.transport, figure.name, figure.in_flight);
            findings(&writes, &about)
        };
        measured.flat_map(said).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of_run).collect()
}

/// The disk and how many writes share a flush, where the log is what they wait for; else that it is not.
fn findings(writes: &DurableWrites, about: &str) -> Vec<Finding> {
    let gain = (1.0 / (1.0 - writes.busy)).clamp(1.0, GAIN_MAX);
    if !writes.limit() {
        let sentence =
            format!("the log is not what limits: {}; `--trace` says where the rest goes", writes.words());
        return vec![Finding::new(Section::NotIdentifiable, "log_idle", about, sentence)];
    }
    let (low, high) = (gain.powf(LEAST_POWER), gain * (1.0 + MARGIN));
    let flush =
        format!("1. the log's flushes: {}; without them up to {gain:.2} times the rate", writes.words());
    let together = format!(
        "2. how many writes share a flush: with {:.0} in flight it is {:.1} of them; with twice as many up to {TWICE:.2} times \
         the rate",
        writes.in_flight, writes.together
    );
    let next = format!(
        "a disk without a flush: run it again with `TMPDIR=/dev/shm` in its environment; {low:.2} to {high:.2} times the rate \
         if it is the first cause, the same if it is not"
    );
    let named = |rule, rank: f64, gain: f64, sentence, predicted: (f64, f64)| {
        Finding::new(Section::Hypothesis, rule, about, sentence).with([
            ("rank", rank),
            ("gain", gain),
            ("share_percent", writes.busy * 100.0),
            ("predicted_low", predicted.0),
            ("predicted_high", predicted.1),
        ])
    };
    vec![
        named("flush", 1.0, gain, flush, (low, high)),
        named("writes_together", 2.0, TWICE.min(gain), together, MORE_IN_FLIGHT),
        Finding::new(Section::NextExperiment, "change_the_first", about, next)
            .with([("predicted_low", low), ("predicted_high", high)]),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A measurement of 1000 writes a second, in groups of `together` that took that long.
    fn writes(in_flight: u64, together: u64, flush_us: u64) -> Option<DurableWrites> {
        writes_to(1, in_flight, together, flush_us)
    }

    fn writes_to(servers: u64, in_flight: u64, together: u64, flush_us: u64) -> Option<DurableWrites> {
        let groups = 5000 / together;
        let figure = json!({
            "schema": "", "command": "perf", "test": "writeThroughput", "transport": "ring+shm",
            "name": "writeThroughput100.1", "value": 1e3, "unit": "1/s", "statistic": "over_wall_clock",
            "samples": 5000, "in_flight": in_flight, "clients": 1, "servers": servers, "calls_per_second": 1e3,
            "durability": "flushed",
            "server_counters": {
                "kv-log#0.groups": groups, "kv-log#0.records": 5000,
                "kv-log#0.flush_time": groups * flush_us * 1000, "ring+shm#0.groups": 7,
            },
        });
        DurableWrites::of(&serde_json::from_value(figure).expect("a figure"))
    }

    fn rules(writes: &DurableWrites) -> Vec<&'static str> {
        findings(writes, "t").iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_log_that_always_flushes_is_what_limits() {
        let slow = writes(8, 4, 3900).expect("durable writes");
        assert!((slow.busy - 0.975).abs() < 1e-9 && (slow.together - 4.0).abs() < 1e-9, "{slow:?}");
        assert_eq!(rules(&slow), ["flush", "writes_together", "change_the_first"]);
        let first = &findings(&slow, "t")[0];
        assert!((first.figure("gain").expect("a gain") - 40.0).abs() < 1e-6, "{first:?}");
        assert!(slow.words().starts_with("it flushes 98 % of the time"), "{}", slow.words());
    }

    #[test]
    fn writes_that_wait_for_backups_are_left_alone() {
        let figure = |backups: u64| {
            let figure = json!({
                "schema": "", "command": "perf", "test": "writeThroughput", "transport": "ring+shm",
                "name": "writeThroughput100.1", "value": 1e3, "unit": "1/s", "statistic": "over_wall_clock",
                "samples": 5000, "in_flight": 1, "calls_per_second": 1e3, "backups": backups,
                "server_counters": { "kv-log#0.groups": 9, "kv-log#0.records": 9, "kv-log#0.flush_time": 9e6 },
            });
            DurableWrites::of(&serde_json::from_value(figure).expect("a figure"))
        };
        assert!(figure(0).is_some());
        assert_eq!(figure(2), None, "a group takes as long as backups take to confirm it");
    }

    #[test]
    fn of_several_logs_the_mean_is_called_one() {
        let several = writes_to(2, 8, 1, 1000).expect("durable writes");
        let words = several.words();
        assert!(words.starts_with("the logs of 2 servers flush on average 50 % of the time"), "{words}");
    }

    #[test]
    fn a_log_that_is_idle_is_not() {
        assert_eq!(rules(&writes(8, 1, 100).expect("durable writes")), ["log_idle"]);
    }

    #[test]
    fn the_groups_of_other_parts_are_no_log() {
        let figure = json!({
            "schema": "", "command": "perf", "test": "basic", "transport": "ring+shm", "name": "basic.read100",
            "value": 1e3, "unit": "ns", "statistic": "p50", "samples": 5000, "in_flight": 1, "calls_per_second": 1e3,
            "server_counters": {"ring+shm#0.groups": 7, "ring+shm#0.records": 7},
        });
        assert_eq!(DurableWrites::of(&serde_json::from_value(figure).expect("a figure")), None);
    }
}
