//! Runs kept in folders of plain files: what was asked, on which machine, and every figure that came out.
//!
//! `run.json` is written twice, when the run begins and when it has ended, so that a run that was killed can
//! be told from one that ended; `results.jsonl` grows line by line, and `docs/results.md` describes both.

mod anatomy;
pub mod causes;
mod diff;
mod document;
mod drift;
mod environment;
mod messages;
mod part_changes;
mod quota;
mod read;
mod summary;
mod varied;
mod ways;
mod write;

use std::collections::BTreeMap;

use crate::run::world::RankAbout;
use serde::{Deserialize, Serialize};

use crate::explain::analysis::analyse;
use crate::explain::analysis::finding::Finding;

pub use anatomy::anatomy;
pub use diff::{Cell, Difference, diff};
pub use document::document;
pub use drift::{Track, drift};
pub use environment::Environment;
pub use messages::messages;
pub use quota::throttled;
pub use read::{ReadError, RecordedFigure, RecordedRun, parse};
pub use varied::{VariedEffect, interventions, varied_effects};
pub use ways::ways;
pub use write::{RunFolder, WriteError};

/// The version of run.json. It goes up when a field changes its name, its unit or its meaning.
pub const SCHEMA: &str = "farcall.run.v1";

/// The file that says what was run.
const RUN_FILE: &str = "run.json";

/// The file with a record a line.
const RESULTS_FILE: &str = "results.jsonl";

/// The test of records that say how the machine was around the measured ones, by a figure that nothing we
/// measure changes.
pub const REFERENCE: &str = "reference";

/// What was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of the program.
    pub program: String,
    /// The words of the command line after the program's name.
    pub arguments: Vec<String>,
    /// The seed of every random choice.
    pub seed: u64,
    /// Assignments to parameters, in the order in which they took effect.
    pub parameters: Vec<String>,
    /// When it began, in seconds since 1970.
    pub started_unix_seconds: u64,
    /// How long it took; none for a run that did not end.
    pub window_seconds: Option<f64>,
    /// What the units of records mean.
    pub units: BTreeMap<String, String>,
    /// The machine.
    pub environment: Environment,
    /// The ranks of the launcher at which it took place; none for a run on this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankAbout>,
    /// The rank that was lost and ended the run, and how that was noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// Everything that recorded runs say, in the order in which it should be read: by the laws that hold for
/// everybody's figures, and by what only our own runs have, the reference, interventions and traces.
pub fn explain(runs: &[RecordedRun]) -> Vec<Finding> {
    let mut findings = analyse(&document(runs));
    findings.extend(drift(runs));
    findings.extend(throttled(runs));
    findings.extend(ways(runs));
    findings.extend(interventions(runs));
    findings.extend(causes::causes(runs));
    findings.extend(causes::stores(runs));
    findings.extend(causes::shared_cores(runs));
    findings.extend(causes::open_loops(runs));
    findings.extend(causes::durable_writes(runs));
    findings.extend(anatomy(runs));
    findings.extend(messages(runs));
    let mut findings = summary::with_summary(findings);
    findings.sort_by_key(|finding| finding.section);
    findings
}

impl Run {
    /// What its command line gives an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        let mut words = self.arguments.iter().skip_while(|word| word.split('=').next() != Some(name));
        match words.next()?.split_once('=') {
            Some((_, value)) => Some(value),
            None => words.next().map(String::as_str),
        }
    }

    /// A run that begins now, on this machine.
    pub fn begin(arguments: Vec<String>, seed: u64, parameters: Vec<String>) -> Self {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let units = [
            ("ns", "nanoseconds"),
            ("B/s", "bytes of payload per second"),
            ("1/s", "operations per second"),
            ("1", "one figure over another"),
        ];
        Self {
            schema: SCHEMA.to_owned(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            arguments,
            seed,
            parameters,
            started_unix_seconds: since_1970.map_or(0, |age| age.as_secs()),
            window_seconds: None,
            units: units.map(|(unit, meaning)| (unit.to_owned(), meaning.to_owned())).into(),
            environment: Environment::probe(),
            ranks: Vec::new(),
            lost: None,
        }
    }
}

#[cfg(test)]
mod tests;
