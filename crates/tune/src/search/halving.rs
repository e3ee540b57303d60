//! Blocked successive halving, the default: screen many environments once, then race fewer and fewer with more and
//! more repetitions.
//!
//! After each round everything found so far is fitted, and the best of the whole space by the fit go on: what was
//! screened tells about rows that were not. That halves the field, not the answer: what is no longer raced is left out
//! of the equivalence set only when the intervals say so. Repeated launches, blocks and racing do more here than a
//! clever sampler would (see the figures in docs/tuning.md).

use std::collections::VecDeque;

use farcall_lab::random::Random;

use super::{BLOCK_MAX, Knowledge, Search};

/// The share of the budget that screens.
const SCREENING: f64 = 0.3;

/// The fewest that a round races.
const FIELD_MIN: usize = 4;

/// The search.
pub struct Halving {
    random: Random,
    screened: usize,
    /// Field and repetitions of each round that is still to come.
    rounds: VecDeque<(usize, usize)>,
    blocks: VecDeque<Vec<usize>>,
    begun: bool,
}

impl Halving {
    /// A search with about `budget` samples among `environments`.
    pub fn new(budget: usize, environments: usize, seed: u64) -> Self {
        let screened = ((budget as f64 * SCREENING) as usize).clamp(1, environments);
        let raced = budget.saturating_sub(screened);
        let mut field = FIELD_MIN;
        // Each round of the field 2k costs what one of k does; the first one repeats twice.
        while field * 2 * 2 * (1 + (field * 2 / FIELD_MIN).ilog2() as usize) <= raced
            && field * 2 <= environments
        {
            field *= 2;
        }
        let count = 1 + (field / FIELD_MIN).max(1).ilog2() as usize;
        let field = field.min(environments);
        let round = |index: usize| {
            let field = (field >> index).max(1);
            (field, (raced / count / (field + 1)).max(2))
        };
        let rounds = (0..count).map(round).collect();
        Self { random: Random::new(seed), screened, rounds, blocks: VecDeque::new(), begun: false }
    }

    /// Divides a field into blocks of about equal size, at random.
    fn divide(&mut self, field: &[usize]) {
        let mut field = field.to_vec();
        self.random.shuffle(&mut field);
        let blocks = field.len().div_ceil(BLOCK_MAX);
        let size = field.len().div_ceil(blocks.max(1)).max(1);
        self.blocks.extend(field.chunks(size).map(<[usize]>::to_vec));
    }
}

impl Search for Halving {
    fn next(&mut self, known: &Knowledge) -> Option<Vec<usize>> {
        if let Some(block) = self.blocks.pop_front() {
            return Some(block);
        }
        if !self.begun {
            self.begun = true;
            let mut all: Vec<usize> = (0..known.problem.environments.len()).collect();
            self.random.shuffle(&mut all);
            self.divide(&all[..self.screened]);
        } else {
            let (field, repetitions) = self.rounds.pop_front()?;
            let best = best(known, field);
            (0..repetitions).for_each(|_| self.divide(&best));
        }
        self.blocks.pop_front()
    }

    fn expected_samples(&self, _: &Knowledge) -> usize {
        let blocks = |field: usize| field.div_ceil(BLOCK_MAX);
        let rounds = self.rounds.iter().map(|(field, repetitions)| (field + blocks(*field)) * repetitions);
        let screening = if self.begun { 0 } else { self.screened + blocks(self.screened) };
        screening + rounds.sum::<usize>() + self.blocks.iter().map(|block| block.len() + 1).sum::<usize>()
    }
}

/// The `count` best environments by the fit of the first metric, of those that may be proposed.
pub(super) fn best(known: &Knowledge, count: usize) -> Vec<usize> {
    let eligible = known.eligible(0.0);
    let worse = known.worse(0, known.problem.reference);
    let mut order: Vec<usize> = (0..worse.len()).filter(|one| eligible[*one]).collect();
    order.sort_by(|&one, &other| worse[one].mean.total_cmp(&worse[other].mean));
    order.truncate(count);
    order
}
