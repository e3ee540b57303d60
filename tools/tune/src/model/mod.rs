//! What the samples say about every row, measured or not.
//!
//! The logarithm of a measured figure is a sum: one effect for each level of each parameter, one for pairs of
//! levels where two parameters act together, one for the row itself, one for the block, and noise. All are
//! random with variances that the data tell (restricted maximum likelihood by the EM algorithm; Henderson's
//! mixed model, with the row effects eliminated). So noise is not mistaken for effects: where nothing matters
//! all effects shrink to nought. Logarithms make a change of the whole machine's speed, such as cores that
//! were moved, a matter of the block.

mod accidents;
mod design;
mod fit;
mod interactions;
mod matrix;
pub mod normal;

pub use fit::{Effect, Estimate, Fit};

/// One figure, as a fit takes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// What was measured, as the number of an environment.
    pub environment: usize,
    /// When: observations of a block share what the machine was like. Blocks are numbered from 0 without
    /// gaps.
    pub block: usize,
    /// The logarithm of the figure.
    pub value: f64,
}

/// The variances of a fit.
#[derive(Clone, Debug, PartialEq)]
struct Variances {
    /// Of one sample around its row and block.
    noise: f64,
    /// Of rows around what their levels explain.
    rows: f64,
    /// Of the effects of each group of columns.
    groups: Vec<f64>,
    /// Of blocks; so large that it constrains nothing.
    blocks: f64,
}

impl Variances {
    /// Where the iteration begins, for values that vary by `total`.
    fn first(total: f64, groups: usize) -> Self {
        let total = total.max(f64::MIN_POSITIVE * 1e30);
        Self { noise: total / 2.0, rows: total / 8.0, groups: vec![total / 4.0; groups], blocks: total * 1e4 }
    }

    /// Variances that are nought leave nothing to divide by; these are small beside the noise.
    fn bounded(mut self, total: f64) -> Self {
        self.noise = self.noise.max(total * 1e-8).max(f64::MIN_POSITIVE * 1e30);
        let least = self.noise * 1e-6;
        self.rows = self.rows.max(least);
        self.groups.iter_mut().for_each(|variance| *variance = variance.max(least));
        self
    }
}

/// The mean square deviation from the mean.
fn variance(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    values.map(|value| (value - mean) * (value - mean)).sum::<f64>() / count
}

#[cfg(test)]
mod tests;
