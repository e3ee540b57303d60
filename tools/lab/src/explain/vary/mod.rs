//! Which of several changes matters: designs of two levels for each factor, run in interleaved blocks.
//!
//! Changing one thing at a time cannot show that two changes need each other, and a figure before and one
//! after cannot show whether their difference is more than chance. So every combination of levels is run (or,
//! with many factors, a fraction in which no single effect is mistaken for another or for a pair), all of
//! them once in every block and in random order. A block gives one estimate of every effect; how much the
//! blocks' estimates differ says how far to believe their mean.

mod design;
mod effects;
mod factor;
mod guard;

pub use design::{Design, FACTORS_MAX, FULL_FACTORS_MAX, folded};
pub use effects::{Analysis, Better, Effect, INDIFFERENCE, Subject, Verdict};
pub use factor::{FABRIC, Factor, FactorError, Level};
pub use guard::{Guard, GuardVerdict};

use crate::run::blocks::{BlockPlan, Blocks};
use farcall_base::Random;

/// The most blocks that are worth asking for.
pub const BLOCKS_MAX: u64 = 1000;

/// How many blocks are tried for each one that is to be kept, while cores move.
const TRIES_PER_BLOCK: usize = 3;

/// What is measured, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Blocks to keep.
    pub blocks: usize,
    /// Decides the order of the runs in each block, and the seed of each run.
    pub seed: u64,
}

impl Experiment {
    /// Runs the design block by block. `measure` is given a run of the design and a seed that no other run
    /// has, and returns its figures; `distance_nanos` says how far the cores are apart, or always the same
    /// when there are none.
    pub fn run<T, E>(
        &self,
        design: &Design,
        mut distance_nanos: impl FnMut() -> Result<f64, E>,
        mut measure: impl FnMut(usize, u64) -> Result<T, E>,
    ) -> Result<Blocks<T>, E> {
        let mut seeds = Random::new(self.seed);
        let mut blocks = Blocks::new();
        let plan =
            BlockPlan { arms: design.runs().len(), blocks: self.blocks * TRIES_PER_BLOCK, seed: self.seed };
        for order in plan.orders() {
            blocks.run(&order, &mut distance_nanos, |run| measure(run, seeds.bits()))?;
            let enough = |regime| blocks.of_arm(regime, 0).count() >= self.blocks;
            if blocks.main_regime().is_some_and(enough) {
                break;
            }
        }
        Ok(blocks)
    }
}

#[cfg(test)]
mod tests;
