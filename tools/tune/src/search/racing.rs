//! Racing: everything in the field runs in every block, and what is worse beyond doubt leaves it (Maron and
//! Moore 1994; Birattari et al. 2002). With one objective that is worse than the leader by more than the
//! indifference width; with several, dominated: worse than one and the same other in all of them.

use std::collections::VecDeque;

use farcall_base::Random;

use super::{Knowledge, Search, SearchError, divide};
use crate::result::simultaneous;

/// Repetitions before anything is judged.
const BEFORE_JUDGEMENT: usize = 5;

/// The race.
pub struct Race {
    random: Random,
    field: Vec<usize>,
    blocks: VecDeque<Vec<usize>>,
    repetitions: usize,
    left: usize,
}

impl Race {
    /// A race among `field` for about `budget` samples.
    pub fn new(field: Vec<usize>, budget: usize, seed: u64) -> Self {
        Self { random: Random::new(seed), field, blocks: VecDeque::new(), repetitions: 0, left: budget }
    }

    /// Leaves out what is worse beyond doubt.
    fn judge(&mut self, known: &Knowledge) {
        let certainty = simultaneous(self.field.len());
        let eligible = known.eligible(certainty);
        self.field.retain(|&one| eligible[one]);
        let objectives = known.problem.objectives();
        let field = self.field.clone();
        let loses = |one: usize, other: usize| {
            objectives.iter().all(|&metric| {
                let worse = known.worse_than(metric, one, other);
                let width = if objectives.len() == 1 { known.problem.metrics[metric].width() } else { 0.0 };
                worse.mean - certainty * worse.error > width
            })
        };
        self.field.retain(|&one| !field.iter().any(|&other| other != one && loses(one, other)));
    }
}

impl Search for Race {
    fn next(&mut self, known: &Knowledge) -> Result<Option<Vec<usize>>, SearchError> {
        if self.blocks.is_empty() {
            if self.repetitions >= BEFORE_JUDGEMENT {
                self.judge(known);
            }
            let cost = self.field.len() + 1;
            if self.field.is_empty() || self.left < cost || (self.field.len() == 1 && self.repetitions > 0) {
                return Ok(None);
            }
            self.left -= cost;
            self.repetitions += 1;
            self.blocks.extend(divide(&self.field, &mut self.random));
        }
        Ok(self.blocks.pop_front())
    }

    fn remaining(&self) -> usize {
        self.left + self.blocks.iter().map(|block| block.len() + 1).sum::<usize>()
    }
}

/// The measured environments that no other one is better than in every objective, by the fits; best in the
/// first objective first.
pub fn pareto_front(known: &Knowledge) -> Vec<usize> {
    let objectives = known.problem.objectives();
    let eligible = known.eligible(simultaneous(known.problem.environments.len()));
    let values = |one: usize| -> Vec<f64> {
        let value = |&metric: &usize| known.problem.metrics[metric].sign() * known.fit(metric).value(one);
        objectives.iter().map(value).collect()
    };
    let measured =
        (0..eligible.len()).filter(|&one| eligible[one] && known.fit(objectives[0]).samples(one) > 0);
    let mut candidates: Vec<(usize, Vec<f64>)> = measured.map(|one| (one, values(one))).collect();
    candidates.sort_by(|one, other| one.1[0].total_cmp(&other.1[0]));
    let dominated = |one: &[f64]| {
        candidates.iter().any(|(_, other)| {
            let as_good = other.iter().zip(one).all(|(other, one)| other <= one);
            as_good && other.iter().zip(one).any(|(other, one)| other < one)
        })
    };
    candidates.iter().filter(|(_, values)| !dominated(values)).map(|(one, _)| *one).collect()
}
