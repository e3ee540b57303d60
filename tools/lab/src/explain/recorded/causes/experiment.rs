//! The experiment that could refute a cause: what it changes, and what it must then find.

use super::evidence::Evidence;
use super::law::{Law, Taken, assigned};
use super::scheduled::Part;
use super::table::{Change, Rule};
use farcall::parameters::Value;

/// A law gives the most that can be won. Queues that form elsewhere take up to this part of it, as a power.
const LEAST_POWER: f64 = 0.45;

/// What rounding and chance may add.
const MARGIN: f64 = 0.06;

/// How far the part that is carried may be off all of it: of few long messages chance and the ends of the
/// window decide.
const CARRIED_MARGIN: f64 = 0.35;

/// What of the two runs is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Operations in a time.
    Rate,
    /// Of an open loop: the part of what was due that was completed in time.
    Carried,
}

impl Measure {
    /// That of a run; `None` where it does not have it.
    pub fn of(self, evidence: &Evidence) -> Option<f64> {
        match self {
            Self::Rate => Some(evidence.in_flight.unwrap_or(1.0) / evidence.operation_nanos),
            Self::Carried => Some(evidence.load?.carried()),
        }
    }

    /// What an interval of its ratio is of.
    pub fn words(self) -> &'static str {
        match self {
            Self::Rate => "the rate",
            Self::Carried => "the part that is carried",
        }
    }
}

/// A part of a schedule of faults that an experiment leaves out.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    /// The part.
    pub part: Part,
    /// The schedule without it; null where nothing else is in it.
    pub rest: serde_json::Value,
}

impl LeftOut {
    fn words(&self) -> String {
        match self.rest.is_null() {
            true => "without `--schedule`".to_owned(),
            false => format!("with a `--schedule` that has no `{}`", self.part.names().join("`, `")),
        }
    }
}

/// A change of the command line and what it should do.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Words to add to the command line, or to replace in it.
    pub words: Vec<String>,
    /// What is left out of the schedule of faults.
    pub left_out: Option<LeftOut>,
    /// Where no command line can do it: what to do.
    pub otherwise: Option<&'static str>,
    /// What changes.
    pub measure: Measure,
    /// The interval of its ratio if the cause is right.
    pub predicted: (f64, f64),
}

impl Experiment {
    /// The experiment of a rule, where the values that it changes are known.
    pub fn of(rule: &Rule, taken: &Taken, law: &Law<'_>, evidence: &Evidence) -> Option<Self> {
        let factor = |name: &str, factor: f64| {
            let name = name.replace("PROTOCOL", &evidence.protocol);
            let value = evidence.uses.fields.get(&name).copied().or_else(|| own_value(&name, evidence))?;
            Some(vec!["--set".to_owned(), format!("{name}={}", shown(value * factor))])
        };
        let left_out = rule
            .scheduled
            .zip(evidence.schedule.as_ref())
            .and_then(|(part, schedule)| Some(LeftOut { part, rest: part.left_out_of(schedule)? }));
        let (words, part) = match rule.change {
            Change::Divide(name, by) => (factor(name, 1.0 / by)?, 1.0 - 1.0 / by),
            Change::Multiply(name, by) => (factor(name, by)?, 1.0 - 1.0 / by),
            Change::Zero(names) => (zeros(names, evidence, left_out.is_some()), 1.0),
            Change::Option(name, value) => (vec![name.to_owned(), value.to_owned()], 1.0),
            Change::Words(_) => (Vec::new(), 1.0),
            Change::LessLoad => return less_load(evidence),
            Change::MoreInFlight => (more_in_flight(evidence)?, 0.5),
        };
        let otherwise = match rule.change {
            Change::Words(words) if left_out.is_none() => Some(words),
            _ => None,
        };
        let predicted = (law.gain(taken, part).powf(LEAST_POWER), law.most(taken, part) * (1.0 + MARGIN));
        Some(Self { words, left_out, otherwise, measure: Measure::Rate, predicted })
    }

    /// What to do, in words.
    pub fn words(&self) -> String {
        match self.otherwise {
            Some(words) => words.to_owned(),
            None => format!("run it again {}", self.change()),
        }
    }

    /// What is changed, in words.
    pub fn change(&self) -> String {
        let set = (!self.words.is_empty()).then(|| format!("with `{}`", self.words.join(" ")));
        let left_out = self.left_out.as_ref().map(LeftOut::words);
        set.into_iter().chain(left_out).collect::<Vec<_>>().join(" and ")
    }
}

/// Assignments of zero to those of the parameters that were set; to the first where none was, and the cause
/// comes from nothing else.
fn zeros(names: &[&str], evidence: &Evidence, comes_from_schedule: bool) -> Vec<String> {
    let is_set = |name: &&&str| evidence.parameters.get(**name).is_some_and(|value| value != "0");
    let set: Vec<_> = names.iter().filter(is_set).collect();
    let zeroed = if set.is_empty() && !comes_from_schedule { names.iter().take(1).collect() } else { set };
    zeroed.into_iter().flat_map(|name| ["--set".to_owned(), format!("{name}=0")]).collect()
}

/// A parameter of farcall that is a number of bytes: as set, or as it is by default.
fn own_value(name: &str, evidence: &Evidence) -> Option<f64> {
    let set = evidence.parameters.iter().map(|(name, value)| format!("{name}={value}"));
    let own = set.filter(|text| !text.starts_with("fabric."));
    let settings = assigned(own)?;
    let (_, value) = settings.iter().find(|(parameter, _)| parameter.name == name)?;
    match value {
        Value::Size(number) | Value::Integer(number) => Some(number as f64),
        _ => None,
    }
}

/// Less than was carried: of that all is.
fn less_load(evidence: &Evidence) -> Option<Experiment> {
    let load = evidence.load?;
    let words = load.less_words();
    let all = 1.0 / load.carried();
    let predicted = (all * (1.0 - CARRIED_MARGIN), all * (1.0 + CARRIED_MARGIN));
    Some(Experiment { words, left_out: None, otherwise: None, measure: Measure::Carried, predicted })
}

/// The option of the command that says how much is in flight, with twice its value.
fn more_in_flight(evidence: &Evidence) -> Option<Vec<String>> {
    let option = match evidence.command.as_str() {
        "perf" => "--in-flight",
        _ => return None,
    };
    Some(vec![option.to_owned(), format!("{}", 2.0 * evidence.in_flight? / evidence.clients)])
}

/// A number as `--set` takes it.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 || value >= 1e4 { format!("{:.0}", value) } else { format!("{value:.4}") }
}
