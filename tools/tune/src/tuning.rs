//! A tuning in its directory: the session, its journal, and what runs the trials.

use std::collections::VecDeque;
use std::path::Path;

use crate::evidence::{Evidence, TrialOutcome};
use crate::experiment::StrategyName;
use crate::journal::{Begin, Entry, Journal, JournalError, Line, Proposal, SCHEMA};
use crate::objective::{Objective, ObjectiveError};
use crate::plan::Plan;
use crate::search::Problem;
use crate::session::{Session, SessionError};

/// Why a tuning cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TuningError {
    /// The journal cannot be written or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The search cannot go on, or nothing runs.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A trial could not even be tried.
    #[error(transparent)]
    Objective(#[from] ObjectiveError),
}

/// A tuning that is being done.
pub struct Tuning<'a> {
    problem: &'a Problem,
    session: Session<'a>,
    journal: Option<Journal>,
    /// With a proposer outside: how many blocks have their proposals in the journal.
    proposals: Option<usize>,
}

impl<'a> Tuning<'a> {
    /// Begins one; without a directory nothing is kept.
    pub fn begin(problem: &'a Problem, plan: &Plan, directory: Option<&Path>) -> Result<Self, TuningError> {
        let metrics = problem.metrics.iter().map(|metric| metric.name.clone()).collect();
        let begin = Begin { schema: SCHEMA.to_owned(), plan: plan.clone(), metrics };
        let journal = directory.map(|directory| Journal::create(directory, &begin)).transpose()?;
        Self::new(problem, plan, journal, VecDeque::new())
    }

    /// What a journal holds, only to see what it comes to: whichever version of the search made it.
    pub fn recorded(problem: &'a Problem, lines: &[Line]) -> Result<Self, TuningError> {
        let (mut evidence, mut confirmed_from) = (Evidence::default(), None);
        for (index, line) in lines.iter().enumerate() {
            let Line::Trial(entry) = line else { continue };
            evidence.push(entry.sample(problem).ok_or(JournalError::Foreign { line: index + 2 })?);
            if entry.confirms {
                confirmed_from.get_or_insert(entry.block);
            }
        }
        let session = Session::recorded(problem, evidence, confirmed_from);
        Ok(Self { problem, session, journal: None, proposals: None })
    }

    /// Goes on with what a journal holds.
    pub fn resume(
        problem: &'a Problem,
        begin: &Begin,
        journal: Journal,
        lines: &[Line],
    ) -> Result<Self, TuningError> {
        let proposals = lines.iter().filter_map(|line| match line {
            Line::Proposal(Proposal { block, proposed }) if *block > 0 => Some(proposed.clone()),
            _ => None,
        });
        let mut tuning = Self::new(problem, &begin.plan, Some(journal), proposals.collect())?;
        for (index, line) in lines.iter().enumerate() {
            let foreign = JournalError::Foreign { line: index + 2 };
            match line {
                Line::Proposal(proposal) => tuning.proposals = Some(proposal.block + 1),
                Line::Trial(entry) => {
                    let trial = tuning.session.next_trial()?.filter(|trial| entry.is_of(problem, trial));
                    let outcome = trial.and_then(|_| entry.outcome(problem.metrics.len()));
                    let (regime, outcome) = outcome.ok_or(foreign)?;
                    tuning.session.record(regime, outcome);
                }
            }
        }
        Ok(tuning)
    }

    /// Runs the finalists of an earlier tuning against the reference again; nothing is journalled.
    pub fn of_finalists(problem: &'a Problem, finalists: Vec<usize>, blocks: usize, seed: u64) -> Self {
        let session = Session::of_finalists(problem, finalists, blocks, seed);
        Self { problem, session, journal: None, proposals: None }
    }

    fn new(
        problem: &'a Problem,
        plan: &Plan,
        journal: Option<Journal>,
        recorded: VecDeque<Vec<usize>>,
    ) -> Result<Self, TuningError> {
        let search = plan.search(problem, recorded).map_err(SessionError::from)?;
        let session = Session::new(problem, search, plan.confirm, plan.seed);
        let proposals = (plan.strategy == StrategyName::Proposer).then_some(0);
        Ok(Self { problem, session, journal, proposals })
    }

    /// Runs the next trial; false when there is none.
    pub fn step(&mut self, objective: &mut dyn Objective) -> Result<bool, TuningError> {
        let Some(trial) = self.session.next_trial()? else { return Ok(false) };
        if let (Some(journal), Some(written)) = (&mut self.journal, &mut self.proposals)
            && trial.block >= *written
        {
            let proposed = self.session.proposed().to_vec();
            journal.append(&Line::Proposal(Proposal { block: trial.block, proposed }))?;
            *written = trial.block + 1;
        }
        let finding = objective.measure(self.problem, &trial)?;
        // A reference that does not run ends the tuning, and is tried again when the tuning is resumed.
        let lasting = trial.block > 0 || matches!(finding.outcome, TrialOutcome::Measured(_));
        if let Some(journal) = self.journal.as_mut().filter(|_| lasting) {
            let confirms = self.session.confirmed_from().is_some();
            journal.append(&Line::Trial(Entry::new(self.problem, &trial, &finding, confirms)))?;
        }
        self.session.record(finding.regime, finding.outcome);
        Ok(true)
    }

    /// The session.
    pub fn session(&self) -> &Session<'a> {
        &self.session
    }
}
