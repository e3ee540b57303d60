//! An objective under watch: how far the cores are apart is measured before and after each trial.
//!
//! On a virtual machine the host moves the cores, and everything that passes messages becomes four times
//! slower or faster. A trial during which that happened is repeated; trials of one block in different regimes
//! are not compared.

use std::sync::Arc;

use farcall_lab::run::bench::Bench;
use farcall_lab::run::regime::regime_between;

use super::{Objective, ObjectiveError, TrialFinding};
use crate::search::Problem;
use crate::session::Trial;

/// How often a trial is tried while the cores move.
const TRIES: usize = 3;

/// Watches an objective.
pub struct Watched<O> {
    inner: O,
    bench: Arc<Bench>,
}

impl<O> Watched<O> {
    /// Watches the cores of a bench.
    pub fn new(inner: O, bench: Arc<Bench>) -> Self {
        Self { inner, bench }
    }

    fn distance(&self) -> Result<f64, ObjectiveError> {
        let failed = |error: farcall_lab::run::bench::BenchError| ObjectiveError::System {
            what: "measure how far the cores are apart".to_owned(),
            reason: error.to_string(),
        };
        self.bench.distance_nanos().map_err(failed)
    }
}

impl<O: Objective> Objective for Watched<O> {
    fn measure(&mut self, problem: &Problem, trial: &Trial) -> Result<TrialFinding, ObjectiveError> {
        let mut before = self.distance()?;
        let mut tries = 0;
        loop {
            let finding = self.inner.measure(problem, trial)?;
            let after = self.distance()?;
            let regime = regime_between(before, after);
            tries += 1;
            // What moved all the time stays without a regime: it will be compared with nothing else.
            if regime.is_some() || tries == TRIES {
                return Ok(TrialFinding { regime, ..finding });
            }
            before = after;
        }
    }
}
