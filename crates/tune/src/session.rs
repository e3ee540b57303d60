//! A tuning under way: one trial after the other, from a search that does not know how they are run.

use std::collections::VecDeque;

use farcall_lab::random::Random;
use farcall_lab::regime::Regime;

use crate::evidence::{Evidence, Outcome, Sample};
use crate::search::{Knowledge, Problem, Search};

/// What is to be measured next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Its number, from 0.
    pub number: usize,
    /// Its block.
    pub block: usize,
    /// What runs.
    pub environment: usize,
}

/// A tuning under way.
pub struct Session<'a> {
    problem: &'a Problem,
    search: Box<dyn Search + 'a>,
    evidence: Evidence,
    random: Random,
    waiting: VecDeque<usize>,
    blocks: usize,
}

impl<'a> Session<'a> {
    /// The beginning; `seed` decides the order within blocks.
    pub fn new(problem: &'a Problem, search: Box<dyn Search + 'a>, seed: u64) -> Self {
        let random = Random::new(seed ^ 0x6f72_6465);
        Self { problem, search, evidence: Evidence::default(), random, waiting: VecDeque::new(), blocks: 0 }
    }

    /// The next trial; the same one until its outcome is recorded.
    pub fn next(&mut self) -> Option<Trial> {
        if self.waiting.is_empty() {
            let mut block = self.search.next(&Knowledge::new(self.problem, &self.evidence))?;
            if !block.contains(&self.problem.reference) {
                block.push(self.problem.reference);
            }
            self.random.shuffle(&mut block);
            self.waiting = block.into();
            self.blocks += 1;
        }
        let environment = *self.waiting.front()?;
        Some(Trial { number: self.evidence.samples().len(), block: self.blocks - 1, environment })
    }

    /// Records what the trial came to that [`Session::next`] gave.
    pub fn record(&mut self, regime: Option<Regime>, outcome: Outcome) {
        if let Some(environment) = self.waiting.pop_front() {
            self.evidence.push(Sample { environment, block: self.blocks - 1, regime, outcome });
        }
    }

    /// What was found so far.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// What is known so far.
    pub fn knowledge(&self) -> Knowledge<'_> {
        Knowledge::new(self.problem, &self.evidence)
    }
}
