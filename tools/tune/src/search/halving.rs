//! Blocked successive halving, the default: screen many environments once, then race fewer and fewer with
//! more and more repetitions.
//!
//! After each round everything found so far is fitted, and the best of the whole space by the fit go on: what
//! was screened tells about rows that were not. That halves the field, not the answer: what is no longer
//! raced is left out of the equivalence set only when the intervals say so. Repeated launches, blocks and
//! racing do more here than a clever choice of what to screen; the chooser is exchangeable (see
//! [`Proposer`]).

use std::collections::VecDeque;

use farcall_base::Random;

use super::{BLOCK_MAX, Knowledge, Proposer, Search, SearchError, divide};

/// The share of the budget that screens.
const SCREENING: f64 = 0.3;

/// The fewest that a round races.
const FIELD_MIN: usize = 4;

/// The search.
pub struct Halving {
    random: Random,
    proposer: Box<dyn Proposer>,
    /// How many are still to be screened.
    screening: usize,
    /// Field and repetitions of each round that is still to come.
    rounds: VecDeque<(usize, usize)>,
    blocks: VecDeque<Vec<usize>>,
}

impl Halving {
    /// A search with about `budget` samples among `environments`, of which `proposer` says what to screen.
    pub fn new(budget: usize, environments: usize, proposer: Box<dyn Proposer>, seed: u64) -> Self {
        let screening = ((budget as f64 * SCREENING) as usize).clamp(1, environments);
        let raced = budget.saturating_sub(screening);
        // All rounds cost the same; the first one repeats at least twice.
        let rounds_of = |field: usize| 1 + (field / FIELD_MIN).max(1).ilog2() as usize;
        let mut field = FIELD_MIN.min(environments);
        while field * 4 * rounds_of(field * 2) <= raced && field * 2 <= environments {
            field *= 2;
        }
        let count = rounds_of(field);
        let round = |index: usize| {
            let field = (field >> index).max(1);
            (field, (raced / count / (field + 1)).max(2))
        };
        let rounds = (0..count).map(round).collect();
        Self { random: Random::new(seed), proposer, screening, rounds, blocks: VecDeque::new() }
    }
}

impl Search for Halving {
    fn next(&mut self, known: &Knowledge) -> Result<Option<Vec<usize>>, SearchError> {
        if self.screening > 0 {
            // Blocks of about equal size.
            let blocks = self.screening.div_ceil(BLOCK_MAX);
            let proposed = self.proposer.propose(known, self.screening.div_ceil(blocks))?;
            self.screening =
                if proposed.is_empty() { 0 } else { self.screening.saturating_sub(proposed.len()) };
            if !proposed.is_empty() {
                return Ok(Some(proposed));
            }
        }
        if self.blocks.is_empty() {
            let Some((field, repetitions)) = self.rounds.pop_front() else { return Ok(None) };
            let best = best(known, field);
            (0..repetitions).for_each(|_| self.blocks.extend(divide(&best, &mut self.random)));
        }
        Ok(self.blocks.pop_front())
    }

    fn remaining(&self) -> usize {
        let with_references = |field: usize| field + field.div_ceil(BLOCK_MAX);
        let rounds = self.rounds.iter().map(|(field, repetitions)| with_references(*field) * repetitions);
        let begun = self.blocks.iter().map(|block| block.len() + 1);
        with_references(self.screening) + rounds.sum::<usize>() + begun.sum::<usize>()
    }
}

/// The `count` best environments by the fits, of those that may be proposed. With several objectives they are
/// the best for each and the best compromises, taken alternately: the ends and the middle of the front.
fn best(known: &Knowledge, count: usize) -> Vec<usize> {
    let eligible = known.eligible(0.0);
    let objectives = known.problem.objectives();
    let mut costs: Vec<Vec<f64>> = objectives.iter().map(|&metric| costs(known, metric)).collect();
    if objectives.len() > 1 {
        let compromise = |one: usize| costs.iter().map(|costs| costs[one]).sum();
        costs.push((0..eligible.len()).map(compromise).collect());
    }
    let order = |costs: &Vec<f64>| {
        let mut order: Vec<usize> = (0..costs.len()).filter(|one| eligible[*one]).collect();
        order.sort_by(|&one, &other| costs[one].total_cmp(&costs[other]));
        order.truncate(count);
        order
    };
    let orders: Vec<Vec<usize>> = costs.iter().map(order).collect();
    let mut chosen = Vec::with_capacity(count);
    for place in 0..count {
        for one in orders.iter().filter_map(|order| order.get(place)) {
            if chosen.len() < count && !chosen.contains(one) {
                chosen.push(*one);
            }
        }
    }
    chosen
}

/// How much worse than the reference each environment is, in units of how much environments differ.
fn costs(known: &Knowledge, metric: usize) -> Vec<f64> {
    let worse = known.worse(metric, known.problem.reference);
    let square = worse.iter().map(|one| one.mean * one.mean).sum::<f64>() / worse.len() as f64;
    let unit = square.sqrt().max(f64::MIN_POSITIVE);
    worse.iter().map(|one| one.mean / unit).collect()
}
