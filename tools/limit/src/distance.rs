//! How far two cores are apart: the round trip of one cache line.
//!
//! On a virtual machine the host may move a core at any time, to where it shares a cache with the other or to
//! where it does not, and every figure about short messages moves with it. A few milliseconds of ping-pong
//! before and after a measurement show whether it stood still.

use core::sync::atomic::Ordering;
use core::time::Duration;

use crate::latency::Rounds;
use crate::memory::{LINE_PAIR_BYTES, SharedMemory};
use crate::pair::run_pair;
use crate::{CorePair, Effort, Latency, LimitError};

/// Long enough for ten thousand round trips, short enough to be done around every block.
const EFFORT: Effort = Effort { warmup: Duration::from_millis(1), measure: Duration::from_millis(5) };

/// The fewest round trips that a distance rests on: when another process takes a core away for longer than
/// the measurement lasts, it waits.
const SAMPLES_MIN: usize = 1000;

/// The number that ends the ping-pong.
const STOPPED: u64 = u64::MAX;

/// The time that one cache line takes to the other core and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreDistance {
    /// The median, in nanoseconds.
    pub median_nanos: f64,
    /// The average of the middle four fifths, in nanoseconds.
    pub trimmed_mean_nanos: f64,
}

/// Measures how far two cores are apart, again and again over the same two lines: where in the shared cache a
/// line has its home makes a difference of its own, which a probe should not see.
pub struct DistanceProbe {
    cores: CorePair,
    lines: SharedMemory,
}

impl DistanceProbe {
    /// A probe of the distance between two cores.
    pub fn new(cores: CorePair) -> Result<Self, LimitError> {
        Ok(Self { cores, lines: SharedMemory::new(2 * LINE_PAIR_BYTES)? })
    }

    /// Measures the distance for 5 ms.
    pub fn measure(&self) -> Result<CoreDistance, LimitError> {
        let Latency { median_nanos, trimmed_mean_nanos, .. } =
            line_round_trip(self.cores, &self.lines, EFFORT)?;
        Ok(CoreDistance { median_nanos, trimmed_mean_nanos })
    }
}

/// Measures the distance of two cores once, for 5 ms.
pub fn core_distance(cores: CorePair) -> Result<CoreDistance, LimitError> {
    DistanceProbe::new(cores)?.measure()
}

fn line_round_trip(cores: CorePair, lines: &SharedMemory, effort: Effort) -> Result<Latency, LimitError> {
    let (there, back) = (lines.word(0), lines.word(LINE_PAIR_BYTES));
    there.store(0, Ordering::Relaxed);
    back.store(0, Ordering::Relaxed);
    let initiator = || {
        let mut rounds = Rounds::at_least(SAMPLES_MIN, effort);
        for round in 1.. {
            there.store(round, Ordering::Release);
            while back.load(Ordering::Acquire) != round {}
            if rounds.finished() {
                break;
            }
        }
        there.store(STOPPED, Ordering::Release);
        rounds.into_latency()
    };
    let responder = || {
        let mut last = 0;
        loop {
            match there.load(Ordering::Acquire) {
                STOPPED => break,
                round if round != last => {
                    back.store(round, Ordering::Release);
                    last = round;
                }
                _ => {}
            }
        }
    };
    Ok(run_pair(cores, initiator, responder)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_can_be_used_again() {
        let probe = DistanceProbe::new(CorePair::first_allowed().expect("the tests have two cores"));
        let probe = probe.expect("memory can be mapped");
        for _ in 0..3 {
            assert!(probe.measure().expect("the loops run").median_nanos > 0.0);
        }
    }

    #[test]
    fn the_distance_is_that_of_two_cores() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        let distance = core_distance(cores).expect("the loops run");
        assert!(distance.median_nanos > 0.0 && distance.trimmed_mean_nanos > 0.0);
    }
}
