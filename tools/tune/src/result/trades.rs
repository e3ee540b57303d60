//! What is good for one objective and bad for another: after tuning for small messages, large ones suffer.

use serde::Serialize;

use super::summary::Percent;
use crate::model::Estimate;
use crate::search::Knowledge;

/// Another value of one parameter, everything else as in the reference, which helps one objective and harms
/// another, each with 95 % confidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trade {
    /// The parameter.
    pub parameter: String,
    /// Its value in the reference.
    pub from: String,
    /// The other value.
    pub to: String,
    /// By how much each objective changes, in the order of the objectives.
    pub changes: Vec<Percent>,
}

/// All of them, those that harm the most first; none with a single objective.
pub(super) fn trades(known: &Knowledge) -> Vec<Trade> {
    let problem = known.problem;
    let objectives = problem.objectives();
    let row = problem.row(problem.reference);
    let mut found: Vec<(f64, Trade)> = Vec::new();
    for (environment, parameter, level) in problem.neighbours(problem.reference) {
        let worse: Vec<Estimate> = objectives
            .iter()
            .map(|&metric| known.worse_than(metric, environment, problem.reference))
            .collect();
        let harms = worse.iter().copied().map(Percent::of).any(|one| one.low > 0.0);
        let helps = worse.iter().copied().map(Percent::of).any(|one| one.high < 0.0);
        if !(harms && helps) {
            continue;
        }
        let change =
            |&metric: &usize| Percent::of(known.fit(metric).difference(environment, problem.reference));
        let described = &problem.space.parameters[parameter];
        let trade = Trade {
            parameter: described.name.clone(),
            from: described.show(row[parameter].into()),
            to: described.show(level),
            changes: objectives.iter().map(change).collect(),
        };
        let most = worse.iter().map(|one| one.mean).fold(f64::MIN, f64::max);
        found.push((most, trade));
    }
    found.sort_by(|one, other| other.0.total_cmp(&one.0));
    found.into_iter().map(|(_, trade)| trade).collect()
}
