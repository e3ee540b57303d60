//! How long the phases of a daemon's turns take, and which found something to do.

use farcall::{Clock, Instant};
use farcall_kv::daemon::{Observer, Phase};
use serde::{Deserialize, Serialize};

use crate::statistics::histogram::{LatencyCounts, LatencyHistogram};

const PHASES: usize = Phase::ALL.len();

/// Takes the times of a daemon's phases.
pub(super) struct PhaseTimes {
    clock: Clock,
    last: Instant,
    turn_began: Instant,
    /// What the phases of this turn took, and dealt with, so far.
    turn: [(u64, usize); PHASES],
    /// For each phase, the times when it found nothing, and when it found something.
    phases: [[LatencyHistogram; 2]; PHASES],
    turns: LatencyHistogram,
    /// The sum of each phase's times, in nanoseconds.
    sums: [u64; PHASES],
    /// Time given to other processes of the core, in nanoseconds.
    yielded: u64,
    began: Instant,
    measures: bool,
}

/// What a daemon's phases took, on its way between processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// For each phase in the order of a turn, the times when it found nothing, and when it found something.
    pub phases: Vec<[LatencyCounts; 2]>,
    /// The sum of each phase's times, in nanoseconds.
    pub sums_nanos: Vec<u64>,
    /// Time given to other processes of the core, in nanoseconds; with the phases' sums it makes up the
    /// window.
    pub yielded_nanos: u64,
    /// The times of whole turns.
    pub turns: LatencyCounts,
    /// The length of the window, in nanoseconds.
    pub window_nanos: u64,
}

impl PhaseTimes {
    /// Nothing is measured yet.
    pub(super) fn new() -> Self {
        let clock = Clock::new();
        let now = clock.now();
        Self {
            clock,
            last: now,
            turn_began: now,
            turn: [(0, 0); PHASES],
            phases: Default::default(),
            turns: LatencyHistogram::new(),
            sums: [0; PHASES],
            yielded: 0,
            began: now,
            measures: false,
        }
    }

    /// Begins a window.
    pub(super) fn begin(&mut self) {
        *self = Self { measures: true, ..Self::new() };
    }

    /// Lets other processes of the core run, which is no part of a turn.
    pub(super) fn let_others_run(&mut self) {
        std::thread::yield_now();
        if self.measures {
            let now = self.clock.now();
            self.yielded += now.as_nanos() - self.last.as_nanos();
            (self.last, self.turn_began) = (now, now);
        }
    }

    /// Ends the window.
    pub(super) fn end(&mut self) -> PhaseReport {
        self.measures = false;
        PhaseReport {
            phases: self.phases.iter().map(|phase| [phase[0].to_counts(), phase[1].to_counts()]).collect(),
            sums_nanos: self.sums.to_vec(),
            yielded_nanos: self.yielded,
            turns: self.turns.to_counts(),
            window_nanos: self.last.as_nanos() - self.began.as_nanos(),
        }
    }
}

impl Observer for PhaseTimes {
    #[inline]
    fn ended(&mut self, phase: Phase, dealt_with: usize) {
        if !self.measures {
            return;
        }
        let now = self.clock.now();
        let (nanos, found) = &mut self.turn[phase as usize];
        *nanos += now.as_nanos() - self.last.as_nanos();
        *found += dealt_with;
        self.last = now;
    }

    #[inline]
    fn turn_ended(&mut self) {
        if !self.measures {
            return;
        }
        let phases = self.turn.iter_mut().zip(self.sums.iter_mut().zip(&mut self.phases));
        for ((nanos, found), (sum, times)) in phases {
            // Phases that did not come in this turn have no time.
            if *nanos > 0 {
                *sum += *nanos;
                times[usize::from(*found > 0)].record(*nanos);
                // Here, and not for all at once: moved as a whole, they would be read by longer loads than
                // the stores that wrote them, and would have to wait for those.
                (*nanos, *found) = (0, 0);
            }
        }
        self.turns.record(self.last.as_nanos() - self.turn_began.as_nanos());
        self.turn_began = self.last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_and_what_was_given_to_others_make_up_the_window() {
        let mut times = PhaseTimes::new();
        times.ended(Phase::Network, 1);
        times.turn_ended();
        times.begin();
        for turn in 0..100 {
            wait(&times);
            if turn % 4 == 0 {
                times.ended(Phase::Flush, 1);
            }
            for _ in 0..turn % 2 {
                wait(&times);
                times.ended(Phase::Network, 0);
                wait(&times);
                times.ended(Phase::Incoming, 1);
            }
            wait(&times);
            times.ended(Phase::Network, turn % 2);
            wait(&times);
            times.ended(Phase::Slots, 0);
            if turn % 10 == 0 {
                wait(&times);
                times.ended(Phase::Attendance, 0);
            }
            times.turn_ended();
            if turn % 10 == 0 {
                times.let_others_run();
            }
        }
        let report = times.end();
        let sum: u64 = report.sums_nanos.iter().sum();
        assert_eq!(sum + report.yielded_nanos, report.window_nanos);
        let samples = |counts: &LatencyCounts| {
            let mut histogram = LatencyHistogram::new();
            histogram.add_counts(counts);
            histogram.summary().map_or(0, |summary| summary.samples)
        };
        let found: Vec<_> = report.phases.iter().map(|[idle, hit]| (samples(idle), samples(hit))).collect();
        let expected = vec![(0, 25), (50, 50), (0, 50), (100, 0), (10, 0)];
        assert_eq!((found, samples(&report.turns)), (expected, 100));
    }

    /// Until the clock goes on: a phase that takes no time is none.
    fn wait(times: &PhaseTimes) {
        while times.clock.now() <= times.last {}
    }
}
