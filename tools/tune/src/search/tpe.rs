//! Screening by a model: tree-structured Parzen estimators (Bergstra et al. 2011), one for each parameter.

use rand::SeedableRng;
use rand::rngs::StdRng;
use tpe::{TpeOptimizer, categorical_range, histogram_estimator};

use super::proposer::nearest_row;
use super::{Knowledge, Problem, Proposer, SearchError};
use crate::evidence::TrialOutcome;

/// The most proposals that are made at once: the model learns from each batch.
const BATCH: usize = 12;

/// The proposer.
pub struct TpeProposer {
    random: StdRng,
    optimizers: Vec<TpeOptimizer>,
    told: usize,
}

impl TpeProposer {
    /// A proposer for the first metric.
    pub fn new(problem: &Problem, seed: u64) -> Self {
        let optimizer = |parameter: &crate::space::Parameter| {
            let range = categorical_range(parameter.levels.len()).expect("a parameter has a level");
            TpeOptimizer::new(histogram_estimator(), range)
        };
        let optimizers = problem.space.parameters.iter().map(optimizer).collect();
        Self { random: StdRng::seed_from_u64(seed), optimizers, told: 0 }
    }

    /// Tells the models how much worse than the reference of its block each new sample is.
    fn tell(&mut self, known: &Knowledge) {
        let Knowledge { problem, evidence, .. } = known;
        let samples = evidence.samples();
        for sample in &samples[self.told..] {
            let TrialOutcome::Measured(values) = &sample.outcome else { continue };
            let references = samples.iter().filter(|other| {
                other.environment == problem.reference
                    && (other.block, other.regime) == (sample.block, sample.regime)
            });
            let reference = references.into_iter().find_map(|other| match &other.outcome {
                TrialOutcome::Measured(values) => Some(values[0]),
                TrialOutcome::Censored(_) => None,
            });
            let Some(reference) = reference else { continue };
            let worse = problem.metrics[0].sign() * (values[0] / reference).ln();
            for (optimizer, &level) in self.optimizers.iter_mut().zip(problem.row(sample.environment)) {
                if level != crate::space::NOT_IN_PLAY {
                    // Only values that are not numbers are refused, and these are not told.
                    let _ = optimizer.tell(f64::from(level), worse);
                }
            }
        }
        self.told = samples.len();
    }
}

impl Proposer for TpeProposer {
    fn propose(&mut self, known: &Knowledge, count: usize) -> Result<Vec<usize>, SearchError> {
        self.tell(known);
        let mut proposed = Vec::new();
        for _ in 0..count.min(BATCH) {
            let wanted: Vec<Option<u16>> = self
                .optimizers
                .iter_mut()
                .map(|optimizer| optimizer.ask(&mut self.random).ok().map(|level| level as u16))
                .collect();
            let environment = known.problem.environments.of_row(nearest_row(known.problem, &wanted));
            if !proposed.contains(&environment) {
                proposed.push(environment);
            }
        }
        Ok(proposed)
    }
}
