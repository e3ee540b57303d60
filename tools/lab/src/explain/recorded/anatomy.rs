//! What limits a measurement whose calls were traced: causes ranked by what removing each would gain.
//!
//! A closed loop with N calls in flight completes at most min(N / R, 1 / Ds, 1 / Dc) calls a second (Denning
//! and Buzen, 1978): R is the time of a call alone, Ds and Dc are the times for which it needs the server and
//! the client. The trace has all of these. A cause adds to some of them; without it the bound is another, and
//! the ratio of the two is its gain. That is a prediction, not a proof: only a second run, with the cause
//! changed, confirms it.

mod causes;

use serde_json::Value;

use self::causes::{Cause, causes};
use super::causes::DurableWrites;
use super::{RecordedFigure, RecordedRun};
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::trace::{PARTS, TraceSummary};

/// A cause that gains less is not named.
const GAIN_MIN: f64 = 1.05;

/// A counter explains the time of a pattern when it has that part of its share.
const COUNTED_MIN: f64 = 0.5;

/// Gains that differ by less than this part are equal.
const SAME_GAIN: f64 = 0.05;

/// The most causes that are named for one measurement.
const CAUSES_MAX: usize = 4;

/// From this share of waiting messages on the room in rings counts as short.
const WAITING_MIN: f64 = 0.01;

/// Traced calls that a judgement needs.
const CALLS_MIN: u64 = 100;

/// A measurement whose calls were traced.
#[derive(Clone, Debug)]
pub(super) struct Anatomy {
    pub(super) about: String,
    pub(super) in_flight: f64,
    /// Whether one client had one call in flight.
    is_alone: bool,
    per_second: f64,
    pub(super) trace: TraceSummary,
    /// The share of messages that had to wait for room.
    waiting: f64,
    server_waited: Option<f64>,
    /// The share of a call's time that was a wait for what is sent again, and how many such waits there were.
    silent: f64,
    silences: f64,
}

impl Anatomy {
    /// What a figure says, if its calls were traced.
    pub(super) fn of(figure: &RecordedFigure) -> Option<Self> {
        let trace: TraceSummary = serde_json::from_value(figure.more.get("trace")?.clone()).ok()?;
        let per_second = figure.more.get("calls_per_second").and_then(Value::as_f64)?;
        let sane = per_second > 0.0 && trace.calls >= CALLS_MIN && trace.total.typical > 0.0;
        let calls = figure.samples.max(1) as f64;
        let in_flight = figure.in_flight.max(1) as f64;
        let silence_nanos = counted(figure, "silence_time");
        sane.then(|| Self {
            about: format!("{} {}", figure.transport, figure.name),
            in_flight,
            is_alone: figure.in_flight <= 1 && figure.more.get("clients").and_then(Value::as_u64) == Some(1),
            per_second,
            waiting: counted(figure, "waited_for_room") / (2.0 * calls),
            // By Little's law a call takes the number in flight over the rate.
            silent: (silence_nanos / calls / (in_flight / per_second * 1e9)).min(0.99),
            silences: counted(figure, "silences"),
            server_waited: figure.more.get("server_waited").and_then(Value::as_f64),
            trace,
        })
    }

    fn is_short_of_room(&self) -> bool {
        self.waiting >= WAITING_MIN
    }

    /// The closed loop as it ran, standstills left out.
    fn system(&self) -> System {
        let occupancy = self.trace.occupancy;
        let running = (1.0 - occupancy.standstill.share) * (1.0 - occupancy.client_standstill.share);
        let per_second = self.per_second / running.max(0.01);
        // Waiting is no part of a call alone: of each part that may contain any, the least.
        let alone = |name: &str| {
            let part = self.trace.part(name);
            if ["handler", "dispatch", "complete"].contains(&name) { part.p50 } else { part.least }
        };
        let parts: f64 = PARTS.iter().map(|name| alone(name)).sum();
        // With one call in flight nothing waits: each is alone. The least of all parts might never have come
        // together.
        let alone = if self.is_alone { self.trace.total.p50 } else { parts };
        let alone_seconds = alone.max(1.0) / 1e9;
        let in_flight = if self.is_short_of_room() {
            self.in_flight.min(per_second * alone_seconds)
        } else {
            self.in_flight
        };
        // What waits for room on one side is late on the other, which is no work there.
        let (server, client) = if self.is_short_of_room() {
            (occupancy.server_inside, occupancy.client_inside)
        } else {
            (occupancy.server, occupancy.client)
        };
        let (server_seconds, client_seconds) = (server / per_second, client / per_second);
        System { in_flight, alone_seconds, server_seconds, client_seconds }
    }

    /// The time of a typical call.
    fn total_seconds(&self) -> f64 {
        self.trace.total.typical / 1e9
    }

    fn handler_seconds(&self) -> f64 {
        self.trace.part("handler").p50 / 1e9
    }

    fn way_seconds(&self) -> f64 {
        let way = |name| self.trace.part(name).least;
        (way("request_on_its_way") + way("response_on_its_way")) / 1e9
    }
}

/// A counter's sum over all groups of clients and servers.
fn counted(figure: &RecordedFigure, name: &str) -> f64 {
    let groups =
        ["counters", "server_counters"].iter().filter_map(|field| figure.more.get(*field)?.as_object());
    let of_name = groups.flatten().filter(|(full, _)| full.rsplit('.').next() == Some(name));
    of_name.filter_map(|(_, count)| count.as_f64()).sum()
}

/// The numbers of a closed loop.
#[derive(Clone, Copy, Debug)]
struct System {
    in_flight: f64,
    alone_seconds: f64,
    server_seconds: f64,
    client_seconds: f64,
}

impl System {
    /// The most calls a second.
    fn bound(self) -> f64 {
        // A call alone takes what both sides work on it at least, and a side that works on nothing takes a
        // nanosecond.
        let alone_seconds = self.alone_seconds.max(self.server_seconds).max(self.client_seconds).max(1e-9);
        let times = [alone_seconds / self.in_flight, self.server_seconds, self.client_seconds];
        1.0 / times.into_iter().fold(1e-9, f64::max)
    }

    /// How many times the rate of this one another one has at most.
    fn gain(self, changed: Self) -> f64 {
        changed.bound() / self.bound()
    }

    /// Without some time of the server.
    fn without_server(self, seconds: f64) -> Self {
        let (alone_seconds, server_seconds) = (self.alone_seconds - seconds, self.server_seconds - seconds);
        Self { alone_seconds, server_seconds, ..self }
    }
}

/// What may limit each traced measurement of the runs, the likeliest first.
pub fn anatomy(runs: &[RecordedRun]) -> Vec<Finding> {
    let several = runs.len() > 1;
    let of_run = |run: &RecordedRun| {
        let name = if several { format!("{} ", run.name) } else { String::new() };
        // Where resources were observed their counters go before the patterns of a trace, and so does a log
        // that is always at work.
        let is_seen = |figure: &&RecordedFigure| {
            figure.more.contains_key("uses") || DurableWrites::of(figure).is_some_and(|writes| writes.limit())
        };
        let unseen = run.figures.iter().filter(|figure| !is_seen(figure));
        let cells: Vec<_> = unseen.filter_map(Anatomy::of).collect();
        cells.into_iter().flat_map(move |cell| ranked(&cell, &name)).collect::<Vec<_>>()
    };
    let mut findings: Vec<_> = runs.iter().flat_map(of_run).collect();
    findings.extend(super::part_changes::find(runs));
    findings.sort_by_key(|finding| finding.section);
    findings
}

fn ranked(cell: &Anatomy, run: &str) -> Vec<Finding> {
    let mut causes = causes(cell);
    causes.retain(|cause| cause.gain >= GAIN_MIN);
    let steps = |cause: &Cause| (cause.gain.ln() / SAME_GAIN).round();
    // A counter that explains the time goes before a pattern in it.
    let patterns =
        causes.iter().filter(|cause| !cause.is_counted).map(|cause| cause.share).fold(0.0, f64::max);
    let explains = |cause: &Cause| cause.is_counted && cause.share >= COUNTED_MIN * patterns;
    causes.sort_by(|a, b| {
        let by_gain = || steps(b).total_cmp(&steps(a)).then(b.share.total_cmp(&a.share));
        explains(b).cmp(&explains(a)).then_with(by_gain)
    });
    causes.truncate(CAUSES_MAX);
    let about = format!("{run}{}, {} in flight", cell.about, cell.in_flight);
    let next = causes
        .first()
        .map(|cause| Finding::new(Section::NextExperiment, "change_the_first", &about, cause.next.clone()));
    let hypothesis = |(place, cause): (usize, &Cause)| {
        let sentence = format!(
            "{}. {}; consistent with the trace, not tested: without it up to {:.2} times the rate",
            place + 1,
            cause.words,
            cause.gain
        );
        let figures =
            [("rank", (place + 1) as f64), ("gain", cause.gain), ("share_percent", cause.share * 100.0)];
        Finding::new(Section::Hypothesis, cause.rule, &about, sentence).with(figures)
    };
    causes.iter().enumerate().map(hypothesis).chain(next).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cell(in_flight: u64) -> Anatomy {
        cell_with(in_flight, 90.0)
    }

    /// Calls whose least parts did not come together.
    fn cell_with(in_flight: u64, handler: f64) -> Anatomy {
        let part = |least: f64, p50: f64| json!({"least": least, "p50": p50, "mean": p50, "typical": p50, "slow": 2.0 * p50});
        let parts = json!({
            "submit": part(50.0, 90.0), "request_on_its_way": part(0.0, 120.0), "gather": part(0.0, 0.0),
            "dispatch": part(0.0, 0.0), "handler": part(60.0, handler), "reply": part(0.0, 0.0),
            "response_on_its_way": part(10.0, 150.0), "complete": part(0.0, 0.0),
        });
        let occupancy = json!({
            "window_nanos": 1e7, "server": 0.35, "client": 0.25, "server_inside": 0.2, "client_inside": 0.1,
            "standstill": {"times": 0, "share": 0.0, "longest_nanos": 0.0},
            "client_standstill": {"times": 0, "share": 0.0, "longest_nanos": 0.0},
        });
        let figure = json!({
            "schema": "", "command": "perf", "test": "echo", "transport": "ring+shm", "name": "echo100",
            "value": 500.0, "unit": "ns", "statistic": "p50", "samples": 10_000, "in_flight": in_flight,
            "calls_per_second": 1.7e6, "clients": 1,
            "trace": {"calls": 10_000, "incomplete": 0, "disordered": 0, "parts": parts,
                "total": part(250.0, 450.0), "occupancy": occupancy},
        });
        Anatomy::of(&serde_json::from_value(figure).expect("a figure")).expect("a traced one")
    }

    #[test]
    fn no_part_is_said_to_take_more_than_its_whole() {
        let said = |handler: f64| {
            let found = ranked(&cell_with(16, handler), "");
            let handler = found.into_iter().find(|finding| finding.rule == "handler").expect("it is named");
            handler.sentence
        };
        assert!(said(150.0).contains("it takes 0.15 us of the 0.21 us for which"), "{}", said(150.0));
        assert!(said(300.0).contains("it takes all of the 0.21 us for which"), "{}", said(300.0));
    }

    #[test]
    fn one_call_in_flight_is_alone_as_it_is_and_not_as_its_least_parts() {
        let alone_nanos = |in_flight| (cell(in_flight).system().alone_seconds * 1e9).round();
        assert_eq!((alone_nanos(1), alone_nanos(2)), (450.0, 50.0 + 90.0 + 10.0));
        let rules: Vec<_> = ranked(&cell(1), "").into_iter().map(|finding| finding.rule).collect();
        assert_eq!(rules.first(), Some(&"window"));
    }
}
