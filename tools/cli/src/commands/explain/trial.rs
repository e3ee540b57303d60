//! `farcall explain --try`: the experiment that could refute the first cause, carried out.
//!
//! The run as it was and the changed one are done alternately, each pair with a seed of its own. Only if
//! nothing else that is recorded differs between the two is the outcome called confirmed or refuted.

use farcall_lab::explain::analysis::finding::{Finding, Section};
use farcall_lab::explain::recorded::causes::evidence::Evidence;
use farcall_lab::explain::recorded::causes::experiment::Experiment;
use farcall_lab::explain::recorded::causes::{Ranked, rank};
use farcall_lab::explain::recorded::{RecordedRun, diff};
use farcall_lab::statistics::bootstrap::{Ratio, ratio_of_medians};

use super::rerun::Words;
use crate::failure::Failure;

/// Surroundings that differ between any two runs of an experiment.
const OWN_TO_RUNS: [&str; 2] = ["parameters", "seed"];

/// Tries the first cause of every measurement of a run, and says what came of it.
pub fn of_run(run: &RecordedRun, pairs: u64) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    let measured: Vec<_> = run.figures.iter().filter_map(|figure| Evidence::of(figure, run)).collect();
    if let [evidence] = &*measured {
        if let Some(first) = rank(evidence).first() {
            findings.extend(of_cause(run, evidence, first, pairs)?);
        }
        return Ok(findings);
    }
    Err(Failure::Usage(format!(
        "--try needs a run of one measurement on a simulated fabric, and {} has {}",
        run.name,
        measured.len()
    )))
}

fn of_cause(
    run: &RecordedRun,
    evidence: &Evidence,
    cause: &Ranked,
    pairs: u64,
) -> Result<Option<Finding>, Failure> {
    let Some(experiment) = cause.experiment.as_ref().filter(|experiment| !experiment.words.is_empty()) else {
        return Ok(None);
    };
    let before = Words::of(&run.run.arguments);
    let mut after = before.clone();
    for pair in experiment.words.chunks(2) {
        after.set(&pair[0], &pair[1]);
    }
    let mut rates = Vec::new();
    let mut differs = Vec::new();
    for seed in run.run.seed..run.run.seed + pairs {
        let (before, after) = (before.run(seed)?, after.run(seed)?);
        rates.push((measured(&after, experiment)?, measured(&before, experiment)?));
        let found = diff(&[before], &[after], seed).environment;
        differs
            .extend(found.into_iter().map(|(name, ..)| name).filter(|name| !OWN_TO_RUNS.contains(&&**name)));
    }
    differs.sort_unstable();
    differs.dedup();
    let ratio = ratio_of_medians(&rates, run.run.seed);
    let ratio = ratio.ok_or_else(|| Failure::Run("a run of the experiment has no rate".to_owned()))?;
    Ok(Some(finding(evidence, cause, experiment, ratio, &differs)))
}

fn measured(run: &RecordedRun, experiment: &Experiment) -> Result<f64, Failure> {
    let evidence = run.figures.iter().find_map(|figure| Evidence::of(figure, run));
    let none = || Failure::Run("a run of the experiment measured nothing".to_owned());
    evidence.and_then(|evidence| experiment.measure.of(&evidence)).ok_or_else(none)
}

fn finding(
    evidence: &Evidence,
    cause: &Ranked,
    experiment: &Experiment,
    measured: Ratio,
    differs: &[String],
) -> Finding {
    let (low, high) = experiment.predicted;
    let (least, most) = measured.interval.unwrap_or((measured.ratio, measured.ratio));
    let (rule, outcome) = if !differs.is_empty() {
        ("undecided", format!("not decided, because {} changed as well", differs.join(", ")))
    } else if measured.interval.is_none() {
        ("undecided", "not decided: five pairs at least have an interval".to_owned())
    } else if least >= low && most <= high {
        ("confirmed", "confirmed".to_owned())
    } else if most < low {
        ("refuted", "refuted".to_owned())
    } else {
        (
            "undecided",
            "neither confirmed nor refuted: it is outside of what was predicted, and not the same".to_owned(),
        )
    };
    let sentence = format!(
        "{outcome}: {}; with `{}` {:.2} [{least:.2}, {most:.2}] times {} over {} pairs, predicted {low:.2} to {high:.2}",
        cause.rule.cause,
        experiment.words.join(" "),
        measured.ratio,
        experiment.measure.words(),
        measured.blocks,
    );
    let figures = [
        ("ratio", measured.ratio),
        ("ratio_low", least),
        ("ratio_high", most),
        ("predicted_low", low),
        ("predicted_high", high),
    ];
    Finding::new(Section::Hypothesis, rule, &evidence.about, sentence).with(figures)
}
