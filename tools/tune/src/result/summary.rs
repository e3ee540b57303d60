//! Everything that is worth saying about a tuning, as data.

use std::collections::{BTreeMap, BTreeSet};

use farcall_lab::statistics::bootstrap::{median, ratio_of_medians};
use serde::{Deserialize, Serialize};

use super::equivalence::{CONFIDENCE, EquivalenceSet};
use super::importance::{Importance, LocalEffect, PathStep, importance};
use super::trades::{Trade, trades};
use crate::evidence::{Sample, TrialOutcome};
use crate::metric::Goal;
use crate::model::Estimate;
use crate::model::normal::{expected_greatest, quantile};
use crate::search::{Knowledge, Problem, pareto_front};
use crate::session::Session;

/// The share of environments in the equivalence set from which on nothing matters.
const NEARLY_ALL: f64 = 0.9;

/// A difference of which half of the configurations can be no surer than this is not known.
const MARGIN_MAX: f64 = 0.05;

/// The verdict on a finalist that beat the reference.
const BETTER: &str = "better";

/// A tuning's result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How many trials there were.
    pub trials: usize,
    /// How many of them have no figures.
    pub failed: usize,
    /// Rows of the space, or those that were drawn from it.
    pub rows: usize,
    /// How many of them are different to the program.
    pub environments: usize,
    /// How many of these were measured.
    pub measured: usize,
    /// What was found for each objective.
    pub metrics: Vec<MetricSummary>,
    /// With several objectives: the choices between which only taste can decide.
    pub front: Vec<Choice>,
    /// What helps one objective and harms another.
    pub trades: Vec<Trade>,
    /// The finalists in fresh blocks.
    pub confirmation: Vec<Contrast>,
    /// The reasons of failures, each with how often it was met and an example.
    pub failures: Vec<FailureSummary>,
}

/// What was found for an objective.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricSummary {
    /// Its place among all metrics, guards included: where its figures are in a [`Choice`].
    pub place: usize,
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// What is good.
    pub goal: Goal,
    /// How many trials have a figure.
    pub figures: usize,
    /// How many of these count for nothing, because they are far from what else is known of their rows.
    pub accidents: usize,
    /// The standard deviation of a trial around its row and block, as a share.
    pub noise: f64,
    /// By how much the best of single trials of equal rows would look better than it is, as a share.
    pub optimism: f64,
    /// The best row.
    pub best: Choice,
    /// The member of the set with the fewest changes.
    pub simplest: Choice,
    /// How many rows, and how many environments, cannot be told apart from the best.
    pub set_rows: usize,
    /// How many environments.
    pub set_environments: usize,
    /// How many of these were measured.
    pub set_measured: usize,
    /// Whether the defaults belong to the set.
    pub default_in_set: bool,
    /// Whether (nearly) everything belongs to it.
    pub nothing_matters: bool,
    /// Whether that is because too little was measured.
    pub undecided: bool,
    /// The levels that members of the set have, where that is not all.
    pub set_levels: BTreeMap<String, Vec<String>>,
    /// Which parameters matter over the space.
    pub importance: Vec<Importance>,
    /// Which matter around the best.
    pub local: Vec<LocalEffect>,
    /// The way from the defaults to the best.
    pub path: Vec<PathStep>,
}

/// A row that one may choose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Its levels, as people read them.
    pub row: BTreeMap<String, String>,
    /// In how many parameters it differs from the defaults.
    pub changes: usize,
    /// How often it was measured.
    pub samples: usize,
    /// The median of its figures, for each metric, in its unit.
    pub medians: Vec<Option<f64>>,
    /// What the fit says it costs against the reference, for each metric; negative when it is better.
    pub against_reference: Vec<Percent>,
    /// What the program gets.
    pub environment: BTreeMap<String, String>,
    /// farcall's parameters.
    pub settings: BTreeMap<String, String>,
}

/// A finalist against the reference, in blocks in which both ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contrast {
    /// The finalist.
    pub row: BTreeMap<String, String>,
    /// The metric.
    pub metric: String,
    /// The ratio of the medians of the figures, finalist over reference.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// In how many blocks both have figures.
    pub blocks: usize,
    /// What the interval says.
    pub verdict: &'static str,
}

/// A reason why trials failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureSummary {
    /// The reason.
    pub why: String,
    /// How many trials.
    pub trials: usize,
    /// How many environments.
    pub environments: usize,
    /// The last log.
    pub log: Option<String>,
}

/// A relative difference in percent with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percent {
    /// The difference.
    pub percent: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Percent {
    /// Of a difference of logarithms.
    pub fn of(estimate: Estimate) -> Self {
        let margin = quantile(0.5 + CONFIDENCE / 2.0) * estimate.error;
        let percent = |logarithm: f64| logarithm.exp_m1() * 100.0;
        Self {
            percent: percent(estimate.mean),
            low: percent(estimate.mean - margin),
            high: percent(estimate.mean + margin),
        }
    }
}

impl Summary {
    /// The result so far; `None` when nothing was measured.
    pub fn new(session: &Session) -> Option<Self> {
        let known = session.knowledge();
        let problem = known.problem;
        let metrics: Option<Vec<MetricSummary>> =
            problem.objectives().into_iter().map(|metric| metric_summary(session, &known, metric)).collect();
        let metrics = metrics?;
        let samples = known.evidence.samples();
        let front = if metrics.len() > 1 { pareto_front(&known) } else { Vec::new() };
        Some(Self {
            trials: samples.len(),
            failed: known.evidence.failures().len(),
            rows: problem.rows.len(),
            environments: problem.environments.len(),
            measured: measured_environments(samples),
            metrics,
            front: front.into_iter().map(|one| Choice::new(&known, one)).collect(),
            trades: trades(&known),
            confirmation: confirmation(session, &known),
            failures: failures(&known),
        })
    }
}

/// How many environments have figures, whether a fit believes them or not.
fn measured_environments(samples: &[Sample]) -> usize {
    let measured = samples.iter().filter(|sample| matches!(sample.outcome, TrialOutcome::Measured(_)));
    measured.map(|sample| sample.environment).collect::<BTreeSet<_>>().len()
}

fn metric_summary(session: &Session, known: &Knowledge, metric: usize) -> Option<MetricSummary> {
    let problem = known.problem;
    let mut set = EquivalenceSet::new(known, metric)?;
    let beaten = is_reference_beaten(session, known, metric);
    if beaten {
        // What fresh blocks show goes before what the fit of everything leaves open.
        set.members.retain(|one| *one != problem.reference);
    }
    if session.confirmed_from().is_some() {
        // What was run again is known better than what was met a few times.
        let reference = (!beaten).then_some(problem.reference);
        let confirmed = session.finalists().iter().copied().chain(reference);
        let members = confirmed.filter(|one| set.members.contains(one));
        let simplest = members.min_by_key(|&one| problem.space.changes(problem.row(one)));
        set.simplest = simplest.unwrap_or(set.best);
    }
    let fit = known.fit(metric);
    let (importance, local, path) = importance(known, metric, set.best);
    let described = &problem.metrics[metric];
    let is_all = set.members.len() as f64 >= NEARLY_ALL * problem.environments.len() as f64;
    Some(MetricSummary {
        place: metric,
        name: described.name.clone(),
        unit: described.unit.clone(),
        goal: described.goal,
        figures: known.evidence.observations(metric).len(),
        accidents: fit.accidents(),
        noise: fit.noise(),
        optimism: (fit.noise() * expected_greatest(problem.environments.len())).exp_m1(),
        best: Choice::new(known, set.best),
        simplest: Choice::new(known, set.simplest),
        set_rows: set.members.iter().map(|&one| problem.environments.rows_of(one)).sum(),
        set_environments: set.members.len(),
        set_measured: set.members.iter().filter(|&&one| fit.samples(one) > 0).count(),
        default_in_set: set.members.contains(&problem.reference),
        nothing_matters: is_all && !beaten,
        undecided: is_all && !beaten && is_undecided(known, metric, set.best),
        set_levels: set_levels(problem, &set.members),
        importance,
        local,
        path,
    })
}

/// Whether a finalist was better than the reference in the fresh blocks.
fn is_reference_beaten(session: &Session, known: &Knowledge, metric: usize) -> bool {
    let name = &known.problem.metrics[metric].name;
    confirmation(session, known).iter().any(|contrast| contrast.metric == *name && contrast.verdict == BETTER)
}

/// Whether differences that matter could hide in what is not known: half of the configurations may be that
/// much better or worse than the best looks.
fn is_undecided(known: &Knowledge, metric: usize, best: usize) -> bool {
    let described = &known.problem.metrics[metric];
    let mut errors: Vec<f64> = known.worse(metric, best).iter().map(|one| one.error).collect();
    errors.sort_unstable_by(f64::total_cmp);
    let margin = quantile(0.5 + CONFIDENCE / 2.0) * errors[errors.len() / 2];
    margin > MARGIN_MAX.max(described.width())
}

/// The levels that occur among environments, for parameters of which not all levels of the space occur.
fn set_levels(problem: &Problem, members: &[usize]) -> BTreeMap<String, Vec<String>> {
    let mut levels = BTreeMap::new();
    for (index, parameter) in problem.space.parameters.iter().enumerate() {
        let met = |environments: &mut dyn Iterator<Item = usize>| {
            let mut met = vec![false; parameter.levels.len()];
            environments.for_each(|one| {
                if let Some(met) = met.get_mut(usize::from(problem.row(one)[index])) {
                    *met = true;
                }
            });
            met
        };
        let inside = met(&mut members.iter().copied());
        if inside != met(&mut (0..problem.environments.len())) {
            let shown = (0..inside.len()).filter(|&level| inside[level]).map(|level| parameter.show(level));
            levels.insert(parameter.name.clone(), shown.collect());
        }
    }
    levels
}

impl Choice {
    /// What is known of an environment.
    pub fn new(known: &Knowledge, environment: usize) -> Self {
        let problem = known.problem;
        let row = problem.row(environment);
        let rendered = problem.space.render(row, "");
        let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
        let medians = |metric: usize| {
            let figures: Vec<f64> = known
                .evidence
                .samples()
                .iter()
                .filter(|sample| sample.environment == environment)
                .filter_map(|sample| match &sample.outcome {
                    TrialOutcome::Measured(values) => Some(values[metric]),
                    TrialOutcome::Censored(_) => None,
                })
                .collect();
            median(&figures)
        };
        let against = |metric: usize| {
            // As a change of the figure itself, whatever is good.
            Percent::of(known.fit(metric).difference(environment, problem.reference))
        };
        Self {
            row: problem.space.describe(row).into_iter().collect(),
            changes: problem.space.changes(row),
            samples: known.fit(0).samples(environment),
            medians: (0..problem.metrics.len()).map(medians).collect(),
            against_reference: (0..problem.metrics.len()).map(against).collect(),
            environment: rendered.environment().map(owned).collect(),
            settings: rendered.settings().map(owned).collect(),
        }
    }
}

/// The finalists against the reference, in the blocks after the search.
fn confirmation(session: &Session, known: &Knowledge) -> Vec<Contrast> {
    let Some(first) = session.confirmed_from() else { return Vec::new() };
    let problem = known.problem;
    let fresh: Vec<_> = known.evidence.samples().iter().filter(|sample| sample.block >= first).collect();
    let mut finalists: Vec<usize> = fresh.iter().map(|sample| sample.environment).collect();
    finalists.sort_unstable();
    finalists.dedup();
    finalists.retain(|one| *one != problem.reference);
    let mut contrasts = Vec::new();
    for &finalist in &finalists {
        for (metric, described) in problem.metrics.iter().enumerate() {
            let value = |environment: usize, block: usize, regime| {
                fresh.iter().find_map(|sample| match &sample.outcome {
                    TrialOutcome::Measured(values)
                        if (sample.environment, sample.block, sample.regime)
                            == (environment, block, regime) =>
                    {
                        Some(values[metric])
                    }
                    _ => None,
                })
            };
            let own = fresh.iter().filter(|sample| sample.environment == finalist);
            let pairs: Vec<(f64, f64)> = own
                .filter_map(|sample| {
                    let reference = value(problem.reference, sample.block, sample.regime)?;
                    Some((value(finalist, sample.block, sample.regime)?, reference))
                })
                .collect();
            let Some(ratio) = ratio_of_medians(&pairs, finalist as u64) else { continue };
            contrasts.push(Contrast {
                row: problem.space.describe(problem.row(finalist)).into_iter().collect(),
                metric: described.name.clone(),
                ratio: ratio.ratio,
                interval: ratio.interval,
                blocks: ratio.blocks,
                verdict: verdict(ratio.interval, described.goal),
            });
        }
    }
    contrasts
}

fn verdict(interval: Option<(f64, f64)>, goal: Goal) -> &'static str {
    let Some((low, high)) = interval else { return "too few blocks" };
    let less_is_better = goal == Goal::Min;
    match (high < 1.0, low > 1.0) {
        (true, _) if less_is_better => BETTER,
        (_, true) if !less_is_better => BETTER,
        (false, false) => "no difference seen",
        _ => "worse",
    }
}

fn failures(known: &Knowledge) -> Vec<FailureSummary> {
    let mut summaries: Vec<(FailureSummary, Vec<usize>)> = Vec::new();
    for (environment, censored) in known.evidence.failures() {
        let same = summaries.iter().position(|(summary, _)| summary.why == censored.why);
        let index = same.unwrap_or_else(|| {
            let summary = FailureSummary { why: censored.why.clone(), trials: 0, environments: 0, log: None };
            summaries.push((summary, Vec::new()));
            summaries.len() - 1
        });
        let (summary, environments) = &mut summaries[index];
        summary.trials += 1;
        summary.log.clone_from(&censored.log);
        if !environments.contains(&environment) {
            environments.push(environment);
        }
        summary.environments = environments.len();
    }
    summaries.into_iter().map(|(summary, _)| summary).collect()
}
