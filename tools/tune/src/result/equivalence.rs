//! The equivalence set: environments of which none can be said to be worse than the best.

use crate::model::normal::quantile;
use crate::search::{Knowledge, pareto_front};

/// How sure the equivalence set is to contain the best environment.
pub const CONFIDENCE: f64 = 0.95;

/// The most members of a Pareto front that are run again.
const FRONT_MAX: usize = 6;

/// Environments of which none can be said to be worse than the best by more than the indifference width.
#[derive(Clone, Debug, PartialEq)]
pub struct EquivalenceSet {
    /// The one with the best fitted value among those that were measured.
    pub best: usize,
    /// The member with the fewest changes from the defaults, of those that were measured: a member of which
    /// nobody can say that a more complicated one is better.
    pub simplest: usize,
    /// The member with the fewest changes of all, measured or not: it is worth being measured.
    pub fewest: usize,
    /// All that belong to it, the best included, best first.
    pub members: Vec<usize>,
}

impl EquivalenceSet {
    /// The set for one metric; `None` when nothing that may be chosen was measured.
    ///
    /// An environment is left out when it is worse than the best by more than the indifference width with an
    /// error probability of 5 % for all environments together (Bonferroni). One that was never measured is
    /// judged by its levels and by how much environments of equal levels differ.
    pub fn new(known: &Knowledge, metric: usize) -> Option<Self> {
        let problem = known.problem;
        let certainty = simultaneous(problem.environments.len());
        let eligible = known.eligible(certainty);
        if known.evidence.observations(metric).is_empty() {
            return None;
        }
        let fit = known.fit(metric);
        let sign = problem.metrics[metric].sign();
        let measured = (0..eligible.len()).filter(|&one| eligible[one] && fit.samples(one) > 0);
        let best =
            measured.min_by(|&one, &other| (sign * fit.value(one)).total_cmp(&(sign * fit.value(other))))?;
        let worse = known.worse(metric, best);
        let width = problem.metrics[metric].width();
        let belongs = |&one: &usize| eligible[one] && worse[one].mean - certainty * worse[one].error <= width;
        let mut members: Vec<usize> = (0..worse.len()).filter(belongs).collect();
        members.sort_by(|&one, &other| worse[one].mean.total_cmp(&worse[other].mean));
        // The first of several with equally few changes is the best of them.
        let changes = |one: &usize| problem.space.changes(problem.row(*one));
        let fewest = members.iter().copied().min_by_key(changes).unwrap_or(best);
        let candidates = members.iter().copied().filter(|&one| fit.samples(one) > 0);
        let simplest = candidates.min_by_key(changes).unwrap_or(best);
        Some(Self { best, simplest, fewest, members })
    }
}

/// The environments that are worth another comparison with the reference, which is not among them.
pub fn finalists(known: &Knowledge) -> Vec<usize> {
    let mut finalists = match known.problem.objectives()[..] {
        [metric] => match EquivalenceSet::new(known, metric) {
            Some(set) => vec![set.best, set.simplest, set.fewest],
            None => Vec::new(),
        },
        _ => spread(&pareto_front(known), FRONT_MAX),
    };
    finalists.sort_unstable();
    finalists.dedup();
    finalists.retain(|one| *one != known.problem.reference);
    finalists
}

/// At most `count` of a list, with its ends and evenly between.
fn spread(list: &[usize], count: usize) -> Vec<usize> {
    if list.len() <= count {
        return list.to_vec();
    }
    (0..count).map(|index| list[index * (list.len() - 1) / (count - 1)]).collect()
}

/// How many standard errors make [`CONFIDENCE`] for `count` comparisons at once.
pub fn simultaneous(count: usize) -> f64 {
    quantile(1.0 - (1.0 - CONFIDENCE) / count.max(1) as f64)
}
