//! How sure a ratio of two paired measurements is: a percentile bootstrap over blocks.
//!
//! A block holds one measurement of each arm, taken within seconds of each other. Blocks are the units that
//! vary independently; calls within a block are not, so resampling calls would promise far too narrow an
//! interval.

use farcall_base::Random;

/// How many times the blocks are resampled: the 2.5 % tails then rest on fifty resamples each.
const RESAMPLES: usize = 2_000;

/// The share of resamples within the interval.
const COVERAGE: f64 = 0.95;

/// With fewer blocks than this an interval would be narrower than what it stands for, so none is given.
pub const BLOCKS_MIN: usize = 5;

/// A ratio with what is known of its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median of the numerators over the median of the denominators.
    pub ratio: f64,
    /// The 95 % interval, when there are at least [`BLOCKS_MIN`] blocks.
    pub interval: Option<(f64, f64)>,
    /// How many blocks it rests on.
    pub blocks: usize,
}

/// The ratio of the medians of paired values `(numerator, denominator)`, one pair a block; `None` without
/// blocks or when a denominator's median is zero.
pub fn ratio_of_medians(pairs: &[(f64, f64)], seed: u64) -> Option<Ratio> {
    ratio_among(pairs, seed, 1)
}

/// As [`ratio_of_medians`], for one of several ratios: the interval is so wide that all of them together hold
/// with 95 % (Bonferroni's correction), as far as the resamples can tell.
pub fn ratio_among(pairs: &[(f64, f64)], seed: u64, ratios: usize) -> Option<Ratio> {
    let ratio = ratio_of(&mut pairs.to_vec())?;
    let error = (1.0 - COVERAGE) / ratios.max(1) as f64;
    let interval = (pairs.len() >= BLOCKS_MIN).then(|| interval_of(pairs, seed, error)).flatten();
    Some(Ratio { ratio, interval, blocks: pairs.len() })
}

fn interval_of(pairs: &[(f64, f64)], seed: u64, error: f64) -> Option<(f64, f64)> {
    let mut random = Random::new(seed);
    let mut resample = pairs.to_vec();
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for place in &mut resample {
            *place = pairs[random.index(pairs.len())];
        }
        ratios.push(ratio_of(&mut resample)?);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let tail = (error / 2.0 * RESAMPLES as f64) as usize;
    Some((ratios[tail], ratios[RESAMPLES - 1 - tail]))
}

/// Sorts `pairs` on its way.
fn ratio_of(pairs: &mut [(f64, f64)]) -> Option<f64> {
    let numerator = median_by(pairs, |pair| pair.0)?;
    let denominator = median_by(pairs, |pair| pair.1)?;
    (denominator != 0.0).then(|| numerator / denominator)
}

fn median_by(pairs: &mut [(f64, f64)], value: impl Fn(&(f64, f64)) -> f64) -> Option<f64> {
    pairs.sort_unstable_by(|a, b| value(a).total_cmp(&value(b)));
    let middle = pairs.len() / 2;
    match pairs.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(value(&pairs[middle])),
        _ => Some((value(&pairs[middle - 1]) + value(&pairs[middle])) / 2.0),
    }
}

/// The median of some values; `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut pairs: Vec<_> = values.iter().map(|&value| (value, 0.0)).collect();
    median_by(&mut pairs, |pair| pair.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_that_of_the_medians() {
        let pairs = [(1.0, 10.0), (2.0, 30.0), (300.0, 20.0)];
        let ratio = ratio_of_medians(&pairs, 1).expect("there are blocks");
        assert!((ratio.ratio - 0.1).abs() < 1e-12);
        assert_eq!((ratio.blocks, ratio.interval), (3, None));
    }

    #[test]
    fn identical_blocks_leave_no_doubt() {
        let ratio = ratio_of_medians(&[(3.0, 2.0); 8], 1).expect("there are blocks");
        assert_eq!(ratio.interval, Some((1.5, 1.5)));
    }

    #[test]
    fn the_interval_holds_the_ratio_and_depends_on_the_seed_only() {
        let pairs: Vec<_> =
            (0..20).map(|i| (100.0 + f64::from(i * 7 % 13), 90.0 + f64::from(i * 5 % 11))).collect();
        let ratio = ratio_of_medians(&pairs, 9).expect("there are blocks");
        let (low, high) = ratio.interval.expect("there are enough blocks");
        assert!(low < ratio.ratio && ratio.ratio < high, "{ratio:?}");
        assert_eq!(ratio_of_medians(&pairs, 9), Some(ratio));
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        let mut random = Random::new(42);
        let mut noisy =
            |centre: f64| centre + (0..12).map(|_| random.index(1000) as f64 / 1000.0 - 0.5).sum::<f64>();
        let covered = (0..200)
            .filter(|&seed| {
                let pairs: Vec<_> = (0..15).map(|_| (noisy(110.0), noisy(100.0))).collect();
                let (low, high) =
                    ratio_of_medians(&pairs, seed).and_then(|ratio| ratio.interval).expect("15 blocks");
                (low..=high).contains(&1.1)
            })
            .count();
        assert!(covered >= 176, "{covered} of 200 intervals of 95 % hold the true ratio");
    }

    #[test]
    fn nothing_has_no_ratio() {
        assert_eq!(ratio_of_medians(&[], 1), None);
        assert_eq!(ratio_of_medians(&[(1.0, 0.0)], 1), None);
        assert_eq!(
            (median(&[]), median(&[3.0, 1.0]), median(&[9.0, 1.0, 5.0])),
            (None, Some(2.0), Some(5.0))
        );
    }
}
