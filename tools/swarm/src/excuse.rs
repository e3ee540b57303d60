//! What excuses a report that a peer is gone: the troubles of a scenario, asked about pairs of hosts and
//! spans of time.
//!
//! A report of silence needs silence. It is excused when, within the time that a peer needs to notice, hosts
//! or paths were in trouble for as long as lies between the first and the last ping, or question to a
//! process, or when so many packets are lost that three lost pings in a row are to be expected somewhere.

use core::time::Duration;

use farcall::{Instant, TransportKind};

use crate::scenario::Scenario;
use crate::trouble::{Trouble, TroubleKind};

/// How likely a scenario without other excuses may lose three pings in a row somewhere.
const SILENCE_BY_CHANCE_MAX: f64 = 1e-6;

/// Pings without an answer that make a silent peer a dead one.
const PINGS: usize = 3;

/// How much that was crowded out by other traffic excuses that a peer is given up. Lanes lose nothing; they
/// are given up when their call is late.
pub fn losses_of_death(transport: TransportKind) -> usize {
    if transport == TransportKind::RING_SIM { 1 } else { PINGS }
}

/// A span of time.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub from: Duration,
    pub until: Duration,
}

impl Span {
    /// How long a trouble lasts within it.
    fn overlap(&self, trouble: &Trouble) -> Duration {
        self.until.min(trouble.until).saturating_sub(self.from.max(trouble.from))
    }
}

/// The time since the beginning of the simulation.
pub fn since_beginning(at: Instant) -> Duration {
    at - Instant::ZERO
}

/// A host that reports something, and the host that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub observer: u32,
    pub peer: u32,
}

/// Whether it is excused that an observer reports at `at` that its peer is dead. Lanes only notice crashes,
/// and those soon.
pub fn death(scenario: &Scenario, transport: TransportKind, pair: Pair, at: Instant) -> bool {
    match transport {
        TransportKind::RING_SIM => restart(scenario, pair.peer, at),
        _ => restart(scenario, pair.peer, at) || silence_of_process(scenario, transport, pair, at),
    }
}

/// Whether it is excused that an observer reports at `at` that its peer does not answer. A lane's call is not
/// repeated: a crash of the peer that it falls into is enough.
pub fn unreachable(scenario: &Scenario, transport: TransportKind, pair: Pair, at: Instant) -> bool {
    let called_for_nothing = transport == TransportKind::RING_SIM && restart(scenario, pair.peer, at);
    called_for_nothing || silence(scenario, transport, pair, at)
}

/// The time in which a silence began that `observer` reports at `at`. Who is not heard for the whole timeout
/// is given up, and then is silent itself for as long. Time in which the observer stood still is no silence.
pub fn silence_window(scenario: &Scenario, observer: u32, at: Instant) -> Span {
    let until = since_beginning(at);
    let length = 3 * scenario.tuning.peer_timeout;
    let window = Span { from: until.saturating_sub(length), until };
    let from = until.saturating_sub(length + standstill(scenario, observer, window));
    Span { from, until }
}

/// The pauses of a host that reach into a span, from their beginning.
fn standstill(scenario: &Scenario, host: u32, span: Span) -> Duration {
    let of_host =
        |trouble: &&Trouble| matches!(&trouble.kind, TroubleKind::Pause(hosts) if hosts.contains(&host));
    let within = |trouble: &&Trouble| !span.overlap(trouble).is_zero();
    let pauses = scenario.faults.troubles.iter().filter(of_host).filter(within);
    pauses.map(|trouble| trouble.until.min(span.until) - trouble.from).sum()
}

/// Whether it is excused that an observer reports at `at` that it does not hear its peer.
pub fn silence(scenario: &Scenario, transport: TransportKind, pair: Pair, at: Instant) -> bool {
    silence_by(scenario, transport, pair, at, scenario.tuning.peer_timeout / 2, |_| true)
}

/// The same of its peer's process: it answers for a peer that stands still, and is asked with the second and
/// the third ping.
fn silence_of_process(scenario: &Scenario, transport: TransportKind, pair: Pair, at: Instant) -> bool {
    let stood_still = standstill(scenario, pair.peer, silence_window(scenario, pair.observer, at));
    let least = scenario.tuning.peer_timeout / if stood_still.is_zero() { 2 } else { 4 };
    silence_by(scenario, transport, pair, at, least, |kind| !matches!(kind, TroubleKind::Pause(_)))
}

fn silence_by(
    scenario: &Scenario,
    transport: TransportKind,
    pair: Pair,
    at: Instant,
    least: Duration,
    silences: impl Fn(&TroubleKind) -> bool,
) -> bool {
    let Pair { observer, peer } = pair;
    let window = silence_window(scenario, observer, at);
    let troubles = scenario.faults.troubles.iter();
    let relevant = troubles.filter(|trouble| silences(&trouble.kind) && trouble.kind.parts(observer, peer));
    let trouble: Duration = relevant.map(|trouble| window.overlap(trouble)).sum();
    trouble >= least || chance_of_silence(scenario, transport) > SILENCE_BY_CHANCE_MAX
}

/// Whether `peer` had a former life at `at`.
pub fn restart(scenario: &Scenario, peer: u32, at: Instant) -> bool {
    scenario.faults.troubles.iter().any(|trouble| {
        matches!(&trouble.kind, TroubleKind::Crash(hosts) if hosts.contains(&peer))
            && trouble.from <= since_beginning(at)
    })
}

/// Whether one of the two has parted with the other by `at`.
pub fn farewell(scenario: &Scenario, pair: Pair, at: Instant) -> bool {
    let Pair { observer, peer } = pair;
    scenario.farewells.iter().any(|farewell| {
        let pair = (farewell.from, farewell.to);
        farewell.at <= since_beginning(at) && (pair == (observer, peer) || pair == (peer, observer))
    })
}

/// For how long at a stretch within a span `peer` could not be heard by `observer` at all.
pub fn unheard(scenario: &Scenario, observer: u32, peer: u32, span: Span) -> Duration {
    let of_lanes = scenario.transport == TransportKind::RING_SIM;
    let mute = |trouble: &&Trouble| match &trouble.kind {
        TroubleKind::Crash(hosts) => hosts.contains(&peer),
        // A lane notices a peer's end, not its standstill.
        TroubleKind::Partition { from, to, one_way } => {
            let crosses = |a: u32, b: u32| from.contains(&a) && to.contains(&b);
            !of_lanes && (crosses(peer, observer) || !one_way && crosses(observer, peer))
        }
        // Who stands still is late, and calls wait.
        TroubleKind::Pause(_) | TroubleKind::Slow { .. } | TroubleKind::Loss { .. } => false,
    };
    let troubles = scenario.faults.troubles.iter().filter(mute);
    troubles.map(|trouble| span.overlap(trouble)).max().unwrap_or_default()
}

/// How long a call may wait for a peer that cannot be heard: the peer timeout, a quarter of it until it is
/// looked at, and whatever was on its way.
pub fn patience(scenario: &Scenario) -> Duration {
    let limit = match scenario.transport {
        TransportKind::RING_SIM => {
            Duration::from_micros(scenario.fabric.detection_us as u64).max(scenario.tuning.peer_timeout)
        }
        _ => scenario.tuning.peer_timeout * 5 / 4,
    };
    limit + scenario.tuning.peer_timeout / 8 + Duration::from_millis(1)
}

/// How much longer than planned things on a host may take within a span, because it stood still or was slow.
pub fn delay(scenario: &Scenario, host: u32, span: Span) -> Duration {
    let holds_up = |trouble: &&Trouble| match &trouble.kind {
        TroubleKind::Pause(hosts) | TroubleKind::Slow { hosts, .. } => hosts.contains(&host),
        _ => false,
    };
    scenario.faults.troubles.iter().filter(holds_up).map(|trouble| span.overlap(trouble)).sum()
}

/// The expected number of times that three pings in a row, or their answers, are lost.
fn chance_of_silence(scenario: &Scenario, transport: TransportKind) -> f64 {
    if transport == TransportKind::RING_SIM {
        return 0.0; // its packets are not lost
    }
    let lost = 1.0 - (1.0 - scenario.faults.loss()).powi(2);
    let pairs = f64::from(scenario.hosts * (scenario.hosts - 1));
    let pings = 4.0 * scenario.faults.over_at.as_secs_f64() / scenario.tuning.peer_timeout.as_secs_f64();
    pairs * pings * lost.powi(3)
}

impl TroubleKind {
    /// Whether it can keep one of the two from hearing the other.
    fn parts(&self, observer: u32, peer: u32) -> bool {
        match self {
            Self::Partition { from, to, .. } => {
                let crosses = |a: u32, b: u32| from.contains(&a) && to.contains(&b);
                crosses(observer, peer) || crosses(peer, observer)
            }
            Self::Loss { .. } => true,
            Self::Slow { hosts, .. } => hosts.contains(&peer) || hosts.contains(&observer),
            // Who stood still itself must first give the peer a chance to answer.
            Self::Pause(hosts) | Self::Crash(hosts) => hosts.contains(&peer),
        }
    }
}
