//! Blocked successive halving, the default: screen many environments once, then race fewer and fewer with
//! more and more repetitions.
//!
//! After each round everything found so far is fitted, and the best of the whole space by the fit go on: what
//! was screened tells about rows that were not. A part of the field are neighbours of the best row, which
//! differ from it in one value: a fit of values and pairs of them knows no hollow that only one row has. Rows
//! that fail give their places to the next best, since a fit knows no edge either. That halves the field, not
//! the answer: what is no longer raced is left out of the equivalence set only when the intervals say so.
//! Repeated launches, blocks and racing do more here than a clever choice of what to screen; the chooser is
//! exchangeable (see [`Proposer`]).

use std::collections::{BTreeSet, VecDeque};

use farcall_base::Random;

use super::{BLOCK_MAX, Knowledge, Proposer, Search, SearchError, divide};

/// The share of the budget that screens.
const SCREENING: f64 = 0.3;

/// The fewest that a round races.
const FIELD_MIN: usize = 4;

/// One of so many that are raced is a neighbour of the best one.
const NEIGHBOUR_OF: usize = 4;

/// The search.
pub struct Halving {
    random: Random,
    proposer: Box<dyn Proposer>,
    /// How many are still to be screened.
    screening: usize,
    /// Field and repetitions of each round that is still to come.
    rounds: VecDeque<(usize, usize)>,
    /// What is raced, and how many times more.
    field: Vec<usize>,
    repetitions: usize,
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
        let (field, blocks) = (Vec::new(), VecDeque::new());
        Self { random: Random::new(seed), proposer, screening, rounds, field, repetitions: 0, blocks }
    }

    /// The places of rows that were found to fail go to the best of the others.
    fn refill(&mut self, known: &Knowledge) {
        let failing = known.evidence.failing();
        let size = self.field.len();
        self.field.retain(|one| !failing.contains(one));
        if self.field.len() < size {
            let others = best(known, 2 * size).into_iter().filter(|one| !self.field.contains(one));
            let others: Vec<_> = others.take(size - self.field.len()).collect();
            self.field.extend(others);
        }
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
            if self.repetitions == 0 {
                let Some((size, repetitions)) = self.rounds.pop_front() else { return Ok(None) };
                (self.field, self.repetitions) = (field(known, size), repetitions);
            }
            self.refill(known);
            self.repetitions -= 1;
            self.blocks.extend(divide(&self.field, &mut self.random));
        }
        Ok(self.blocks.pop_front())
    }

    fn remaining(&self) -> usize {
        let with_references = |field: usize| field + field.div_ceil(BLOCK_MAX);
        let rounds = self.rounds.iter().map(|(field, repetitions)| with_references(*field) * repetitions);
        let begun = self.blocks.iter().map(|block| block.len() + 1);
        let round = with_references(self.field.len()) * self.repetitions;
        with_references(self.screening) + rounds.sum::<usize>() + round + begun.sum::<usize>()
    }
}

/// What a round races: the best, and the best of the neighbours of the best one that was measured.
fn field(known: &Knowledge, size: usize) -> Vec<usize> {
    let order = best(known, known.problem.environments.len());
    let first = known.problem.objectives()[0];
    let is_measured = |one: &usize| known.fit(first).samples(*one) > 0;
    let leader = order.iter().copied().find(is_measured).unwrap_or(known.problem.reference);
    let near: BTreeSet<usize> = known.problem.neighbours(leader).into_iter().map(|(one, ..)| one).collect();
    let (field, rest) = order.split_at((size - size / NEIGHBOUR_OF).min(order.len()));
    let new = |one: &&usize| near.contains(one) && !is_measured(one);
    let others = rest.iter().filter(new).chain(rest.iter().filter(|one| !new(one)));
    field.iter().chain(others).copied().take(size).collect()
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
