//! Samples that are accidents: a launch that something disturbed for seconds says nothing about its row, and
//! one in a hundred of them, ten times too long, would hide every effect if it counted.
//!
//! Location and scale are medians throughout (median polish; Tukey 1977), so that a tenth of the samples may
//! be anything. A row that was measured once and is far from what its levels make likely counts as not
//! measured; when it is measured again and the figures agree, they are believed.

use std::collections::{BTreeMap, BTreeSet};

use super::Observation;

/// Fewer samples than this have no scale.
const SAMPLES_MIN: usize = 16;

/// A sample is an accident from this many standard deviations on, as the median deviation tells them.
const FAR: f64 = 8.0;

/// The least standard deviation, as a part of the figure: half of the figures of a coarse clock are the same.
const SCALE_MIN: f64 = 0.005;

/// What is more frequent is no accident.
const SHARE_MAX: f64 = 0.25;

/// Sweeps of the polish; what is left changes little after a few.
const SWEEPS: usize = 5;

/// A block of so many samples says by itself how fast the machine was.
const BLOCK_MIN: usize = 6;

/// How many samples around one of a smaller block say it.
const WINDOW: usize = 15;

/// From this many samples on a row has a scale of its own.
const ROW_MIN: usize = 4;

/// Samples that are far are believed when chance would do the same, in any row, in this share of cases.
const CHANCE_MAX: f64 = 0.05;

/// The median absolute deviation of a normal variable, times this, is its standard deviation.
const NORMAL: f64 = 1.4826;

/// More rows than this share that are far from their levels as a whole are a pattern, which is to be fitted.
const APART_MAX: f64 = 0.1;

/// What does not go into a fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Accidents {
    /// Samples that say nothing about their row, by their places.
    pub(super) samples: Vec<bool>,
    /// Environments that are as a whole far from what their levels make likely: measured again and again they
    /// say the same of themselves, and nothing of others.
    pub(super) apart: BTreeSet<usize>,
}

/// Finds them. `levels` gives, for an environment, one number for each factor.
pub(super) fn accidents(observations: &[Observation], levels: impl Fn(usize) -> Vec<usize>) -> Accidents {
    let mut found = Accidents { samples: vec![false; observations.len()], apart: BTreeSet::new() };
    if observations.len() < SAMPLES_MIN {
        return found;
    }
    let residuals = polished(observations, levels);
    let spread = scale(residuals.iter().copied());
    let mut rows: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, one) in observations.iter().enumerate() {
        rows.entry(one.environment).or_default().push(index);
    }
    let within = within(&rows, &residuals).unwrap_or(spread);
    let far = residuals.iter().filter(|residual| residual.abs() > FAR * spread).count();
    let far_share = far as f64 / observations.len() as f64;
    if far_share > SHARE_MAX {
        return found;
    }
    let scales = Scales { spread, within, far_share, rows: rows.len() as f64 };
    for row in rows.values() {
        of_row(row, &residuals, &scales).into_iter().for_each(|index| found.samples[index] = true);
    }
    let is_apart = |row: &Vec<usize>| {
        let kept = || row.iter().filter(|index| !found.samples[**index]).map(|&index| residuals[index]);
        kept().count() > 1 && median(kept()).abs() > FAR * spread
    };
    let apart: BTreeSet<usize> =
        rows.iter().filter(|(_, row)| is_apart(row)).map(|(environment, _)| *environment).collect();
    if apart.len() as f64 <= APART_MAX * rows.len() as f64 {
        found.apart = apart;
    }
    found
}

/// The standard deviation within rows that have enough samples, if there are enough of these.
fn within(rows: &BTreeMap<usize, Vec<usize>>, residuals: &[f64]) -> Option<f64> {
    let deviations = rows.values().filter(|row| row.len() >= ROW_MIN).flat_map(|row| {
        let middle = median(row.iter().map(|&index| residuals[index]));
        row.iter().map(|&index| residuals[index] - middle).collect::<Vec<_>>()
    });
    let deviations: Vec<_> = deviations.collect();
    (deviations.len() >= SAMPLES_MIN).then(|| scale(deviations.into_iter()))
}

/// The accidents among the samples of one row. Samples that are all far from what the levels make likely are
/// believed once they are too many for chance, in any of all rows.
fn of_row(row: &[usize], residuals: &[f64], scales: &Scales) -> Vec<usize> {
    let (far, near): (Vec<_>, Vec<_>) =
        row.iter().copied().partition(|&index| residuals[index].abs() > FAR * scales.spread);
    let by_chance = scales.rows * at_least(far.len(), row.len(), scales.far_share);
    let (mut accidents, trusted) =
        if by_chance < CHANCE_MAX { (Vec::new(), row.to_vec()) } else { (far, near) };
    if trusted.len() >= ROW_MIN {
        let middle = median(trusted.iter().map(|&index| residuals[index]));
        let stray = |index: &usize| (residuals[*index] - middle).abs() > FAR * scales.within;
        accidents.extend(trusted.into_iter().filter(stray));
    }
    accidents
}

/// What is usual among the samples.
struct Scales {
    /// The standard deviation around what levels make likely.
    spread: f64,
    /// The standard deviation around the row.
    within: f64,
    /// The share of samples that are far from what their levels make likely.
    far_share: f64,
    /// The number of rows.
    rows: f64,
}

/// The chance of so many events or more among `all`, each with the same chance.
fn at_least(count: usize, all: usize, chance: f64) -> f64 {
    let mut term = (1.0 - chance).powi(all as i32);
    let mut below = 0.0;
    for events in 0..count {
        below += term;
        term *= (all - events) as f64 / (events + 1) as f64 * chance / (1.0 - chance);
    }
    (1.0 - below).max(if count == 0 { 1.0 } else { chance.powi(count as i32) })
}

/// What levels and time leave of the observations, by medians.
fn polished(observations: &[Observation], levels: impl Fn(usize) -> Vec<usize>) -> Vec<f64> {
    let middle = median(observations.iter().map(|one| one.value));
    let mut residuals: Vec<f64> = observations.iter().map(|one| one.value - middle).collect();
    let mut known: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for one in observations {
        known.entry(one.environment).or_insert_with(|| levels(one.environment));
    }
    let of: Vec<&Vec<usize>> = observations.iter().map(|one| &known[&one.environment]).collect();
    let factors = of.first().map_or(0, |levels| levels.len());
    let mut blocks: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, one) in observations.iter().enumerate() {
        blocks.entry(one.block).or_default().push(index);
    }
    for _ in 0..SWEEPS {
        for factor in 0..factors {
            let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            of.iter()
                .enumerate()
                .for_each(|(index, levels)| groups.entry(levels[factor]).or_default().push(index));
            for group in groups.values() {
                let middle = median(group.iter().map(|&index| residuals[index]));
                group.iter().for_each(|&index| residuals[index] -= middle);
            }
        }
        let smooth: Vec<f64> = (0..residuals.len())
            .map(|index| match blocks[&observations[index].block].as_slice() {
                block if block.len() >= BLOCK_MIN => median(block.iter().map(|&index| residuals[index])),
                _ => around(&residuals, index),
            })
            .collect();
        residuals.iter_mut().zip(smooth).for_each(|(residual, smooth)| *residual -= smooth);
    }
    residuals
}

/// The median of the samples around one.
fn around(residuals: &[f64], index: usize) -> f64 {
    let first = index.saturating_sub(WINDOW / 2).min(residuals.len().saturating_sub(WINDOW));
    median(residuals[first..].iter().take(WINDOW).copied())
}

fn scale(deviations: impl Iterator<Item = f64>) -> f64 {
    (NORMAL * median(deviations.map(f64::abs))).max(SCALE_MIN)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    if values.is_empty() {
        return 0.0;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use farcall_base::Random;

    use super::*;
    use crate::model::normal::draw;

    /// Samples of 16 rows of two factors, `repeats` of each, with a standard deviation of 1 %.
    fn samples(repeats: usize, disturb: impl Fn(usize, usize) -> f64) -> Vec<Observation> {
        let mut random = Random::new(7);
        let mut observations = Vec::new();
        for repeat in 0..repeats {
            for environment in 0..16 {
                let value =
                    0.3 * (environment % 4) as f64 + 0.01 * draw(&mut random) + disturb(environment, repeat);
                observations.push(Observation { environment, block: repeat, value });
            }
        }
        observations
    }

    fn judged(observations: &[Observation]) -> Accidents {
        accidents(observations, |environment| vec![environment % 4, environment / 4])
    }

    fn found(observations: &[Observation]) -> Vec<usize> {
        let flags = judged(observations).samples;
        (0..flags.len()).filter(|&index| flags[index]).collect()
    }

    #[test]
    fn a_sample_ten_times_too_long_is_an_accident() {
        let disturbed = samples(5, |row, repeat| if (row, repeat) == (3, 2) { 10_f64.ln() } else { 0.0 });
        assert_eq!(found(&disturbed), [2 * 16 + 3]);
        assert_eq!(found(&samples(5, |_, _| 0.0)), [0; 0]);
    }

    #[test]
    fn a_row_that_is_slow_each_time_is_believed_and_says_nothing_of_others() {
        for repeats in [3, 5] {
            let slow = samples(repeats, |row, _| if row == 3 { 2.3 } else { 0.0 });
            assert_eq!(found(&slow), [0; 0]);
            assert_eq!(judged(&slow).apart, BTreeSet::from([3]));
        }
        // A whole level is a pattern.
        assert_eq!(
            judged(&samples(5, |row, _| if row % 4 == 3 { 2.3 } else { 0.0 })),
            judged(&samples(5, |_, _| 0.0))
        );
    }

    #[test]
    fn a_row_that_was_slow_once_is_not() {
        assert_eq!(found(&samples(1, |row, _| if row == 3 { 2.3 } else { 0.0 })), [3]);
    }

    #[test]
    fn chances_add_up() {
        assert_eq!(at_least(0, 5, 0.1), 1.0);
        assert!((at_least(1, 2, 0.1) - 0.19).abs() < 1e-12 && (at_least(2, 2, 0.1) - 0.01).abs() < 1e-12);
    }

    #[test]
    fn what_happens_to_every_third_sample_is_no_accident() {
        assert_eq!(found(&samples(6, |row, repeat| if (row + repeat) % 3 == 0 { 2.3 } else { 0.0 })), [0; 0]);
    }
}
