//! Reading a run's folder. What is in it may be old, cut short or somebody else's: each is one sentence.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{RESULTS_FILE, RUN_FILE, Run, SCHEMA};
use crate::files::read_regular;
use crate::record;

/// The longest file that is read: 256 MiB.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A figure of a run, as docs/results.md describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RecordedFigure {
    /// The version of the record.
    pub schema: String,
    /// The command.
    pub command: String,
    /// The test.
    pub test: String,
    /// The transport.
    pub transport: String,
    /// The row.
    pub name: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// What it says of its samples.
    pub statistic: String,
    /// How many samples.
    pub samples: u64,
    /// How many operations were in flight.
    pub in_flight: u64,
    /// What the command added.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl RecordedFigure {
    /// Whether its command records a row again for each regime that the cores were in. Those of different
    /// ones are different rows.
    pub fn has_row_for_each_regime(&self) -> bool {
        matches!(self.command.as_str(), "compare" | "msgrate")
    }
}

/// A run that was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRun {
    /// What people call it: the folder's name.
    pub name: String,
    /// What was run.
    pub run: Run,
    /// Its figures.
    pub figures: Vec<RecordedFigure>,
}

/// Why a folder is not a run that can be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file.
    #[error("cannot read {}: {error}; is it a folder made by --record?", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Too long.
    #[error("{} is longer than 256 MiB", .0.display())]
    TooLong(PathBuf),
    /// No JSON, or with other fields.
    #[error("run {run}: run.json is not one of this program: {reason}")]
    Run {
        /// The run.
        run: String,
        /// What the parser says.
        reason: String,
    },
    /// Another version: read it with the program that wrote it.
    #[error("run {run}: {file} is of version `{found}`, and this program reads `{expected}`")]
    Version {
        /// The run.
        run: String,
        /// The file.
        file: &'static str,
        /// Its version.
        found: String,
        /// What is read.
        expected: &'static str,
    },
    /// A line of results.
    #[error("run {run}: line {line} of results.jsonl is not a record: {reason}")]
    Result {
        /// The run.
        run: String,
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
}

impl RecordedRun {
    /// Reads a folder.
    pub fn read(folder: &Path) -> Result<Self, ReadError> {
        let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
        parse(&name, &text(&folder.join(RUN_FILE))?, &text(&folder.join(RESULTS_FILE))?)
    }
}

/// Reads the texts of the two files. The last line of results may be cut short when the run did not end.
pub fn parse(name: &str, run: &str, results: &str) -> Result<RecordedRun, ReadError> {
    let called = || name.to_owned();
    let wrong = |error: serde_json::Error| ReadError::Run { run: called(), reason: error.to_string() };
    let value: Value = serde_json::from_str(run).map_err(wrong)?;
    check_version(name, RUN_FILE, value.get("schema"), SCHEMA)?;
    let run: Run = serde_json::from_value(value).map_err(wrong)?;
    let mut figures = Vec::new();
    let lines: Vec<_> = results.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).collect();
    for (position, (index, line)) in lines.iter().enumerate() {
        let cut_short =
            run.window_seconds.is_none() && position + 1 == lines.len() && !results.ends_with('\n');
        match figure(name, index + 1, line) {
            Err(ReadError::Result { .. }) if cut_short => {}
            figure => figures.push(figure?),
        }
    }
    Ok(RecordedRun { name: called(), run, figures })
}

fn figure(name: &str, line: usize, text: &str) -> Result<RecordedFigure, ReadError> {
    let wrong = |error: serde_json::Error| ReadError::Result {
        run: name.to_owned(),
        line,
        reason: error.to_string(),
    };
    let value: Value = serde_json::from_str(text).map_err(wrong)?;
    check_version(name, RESULTS_FILE, value.get("schema"), record::SCHEMA)?;
    serde_json::from_value(value).map_err(wrong)
}

fn check_version(
    run: &str,
    file: &'static str,
    found: Option<&Value>,
    expected: &'static str,
) -> Result<(), ReadError> {
    let found = found.and_then(Value::as_str).unwrap_or("none");
    if found == expected {
        return Ok(());
    }
    // A foreign version may be anything; its beginning is enough to know it by.
    const SHOWN: usize = 40;
    let found = found.chars().take(SHOWN).filter(|c| !c.is_control()).collect();
    Err(ReadError::Version { run: run.to_owned(), file, found, expected })
}

fn text(path: &Path) -> Result<String, ReadError> {
    let failed = |error| ReadError::File { path: path.to_owned(), error };
    read_regular(path, FILE_BYTES_MAX).map_err(failed)?.ok_or_else(|| ReadError::TooLong(path.to_owned()))
}
