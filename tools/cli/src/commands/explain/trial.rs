//! `farcall explain --try`: the experiment that could refute the first cause, carried out.
//!
//! The run as it was and the changed one are done alternately, each pair with a seed of its own. Only if
//! nothing else that is recorded differs between the two is the outcome called confirmed or refuted. Pairs go
//! on until it is one of both, or a bound is reached: it is looked at after five, ten, twenty and so on, and
//! each look has an interval so wide that all together err as seldom as one would.
//!
//! As it was: its parameters and its schedule of faults are those of the record, whatever this process has
//! and the file says by now. Files that are named and not kept may have changed; with its own seed a run that
//! is the same has the same fingerprint.

use std::collections::BTreeSet;

use farcall_lab::explain::analysis::finding::{Finding, Section};
use farcall_lab::explain::recorded::causes::evidence::Evidence;
use farcall_lab::explain::recorded::causes::experiment::{Experiment, Verdict};
use farcall_lab::explain::recorded::causes::{Ranked, rank};
use farcall_lab::explain::recorded::{RecordedFigure, RecordedRun, diff};
use farcall_lab::files::ScratchFolder;
use farcall_lab::run::schedule::FaultSchedule;
use farcall_lab::statistics::bootstrap::{BLOCKS_MIN, Ratio, ratio_among};
use serde_json::Value;

use super::allowed::Trust;
use super::rerun::Words;
use crate::failure::Failure;

/// Surroundings that differ between any two runs of an experiment.
const OWN_TO_RUNS: [&str; 2] = ["parameters", "seed"];

/// What a run does that goes another way than it was recorded.
const GOES_ANOTHER_WAY: &str = "the run (with its own seed it goes another way than it was recorded: files that it reads, or this program,)";

/// The option that names a schedule of faults.
const SCHEDULE: &str = "--schedule";

/// What an experiment came to, and in words.
pub struct Tried {
    /// The verdict; `None` where something else changed as well.
    pub verdict: Option<Verdict>,
    /// The sentence, with its figures.
    pub finding: Finding,
}

/// Tries the first cause of the measurement of a run with at most so many pairs, and says what came of it;
/// `None` where there is no cause, or none with an experiment that a command can do.
pub fn of_run(run: &RecordedRun, pairs_max: u64, trust: Trust) -> Result<Option<Tried>, Failure> {
    let measured: Vec<_> = run.figures.iter().filter_map(|figure| Evidence::of(figure, run)).collect();
    if let [evidence] = &*measured {
        let ranked = rank(evidence);
        let first = ranked.first();
        return first.map_or(Ok(None), |first| of_cause(run, evidence, first, (pairs_max, trust)));
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
    (pairs_max, trust): (u64, Trust),
) -> Result<Option<Tried>, Failure> {
    let Some(experiment) = cause.experiment.as_ref().filter(|experiment| experiment.otherwise.is_none())
    else {
        return Ok(None);
    };
    let files = ScratchFolder::new().map_err(Failure::run)?;
    let mut before = Words::of_run(&run.run);
    let mut after;
    match &evidence.schedule {
        Some(schedule) => {
            // What it does was recorded, and its file may be anything.
            before.remove(SCHEDULE);
            after = changed(&before, experiment, trust)?;
            let written = written(schedule, &files, "before.toml")?;
            [&mut before, &mut after].into_iter().for_each(|words| words.set(SCHEDULE, &written));
        }
        None => after = changed(&before, experiment, trust)?,
    }
    match &experiment.left_out {
        Some(left_out) if left_out.rest.is_null() => after.remove(SCHEDULE),
        Some(left_out) => after.set(SCHEDULE, &written(&left_out.rest, &files, "after.toml")?),
        None => {}
    }
    let mut pairs = Pairs { run, experiment, before, after, rates: Vec::new(), differs: BTreeSet::new() };
    let ratio = pairs.until_certain(&looks(pairs_max))?;
    let verdict = pairs.differs.is_empty().then(|| experiment.judge(&ratio));
    let finding = finding(evidence, cause, experiment, ratio, verdict, &pairs.differs);
    Ok(Some(Tried { verdict, finding }))
}

/// After how many pairs the outcome is looked at.
fn looks(pairs_max: u64) -> Vec<u64> {
    let doubled = std::iter::successors(Some(BLOCKS_MIN as u64), |pairs| Some(2 * pairs));
    doubled.take_while(|pairs| *pairs < pairs_max).chain([pairs_max]).collect()
}

/// Runs as they were and changed ones.
struct Pairs<'a> {
    run: &'a RecordedRun,
    experiment: &'a Experiment,
    before: Words,
    after: Words,
    rates: Vec<(f64, f64)>,
    /// What else differs between the two.
    differs: BTreeSet<String>,
}

impl Pairs<'_> {
    /// Does pairs until there are so many, each with the next seed.
    fn go_on(&mut self, upto: u64) -> Result<(), Failure> {
        let first = self.run.run.seed;
        for seed in first.saturating_add(self.rates.len() as u64)..first.saturating_add(upto) {
            let (before, after) = (self.before.run(seed)?, self.after.run(seed)?);
            if seed == first && fingerprints(&before) != fingerprints(self.run) {
                self.differs.insert(GOES_ANOTHER_WAY.to_owned());
            }
            self.rates.push(measured(&after, &before, self.experiment)?);
            let found = diff(&[before], &[after], seed).environment;
            let names = found.into_iter().map(|(name, ..)| name);
            self.differs.extend(names.filter(|name| !OWN_TO_RUNS.contains(&&**name)));
        }
        Ok(())
    }

    /// The ratio of so many pairs that its outcome is certain, as far as the looks at it go.
    fn until_certain(&mut self, looks: &[u64]) -> Result<Ratio, Failure> {
        let mut last = None;
        for upto in looks {
            self.go_on(*upto)?;
            last = ratio_among(&self.rates, self.run.run.seed, looks.len());
            let is_open = |ratio: &Ratio| self.experiment.judge(ratio) == Verdict::Open;
            if !last.as_ref().is_some_and(is_open) || !self.differs.is_empty() {
                break;
            }
        }
        last.ok_or_else(|| Failure::Run("a run of the experiment has no rate".to_owned()))
    }
}

/// The command line of the changed run, but for its schedule. Both command lines are checked: what is changed
/// comes from the record, too.
fn changed(before: &Words, experiment: &Experiment, trust: Trust) -> Result<Words, Failure> {
    let check = |words: &[String], parameters: &[String]| trust.check(words, parameters);
    before.check(check)?;
    let mut after = before.clone();
    for pair in experiment.words.chunks(2) {
        after.set(&pair[0], &pair[1]);
    }
    after.check(check)?;
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

/// What is compared of the changed run and of the run as it was.
fn measured(
    after: &RecordedRun,
    before: &RecordedRun,
    experiment: &Experiment,
) -> Result<(f64, f64), Failure> {
    let of = |run: &RecordedRun| run.figures.iter().find_map(|figure| Evidence::of(figure, run));
    let none = || Failure::Run("a run of the experiment measured nothing".to_owned());
    let both = of(after).zip(of(before));
    both.and_then(|(after, before)| experiment.measure.of(&after, &before)).ok_or_else(none)
}

fn finding(
    evidence: &Evidence,
    cause: &Ranked,
    experiment: &Experiment,
    measured: Ratio,
    verdict: Option<Verdict>,
    differs: &BTreeSet<String>,
) -> Finding {
    let (low, high) = experiment.predicted;
    let (least, most) = measured.interval.unwrap_or((measured.ratio, measured.ratio));
    let (rule, outcome) = match verdict {
        None => {
            let names: Vec<_> = differs.iter().map(String::as_str).collect();
            ("undecided", format!("not decided, because {} changed as well", names.join(", ")))
        }
        Some(_) if measured.interval.is_none() => {
            ("undecided", format!("not decided: {BLOCKS_MIN} pairs at least have an interval"))
        }
        Some(Verdict::Confirmed) => ("confirmed", "confirmed".to_owned()),
        Some(Verdict::Refuted) => ("refuted", "refuted".to_owned()),
        Some(Verdict::Beyond) => {
            ("undecided", "neither confirmed nor refuted: it is more than the cause can take".to_owned())
        }
        Some(Verdict::Open) => (
            "undecided",
            "neither confirmed nor refuted: the pairs lie within and outside of what was predicted"
                .to_owned(),
        ),
    };
    let sentence = format!(
        "{outcome}: {}; {} {:.2} [{least:.2}, {most:.2}] times {} over {} pairs, predicted {}",
        cause.rule.cause,
        experiment.change(),
        measured.ratio,
        experiment.measure.words(),
        measured.blocks,
        if experiment.has_number() { format!("{low:.2} to {high:.2}") } else { format!("at least {low:.2}") },
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
