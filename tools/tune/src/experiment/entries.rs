//! The tables of the file, as they stand there. docs/tuning.md describes them for those who write them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metric::Goal;
use crate::space::{EmitEntry, ParameterEntry, RequireEntry};

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentFile {
    /// `[objective]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveEntry>,
    /// `[search]`.
    #[serde(default, skip_serializing_if = "SearchEntry::is_empty")]
    pub search: SearchEntry,
    /// `[[metric]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metric: Vec<MetricEntry>,
    /// `[[parameter]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameter: Vec<ParameterEntry>,
    /// `[[require]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<RequireEntry>,
    /// `[[emit]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub emit: Vec<EmitEntry>,
}

/// `[objective]`: what runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectiveEntry {
    /// A program with its arguments, which are templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<Argument>>,
    /// Instead of a command: `exchange`, calls between processes of farcall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Whether the command runs on from trial to trial, and is told what changes.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub resident: bool,
    /// How long a trial may take, such as `20s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Environment variables, whose values are templates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// What a good run looks like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<SuccessEntry>,
    /// Files that are written before each trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file: Vec<FileEntry>,
}

/// One argument, or some that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Argument {
    /// One.
    One(String),
    /// Given or left out together.
    Group(Vec<String>),
}

impl Argument {
    /// Its templates.
    pub fn texts(&self) -> &[String] {
        match self {
            Self::One(text) => core::slice::from_ref(text),
            Self::Group(texts) => texts,
        }
    }
}

/// `[objective.success]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SuccessEntry {
    /// The exit status of a good run.
    #[serde(default)]
    pub exit: i32,
    /// What the output of a good run contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

/// `[[objective.file]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Its name in the trial's directory.
    pub name: String,
    /// Its lines, which are templates.
    pub content: String,
}

/// `[[metric]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MetricEntry {
    /// Its name.
    pub name: String,
    /// Its unit, for the reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// `min` or `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// A regular expression whose first group is the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Which match counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub take: Option<Take>,
    /// A JSON pointer to the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// With `json`: fields that the line of JSON has.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, toml::Value>,
    /// For the workload `exchange`: what is exchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<ExchangeEntry>,
    /// Differences up to this share do not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub indifference: Option<Share>,
    /// The metric is no objective: it must not become worse than the reference by more than this share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Share>,
}

/// Which of several matches counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// The last one.
    #[default]
    Last,
    /// The first one.
    First,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Their mean.
    Mean,
}

/// `exchange = { … }` of a metric.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeEntry {
    /// The transport.
    pub transport: String,
    /// Length of the requests.
    pub request: String,
    /// Length of the responses.
    pub response: String,
    /// Calls in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<usize>,
    /// How long it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lasting: Option<String>,
    /// `median`, `p99`, `calls` or `bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
}

/// `1%`, or 0.01.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Share {
    /// A plain number.
    Number(f64),
    /// With a percent sign.
    Text(String),
}

impl Share {
    /// The share, which is at least nought and at most one.
    pub fn get(&self) -> Option<f64> {
        let share = match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.trim().strip_suffix('%')?.trim().parse::<f64>().ok()? / 100.0,
        };
        (0.0..=1.0).contains(&share).then_some(share)
    }
}

/// `[search]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SearchEntry {
    /// How it is searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyName>,
    /// About how many trials there are, without the confirmation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<usize>,
    /// How often the finalists are run again in fresh blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm: Option<usize>,
    /// A program that proposes, with its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposer: Option<Vec<String>>,
    /// Whether to watch how far the first two cores are apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch_cores: Option<bool>,
}

impl SearchEntry {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrategyName {
    /// Blocked successive halving.
    Halving,
    /// Everything, equally often.
    Exhaustive,
    /// Some rows at random, equally often.
    Random,
    /// The neighbours of the reference.
    OneAtATime,
    /// Two levels of each parameter.
    Factorial,
    /// A race that drops what is worse beyond doubt.
    Race,
    /// Halving, screened by a model.
    Tpe,
    /// Halving, screened by a program outside.
    Proposer,
}

farcall_base::named!(StrategyName:
    Halving = "halving", "Blocked successive halving";
    Exhaustive = "exhaustive", "Everything, equally often";
    Random = "random", "Rows at random, equally often";
    OneAtATime = "one-at-a-time", "Each value of each parameter, everything else as in the reference";
    Factorial = "factorial", "Two values of each parameter, in combinations";
    Race = "race", "A race that drops what is worse, or dominated, beyond doubt";
    Tpe = "tpe", "Halving, screened by tree-structured Parzen estimators";
    Proposer = "proposer", "Halving, screened by the program that the file names as proposer";
);
