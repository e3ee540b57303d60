//! The experiment that could refute a cause: what it changes, and what it must then find.

use super::evidence::Evidence;
use super::law::{Law, Taken};
use super::table::{Change, Rule};
use farcall::parameters::{Settings, Value};

/// A law gives the most that can be won. Queues that form elsewhere take up to this part of it, as a power.
const LEAST_POWER: f64 = 0.45;

/// What rounding and chance may add.
const MARGIN: f64 = 0.06;

/// A change of the command line and what it should do.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Words to add to the command line, or to replace in it.
    pub words: Vec<String>,
    /// Where no command line can do it: what to do.
    pub otherwise: Option<&'static str>,
    /// The interval of the rate's ratio if the cause is right.
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
                return Some(Self { words: Vec::new(), otherwise: Some(words), predicted: interval(gain) });
            }
            Change::MoreInFlight => (more_in_flight(evidence)?, 0.5),
        };
        Some(Self { words, otherwise: None, predicted: interval(law.gain(taken, part)) })
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
