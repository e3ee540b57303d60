//! Which parameters matter: over the whole space, around the best, and on the way to it. The three answer
//! different questions: a parameter can move everything and yet have its best value by default.

use serde::Serialize;

use super::equivalence::simultaneous;
use super::summary::Percent;
use crate::model::{Effect, Fit};
use crate::search::{Knowledge, Problem};

/// Into how many parts the blocks are divided to see how much the shares depend on single blocks (jackknife).
const PARTS: usize = 8;

/// Of a t distribution with [`PARTS`] - 1 degrees of freedom, 95 % lie within this many standard errors.
const T_95: f64 = 2.365;

/// A parameter, or a pair that acts together, over the whole space.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Importance {
    /// The names.
    pub parameters: Vec<String>,
    /// The share of the variance over the space that is not noise.
    pub share: f64,
    /// The 95 % interval of the share.
    pub share_low: f64,
    /// Its other end.
    pub share_high: f64,
    /// The standard deviation of the effect over the space, as a share of the figure.
    pub spread: f64,
}

/// What another level of a parameter would cost, everything else as in the best.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LocalEffect {
    /// The parameter.
    pub parameter: String,
    /// The level that the best has.
    pub best: String,
    /// The level that costs the most.
    pub worst: String,
    /// How much worse that is.
    pub cost: Percent,
    /// By how much it changes the figure.
    pub change: Percent,
}

/// One change on the way from the reference to the best.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathStep {
    /// The parameters that change; several where one change alone is not valid.
    pub changes: Vec<String>,
    /// By how much the figure has changed so far, against the reference.
    pub change: Percent,
    /// By how much this step alone changes it.
    pub alone: Percent,
    /// Whether that is more than noise.
    pub credited: bool,
}

/// All three for a metric with its best environment.
pub fn importance(
    known: &Knowledge,
    metric: usize,
    best: usize,
) -> (Vec<Importance>, Vec<LocalEffect>, Vec<PathStep>) {
    (global(known, metric), local(known, metric, best), path(known, metric, best))
}

fn global(known: &Knowledge, metric: usize) -> Vec<Importance> {
    let problem = known.problem;
    let whole = known.fit(metric).effects();
    let without = |part: usize| {
        let observations = known.evidence.observations_of(metric, |block| block % PARTS != part);
        let fit = |_| Fit::new(&problem.space, &problem.rows, &problem.environments, &observations).effects();
        (!observations.is_empty()).then_some(()).map(fit)
    };
    let parts: Vec<Vec<Effect>> = (0..PARTS).filter_map(without).collect();
    let entry = |effect: &Effect| {
        let share_in = |effects: &Vec<Effect>| {
            effects
                .iter()
                .find(|other| other.parameters == effect.parameters)
                .map_or(0.0, |other| other.share)
        };
        let shares: Vec<f64> = parts.iter().map(share_in).collect();
        let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
        let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
        let count = shares.len().max(1) as f64;
        let error = (squares * (count - 1.0) / count).sqrt();
        Importance {
            parameters: effect
                .parameters
                .iter()
                .map(|&one| problem.space.parameters[one].name.clone())
                .collect(),
            share: effect.share,
            share_low: (effect.share - T_95 * error).max(0.0),
            share_high: (effect.share + T_95 * error).min(1.0),
            spread: effect.spread.exp_m1(),
        }
    };
    whole.iter().map(entry).collect()
}

fn local(known: &Knowledge, metric: usize, best: usize) -> Vec<LocalEffect> {
    let problem = known.problem;
    let row = problem.row(best);
    let mut effects: Vec<LocalEffect> = Vec::new();
    for (environment, parameter, level) in problem.neighbours(best) {
        let cost = Percent::of(known.worse_than(metric, environment, best));
        let described = &problem.space.parameters[parameter];
        let effect = LocalEffect {
            parameter: described.name.clone(),
            best: described.show(row[parameter].into()),
            worst: described.show(level),
            cost,
            change: Percent::of(known.fit(metric).difference(environment, best)),
        };
        match effects.iter_mut().find(|other| other.parameter == effect.parameter) {
            Some(other) if other.cost.percent >= effect.cost.percent => {}
            Some(other) => *other = effect,
            None => effects.push(effect),
        }
    }
    effects.sort_by(|one, other| other.cost.percent.total_cmp(&one.cost.percent));
    effects
}

/// Ablation (Fawcett and Hoos 2016): at each step the change that gains the most by the fit, among those that
/// are valid.
fn path(known: &Knowledge, metric: usize, best: usize) -> Vec<PathStep> {
    let problem = known.problem;
    let target = problem.row(best);
    let mut row = problem.row(problem.reference).to_vec();
    let mut before = problem.reference;
    let mut steps = Vec::new();
    loop {
        let differing: Vec<usize> = (0..row.len()).filter(|&index| row[index] != target[index]).collect();
        if differing.is_empty() {
            return steps;
        }
        let candidates = differing.iter().filter_map(|&index| {
            let mut changed = row.clone();
            changed[index] = target[index];
            let environment = problem.environments.of_row(problem.rows.find(&changed)?);
            let gain = known.worse_than(metric, problem.reference, environment).mean;
            Some((changed, vec![index], environment, gain))
        });
        let jump = || (target.to_vec(), differing.clone(), best, 0.0);
        let step = candidates.max_by(|one, other| one.3.total_cmp(&other.3));
        let (changed, indexes, environment, _) = step.unwrap_or_else(jump);
        let changes = indexes.iter().map(|&index| change(problem, &row, &changed, index)).collect();
        let so_far = known.fit(metric).difference(environment, problem.reference);
        let alone = known.fit(metric).difference(environment, before);
        let credited = alone.mean.abs() > simultaneous(target.len()) * alone.error;
        steps.push(PathStep { changes, change: Percent::of(so_far), alone: Percent::of(alone), credited });
        (row, before) = (changed, environment);
    }
}

fn change(problem: &Problem, from: &[u16], to: &[u16], index: usize) -> String {
    let parameter = &problem.space.parameters[index];
    let shown = |row: &[u16]| match row[index] {
        crate::space::NOT_IN_PLAY => "-".to_owned(),
        level => parameter.show(level.into()),
    };
    format!("{}: {} -> {}", parameter.name, shown(from), shown(to))
}
