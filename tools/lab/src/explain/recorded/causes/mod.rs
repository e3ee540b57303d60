//! What limits a measurement on an observed fabric: causes read from counters, ranked by what removing each
//! would gain, with the experiment that could refute the first.
//!
//! A counter says how busy a resource was, or what it refused; [`table`] has the rules from there to causes,
//! [`law`] what each would gain. Nothing is confirmed by that: a second run is ([`experiment`]).

mod cores;
pub mod evidence;
pub mod experiment;
pub mod law;
mod load;
mod log;
pub mod scheduled;
mod store;
pub mod table;

pub use self::cores::{shared_cores, waited_for_core};
use self::evidence::Evidence;
use self::experiment::Experiment;
use self::law::{Law, Taken};
pub use self::load::open_loops;
pub use self::log::{DurableWrites, durable_writes};
pub use self::store::stores;
use self::table::{RULES, Reads, Rule};
use super::RecordedRun;
use crate::explain::analysis::finding::{Finding, Section};

/// A cause that gains less is not named.
const GAIN_MIN: f64 = 1.05;

/// Gains that differ by less than this part are equal.
const SAME_GAIN: f64 = 0.02;

/// Nearly always more in flight would help until the next resource is full; so another cause that gains
/// nearly as much goes before the window.
const WINDOW_HANDICAP: f64 = 1.25;

/// Where one host has work all the time and the others have not, each kind of its work takes long because of
/// that; so the uneven host goes before a kind of work that gains nearly as much.
const WORK_HANDICAP: f64 = 1.25;

/// From this share of waiting operations on it is not the window that holds them back.
const HELD_BACK: f64 = 0.1;

/// From this share of an operation's time on waits and pauses explain what too little in flight could, too.
const LOST_TO_WAITS: f64 = 0.5;

/// The most causes that are named for one measurement.
const CAUSES_MAX: usize = 4;

/// A cause of a measurement, with what is known of it.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// Its row of the table.
    pub rule: &'static Rule,
    /// What it takes.
    pub taken: Taken,
    /// How many times the rate without it, as far as it was seen: this ranks it, and is what is said.
    pub gain: f64,
    /// What could refute it.
    pub experiment: Option<Experiment>,
}

/// The causes of a measurement, the likeliest first.
pub fn rank(evidence: &Evidence) -> Vec<Ranked> {
    let law = Law::of(evidence);
    let of_rule = |rule: &'static Rule| {
        let taken = law.taken(&rule.reads)?;
        let gain = law.gain(&taken, 1.0);
        let experiment = Experiment::of(rule, &taken, &law, evidence);
        Some(Ranked { rule, taken, gain, experiment })
    };
    // Where more is offered than is carried nothing else is told from the times.
    let is_first = |cause: &Ranked| cause.rule.reads == Reads::Load;
    let matters = |cause: &Ranked| cause.gain >= GAIN_MIN || is_first(cause);
    let mut causes: Vec<_> = RULES.iter().filter_map(of_rule).filter(matters).collect();
    let holds_back = |cause: &Ranked| match cause.rule.reads {
        Reads::Room(_) => cause.taken.share >= HELD_BACK,
        Reads::Lost(_) | Reads::Stood(_) | Reads::HeldUp => cause.taken.share >= LOST_TO_WAITS,
        _ => false,
    };
    if causes.iter().any(holds_back) {
        causes.retain(|cause| cause.rule.reads != Reads::Window);
    }
    // What one resource allows is the same for all that lie before it: between equals the share decides.
    let is_uneven = causes.iter().any(|cause| matches!(cause.rule.reads, Reads::Uneven(_)));
    let strength = |cause: &Ranked| match cause.rule.reads {
        Reads::Work(_) if is_uneven => (steps(cause.gain / WORK_HANDICAP), cause.taken.share),
        Reads::Window => (steps(cause.gain / WINDOW_HANDICAP), 0.0),
        Reads::Load => (f64::INFINITY, 0.0),
        _ => (steps(cause.gain), cause.taken.share),
    };
    causes.sort_by(|a, b| {
        let (a, b) = (strength(a), strength(b));
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    causes
}

/// Gains as steps of which each is equal in itself.
fn steps(gain: f64) -> f64 {
    (gain.ln() / SAME_GAIN).round()
}

/// What is said of a cause that gains more than one before it.
const BEHIND: &str = " (behind what gains nearly as much, because this would nearly always help)";

/// What would be won without a cause, in words.
fn won(cause: &Ranked, evidence: &Evidence) -> String {
    match evidence.load.filter(|_| cause.rule.reads == Reads::Load) {
        Some(load) => load.won(),
        None if cause.gain >= law::GAIN_MAX => {
            "how much faster it would be without it cannot be said".to_owned()
        }
        None => format!("without it about {:.2} times the rate", cause.gain),
    }
}

/// What limits each observed measurement of the runs.
pub fn causes(runs: &[RecordedRun]) -> Vec<Finding> {
    let several = runs.len() > 1;
    let of_run = |run: &RecordedRun| {
        let name = if several { format!("{} ", run.name) } else { String::new() };
        let measured = run.figures.iter().filter_map(|figure| Evidence::of(figure, run));
        measured.flat_map(|evidence| findings(&evidence, &name)).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of_run).collect()
}

fn findings(evidence: &Evidence, run: &str) -> Vec<Finding> {
    let causes = rank(evidence);
    let about = format!("{run}{}", evidence.about);
    let Some(first) = causes.first() else { return vec![unknown(evidence, &about)] };
    let hypothesis = |(place, cause): (usize, &Ranked)| {
        let is_behind = causes[..place].iter().any(|before| steps(before.gain) < steps(cause.gain));
        let sentence = format!(
            "{}. {}: {}; {}{}",
            place + 1,
            cause.rule.cause,
            cause.taken.figure,
            won(cause, evidence),
            if is_behind { BEHIND } else { "" }
        );
        let (low, high) =
            cause.experiment.as_ref().map_or((1.0, cause.gain), |experiment| experiment.predicted);
        let figures = [
            ("rank", (place + 1) as f64),
            ("gain", cause.gain),
            ("share_percent", cause.taken.share * 100.0),
            ("predicted_low", low),
            ("predicted_high", high),
        ];
        Finding::new(Section::Hypothesis, cause.rule.name, &about, sentence).with(figures)
    };
    let hypotheses = causes.iter().take(CAUSES_MAX).enumerate().map(hypothesis);
    let next = match &first.experiment {
        Some(experiment) => Some(next(experiment, &about)),
        None if first.rule.reads == Reads::Load => {
            let words = load::LESS_UNTIL_CARRIED.to_owned();
            Some(Finding::new(Section::NextExperiment, "change_the_first", &about, words))
        }
        None => None,
    };
    hypotheses.chain(next).collect()
}

fn next(experiment: &Experiment, about: &str) -> Finding {
    let (low, high) = experiment.predicted;
    let sentence = format!(
        "{}: {} {} if it is the first cause, {} if it is not",
        experiment.words(),
        experiment.predicted_words(),
        experiment.measure.words(),
        experiment.measure.unchanged()
    );
    let figures = [("predicted_low", low), ("predicted_high", high)];
    Finding::new(Section::NextExperiment, "change_the_first", about, sentence).with(figures)
}

/// What was looked at and is not it.
fn unknown(evidence: &Evidence, about: &str) -> Finding {
    let law = Law::of(evidence);
    let lost: f64 = evidence.uses.drops.values().map(|drops| *drops as f64).sum();
    let sentence = format!(
        "none of the causes that I know: the busiest are {}, {lost:.0} packets were lost, and messages waited {:.0} us in all \
         for something sent again",
        law.busiest(),
        evidence.counted("silence_time") / 1e3
    );
    Finding::new(Section::NotIdentifiable, "none_known", about, sentence)
}
