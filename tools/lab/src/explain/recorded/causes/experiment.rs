//! The experiment that could refute a cause: what it changes, and what it must then find.

use super::evidence::Evidence;
use super::law::{Law, Taken};
use super::table::{Change, Rule};
use farcall::parameters::{Settings, Value};

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

/// A change of the command line and what it should do.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Words to add to the command line, or to replace in it.
    pub words: Vec<String>,
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
        let (words, part) = match rule.change {
            Change::Divide(name, by) => (factor(name, 1.0 / by)?, 1.0 - 1.0 / by),
            Change::Multiply(name, by) => (factor(name, by)?, 1.0 - 1.0 / by),
            Change::Set(name, value) => (vec!["--set".to_owned(), format!("{name}={value}")], 1.0),
            Change::Option(name, value) => (vec![name.to_owned(), value.to_owned()], 1.0),
            Change::Words(words) => {
                let gain = law.gain(taken, 1.0);
                let (words, otherwise) = (Vec::new(), Some(words));
                return Some(Self { words, otherwise, measure: Measure::Rate, predicted: interval(gain) });
            }
            Change::LessLoad => return less_load(evidence),
            Change::MoreInFlight => (more_in_flight(evidence)?, 0.5),
        };
        let predicted = interval(law.gain(taken, part));
        Some(Self { words, otherwise: None, measure: Measure::Rate, predicted })
    }

    /// What to do, in words.
    pub fn words(&self) -> String {
        match self.otherwise {
            Some(words) => words.to_owned(),
            None => format!("run it again with `{}`", self.words.join(" ")),
        }
    }
}

/// The interval around what a law allows at most.
fn interval(gain: f64) -> (f64, f64) {
    (gain.powf(LEAST_POWER), gain * (1.0 + MARGIN))
}

/// A parameter of farcall that is a number of bytes: as set, or as it is by default.
fn own_value(name: &str, evidence: &Evidence) -> Option<f64> {
    let set = evidence.parameters.iter().map(|(name, value)| format!("{name}={value}"));
    let own = set.filter(|text| !text.starts_with("fabric."));
    let settings = Settings::load(own.collect::<Vec<_>>()).ok()?;
    let (_, value) = settings.iter().find(|(parameter, _)| parameter.name == name)?;
    match value {
        Value::Size(number) | Value::Integer(number) => Some(number as f64),
        _ => None,
    }
}

/// Less than was carried: of that all is.
fn less_load(evidence: &Evidence) -> Option<Experiment> {
    let load = evidence.load?;
    let words = vec!["--load".to_owned(), format!("{:.3}", load.less())];
    let all = 1.0 / load.carried();
    let predicted = (all * (1.0 - CARRIED_MARGIN), all * (1.0 + CARRIED_MARGIN));
    Some(Experiment { words, otherwise: None, measure: Measure::Carried, predicted })
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
