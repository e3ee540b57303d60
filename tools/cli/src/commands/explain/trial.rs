//! `farcall explain --try`: the experiment that could refute the first cause, carried out.
//!
//! The run as it was and the changed one are done alternately, each pair with a seed of its own. Only if
//! nothing else that is recorded differs between the two is the outcome called confirmed or refuted.
//!
//! As it was: its parameters and its schedule of faults are those of the record, whatever this process has
//! and the file says by now. Files that are named and not kept may have changed; with its own seed a run that
//! is the same has the same fingerprint.

use farcall_lab::explain::analysis::finding::{Finding, Section};
use farcall_lab::explain::recorded::causes::evidence::Evidence;
use farcall_lab::explain::recorded::causes::experiment::Experiment;
use farcall_lab::explain::recorded::causes::{Ranked, rank};
use farcall_lab::explain::recorded::{RecordedFigure, RecordedRun, diff};
use farcall_lab::files::ScratchFolder;
use farcall_lab::run::schedule::FaultSchedule;
use farcall_lab::statistics::bootstrap::{Ratio, ratio_of_medians};
use serde_json::Value;

use super::rerun::Words;
use crate::failure::Failure;

/// Surroundings that differ between any two runs of an experiment.
const OWN_TO_RUNS: [&str; 2] = ["parameters", "seed"];

/// What a run does that goes another way than it was recorded.
const GOES_ANOTHER_WAY: &str = "the run (with its own seed it goes another way than it was recorded: files that it reads, or this program,)";

/// The option that names a schedule of faults.
const SCHEDULE: &str = "--schedule";

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
    let Some(experiment) = cause.experiment.as_ref().filter(|experiment| experiment.otherwise.is_none())
    else {
        return Ok(None);
    };
    let files = ScratchFolder::new().map_err(Failure::run)?;
    let mut before = Words::of_run(&run.run);
    if let Some(schedule) = &evidence.schedule {
        before.set(SCHEDULE, &written(schedule, &files, "before.toml")?);
    }
    let after = changed(&before, experiment, &files)?;
    let mut rates = Vec::new();
    let mut differs = Vec::new();
    for seed in run.run.seed..run.run.seed + pairs {
        let (before, after) = (before.run(seed)?, after.run(seed)?);
        if seed == run.run.seed && fingerprints(&before) != fingerprints(run) {
            differs.push(GOES_ANOTHER_WAY.to_owned());
        }
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

/// The command line of the changed run.
fn changed(before: &Words, experiment: &Experiment, files: &ScratchFolder) -> Result<Words, Failure> {
    let mut after = before.clone();
    for pair in experiment.words.chunks(2) {
        after.set(&pair[0], &pair[1]);
    }
    match &experiment.left_out {
        Some(left_out) if left_out.rest.is_null() => after.remove(SCHEDULE),
        Some(left_out) => after.set(SCHEDULE, &written(&left_out.rest, files, "after.toml")?),
        None => {}
    }
    Ok(after)
}

/// Writes a schedule to a file of that name, and says where it is.
fn written(schedule: &Value, files: &ScratchFolder, name: &str) -> Result<String, Failure> {
    let text = FaultSchedule::text(schedule);
    let text = text.ok_or_else(|| Failure::Run("the record has a schedule that is none".to_owned()))?;
    let path = files.file(name);
    std::fs::write(&path, text)
        .map_err(|error| Failure::Run(format!("cannot write to {}: {error}", path.display())))?;
    Ok(path.display().to_string())
}

/// The fingerprints of all simulations of a run.
fn fingerprints(run: &RecordedRun) -> Vec<Value> {
    let names = ["trace_hash", "trace_hashes"];
    let of = |figure: &RecordedFigure| names.iter().find_map(|name| figure.more.get(*name)).cloned();
    let mut all: Vec<_> = run.figures.iter().filter_map(of).collect();
    all.dedup();
    all
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
        "{outcome}: {}; {} {:.2} [{least:.2}, {most:.2}] times {} over {} pairs, predicted {low:.2} to {high:.2}",
        cause.rule.cause,
        experiment.change(),
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
