//! What the samples come to: the settings that cannot be told apart from the best.

use crate::model::normal::quantile;
use crate::search::Knowledge;

/// How sure the equivalence set is to contain the best environment.
pub const CONFIDENCE: f64 = 0.95;

/// Environments of which none can be said to be worse than the best by more than the indifference width.
#[derive(Clone, Debug, PartialEq)]
pub struct EquivalenceSet {
    /// The one with the best fitted value among those that were measured.
    pub best: usize,
    /// All that belong to it, the best included, best first.
    pub members: Vec<usize>,
}

impl EquivalenceSet {
    /// The set for one metric.
    ///
    /// An environment is left out when it is worse than the best by more than the indifference width with an error
    /// probability of 5 % for all environments together (Bonferroni). One that was never measured is judged by its levels
    /// and by how much environments of equal levels differ.
    pub fn new(known: &Knowledge, metric: usize) -> Option<Self> {
        let certainty = simultaneous(known.problem.environments.len());
        let eligible = known.eligible(certainty);
        let fit = known.fit(metric);
        let sign = known.problem.metrics[metric].sign();
        let measured = (0..eligible.len()).filter(|&one| eligible[one] && fit.samples(one) > 0);
        let best =
            measured.min_by(|&one, &other| (sign * fit.value(one)).total_cmp(&(sign * fit.value(other))))?;
        let worse = known.worse(metric, best);
        let width = known.problem.metrics[metric].width();
        let mut members: Vec<usize> = (0..worse.len())
            .filter(|&one| eligible[one] && worse[one].mean - certainty * worse[one].error <= width)
            .collect();
        members.sort_by(|&one, &other| worse[one].mean.total_cmp(&worse[other].mean));
        Some(Self { best, members })
    }
}

/// How many standard errors make [`CONFIDENCE`] for `count` comparisons at once.
pub fn simultaneous(count: usize) -> f64 {
    quantile(1.0 - (1.0 - CONFIDENCE) / count.max(1) as f64)
}
