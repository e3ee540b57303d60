//! Plans that are made before anything is measured: everything, a sample, one parameter at a time, two levels
//! each.

use std::collections::VecDeque;

use farcall_base::Random;
use farcall_lab::explain::vary::folded;

use super::{Knowledge, Problem, Search, SearchError, divide};
use crate::space::NOT_IN_PLAY;

/// A list of environments, each measured some times.
pub struct Listed {
    blocks: VecDeque<Vec<usize>>,
}

/// Which environments a plan lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// All.
    Exhaustive,
    /// This many at random.
    Random(usize),
    /// The reference's neighbours: each level of each parameter, all others as they are.
    OneAtATime,
    /// Two levels of each parameter, the reference's and the one farthest from it, in all combinations; with
    /// more than this many runs a fraction in which no single effect is confounded with another or with a
    /// pair (resolution IV, Box and Hunter 1961).
    Factorial {
        /// The most runs.
        runs_max: usize,
    },
}

impl Listed {
    /// The blocks of a design, each environment measured `repeats` times, in random order.
    pub fn new(problem: &Problem, design: Design, repeats: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let environments = design.environments(problem, &mut random);
        let blocks = (0..repeats).flat_map(|_| divide(&environments, &mut random)).collect();
        Self { blocks }
    }

    /// Some environments, each in every one of `blocks` blocks.
    pub fn of(environments: &[usize], blocks: usize) -> Self {
        Self { blocks: vec![environments.to_vec(); blocks].into() }
    }
}

impl Search for Listed {
    fn next(&mut self, _: &Knowledge) -> Result<Option<Vec<usize>>, SearchError> {
        Ok(self.blocks.pop_front())
    }

    fn remaining(&self) -> usize {
        self.blocks.iter().map(|block| block.len() + 1).sum()
    }
}

impl Design {
    /// The environments, each once.
    pub fn environments(self, problem: &Problem, random: &mut Random) -> Vec<usize> {
        let mut all: Vec<usize> = (0..problem.environments.len()).collect();
        match self {
            Self::Exhaustive => all,
            Self::Random(count) => {
                random.shuffle(&mut all);
                all.truncate(count);
                all
            }
            Self::OneAtATime => {
                let neighbours = problem.neighbours(problem.reference);
                unique(neighbours.into_iter().map(|(environment, ..)| environment).collect())
            }
            Self::Factorial { runs_max } => factorial(problem, runs_max),
        }
    }
}

/// The valid corners of the box between the reference and the levels farthest from it.
fn factorial(problem: &Problem, runs_max: usize) -> Vec<usize> {
    let reference = problem.row(problem.reference);
    let far: Vec<(usize, usize)> = (0..reference.len())
        .filter(|&index| reference[index] != NOT_IN_PLAY && problem.space.parameters[index].levels.len() > 1)
        .map(|index| (index, farthest(problem.space.parameters[index].levels.len(), reference[index].into())))
        .collect();
    let corners: Vec<Vec<bool>> = signs(far.len(), runs_max);
    let environment = |signs: &Vec<bool>| {
        let changes = far.iter().zip(signs).filter(|(_, far)| **far);
        let mut row = reference.to_vec();
        changes.for_each(|((index, level), _)| row[*index] = *level as u16);
        problem.rows.find(&row).map(|row| problem.environments.of_row(row))
    };
    unique(corners.iter().filter_map(environment).collect())
}

/// Which factors are at their far level in each run.
fn signs(factors: usize, runs_max: usize) -> Vec<Vec<bool>> {
    if factors < usize::BITS as usize - 1 && 1_usize << factors <= runs_max {
        return (0..1_usize << factors)
            .map(|run| (0..factors).map(|j| run >> j & 1 == 1).collect())
            .collect();
    }
    folded(&(0..factors).collect::<Vec<_>>(), factors.next_power_of_two())
}

/// The end of a list of levels that is farther from a level.
fn farthest(levels: usize, from: usize) -> usize {
    if from * 2 >= levels { 0 } else { levels - 1 }
}

fn unique(mut environments: Vec<usize>) -> Vec<usize> {
    environments.sort_unstable();
    environments.dedup();
    environments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_combinations_are_run_when_there_are_few() {
        assert_eq!(signs(3, 8).len(), 8);
        let mut all = signs(3, 8);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 8);
    }

    #[test]
    fn in_a_fraction_no_effect_is_confounded_with_another_or_with_a_pair() {
        for factors in [5, 8, 13] {
            let runs = signs(factors, 16);
            let sign = |run: &Vec<bool>, j: usize| if run[j] { 1 } else { -1 };
            for a in 0..factors {
                assert_eq!(runs.iter().map(|run| sign(run, a)).sum::<i32>(), 0, "balanced");
                for b in 0..a {
                    assert_eq!(runs.iter().map(|run| sign(run, a) * sign(run, b)).sum::<i32>(), 0, "{a} {b}");
                    for c in 0..b {
                        let triple: i32 =
                            runs.iter().map(|run| sign(run, a) * sign(run, b) * sign(run, c)).sum();
                        assert_eq!(triple, 0, "{a} {b} {c}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_far_level_is_at_the_other_end() {
        assert_eq!([farthest(5, 0), farthest(5, 4), farthest(2, 1), farthest(2, 0)], [4, 0, 0, 1]);
    }
}
