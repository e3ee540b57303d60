//! A rehearsal: the plan as it is, on a synthetic landscape instead of the machine.

use super::{Objective, ObjectiveError, TrialFinding, measured};
use crate::landscape::{Landscape, Shape};
use crate::metric::Goal;
use crate::search::Problem;
use crate::session::Trial;

/// Measures landscapes, one for each metric.
pub struct Rehearsal {
    landscapes: Vec<Landscape>,
}

impl Rehearsal {
    /// Landscapes that `seed` decides.
    pub fn new(problem: &Problem, shape: Shape, seed: u64) -> Self {
        let Problem { space, rows, environments, metrics, .. } = problem;
        let landscape = |index: usize| Landscape::new(space, rows, environments, shape, seed + index as u64);
        Self { landscapes: (0..metrics.len()).map(landscape).collect() }
    }

    /// By what share an environment is worse in truth than the best there is, for one metric.
    pub fn regret(&self, metric: usize, environment: usize) -> f64 {
        let landscape = &self.landscapes[metric];
        landscape.truth(environment) / landscape.truth(landscape.best()) - 1.0
    }
}

impl Objective for Rehearsal {
    fn measure(&mut self, problem: &Problem, trial: &Trial) -> Result<TrialFinding, ObjectiveError> {
        let value = |(landscape, metric): (&Landscape, &crate::metric::Metric)| {
            let cost = landscape.measure(trial.environment, trial.number);
            match metric.goal {
                Goal::Min => cost,
                Goal::Max => 1e6 / cost,
            }
        };
        let values = self.landscapes.iter().zip(&problem.metrics).map(value).collect();
        Ok(TrialFinding { regime: None, outcome: measured(problem, values), begun_ms: None, seconds: None })
    }
}
