//! What a workload came to: times and slowdowns by the size of messages.

use std::collections::BTreeMap;

use super::open_loop::Sent;
use super::{Plan, WorkloadTest};
use crate::explain::trace::Traced;
use crate::statistics::histogram::{LatencyHistogram, LatencySummary};

/// Slowdowns are kept in thousandths.
const SLOWDOWN_UNIT: f64 = 1_000.0;

/// What was found for one transport and load.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadOutcome {
    /// By tenths of all messages, the shortest first, and last of all messages together. Tenths of which no
    /// message was sent are left out.
    pub bands: Vec<SizeBand>,
    /// The part of the links that the messages would fill that were due: with few long ones chance makes it
    /// differ from the load that was asked for.
    pub drawn_load: f64,
    /// The part of the links that messages filled.
    pub achieved_load: f64,
    /// The part of the links that the load asked for takes with headers, acknowledgements and whatever else
    /// the protocol sends; above 1 the links cannot carry it. `None` where the links cannot be seen or are
    /// not equally full.
    pub wire_load: Option<f64>,
    /// All messages, those outside of the window too.
    pub messages: u64,
    /// The part of the links that all messages filled until the last was complete: what can be carried, where
    /// more was offered.
    pub carried_load: f64,
    /// Messages that were due while the most that a client may have were in flight.
    pub waited: u64,
    /// The most that a client had in flight at a time.
    pub outstanding_peak: u64,
    /// What all ranks counted under load; simulated ranks share their process's counters with whatever else
    /// runs in it.
    pub counters: BTreeMap<String, u64>,
    /// The messages under load, when they were traced.
    pub traced: Traced,
}

/// Messages of some lengths.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeBand {
    /// Which tenth, from 1; `None` for all messages.
    pub decile: Option<u8>,
    /// The shortest.
    pub bytes_min: u32,
    /// The longest.
    pub bytes_max: u32,
    /// The times from when they were due to when their answers were there.
    pub latency: LatencySummary,
    /// The same over the best time of their length.
    pub slowdown: Slowdown,
}

/// How much longer messages took than they take alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown {
    /// The mean.
    pub mean: f64,
    /// The median, if there are enough messages.
    pub p50: Option<f64>,
    /// The 99th percentile, likewise.
    pub p99: Option<f64>,
    /// The greatest.
    pub max: f64,
}

impl WorkloadOutcome {
    /// Puts together what the senders found; `best_nanos` has the best time of each class.
    pub(super) fn new(
        test: &WorkloadTest,
        plan: &Plan,
        best_nanos: &[u64],
        sent: &[Sent],
        counters: BTreeMap<String, u64>,
    ) -> Self {
        let mut by_class = vec![Vec::new(); plan.classes.len()];
        for &(class, nanos) in sent.iter().flat_map(|sent| &sent.samples) {
            by_class[usize::from(class)].push(nanos);
        }
        let deciles = (0..10).map(Some).chain([None]);
        let bands = deciles.filter_map(|decile| band(decile, plan, best_nanos, &by_class));
        let asked_bytes = test.messages_per_second() * test.mix.mean_bytes() * test.roles.senders() as f64;
        let load_in = |bytes: u64, seconds: f64| test.load * bytes as f64 / seconds / asked_bytes;
        let load_of = |bytes: u64| load_in(bytes, plan.window.as_secs_f64());
        let last_nanos = sent.iter().map(|sent| sent.last_nanos).max().unwrap_or(0).max(1);
        Self {
            bands: bands.collect(),
            drawn_load: load_of(sent.iter().map(|sent| sent.bytes_due).sum()),
            achieved_load: load_of(sent.iter().map(|sent| sent.bytes_complete).sum()),
            wire_load: None,
            messages: sent.iter().map(|sent| sent.messages).sum(),
            carried_load: load_in(sent.iter().map(|sent| sent.bytes).sum(), last_nanos as f64 / 1e9),
            waited: sent.iter().map(|sent| sent.waited).sum(),
            outstanding_peak: sent.iter().map(|sent| sent.outstanding_peak).max().unwrap_or(0),
            counters,
            traced: Traced::default(),
        }
    }

    /// The messages of a tenth, from 1.
    pub fn decile(&self, decile: u8) -> Option<&SizeBand> {
        self.bands.iter().find(|band| band.decile == Some(decile))
    }

    /// The sum of all counters of that name, whatever their group.
    pub fn counted(&self, name: &str) -> u64 {
        let of_name = |counter: &String| counter.rsplit_once('.').is_some_and(|(_, last)| last == name);
        self.counters.iter().filter(|(counter, _)| of_name(counter)).map(|(_, count)| count).sum()
    }
}

fn band(decile: Option<u8>, plan: &Plan, best_nanos: &[u64], by_class: &[Vec<u64>]) -> Option<SizeBand> {
    let (mut times, mut slowdowns) = (LatencyHistogram::new(), LatencyHistogram::new());
    let (mut bytes_min, mut bytes_max) = (u32::MAX, 0);
    for (class, number) in plan.classes.iter().zip(0..) {
        if decile.is_some_and(|decile| decile != class.decile) {
            continue;
        }
        bytes_min = bytes_min.min(class.bytes);
        bytes_max = bytes_max.max(class.bytes);
        let best = best_nanos[number].max(1) as f64;
        for &nanos in &by_class[number] {
            times.record(nanos);
            slowdowns.record((nanos as f64 / best * SLOWDOWN_UNIT).round() as u64);
        }
    }
    let (latency, slowdown) = (times.summary()?, slowdowns.summary()?);
    let in_ones = |thousandths: u64| thousandths as f64 / SLOWDOWN_UNIT;
    let slowdown = Slowdown {
        mean: slowdown.mean_nanos / SLOWDOWN_UNIT,
        p50: slowdown.p50_nanos.map(in_ones),
        p99: slowdown.p99_nanos.map(in_ones),
        max: in_ones(slowdown.max_nanos),
    };
    Some(SizeBand { decile: decile.map(|decile| decile + 1), bytes_min, bytes_max, latency, slowdown })
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use farcall::TransportKind;

    use super::*;
    use crate::run::workload::{Reply, Roles, SizeMix};

    fn test() -> WorkloadTest {
        WorkloadTest {
            assignments: Vec::new(),
            mix: SizeMix::parse("test", "100 0.5\n100 0.5\n900 0.5\n900 1").expect("it is a mix"),
            replay: None,
            load: 0.5,
            link_bits_per_second: 8e9,
            roles: Roles::Everyone(2),
            reply: Reply::Ack,
            messages: 1_000,
            lasting: Duration::from_secs(1),
            seed: 1,
            trace: false,
        }
    }

    #[test]
    fn times_are_compared_with_the_best_of_their_own_length() {
        let (test, plan) = (test(), test().plan(TransportKind::HOMA_SIM));
        let [short, long] = [100, 900].map(|bytes| {
            let class = plan.classes.iter().position(|class| class.bytes == bytes).expect("it is in the mix");
            class as u16
        });
        let best: Vec<u64> = plan.classes.iter().map(|class| 10 * u64::from(class.bytes)).collect();
        let samples = [(short, 2_000); 30].into_iter().chain([(long, 9_000); 10]).collect();
        let sent = Sent {
            samples,
            bytes: 1_000_000,
            messages: 2_000,
            last_nanos: 4_000_000,
            bytes_due: 400_000,
            bytes_complete: 500_000,
            waited: 3,
            outstanding_peak: 7,
        };
        let counters = [("homa+sim#0.busy_sent".to_owned(), 5), ("endpoint#0.busy_sent".to_owned(), 1)];
        let outcome = WorkloadOutcome::new(&test, &plan, &best, &[sent.clone(), sent], counters.into());
        let first = outcome.decile(1).expect("there were short ones");
        assert_eq!((first.slowdown.p50, first.slowdown.p99), (Some(2.0), None));
        assert_eq!((first.bytes_min, first.bytes_max, first.latency.samples), (100, 100, 60));
        let all = outcome.bands.last().expect("there were messages");
        assert_eq!((all.decile, all.latency.samples, all.slowdown.max), (None, 80, 2.0));
        assert!((all.slowdown.mean - 1.75).abs() < 1e-9);
        assert_eq!((outcome.waited, outcome.outstanding_peak, outcome.counted("busy_sent")), (6, 7, 6));
        // A window lasts 1000 messages of 500 bytes at half of a gigabyte per second: one millisecond. Two
        // links.
        assert!((outcome.achieved_load - 0.5).abs() < 1e-9, "{}", outcome.achieved_load);
        assert!((outcome.drawn_load - 0.4).abs() < 1e-9, "{}", outcome.drawn_load);
        // The last was complete after four.
        assert!((outcome.carried_load - 0.25).abs() < 1e-9, "{}", outcome.carried_load);
        assert_eq!(outcome.messages, 4_000);
    }
}
