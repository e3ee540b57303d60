//! Latencies: recorded in a histogram of three digits, summed up with only those percentiles that the number
//! of samples can support.

use farcall::Clock;
use farcall_limit::median_between_steps;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The digits to which a recorded latency is kept.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Longer latencies count as this long: 100 s.
const NANOS_MAX: u64 = 100_000_000_000;

/// How sure one must be that the largest sample lies above a percentile before that percentile is reported.
const CONFIDENCE: f64 = 0.95;

/// The share of samples that a trimmed mean leaves out at either end.
const TRIMMED_SHARE: f64 = 0.1;

/// The fewest samples from which a percentile may be reported: with fewer, even the largest sample lies above
/// it with less than 95 % confidence.
///
/// The largest of `n` samples lies below the quantile `q` with probability `q^n` (Wilks, "Determination of
/// sample sizes for setting tolerance limits", 1941): 5 samples for the median, 29 for p90, 299 for p99,
/// 2,995 for p99.9.
pub fn samples_needed(quantile: f64) -> u64 {
    ((1.0 - CONFIDENCE).ln() / quantile.ln()).ceil() as u64
}

/// Latencies shorter than this are kept exactly by a histogram of three digits, one count for each.
const SHORT_BELOW: usize = 2048;

/// Takes latencies in.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyHistogram {
    /// How often each short latency was recorded: one addition keeps it, where the histogram would look for
    /// its place. They come to the histogram when it is read.
    short: Box<[u64; SHORT_BELOW]>,
    histogram: Histogram<u64>,
    min_nanos: u64,
    max_nanos: u64,
    sum_nanos: u128,
}

impl LatencyHistogram {
    /// An empty histogram. Recording never allocates.
    pub fn new() -> Self {
        let histogram =
            Histogram::new_with_bounds(1, NANOS_MAX, SIGNIFICANT_DIGITS).expect("the bounds are valid");
        let short = Box::new([0; SHORT_BELOW]);
        Self { short, histogram, min_nanos: u64::MAX, max_nanos: 0, sum_nanos: 0 }
    }

    /// Records one latency. A longer one than 100 s counts as 100 s in percentiles.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        match usize::try_from(nanos).ok().and_then(|nanos| self.short.get_mut(nanos)) {
            Some(count) => *count += 1,
            None => self.record_many(nanos, 1),
        }
    }

    fn record_many(&mut self, nanos: u64, count: u64) {
        self.histogram.saturating_record_n(nanos.max(1), count);
        self.min_nanos = self.min_nanos.min(nanos);
        self.max_nanos = self.max_nanos.max(nanos);
        self.sum_nanos += u128::from(nanos) * u128::from(count);
    }

    /// The same with all latencies in the histogram.
    fn settled(&self) -> Self {
        let mut settled = self.clone();
        for (nanos, count) in settled.short.clone().into_iter().enumerate().filter(|(_, count)| *count > 0) {
            settled.record_many(nanos as u64, count);
        }
        settled.short.fill(0);
        settled
    }

    /// How many latencies there were in each octave that has any: a power of two that they are below, in
    /// nanoseconds, but not below its half, and their number.
    pub fn octaves(&self) -> Vec<(u64, u64)> {
        let mut octaves: Vec<(u64, u64)> = Vec::new();
        for recorded in self.settled().histogram.iter_recorded() {
            let below = (recorded.value_iterated_to() + 1).next_power_of_two();
            match octaves.last_mut() {
                Some((last, count)) if *last == below => *count += recorded.count_since_last_iteration(),
                _ => octaves.push((below, recorded.count_since_last_iteration())),
            }
        }
        octaves
    }

    /// Adds what another histogram recorded.
    pub fn merge(&mut self, other: &Self) {
        let other = other.settled();
        self.histogram.add(&other.histogram).expect("all histograms here have the same bounds");
        self.min_nanos = self.min_nanos.min(other.min_nanos);
        self.max_nanos = self.max_nanos.max(other.max_nanos);
        self.sum_nanos += other.sum_nanos;
    }

    /// What was recorded, to be carried to another process.
    pub fn to_counts(&self) -> LatencyCounts {
        let Self { histogram, min_nanos, max_nanos, sum_nanos, .. } = self.settled();
        let counts = histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()));
        LatencyCounts {
            counts: counts.collect(),
            min_nanos,
            max_nanos,
            sum_nanos: u64::try_from(sum_nanos).unwrap_or(u64::MAX),
        }
    }

    /// Adds what was recorded in another process.
    pub fn add_counts(&mut self, counts: &LatencyCounts) {
        for &(nanos, count) in &counts.counts {
            self.histogram.saturating_record_n(nanos, count);
        }
        self.min_nanos = self.min_nanos.min(counts.min_nanos);
        self.max_nanos = self.max_nanos.max(counts.max_nanos);
        self.sum_nanos += u128::from(counts.sum_nanos);
    }

    /// What was recorded, in short; nothing when nothing was.
    pub fn summary(&self) -> Option<LatencySummary> {
        let settled = self.settled();
        let Self { histogram, min_nanos, max_nanos, sum_nanos, .. } = &settled;
        let samples = histogram.len();
        let quantile = |quantile: f64| {
            (samples >= samples_needed(quantile))
                .then(|| histogram.value_at_quantile(quantile).clamp(*min_nanos, *max_nanos))
        };
        (samples > 0).then(|| LatencySummary {
            samples,
            min_nanos: *min_nanos,
            max_nanos: *max_nanos,
            mean_nanos: *sum_nanos as f64 / samples as f64,
            trimmed_mean_nanos: trimmed_mean_nanos(histogram),
            p50_nanos: quantile(0.5),
            p90_nanos: quantile(0.9),
            p99_nanos: quantile(0.99),
            p999_nanos: quantile(0.999),
        })
    }

    /// The median, finer than the steps of the clock that showed the latencies; nothing when the samples do
    /// not support it.
    pub fn median_nanos(&self, clock: &Clock) -> Option<f64> {
        let LatencyCounts { counts, .. } = self.to_counts();
        let samples: u64 = counts.iter().map(|(_, count)| count).sum();
        let is_supported = samples >= samples_needed(0.5);
        is_supported.then(|| median_between_steps(&counts, clock.step_nanos())).flatten()
    }

    /// Latencies and the shares of samples up to them, at clusterperf's points: nothing, the shortest, every
    /// percent, 99.9 %, 99.99 %, and the longest. Points that the samples do not support are left out.
    pub fn distribution(&self) -> Vec<(u64, f64)> {
        let Self { histogram, min_nanos, max_nanos, .. } = self.settled();
        let samples = histogram.len();
        if samples == 0 {
            return Vec::new();
        }
        let percents = (1..=99).map(|percent| f64::from(percent) / 100.0);
        let quantiles = percents.chain([0.999, 0.9999]).filter(|&share| samples >= samples_needed(share));
        let point = |share| (histogram.value_at_quantile(share).clamp(min_nanos, max_nanos), share);
        let ends = [(0, 0.0), (min_nanos, 1.0 / samples as f64)];
        ends.into_iter().chain(quantiles.map(point)).chain([(max_nanos, 1.0)]).collect()
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

/// The mean without the shortest and the longest tenth.
fn trimmed_mean_nanos(histogram: &Histogram<u64>) -> f64 {
    let samples = histogram.len();
    let trimmed = (samples as f64 * TRIMMED_SHARE) as u64;
    let (first, last) = (trimmed, samples - trimmed);
    let (mut seen, mut sum) = (0, 0.0);
    for bucket in histogram.iter_recorded() {
        let (from, to) = (seen, seen + bucket.count_at_value());
        let counted = to.min(last).saturating_sub(from.max(first));
        let middle = histogram.lowest_equivalent(bucket.value_iterated_to()) as f64
            + (histogram.equivalent_range(bucket.value_iterated_to()) - 1) as f64 / 2.0;
        sum += counted as f64 * middle;
        seen = to;
    }
    sum / (last - first) as f64
}

/// A histogram on its way between processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyCounts {
    /// Latencies in nanoseconds, to three digits, and how often each was recorded.
    counts: Vec<(u64, u64)>,
    min_nanos: u64,
    max_nanos: u64,
    sum_nanos: u64,
}

impl LatencyCounts {
    /// All latencies added up, in nanoseconds.
    pub fn sum_nanos(&self) -> u64 {
        self.sum_nanos
    }
}

/// What is said about a latency, in nanoseconds. Percentiles that the samples do not support are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencySummary {
    /// How many samples there are.
    pub samples: u64,
    /// The shortest, exact.
    pub min_nanos: u64,
    /// The longest, exact.
    pub max_nanos: u64,
    /// The mean, exact.
    pub mean_nanos: f64,
    /// The mean without the shortest and the longest tenth: finer than the clock's steps, deaf to outliers.
    pub trimmed_mean_nanos: f64,
    /// The median, as the clock showed it; see [`LatencyHistogram::median_nanos`].
    pub p50_nanos: Option<u64>,
    /// The 90th percentile.
    pub p90_nanos: Option<u64>,
    /// The 99th percentile.
    pub p99_nanos: Option<u64>,
    /// The 99.9th percentile.
    pub p999_nanos: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nanos: impl IntoIterator<Item = u64>) -> LatencySummary {
        let mut histogram = LatencyHistogram::new();
        nanos.into_iter().for_each(|nanos| histogram.record(nanos));
        histogram.summary().expect("there are samples")
    }

    #[test]
    fn percentiles_need_their_samples() {
        assert_eq!([0.5, 0.9, 0.99, 0.999].map(samples_needed), [5, 29, 299, 2995]);
        assert_eq!(of([10; 4]).p50_nanos, None);
        assert_eq!((of([10; 298]).p90_nanos, of([10; 298]).p99_nanos), (Some(10), None));
        assert_eq!((of([10; 2994]).p99_nanos, of([10; 2994]).p999_nanos), (Some(10), None));
        assert_eq!(of([10; 2995]).p999_nanos, Some(10));
    }

    #[test]
    fn the_median_lies_between_the_steps_of_its_clock() {
        let mut histogram = LatencyHistogram::new();
        let simulated = Clock::simulated(Default::default());
        (0..4).for_each(|_| histogram.record(160));
        assert_eq!(histogram.median_nanos(&simulated), None, "too few");
        (0..4).for_each(|_| histogram.record(160));
        assert_eq!(histogram.median_nanos(&simulated), Some(160.0));
        (0..24).for_each(|_| histogram.record(161));
        assert_eq!(histogram.median_nanos(&simulated), Some(160.5 + 8.0 / 24.0));
    }

    #[test]
    fn the_rule_for_the_99th_percentile_is_that_of_the_limits() {
        assert_eq!(samples_needed(0.99), farcall_limit::P99_SAMPLES_MIN as u64);
    }

    #[test]
    fn short_latencies_are_kept_exactly() {
        let summary = of(1..=1999);
        assert_eq!((summary.min_nanos, summary.p50_nanos, summary.max_nanos), (1, Some(1000), 1999));
        assert_eq!(summary.p90_nanos, Some(1800));
        assert!((summary.mean_nanos - 1000.0).abs() < 1e-9);
        assert!((summary.trimmed_mean_nanos - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn long_latencies_are_kept_to_three_digits() {
        let summary = of([123_456_789; 100]);
        assert_eq!(summary.p50_nanos, Some(123_456_789), "clamped to what was seen");
        let summary = of((0..1000).map(|i| 50_000_000 + i * 100_000));
        let p90 = summary.p90_nanos.expect("enough samples") as f64;
        assert!((p90 / 139_900_000.0 - 1.0).abs() < 0.001, "{p90}");
    }

    #[test]
    fn octaves_hold_all_samples() {
        let mut histogram = LatencyHistogram::new();
        assert_eq!(histogram.octaves(), []);
        (1..=64).chain([100_000; 3]).for_each(|nanos| histogram.record(nanos));
        let expected = [(2, 1), (4, 2), (8, 4), (16, 8), (32, 16), (64, 32), (128, 1), (131_072, 3)];
        assert_eq!(histogram.octaves(), expected);
    }

    #[test]
    fn the_trimmed_mean_ignores_outliers_and_weighs_steps() {
        let nanos = [1].into_iter().chain([100; 60]).chain([110; 38]).chain([1_000_000]);
        let expected = (51.0 * 100.0 + 29.0 * 110.0) / 80.0;
        assert!((of(nanos).trimmed_mean_nanos - expected).abs() < 1e-9);
    }

    #[test]
    fn a_histogram_survives_its_way_between_processes() {
        let mut histogram = LatencyHistogram::new();
        (0..5000).for_each(|i| histogram.record(100 + i * i));
        let text = serde_json::to_string(&histogram.to_counts()).expect("counts are JSON");
        let mut other = LatencyHistogram::new();
        other.add_counts(&serde_json::from_str(&text).expect("it was written that way"));
        assert_eq!(other.summary(), histogram.summary());
    }

    #[test]
    fn merged_histograms_hold_all_samples() {
        let (mut one, mut other) = (LatencyHistogram::new(), LatencyHistogram::new());
        one.record(5);
        other.record(70);
        one.merge(&other);
        one.merge(&LatencyHistogram::new());
        let summary = one.summary().expect("there are samples");
        assert_eq!((summary.samples, summary.min_nanos, summary.max_nanos), (2, 5, 70));
        assert!((summary.mean_nanos - 37.5).abs() < 1e-9);
        assert_eq!(LatencyHistogram::new().summary(), None);
    }

    #[test]
    fn a_distribution_rises_and_has_only_points_that_samples_support() {
        let mut histogram = LatencyHistogram::new();
        assert_eq!(histogram.distribution(), []);
        (1..=1000).for_each(|nanos| histogram.record(nanos));
        let points = histogram.distribution();
        assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1), "{points:?}");
        assert_eq!((points[0], points[1], points.last()), ((0, 0.0), (1, 0.001), Some(&(1000, 1.0))));
        assert!(points.contains(&(500, 0.5)) && points.iter().all(|point| point.1 != 0.999), "{points:?}");
    }
}
