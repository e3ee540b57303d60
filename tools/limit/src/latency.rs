//! How long a limit is measured, its samples, and what is said about them.

use core::time::Duration;

use farcall_base::Instant;
use farcall_driver::clock::Clock;

use crate::median_between_steps;

/// The most samples that one measurement keeps; it ends early when they are taken.
pub const SAMPLES_MAX: usize = 1 << 20;

/// Fewer samples than this say nothing about the 99th percentile: the largest of 299 lies above it
/// with 95 % confidence, since 0.99^299 < 0.05 (Wilks, 1941).
pub const P99_SAMPLES_MIN: usize = 299;

/// How long to run before and while samples are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Runs without a record, for caches, branch predictors and clock frequency.
    pub warmup: Duration,
    /// Runs on the record.
    pub measure: Duration,
}

impl Effort {
    /// Measures for `measure`, after a tenth of it as warm-up.
    pub fn lasting(measure: Duration) -> Self {
        Self { warmup: measure / 10, measure }
    }
}

/// What was seen of a time that was measured many times over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// How many samples were taken.
    pub samples: usize,
    /// The shortest.
    pub min_nanos: u64,
    /// The median, finer than the steps of the clock.
    pub median_nanos: f64,
    /// The 99th percentile, when there are at least [`P99_SAMPLES_MIN`] samples.
    pub p99_nanos: Option<u64>,
    /// The average of all.
    pub mean_nanos: f64,
    /// The average without the shortest and the longest tenth.
    pub trimmed_mean_nanos: f64,
}

/// Takes one sample per round of a loop: the time since the round before. One clock read a round.
pub(crate) struct Rounds {
    clock: Clock,
    start: Instant,
    end: Instant,
    last: Instant,
    nanos: Vec<u32>,
    taken: usize,
    /// The measurement goes on beyond its time until there are that many.
    samples_min: usize,
}

impl Rounds {
    /// Prepares a measurement that begins at the first call of [`Rounds::finished`].
    pub(crate) fn new(effort: Effort) -> Self {
        Self::at_least(1, effort)
    }

    /// As [`Rounds::new`], for a measurement that takes at least `samples_min` samples, however long they
    /// take.
    pub(crate) fn at_least(samples_min: usize, effort: Effort) -> Self {
        // Written once here, so that no page fault falls into the measurement.
        let nanos = vec![1; SAMPLES_MAX];
        let clock = Clock::new();
        let now = clock.now();
        Self {
            clock,
            start: now + effort.warmup,
            end: now + effort.warmup + effort.measure,
            last: now,
            nanos,
            taken: 0,
            samples_min,
        }
    }

    /// Ends a round: records its time after the warm-up, and says whether it was the last.
    #[inline(always)]
    pub(crate) fn finished(&mut self) -> bool {
        let now = self.clock.now();
        if self.last >= self.start {
            self.nanos[self.taken] = u32::try_from(now.since(self.last).as_nanos()).unwrap_or(u32::MAX);
            self.taken += 1;
        }
        self.last = now;
        self.taken == SAMPLES_MAX || (now >= self.end && self.taken >= self.samples_min)
    }

    /// What the rounds showed.
    pub(crate) fn into_latency(mut self) -> Latency {
        self.nanos.truncate(self.taken);
        summarise(self.nanos, self.clock.step_nanos())
    }
}

/// Sums up at least one sample from a clock of these steps.
fn summarise(mut nanos: Vec<u32>, step_nanos: f64) -> Latency {
    nanos.sort_unstable();
    let samples = nanos.len();
    let counts: Vec<(u64, u64)> =
        nanos.chunk_by(|a, b| a == b).map(|same| (same[0].into(), same.len() as u64)).collect();
    let mean = |part: &[u32]| part.iter().map(|&x| f64::from(x)).sum::<f64>() / part.len() as f64;
    Latency {
        samples,
        min_nanos: nanos[0].into(),
        median_nanos: median_between_steps(&counts, step_nanos).expect("there is a sample"),
        p99_nanos: (samples >= P99_SAMPLES_MIN).then(|| nanos[samples * 99 / 100].into()),
        mean_nanos: mean(&nanos),
        trimmed_mean_nanos: mean(&nanos[samples / 10..samples - samples / 10]),
    }
}

/// Counts messages of a stream per unit of time: reads the clock once in a while only.
pub(crate) struct Stream {
    clock: Clock,
    end: Instant,
    begun: Instant,
}

impl Stream {
    /// Starts the time now.
    pub(crate) fn start(lasting: Duration) -> Self {
        let clock = Clock::new();
        let begun = clock.now();
        Self { clock, end: begun + lasting, begun }
    }

    /// Whether the time is up.
    #[inline]
    pub(crate) fn finished(&self) -> bool {
        self.clock.now() >= self.end
    }

    /// How much time has passed, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.clock.now().since(self.begun).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_that_of_the_samples() {
        let latency = summarise((1..=1000).rev().collect(), 1.0);
        assert_eq!((latency.samples, latency.min_nanos, latency.median_nanos), (1000, 1, 500.5));
        assert_eq!(latency.p99_nanos, Some(991));
        assert!((latency.mean_nanos - 500.5).abs() < 1e-9);
        assert!((latency.trimmed_mean_nanos - 500.5).abs() < 1e-9);
    }

    #[test]
    fn outliers_move_the_mean_and_not_the_trimmed_mean() {
        let mut nanos = vec![100; 990];
        nanos.extend([1_000_000; 10]);
        let latency = summarise(nanos, 1.0);
        assert!(latency.mean_nanos > 10_000.0);
        assert!((latency.trimmed_mean_nanos - 100.0).abs() < 1e-9);
    }

    #[test]
    fn few_samples_have_no_99th_percentile() {
        assert_eq!(summarise(vec![5; P99_SAMPLES_MIN - 1], 1.0).p99_nanos, None);
        assert_eq!(summarise(vec![5; P99_SAMPLES_MIN], 1.0).p99_nanos, Some(5));
        assert!(
            0.99_f64.powi(P99_SAMPLES_MIN as i32 - 1) > 0.05
                && 0.99_f64.powi(P99_SAMPLES_MIN as i32) <= 0.051
        );
    }

    #[test]
    fn a_measurement_goes_on_until_it_has_its_samples() {
        let mut rounds = Rounds::at_least(500, Effort { warmup: Duration::ZERO, measure: Duration::ZERO });
        while !rounds.finished() {}
        assert_eq!(rounds.into_latency().samples, 500);
    }

    #[test]
    fn rounds_of_the_warm_up_are_not_recorded() {
        let effort = Effort { warmup: Duration::from_millis(2), measure: Duration::ZERO };
        let mut rounds = Rounds::new(effort);
        let mut count = 1;
        while !rounds.finished() {
            count += 1;
        }
        let latency = rounds.into_latency();
        assert!(latency.samples < count, "{} of {count} rounds were recorded", latency.samples);
        assert_eq!(latency.samples, 1);
    }
}
