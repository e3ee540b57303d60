//! The journal: one line a trial, appended, so that a tuning that is killed at any moment goes on where it
//! was.
//!
//! A line counts when its line end is there. What a killed process left half written is cut off. A search is
//! a function of what was found, so reading the journal back into a fresh session brings it to the same
//! point; each line is checked against what the session would have measured, so that a journal of another
//! tuning is noticed.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use farcall_lab::run::regime::Regime;
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};
use serde::{Deserialize, Serialize};

use crate::evidence::{Censored, Sample, TrialOutcome};
use crate::objective::TrialFinding;
use crate::plan::Plan;
use crate::search::Problem;
use crate::session::Trial;

/// The version of the lines.
pub const SCHEMA: &str = "farcall.tune.v1";

/// The journal's name in the directory of a tuning.
const FILE: &str = "journal.jsonl";

/// The first line.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Begin {
    /// [`SCHEMA`].
    pub schema: String,
    /// How the search is done.
    pub plan: Plan,
    /// The metrics' names.
    pub metrics: Vec<String>,
}

/// Every other line.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Line {
    /// What a proposer outside said: it might say something else when asked again.
    Proposal(Proposal),
    /// A trial.
    Trial(Entry),
}

/// The environments of a block, before it was shuffled and the reference added.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Proposal {
    /// The block.
    pub block: usize,
    /// The environments, by their numbers.
    pub proposed: Vec<usize>,
}

/// The line of a trial.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Entry {
    /// The number of the trial.
    pub trial: usize,
    /// Its block.
    pub block: usize,
    /// Whether it belongs to the confirmation.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub confirms: bool,
    /// The levels of the row, as people read them.
    pub row: BTreeMap<String, String>,
    /// The figures, in the order of the metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<f64>>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Censored>,
    /// `near` or `far`, where the cores were watched and did not move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regime: Option<String>,
    /// When it began, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_ms: Option<u64>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// Why a journal cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The file system refuses.
    #[error("cannot {what} {}: {reason}", path.display())]
    Io {
        /// What was attempted.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// Another process writes it.
    #[error("another tuning is running in {}; wait for it or choose another directory", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// There is one already.
    #[error("{} has the journal of a tuning; go on with --resume, or choose another directory", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// Nothing to go on with.
    #[error("{} has no journal of a tuning", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// A line in the middle is not what was written.
    #[error("line {line} of {} is damaged; cut the file off before it to go on from there", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    /// The journal belongs to another experiment.
    #[error(
        "line {line} of the journal is not what this experiment would have measured; was the experiment changed?"
    )]
    Foreign {
        /// Which line, from 1.
        line: usize,
    },
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Begins a journal in a directory, which is made if there is none. A journal that was begun and has no
    /// trial yet is begun again: that is what a mistake in the description leaves behind.
    pub fn create(directory: &Path, begin: &Begin) -> Result<Self, JournalError> {
        let path = directory.join(FILE);
        std::fs::create_dir_all(directory).map_err(|error| io("make", directory, &error))?;
        let mut journal = Self::open(directory, path)?;
        let mut bytes = Vec::new();
        journal.file.read_to_end(&mut bytes).map_err(|error| io("read", &journal.path, &error))?;
        if complete(&bytes).iter().filter(|byte| **byte == b'\n').count() > 1 {
            return Err(JournalError::Exists { path: directory.to_owned() });
        }
        journal.cut_off(0)?;
        journal.write(begin)?;
        Ok(journal)
    }

    /// Whether a directory has a journal. A pipe that somebody put there is none: to read it would never end.
    pub fn is_in(directory: &Path) -> bool {
        directory.join(FILE).is_file()
    }

    /// Goes on with the journal of a directory: returns what it holds, and cuts off what is half written.
    pub fn resume(directory: &Path) -> Result<(Self, Begin, Vec<Line>), JournalError> {
        if !Self::is_in(directory) {
            return Err(JournalError::Missing { path: directory.to_owned() });
        }
        let mut journal = Self::open(directory, directory.join(FILE))?;
        let mut bytes = Vec::new();
        let whole = journal.file.read_to_end(&mut bytes);
        whole.map_err(|error| io("read", &journal.path, &error))?;
        journal.cut_off(complete(&bytes).len())?;
        let (begin, lines) = parse(directory, &journal.path, &bytes)?;
        Ok((journal, begin, lines))
    }

    /// Reads the journal of a directory, in which a tuning may be running.
    pub fn read(directory: &Path) -> Result<(Begin, Vec<Line>), JournalError> {
        let path = directory.join(FILE);
        if !Self::is_in(directory) {
            return Err(JournalError::Missing { path: directory.to_owned() });
        }
        let bytes = std::fs::read(&path).map_err(|error| io("read", &path, &error))?;
        parse(directory, &path, &bytes)
    }

    /// Adds a line.
    pub fn append(&mut self, line: &Line) -> Result<(), JournalError> {
        self.write(line)
    }

    /// Leaves this many bytes, behind which the next line goes.
    fn cut_off(&mut self, length: usize) -> Result<(), JournalError> {
        let cut = self.file.set_len(length as u64).and_then(|()| self.file.seek(SeekFrom::End(0)));
        cut.map(drop).map_err(|error| io("write", &self.path, &error))
    }

    fn open(directory: &Path, path: PathBuf) -> Result<Self, JournalError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&path);
        let file = file.map_err(|error| io("open", &path, &error))?;
        if !path.is_file() {
            return Err(io("open", &path, &std::io::Error::other("it is no regular file")));
        }
        // A lock of this process: the programs that it starts do not hold it.
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| JournalError::Locked { path: directory.to_owned() })?;
        Ok(Self { file, path })
    }

    /// Writes a line at once: a reader, and a resumed run, sees it whole or cuts it off.
    fn write(&mut self, line: &impl Serialize) -> Result<(), JournalError> {
        let mut text = serde_json::to_string(line).expect("lines are plain objects");
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(|error| io("write", &self.path, &error))
    }
}

/// The lines that are whole.
fn complete(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    &bytes[..end]
}

fn parse(directory: &Path, path: &Path, bytes: &[u8]) -> Result<(Begin, Vec<Line>), JournalError> {
    let damaged = |line: usize| JournalError::Damaged { path: path.to_owned(), line };
    let text = core::str::from_utf8(complete(bytes)).map_err(|_| damaged(1))?;
    let mut lines = text.lines();
    let begin = lines.next().ok_or_else(|| JournalError::Missing { path: directory.to_owned() })?;
    let begin = serde_json::from_str(begin).map_err(|_| damaged(1))?;
    let line = |(index, line)| serde_json::from_str(line).map_err(|_| damaged(index + 2));
    Ok((begin, lines.enumerate().map(line).collect::<Result<_, _>>()?))
}

impl Entry {
    /// The line of a trial.
    pub fn new(problem: &Problem, trial: &Trial, finding: &TrialFinding, confirms: bool) -> Self {
        let (values, failure) = match &finding.outcome {
            TrialOutcome::Measured(values) => (Some(values.clone()), None),
            TrialOutcome::Censored(censored) => (None, Some(censored.clone())),
        };
        Self {
            trial: trial.number,
            block: trial.block,
            confirms,
            row: row_of(problem, trial.environment),
            values,
            failure,
            regime: finding.regime.map(|regime| regime.to_string()),
            begun_ms: finding.begun_ms,
            seconds: finding.seconds,
        }
    }

    /// Whether this is the line of a trial, whatever came of it.
    pub fn is_of(&self, problem: &Problem, trial: &Trial) -> bool {
        let same = self.trial == trial.number && self.block == trial.block;
        same && self.row == row_of(problem, trial.environment)
    }

    /// The sample, whatever search made it; `None` when the space has no such row or the line no such
    /// figures.
    pub fn sample(&self, problem: &Problem) -> Option<Sample> {
        let row = problem.space.row_of(&self.row)?;
        let environment = problem.environments.of_row(problem.rows.find(&row)?);
        let (regime, outcome) = self.outcome(problem.metrics.len())?;
        Some(Sample { environment, block: self.block, regime, outcome })
    }

    /// The regime and the outcome; `None` when the line has neither figures nor a failure, or too few
    /// figures.
    pub fn outcome(&self, metrics: usize) -> Option<(Option<Regime>, TrialOutcome)> {
        let regime = match self.regime.as_deref() {
            None => None,
            Some(name) => Some(Regime::named(name)?),
        };
        let outcome = match (&self.values, &self.failure) {
            (Some(values), None) if values.len() == metrics => TrialOutcome::Measured(values.clone()),
            (None, Some(failure)) => TrialOutcome::Censored(failure.clone()),
            _ => return None,
        };
        Some((regime, outcome))
    }
}

fn row_of(problem: &Problem, environment: usize) -> BTreeMap<String, String> {
    problem.space.describe(problem.row(environment)).into_iter().collect()
}

fn io(what: &'static str, path: &Path, error: &std::io::Error) -> JournalError {
    JournalError::Io { what, path: path.to_owned(), reason: error.to_string() }
}
