//! The directory of a tuning: experiment, journal, sessions, logs, results.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use farcall_lab::files::{append, read_regular, write_beside};
use farcall_tune::experiment::ExperimentFile;
use farcall_tune::journal::{Begin, Journal, Line};
use farcall_tune::result::{EquivalenceSet, Summary, lines, settings_files};
use farcall_tune::session::Session;
use serde_json::{Value, json};

use crate::failure::Failure;

/// Environment variables that tell where and in which allocation this runs.
const PLACES: [&str; 6] = [
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_PARTITION",
    "PMIX_NAMESPACE",
    "OMPI_COMM_WORLD_SIZE",
    "PBS_JOBID",
];

/// The longest file that is read: 256 MiB.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The directory of a tuning.
pub struct Directory(PathBuf);

impl Directory {
    /// At this path.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether a tuning was begun in it.
    pub fn has_journal(&self) -> bool {
        Journal::is_in(&self.0)
    }

    /// Opens the journal for more.
    pub fn journal(&self) -> Result<(Journal, Begin, Vec<Line>), Failure> {
        Journal::resume(&self.0).map_err(Failure::run)
    }

    /// Reads the journal, whether or not a tuning is running.
    pub fn read_journal(&self) -> Result<(Begin, Vec<Line>), Failure> {
        Journal::read(&self.0).map_err(Failure::run)
    }

    /// Keeps what is to be done, so that it can be gone on with.
    pub fn keep_experiment(&self, file: &ExperimentFile) -> Result<(), Failure> {
        self.write("experiment.toml", &file.write())
    }

    /// What was to be done.
    pub fn experiment(&self) -> Result<ExperimentFile, Failure> {
        let text = self.read("experiment.toml")?;
        ExperimentFile::read(&text).map_err(Failure::run)
    }

    /// Records where and when trials are run from now on.
    pub fn add_session(&self) -> Result<(), Failure> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let variable = |name: &&str| Some(((*name).to_owned(), std::env::var(name).ok()?));
        let places: BTreeMap<String, String> = PLACES.iter().filter_map(variable).collect();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let session = json!({
            "begun_ms": since.as_millis() as u64,
            "host": host.trim(),
            "allocation": places,
            "version": env!("CARGO_PKG_VERSION"),
            "process": std::process::id(),
        });
        let path = self.0.join("sessions.jsonl");
        let mut file = append(&path).map_err(|error| failed(&path, &error))?;
        writeln!(file, "{session}").map_err(|error| failed(&path, &error))
    }

    /// Keeps the result, as it is now: for programs, for people, and as files to use.
    pub fn keep_result(&self, session: &Session, summary: &Summary) -> Result<(), Failure> {
        self.write("result.json", &pretty(&json!(summary)))?;
        self.write("report.txt", &(lines(summary).join("\n") + "\n"))?;
        self.write("set.jsonl", &set_lines(session))?;
        let recommended = summary.metrics.first().map(|metric| &metric.simplest);
        for file in recommended.map(settings_files).unwrap_or_default() {
            self.write(file.name, &file.content)?;
        }
        Ok(())
    }

    /// Keeps what a revalidation found, beside earlier ones.
    pub fn keep_revalidation(&self, summary: &Summary) -> Result<(), Failure> {
        let free = (1..)
            .map(|number| format!("revalidation-{number}.json"))
            .find(|name| !self.0.join(name).exists());
        let content = json!({ "trials": summary.trials, "confirmation": summary.confirmation });
        self.write(&free.unwrap_or_default(), &pretty(&content))
    }

    /// The rows of the equivalence set of the first metric.
    pub fn set(&self) -> Result<BTreeSet<BTreeMap<String, String>>, Failure> {
        let text = self.read("set.jsonl")?;
        let row = |line: &str| {
            let line: Value = serde_json::from_str(line).ok()?;
            serde_json::from_value(line.get("row")?.clone()).ok()
        };
        let damaged = || {
            Failure::Run(format!(
                "{}/set.jsonl is damaged; run `farcall tune report --write` to write it again",
                self.0.display()
            ))
        };
        text.lines().map(|line| row(line).ok_or_else(damaged)).collect()
    }

    fn read(&self, name: &str) -> Result<String, Failure> {
        let path = self.0.join(name);
        let text = read_regular(&path, FILE_BYTES_MAX)
            .map_err(|error| Failure::Run(format!("cannot read {}: {error}", path.display())))?;
        text.ok_or_else(|| Failure::Run(format!("{} is longer than 256 MiB", path.display())))
    }

    fn write(&self, name: &str, content: &str) -> Result<(), Failure> {
        let path = self.0.join(name);
        write_beside(&path, content.as_bytes()).map_err(|error| failed(&path, &error))
    }
}

/// The members of the first metric's set, one a line, best first: all rows of each environment.
fn set_lines(session: &Session) -> String {
    let known = session.knowledge();
    let problem = known.problem;
    let Some(set) = EquivalenceSet::new(&known, 0) else { return String::new() };
    let mut rank = vec![None; problem.environments.len()];
    set.members.iter().enumerate().for_each(|(place, &one)| rank[one] = Some(place));
    let mut rows: Vec<(usize, usize)> = (0..problem.rows.len())
        .filter_map(|row| Some((rank[problem.environments.of_row(row)]?, row)))
        .collect();
    rows.sort_unstable();
    let samples = |row: usize| known.fit(0).samples(problem.environments.of_row(row));
    let line = |(rank, row): (usize, usize)| {
        let levels: BTreeMap<String, String> =
            problem.space.describe(problem.rows.row(row)).into_iter().collect();
        format!("{}\n", json!({ "rank": rank, "samples": samples(row), "row": levels }))
    };
    rows.into_iter().map(line).collect()
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Run(format!("cannot write {}: {error}", path.display()))
}
