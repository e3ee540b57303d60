//! What the samples say about every row, measured or not.
//!
//! The logarithm of a measured figure is a sum: one effect for each level of each parameter, one for pairs of
//! levels where two parameters act together, one for the row itself, one for the block, and noise. All are
//! random with variances that the data tell (restricted maximum likelihood by the EM algorithm; Henderson's
//! mixed model, with the row effects eliminated). So noise is not mistaken for effects: where nothing matters
//! all effects shrink to nought. Logarithms make a change of the whole machine's speed, such as cores that
//! were moved, a matter of the block.

mod design;
mod fit;
mod interactions;
mod matrix;
pub mod normal;
mod variances;

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

#[cfg(test)]
mod tests;
