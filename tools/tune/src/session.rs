//! A tuning in flight: one trial after the other, from a search that does not know how they are run.
//!
//! First the reference runs alone: a program that cannot run at all should say so at once. Then the search
//! has its way, and at last the finalists run against the reference in fresh blocks: what made them finalists
//! is no evidence for them.

use std::collections::VecDeque;

use farcall_base::Random;
use farcall_lab::run::regime::Regime;

use crate::evidence::{Censored, Evidence, Sample, TrialOutcome};
use crate::result::finalists;
use crate::search::{Knowledge, Problem, Search, SearchError};

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

/// Why a tuning cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The search cannot.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// Even the reference does not run.
    #[error("the reference configuration does not run: {why}{}", in_log(.log))]
    Reference {
        /// What happened.
        why: String,
        /// The file with what the program said.
        log: Option<String>,
    },
    /// Nothing runs any more.
    #[error("all {trials} trials of a block failed, the last one because {why}{}", in_log(.log))]
    Block {
        /// How many.
        trials: usize,
        /// What happened to the last one.
        why: String,
        /// The file with what the program said.
        log: Option<String>,
    },
}

fn in_log(log: &Option<String>) -> String {
    log.as_ref().map_or(String::new(), |log| format!("; see {log}"))
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Checking,
    Searching,
    Confirming { blocks_left: usize },
    Done,
}

/// A tuning in flight.
pub struct Session<'a> {
    problem: &'a Problem,
    search: Box<dyn Search + 'a>,
    evidence: Evidence,
    random: Random,
    phase: Phase,
    waiting: VecDeque<usize>,
    /// The environments of this block as the search proposed them.
    proposed: Vec<usize>,
    blocks: usize,
    confirmation_blocks: usize,
    /// The first block of the confirmation.
    confirmed_from: Option<usize>,
    finalists: Vec<usize>,
    /// Finalists that come from elsewhere.
    given: Option<Vec<usize>>,
}

impl<'a> Session<'a> {
    /// The beginning; `seed` decides the order within blocks, `confirmation_blocks` how often finalists are
    /// run again.
    pub fn new(
        problem: &'a Problem,
        search: Box<dyn Search + 'a>,
        confirmation_blocks: usize,
        seed: u64,
    ) -> Self {
        Self {
            problem,
            search,
            evidence: Evidence::default(),
            random: Random::new(seed ^ 0x6f72_6465),
            phase: Phase::Checking,
            waiting: VecDeque::new(),
            proposed: Vec::new(),
            blocks: 0,
            confirmation_blocks,
            confirmed_from: None,
            finalists: Vec::new(),
            given: None,
        }
    }

    /// A session that only runs `finalists` against the reference, as after a search.
    pub fn of_finalists(problem: &'a Problem, finalists: Vec<usize>, blocks: usize, seed: u64) -> Self {
        let nothing = Box::new(crate::search::Listed::of(&[], 0));
        let mut session = Self::new(problem, nothing, blocks, seed);
        session.given = Some(finalists);
        session
    }

    /// A session that is over, from its samples alone. `confirmed_from` is the first block of its
    /// confirmation.
    pub fn recorded(problem: &'a Problem, evidence: Evidence, confirmed_from: Option<usize>) -> Self {
        let nothing = Box::new(crate::search::Listed::of(&[], 0));
        let mut session = Self::new(problem, nothing, 0, 0);
        let first = confirmed_from.unwrap_or(usize::MAX);
        let confirming = evidence.samples().iter().filter(|sample| sample.block >= first);
        session.finalists = confirming.map(|sample| sample.environment).collect();
        session.finalists.retain(|one| *one != problem.reference);
        session.finalists.sort_unstable();
        session.finalists.dedup();
        session.blocks = evidence.samples().last().map_or(0, |sample| sample.block + 1);
        session.phase = Phase::Done;
        Self { evidence, confirmed_from, ..session }
    }

    /// The next trial; the same one until its outcome is recorded.
    pub fn next_trial(&mut self) -> Result<Option<Trial>, SessionError> {
        while self.waiting.is_empty() {
            self.check_block()?;
            let Some(mut block) = self.next_block()? else { return Ok(None) };
            self.proposed.clone_from(&block);
            // A plan may repeat rows that were found to fail since it was made: a hang costs its whole time
            // limit.
            let failing = self.evidence.failing();
            block.retain(|one| !failing.contains(one));
            if !block.contains(&self.problem.reference) {
                block.push(self.problem.reference);
            }
            self.random.shuffle(&mut block);
            self.waiting = block.into();
            self.blocks += 1;
        }
        let environment = self.waiting[0];
        Ok(Some(Trial { number: self.evidence.samples().len(), block: self.blocks - 1, environment }))
    }

    /// Records what the trial came to that [`Session::next_trial`] gave.
    pub fn record(&mut self, regime: Option<Regime>, outcome: TrialOutcome) {
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

    /// The environments of the present block, as they were proposed.
    pub fn proposed(&self) -> &[usize] {
        &self.proposed
    }

    /// The first block of the confirmation, once there is one.
    pub fn confirmed_from(&self) -> Option<usize> {
        self.confirmed_from
    }

    /// What is run again at the end, once that is known.
    pub fn finalists(&self) -> &[usize] {
        &self.finalists
    }

    /// About how many trials are still to come.
    pub fn remaining(&self) -> usize {
        let confirmation = match self.phase {
            Phase::Checking | Phase::Searching => self.search.remaining() + self.confirmation_blocks * 4,
            Phase::Confirming { blocks_left } => blocks_left * (self.finalists.len() + 1),
            Phase::Done => 0,
        };
        self.waiting.len() + confirmation
    }

    fn next_block(&mut self) -> Result<Option<Vec<usize>>, SessionError> {
        if self.phase == Phase::Checking && self.blocks == 0 {
            return Ok(Some(vec![self.problem.reference]));
        }
        if matches!(self.phase, Phase::Checking | Phase::Searching) {
            self.phase = Phase::Searching;
            let known = Knowledge::new(self.problem, &self.evidence);
            if let Some(block) = self.search.next(&known)? {
                return Ok(Some(block));
            }
            self.finalists = self.given.take().unwrap_or_else(|| finalists(&known));
            let blocks_left = if self.finalists.is_empty() { 0 } else { self.confirmation_blocks };
            self.phase = Phase::Confirming { blocks_left };
        }
        match self.phase {
            Phase::Confirming { blocks_left } if blocks_left > 0 => {
                self.confirmed_from.get_or_insert(self.blocks);
                self.phase = Phase::Confirming { blocks_left: blocks_left - 1 };
                Ok(Some(self.finalists.clone()))
            }
            _ => {
                self.phase = Phase::Done;
                Ok(None)
            }
        }
    }

    /// A block of which nothing ran is the last.
    fn check_block(&self) -> Result<(), SessionError> {
        let Some(last) = self.blocks.checked_sub(1) else { return Ok(()) };
        let trials = self.evidence.samples().iter().rev().take_while(|sample| sample.block == last);
        let failures: Option<Vec<&Censored>> = trials
            .map(|sample| match &sample.outcome {
                TrialOutcome::Censored(censored) => Some(censored),
                TrialOutcome::Measured(_) => None,
            })
            .collect();
        let Some((Censored { why, log }, count)) =
            failures.and_then(|all| Some(((*all.first()?).clone(), all.len())))
        else {
            return Ok(());
        };
        Err(match last {
            0 => SessionError::Reference { why, log },
            _ => SessionError::Block { trials: count, why, log },
        })
    }
}
