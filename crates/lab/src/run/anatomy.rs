//! What limits a measurement whose calls were traced: causes ranked by what removing each would gain.
//!
//! A closed loop with N calls under way completes at most min(N / R, 1 / Ds, 1 / Dc) calls a second (Denning and Buzen,
//! 1978): R is the time of a call alone, Ds and Dc are the times for which it needs the server and the client. The trace has
//! all of these. A cause adds to some of them; without it the bound is another, and the ratio of the two is its gain.
//! That is a prediction, not a proof: only a second run, with the cause changed, confirms it.

use serde_json::Value;

use super::{Figure, RecordedRun};
use crate::analysis::finding::{Finding, Section};
use crate::trace::{PARTS, TraceSummary};

/// A cause that gains less is not named.
const GAIN_MIN: f64 = 1.05;

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
    per_second: f64,
    pub(super) trace: TraceSummary,
    /// The share of messages that had to wait for room.
    waiting: f64,
    server_waited: Option<f64>,
}

impl Anatomy {
    /// What a figure says, if its calls were traced.
    pub(super) fn of(figure: &Figure) -> Option<Self> {
        let trace: TraceSummary = serde_json::from_value(figure.more.get("trace")?.clone()).ok()?;
        let per_second = figure.more.get("calls_per_second").and_then(Value::as_f64)?;
        let sane = per_second > 0.0 && trace.calls >= CALLS_MIN && trace.total.typical > 0.0;
        let counted: f64 = ["counters", "server_counters"]
            .iter()
            .filter_map(|field| figure.more.get(*field)?.as_object())
            .flatten()
            .filter(|(name, _)| name.ends_with(".ring_full"))
            .filter_map(|(_, count)| count.as_f64())
            .sum();
        sane.then(|| Self {
            about: format!("{} {}", figure.transport, figure.name),
            in_flight: figure.in_flight.max(1) as f64,
            per_second,
            waiting: counted / (2.0 * figure.samples.max(1) as f64),
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
        let alone: f64 = PARTS.iter().map(|name| alone(name)).sum();
        let alone_seconds = alone.max(1.0) / 1e9;
        let under_way = if self.is_short_of_room() {
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
        System { under_way, alone_seconds, server_seconds, client_seconds }
    }

    fn way_seconds(&self) -> f64 {
        let way = |name| self.trace.part(name).least;
        (way("request_on_its_way") + way("response_on_its_way")) / 1e9
    }
}

/// The numbers of a closed loop.
#[derive(Clone, Copy, Debug)]
struct System {
    under_way: f64,
    alone_seconds: f64,
    server_seconds: f64,
    client_seconds: f64,
}

impl System {
    /// The most calls a second.
    fn bound(self) -> f64 {
        // A call alone takes what both sides work on it at least, and a side that works on nothing takes a nanosecond.
        let alone_seconds = self.alone_seconds.max(self.server_seconds).max(self.client_seconds).max(1e-9);
        let times = [alone_seconds / self.under_way, self.server_seconds, self.client_seconds];
        1.0 / times.into_iter().fold(1e-9, f64::max)
    }

    /// Without some time of the server.
    fn without_server(self, seconds: f64) -> Self {
        let (alone_seconds, server_seconds) = (self.alone_seconds - seconds, self.server_seconds - seconds);
        Self { alone_seconds, server_seconds, ..self }
    }
}

/// What may limit, and what is known about it.
struct Cause {
    rule: &'static str,
    words: String,
    /// How many times the rate without it.
    gain: f64,
    /// The part of a call's time, or of the calls in flight, that would be won; decides between equal gains.
    share: f64,
    next: String,
}

/// What may limit each traced measurement of the runs, the likeliest first.
pub fn anatomy(runs: &[RecordedRun]) -> Vec<Finding> {
    let several = runs.len() > 1;
    let of_run = |run: &RecordedRun| {
        let name = if several { format!("{} ", run.name) } else { String::new() };
        let cells: Vec<_> = run.figures.iter().filter_map(Anatomy::of).collect();
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
    causes.sort_by(|a, b| steps(b).total_cmp(&steps(a)).then(b.share.total_cmp(&a.share)));
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

fn causes(cell: &Anatomy) -> Vec<Cause> {
    let system = cell.system();
    let bound = system.bound();
    let gain = |changed: System| changed.bound() / bound;
    let total_seconds = cell.trace.total.typical / 1e9;
    let handler = cell.trace.part("handler").p50 / 1e9;
    let own = (system.server_seconds - handler).max(0.0);
    let occupancy = cell.trace.occupancy;
    let micros = |seconds: f64| format!("{:.2} us", seconds * 1e6);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let mut causes = vec![
        Cause {
            rule: "handler",
            words: format!(
                "the handler: it takes {} of the {} for which a call needs the server",
                micros(handler),
                micros(system.server_seconds)
            ),
            gain: gain(system.without_server(handler)),
            share: handler / total_seconds,
            next: "a handler that does nothing: when the rate grows as predicted, look into it with a profiler; \
                   with an injected one, run it again with `--handler 0ns`"
                .to_owned(),
        },
        Cause {
            rule: "server_work",
            words: format!(
                "the server's poll loop: beside the handler it works {} on a call, and has work {} of the time",
                micros(own),
                percent(occupancy.server)
            ),
            gain: gain(system.without_server(own)),
            share: own / total_seconds,
            next: "a second server: run it again with `--servers 2`, on a core of its own".to_owned(),
        },
        Cause {
            rule: "client_work",
            words: format!(
                "the client: it works {} on a call, and has work {} of the time",
                micros(system.client_seconds),
                percent(occupancy.client)
            ),
            gain: gain(System {
                alone_seconds: system.alone_seconds - system.client_seconds,
                client_seconds: 0.0,
                ..system
            }),
            share: system.client_seconds / total_seconds,
            next: "a second client: run it again with `--clients 2`, on a core of its own".to_owned(),
        },
        Cause {
            rule: "way",
            words: format!(
                "the way between the two: at least {} there and back of the {} of a call alone",
                micros(cell.way_seconds()),
                micros(system.alone_seconds)
            ),
            gain: gain(System { alone_seconds: system.alone_seconds - cell.way_seconds(), ..system }),
            share: cell.way_seconds() / total_seconds,
            next: "the distance alone: `farcall compare --limit` measures that of the cores; on a simulated fabric \
                   run it again with another `--set fabric.link.propagation_ns`"
                .to_owned(),
        },
        Cause {
            rule: "standstill",
            words: format!(
                "a server that does not run: it stood still {} of the traced time although it had work, {} times, {} at the \
                 longest{}; its core may be shared",
                percent(occupancy.standstill.share),
                occupancy.standstill.times,
                micros(occupancy.standstill.longest_nanos / 1e9),
                match cell.server_waited {
                    Some(waited) => format!(", and by the kernel's account waited {} for a core", percent(waited)),
                    None => String::new(),
                }
            ),
            gain: 1.0 / (1.0 - occupancy.standstill.share).max(0.01),
            share: occupancy.standstill.share,
            next: "the server alone on its core: see what else runs there (`ps -eLo psr,pcpu,comm`), and run it again \
                   without"
                .to_owned(),
        },
    ];
    let still = occupancy.client_standstill;
    causes.push(Cause {
        rule: "client_standstill",
        words: format!(
            "a client that does not run: it stood still {} of the traced time although it had work, {} times, {} at the longest",
            percent(still.share),
            still.times,
            micros(still.longest_nanos / 1e9)
        ),
        gain: 1.0 / (1.0 - still.share).max(0.01),
        share: still.share,
        next: "the client alone on its core: see what else runs there (`ps -eLo psr,pcpu,comm`), and run it again without"
            .to_owned(),
    });
    causes.push(held_back(cell, system));
    causes
}

/// Operations are held back either by the window, or by a ring that has no room for it.
fn held_back(cell: &Anatomy, system: System) -> Cause {
    let enough = System { under_way: f64::INFINITY, ..system };
    if cell.is_short_of_room() {
        let asked = System { under_way: cell.in_flight, ..system };
        return Cause {
            rule: "ring_room",
            words: format!(
                "room in the rings: {:.0} % of messages had to wait for it, so that about {:.1} calls are on their way instead of {}",
                cell.waiting * 100.0,
                system.under_way,
                cell.in_flight
            ),
            gain: asked.bound() / system.bound(),
            share: 1.0 - system.under_way / cell.in_flight,
            next: "larger rings: run it again with twice the `--set ring.ring_bytes`, on a simulated fabric `--set fabric.lanes.ring_bytes`"
                .to_owned(),
        };
    }
    Cause {
        rule: "window",
        words: format!(
            "the window: with {} in flight the server has work {:.0} % of the time and the client {:.0} %",
            cell.in_flight,
            cell.trace.occupancy.server * 100.0,
            cell.trace.occupancy.client * 100.0
        ),
        gain: enough.bound() / system.bound(),
        share: 0.0,
        next: format!("more in flight: run it again with `--concurrent-ops {}`", cell.in_flight * 2.0),
    }
}
