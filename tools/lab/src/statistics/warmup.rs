//! When a measurement is warm: detected, not assumed.
//!
//! Samples are taken in windows. The measurement counts as warm when the medians of [`STEADY_WINDOWS`]
//! windows in a row stay within a small tolerance of each other. Caches, page tables and branch predictors
//! settle within a few windows; a machine that never settles is measured all the same after a bound, and the
//! result says so.

use serde::{Deserialize, Serialize};

/// Samples in a window: enough for a stable median.
pub const WINDOW_SAMPLES: usize = 100;

/// Consecutive windows that must agree.
pub const STEADY_WINDOWS: usize = 3;

/// How much the medians of agreeing windows may differ, as a share of the smaller one.
const TOLERANCE: f64 = 0.05;

/// Differences up to this are those of the clock and not of what is measured.
const CLOCK_STEP_NANOS: u64 = 10;

/// After this many windows the measurement begins, steady or not.
pub const WINDOWS_MAX: usize = 200;

/// How a warm-up went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warmup {
    /// How many samples it took.
    pub samples: usize,
    /// Whether a steady state was found, or the bound reached.
    pub steady: bool,
}

/// Watches samples until they are steady.
#[derive(Clone, Debug, Default)]
pub struct WarmupDetector {
    window: Vec<u64>,
    medians: Vec<u64>,
}

impl WarmupDetector {
    /// A detector that has seen nothing.
    pub fn new() -> Self {
        Self { window: Vec::with_capacity(WINDOW_SAMPLES), medians: Vec::with_capacity(WINDOWS_MAX) }
    }

    /// Takes a sample; says how the warm-up went once it is over.
    pub fn observe(&mut self, nanos: u64) -> Option<Warmup> {
        self.window.push(nanos);
        if self.window.len() < WINDOW_SAMPLES {
            return None;
        }
        self.window.sort_unstable();
        self.medians.push(self.window[WINDOW_SAMPLES / 2]);
        self.window.clear();
        let steady = self.is_steady();
        let samples = self.medians.len() * WINDOW_SAMPLES;
        (steady || self.medians.len() >= WINDOWS_MAX).then_some(Warmup { samples, steady })
    }

    fn is_steady(&self) -> bool {
        let Some(last) = self.medians.last_chunk::<STEADY_WINDOWS>() else { return false };
        let (low, high) = last.iter().fold((u64::MAX, 0), |(low, high), &x| (low.min(x), high.max(x)));
        high - low <= CLOCK_STEP_NANOS.max((low as f64 * TOLERANCE) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warm_up(nanos: impl IntoIterator<Item = u64>) -> Option<Warmup> {
        let mut detector = WarmupDetector::new();
        nanos.into_iter().find_map(|nanos| detector.observe(nanos))
    }

    #[test]
    fn a_steady_start_takes_the_least_number_of_windows() {
        let samples = STEADY_WINDOWS * WINDOW_SAMPLES;
        assert_eq!(warm_up([1000; 10_000]), Some(Warmup { samples, steady: true }));
        assert_eq!(warm_up(vec![1000; samples - 1]), None);
    }

    #[test]
    fn a_slow_start_is_waited_for() {
        let falling = (0..1000).map(|i| 10_000 - 9 * i).chain([1000; 1000]);
        let warmup = warm_up(falling).expect("it becomes steady");
        assert!(warmup.steady && warmup.samples > 1000, "{warmup:?}");
    }

    #[test]
    fn outliers_do_not_delay_it() {
        let samples = (0..1000).map(|i| if i % 10 == 0 { 100_000 } else { 130 });
        assert!(warm_up(samples).is_some_and(|warmup| warmup.samples == STEADY_WINDOWS * WINDOW_SAMPLES));
    }

    #[test]
    fn what_never_settles_is_reported_as_such() {
        let alternating = (0..).map(|i| if (i / WINDOW_SAMPLES).is_multiple_of(2) { 100 } else { 400 });
        let samples = WINDOWS_MAX * WINDOW_SAMPLES;
        assert_eq!(warm_up(alternating), Some(Warmup { samples, steady: false }));
    }
}
