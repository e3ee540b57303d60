//! What to measure next.
//!
//! A search proposes blocks of environments; the session adds the reference to each, shuffles it and has it
//! measured. A search is a function of the space, the seed and what was found, so that a journal brings it
//! back to where it was.

mod designs;
mod external;
mod halving;
mod proposer;
mod racing;
mod tpe;

use std::cell::OnceCell;

pub use designs::{Design, Listed};
pub use external::ExternalProposer;
pub use halving::Halving;
pub use proposer::{Proposer, RandomProposer};
pub use racing::{Race, pareto_front};
pub use tpe::TpeProposer;

use farcall_base::Random;

use crate::evidence::Evidence;
use crate::metric::Metric;
use crate::model::{Estimate, Fit};
use crate::space::{Environments, Rows, Space};

/// The most environments of a block beside the reference: what a machine's drift leaves alone.
pub const BLOCK_MAX: usize = 24;

/// A way to search.
pub trait Search {
    /// The environments of the next block, without the reference; `None` when the search is done.
    fn next(&mut self, known: &Knowledge) -> Result<Option<Vec<usize>>, SearchError>;

    /// About how many samples it will still take, the reference included.
    fn remaining(&self) -> usize;
}

/// Why a search cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The program that proposes does not do its part.
    #[error("the proposer `{program}` {what}")]
    Proposer {
        /// The program.
        program: String,
        /// What it does instead.
        what: String,
    },
}

/// Divides environments into blocks of about equal size, at random.
fn divide(environments: &[usize], random: &mut Random) -> Vec<Vec<usize>> {
    let mut shuffled = environments.to_vec();
    random.shuffle(&mut shuffled);
    let blocks = shuffled.len().div_ceil(BLOCK_MAX).max(1);
    let size = shuffled.len().div_ceil(blocks).max(1);
    shuffled.chunks(size).map(<[usize]>::to_vec).collect()
}

/// What does not change while searching.
pub struct Problem {
    /// The space.
    pub space: Space,
    /// Its rows.
    pub rows: Rows,
    /// What is different among them.
    pub environments: Environments,
    /// The environment that everything is compared with.
    pub reference: usize,
    /// What is measured; the first one is an objective.
    pub metrics: Vec<Metric>,
}

impl Problem {
    /// Puts the parts together.
    pub fn new(space: Space, rows: Rows, metrics: Vec<Metric>) -> Self {
        let environments = Environments::of(&space, &rows);
        let reference = environments.of_row(rows.reference(&space));
        Self { space, rows, environments, reference, metrics }
    }

    /// The row that stands for an environment.
    pub fn row(&self, environment: usize) -> &[u16] {
        self.rows.row(self.environments.representative(environment))
    }

    /// The environments that differ from one in a single level, with the parameter and the level.
    pub fn neighbours(&self, environment: usize) -> Vec<(usize, usize, usize)> {
        let row = self.row(environment);
        let mut found = Vec::new();
        for (index, parameter) in self.space.parameters.iter().enumerate() {
            for level in (0..parameter.levels.len()).filter(|level| *level != usize::from(row[index])) {
                let changed = self.space.with_level(row, index, level);
                let neighbour =
                    changed.and_then(|row| self.rows.find(&row)).map(|row| self.environments.of_row(row));
                found.extend(neighbour.filter(|one| *one != environment).map(|one| (one, index, level)));
            }
        }
        found
    }

    /// The objectives among the metrics, by their numbers.
    pub fn objectives(&self) -> Vec<usize> {
        (0..self.metrics.len()).filter(|&index| self.metrics[index].is_objective()).collect()
    }

    /// All levels of all parameters together.
    pub fn levels(&self) -> usize {
        self.space.parameters.iter().map(|parameter| parameter.levels.len()).sum()
    }
}

/// What is known at some moment.
pub struct Knowledge<'a> {
    /// What does not change.
    pub problem: &'a Problem,
    /// What was measured.
    pub evidence: &'a Evidence,
    fits: Vec<OnceCell<Fit>>,
}

impl<'a> Knowledge<'a> {
    /// What is known from this evidence.
    pub fn new(problem: &'a Problem, evidence: &'a Evidence) -> Self {
        Self { problem, evidence, fits: problem.metrics.iter().map(|_| OnceCell::new()).collect() }
    }

    /// The fit of a metric; made once, when it is asked for.
    pub fn fit(&self, metric: usize) -> &Fit {
        let Problem { space, rows, environments, .. } = self.problem;
        let observations = || self.evidence.observations(metric);
        self.fits[metric].get_or_init(|| Fit::new(space, rows, environments, &observations()))
    }

    /// How much worse each environment is than `base`, in the logarithm of a metric.
    pub fn worse(&self, metric: usize, base: usize) -> Vec<Estimate> {
        let sign = self.problem.metrics[metric].sign();
        let flip = |one: Estimate| Estimate { mean: sign * one.mean, ..one };
        self.fit(metric).differences(base).into_iter().map(flip).collect()
    }

    /// How much worse an environment is than another one, in the logarithm of a metric.
    pub fn worse_than(&self, metric: usize, environment: usize, base: usize) -> Estimate {
        let difference = self.fit(metric).difference(environment, base);
        Estimate { mean: self.problem.metrics[metric].sign() * difference.mean, ..difference }
    }

    /// Whether each environment may still be proposed: it does not fail, and breaks no guard beyond doubt.
    pub fn eligible(&self, certainty: f64) -> Vec<bool> {
        let mut eligible = vec![true; self.problem.environments.len()];
        self.evidence.failing().into_iter().for_each(|failing| eligible[failing] = false);
        for (index, metric) in self.problem.metrics.iter().enumerate().filter(|(_, one)| !one.is_objective())
        {
            let worse = self.worse(index, self.problem.reference);
            for (one, estimate) in eligible.iter_mut().zip(worse) {
                *one &= estimate.mean - certainty * estimate.error <= metric.width();
            }
        }
        eligible
    }
}
