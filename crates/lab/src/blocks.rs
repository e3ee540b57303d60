//! Comparing things on a machine that changes: blocks in which every arm runs once, in random order.
//!
//! What drifts slowly (clock frequency, other load, the place of the cores) then falls on all arms alike. The
//! distance of the cores is measured before and after each block; a block during which it changed is discarded and
//! counted, and results of different regimes are kept apart.

use crate::random::Random;
use crate::regime::{Regime, regime_between};

/// One block that counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Block<T> {
    /// Where the cores were, all the time.
    pub regime: Regime,
    /// What each arm found, in the order of the arms (not of their execution).
    pub found: Vec<T>,
}

/// All blocks of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks<T> {
    /// Those that count.
    pub kept: Vec<Block<T>>,
    /// How many were discarded because the cores moved.
    pub discarded: usize,
}

impl<T> Blocks<T> {
    /// The results of two arms, paired by block, of the blocks in one regime.
    pub fn pairs<V>(
        &self,
        regime: Regime,
        one: usize,
        other: usize,
        value: impl Fn(&T) -> Option<V>,
    ) -> Vec<(V, V)> {
        let in_regime = self.kept.iter().filter(|block| block.regime == regime);
        in_regime.filter_map(|block| Some((value(&block.found[one])?, value(&block.found[other])?))).collect()
    }

    /// The regimes in which there are blocks, near first.
    pub fn regimes(&self) -> Vec<Regime> {
        let met = |regime: &Regime| self.kept.iter().any(|block| block.regime == *regime);
        [Regime::Near, Regime::Far].into_iter().filter(met).collect()
    }
}

/// How an experiment is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How many things are compared.
    pub arms: usize,
    /// How many blocks are run.
    pub blocks: usize,
    /// Decides the order of the arms within each block.
    pub seed: u64,
}

impl Plan {
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

    /// Runs the experiment: `distance_nanos` measures how far the cores are apart, `measure` runs one arm.
    pub fn run<T, E>(
        &self,
        mut distance_nanos: impl FnMut() -> Result<f64, E>,
        mut measure: impl FnMut(usize) -> Result<T, E>,
    ) -> Result<Blocks<T>, E> {
        let mut blocks = Blocks { kept: Vec::new(), discarded: 0 };
        for order in self.orders() {
            let before = distance_nanos()?;
            let mut found = Vec::with_capacity(self.arms);
            for arm in order {
                found.push((arm, measure(arm)?));
            }
            match regime_between(before, distance_nanos()?) {
                Some(regime) => blocks.kept.push(Block { regime, found: in_order_of_arms(found) }),
                None => blocks.discarded += 1,
            }
        }
        Ok(blocks)
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
        let plan = Plan { arms: 3, blocks: 50, seed: 4 };
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
        assert_ne!(plan.orders(), Plan { seed: 5, ..plan }.orders());
    }

    #[test]
    fn blocks_in_which_the_cores_moved_are_discarded_and_counted() {
        let mut distances = [100.0, 110.0, 110.0, 400.0, 400.0, 390.0].into_iter();
        let plan = Plan { arms: 2, blocks: 3, seed: 1 };
        let distance = || Ok::<_, Infallible>(distances.next().expect("two a block"));
        let Ok(blocks) = plan.run(distance, |arm| Ok(arm * 10));
        assert_eq!(blocks.discarded, 1);
        let kept: Vec<_> = blocks.kept.iter().map(|block| (block.regime, block.found.clone())).collect();
        assert_eq!(kept, [(Regime::Near, vec![0, 10]), (Regime::Far, vec![0, 10])]);
        assert_eq!(blocks.regimes(), [Regime::Near, Regime::Far]);
        assert_eq!(blocks.pairs(Regime::Far, 1, 0, |&value| Some(value)), [(10, 0)]);
    }

    #[test]
    fn a_failure_ends_the_experiment() {
        let plan = Plan { arms: 2, blocks: 3, seed: 1 };
        let mut measured = 0;
        let outcome = plan.run(
            || Ok(100.0),
            |_| {
                measured += 1;
                if measured == 3 { Err("broken") } else { Ok(()) }
            },
        );
        assert_eq!((outcome, measured), (Err("broken"), 3));
    }
}
