//! Comparing things on a machine that changes: blocks in which every arm runs once, in random order.
//!
//! What drifts slowly (clock frequency, other load, the place of the cores) then falls on all arms alike. The
//! distance of the cores is measured before and after each block; a block during which it changed is
//! discarded and counted, and results of different regimes are kept apart.

use core::time::Duration;
use std::time::Instant;

use crate::run::regime::{Regime, Standing, regime_between};
use farcall_base::Random;

/// One block that counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Block<T> {
    /// Where the cores were, all the time.
    pub regime: Regime,
    /// What each arm found, in the order of the arms (not of their execution).
    pub found: Vec<T>,
}

/// How the cores stood around one block: the reference by which drift of the machine shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Before the block.
    pub before: Standing,
    /// After it.
    pub after: Standing,
    /// When the block began, after the experiment did.
    pub began: Duration,
    /// Whether the block counts.
    pub kept: bool,
}

impl Distance {
    /// Looks at the cores before and after some `work` of an experiment that has `begun`.
    pub fn around<T, E, S: Into<Standing>>(
        begun: Instant,
        mut standing: impl FnMut() -> Result<S, E>,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<(T, Self), E> {
        let began = begun.elapsed();
        let before = standing()?.into();
        let done = work()?;
        let after = standing()?.into();
        let kept = regime_between(before, after).is_some();
        Ok((done, Self { before, after, began, kept }))
    }
}

/// All blocks of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks<T> {
    /// Those that count.
    pub kept: Vec<Block<T>>,
    /// How many were discarded because the cores moved, or others came to them or went.
    pub discarded: usize,
    /// The reference around every block, also of those that were discarded.
    pub distances: Vec<Distance>,
    begun: Instant,
}

impl<T> Blocks<T> {
    /// None yet.
    pub fn new() -> Self {
        Self { kept: Vec::new(), discarded: 0, distances: Vec::new(), begun: Instant::now() }
    }

    /// Runs one block: the arms in the given `order`, each once by `measure`, between two looks at how the
    /// cores stand.
    pub fn run<E, S: Into<Standing>>(
        &mut self,
        order: &[usize],
        standing: impl FnMut() -> Result<S, E>,
        mut measure: impl FnMut(usize) -> Result<T, E>,
    ) -> Result<(), E> {
        let work = || order.iter().map(|&arm| Ok((arm, measure(arm)?))).collect();
        let (found, distance) = Distance::around(self.begun, standing, work)?;
        self.distances.push(distance);
        match regime_between(distance.before, distance.after) {
            Some(regime) => self.kept.push(Block { regime, found: in_order_of_arms(found) }),
            None => self.discarded += 1,
        }
        Ok(())
    }

    /// The regime that most of the kept blocks were in.
    pub fn main_regime(&self) -> Option<Regime> {
        let blocks = |regime: &Regime| self.kept.iter().filter(|block| block.regime == *regime).count();
        // Of several the last is taken.
        self.regimes().into_iter().rev().max_by_key(blocks)
    }

    /// The regimes in which there are blocks, in the order in which they are shown.
    pub fn regimes(&self) -> Vec<Regime> {
        let met = |regime: &Regime| self.kept.iter().any(|block| block.regime == *regime);
        Regime::ALL.into_iter().filter(met).collect()
    }

    /// What the arm found in each block of the regime.
    pub fn of_arm(&self, regime: Regime, arm: usize) -> impl Iterator<Item = &T> {
        self.kept.iter().filter(move |block| block.regime == regime).map(move |block| &block.found[arm])
    }

    /// The results of two arms, paired by block, of the blocks in one regime.
    pub fn pairs<V>(
        &self,
        regime: Regime,
        one: usize,
        other: usize,
        value: impl Fn(&T) -> Option<V>,
    ) -> Vec<(V, V)> {
        let both = self.of_arm(regime, one).zip(self.of_arm(regime, other));
        both.filter_map(|(one, other)| Some((value(one)?, value(other)?))).collect()
    }
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// How an experiment is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlan {
    /// How many things are compared.
    pub arms: usize,
    /// How many blocks are run.
    pub blocks: usize,
    /// Decides the order of the arms within each block.
    pub seed: u64,
}

impl BlockPlan {
    /// The order in which the arms run in each block.
    pub fn orders(&self) -> Vec<Vec<usize>> {
        let mut random = Random::new(self.seed);
        let mut order: Vec<usize> = (0..self.arms).collect();
        (0..self.blocks)
            .map(|_| {
                random.shuffle(&mut order);
                order.clone()
            })
            .collect()
    }
}

fn in_order_of_arms<T>(mut found: Vec<(usize, T)>) -> Vec<T> {
    found.sort_by_key(|(arm, _)| *arm);
    found.into_iter().map(|(_, found)| found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;

    #[test]
    fn every_arm_runs_once_a_block_in_varying_order() {
        let plan = BlockPlan { arms: 3, blocks: 50, seed: 4 };
        let orders = plan.orders();
        assert_eq!(orders.len(), 50);
        for first in 0..3 {
            assert!(orders.iter().any(|order| order[0] == first), "arm {first} comes first at times");
        }
        for mut order in orders {
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2]);
        }
        assert_eq!(plan.orders(), plan.orders());
        assert_ne!(plan.orders(), BlockPlan { seed: 5, ..plan }.orders());
    }

    /// A block of two arms in which the distance was first `before`, then `after`.
    fn block(blocks: &mut Blocks<usize>, before: f64, after: f64) {
        let mut distances = [before, after].into_iter();
        let distance = || Ok::<f64, Infallible>(distances.next().expect("two a block"));
        let Ok(()) = blocks.run(&[1, 0], distance, |arm| Ok(arm * 10));
    }

    #[test]
    fn blocks_in_which_the_cores_moved_are_discarded_and_counted() {
        let mut blocks = Blocks::new();
        block(&mut blocks, 100.0, 110.0);
        block(&mut blocks, 110.0, 400.0);
        block(&mut blocks, 400.0, 390.0);
        block(&mut blocks, 400.0, 390.0);
        assert_eq!(blocks.discarded, 1);
        assert_eq!(
            blocks.kept[0],
            Block { regime: Regime::Near, found: vec![0, 10] },
            "in the order of the arms"
        );
        assert_eq!(blocks.regimes(), [Regime::Near, Regime::Far]);
        assert_eq!(blocks.main_regime(), Some(Regime::Far));
        assert_eq!(blocks.pairs(Regime::Far, 1, 0, |&value| Some(value)), [(10, 0), (10, 0)]);
        assert_eq!(blocks.of_arm(Regime::Near, 1).collect::<Vec<_>>(), [&10]);
    }

    #[test]
    fn nothing_kept_has_no_regime() {
        let mut blocks = Blocks::new();
        block(&mut blocks, 100.0, 400.0);
        assert_eq!((blocks.main_regime(), blocks.discarded), (None, 1));
    }

    #[test]
    fn a_failure_ends_the_block() {
        let mut blocks = Blocks::<()>::new();
        let outcome = blocks.run(&[0, 1], || Ok(100.0), |arm| if arm == 1 { Err("broken") } else { Ok(()) });
        assert_eq!((outcome, blocks.kept.len()), (Err("broken"), 0));
    }
}
