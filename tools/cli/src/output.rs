//! Where results go: tables to standard output, records to wherever `--json` says.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use farcall::parameters::Sources;
use farcall_base::printable_lines;
use farcall_lab::explain::recorded::{Run, RunFolder};
use farcall_lab::record::{Record, RecordWriter};
use serde_json::Value;

use crate::arguments::ranks::OverRanks;
use crate::arguments::{FABRIC, Recording, Tuning};
use crate::failure::Failure;

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard output, in the place of tables.
    StandardOutput,
    /// A file, which is made or emptied.
    File(PathBuf),
}

/// Prints text to standard output, which may have come from others.
pub fn print_text(text: &str) -> Result<(), Failure> {
    io::stdout().write_all(printable_lines(text).as_bytes()).map_err(Failure::output)
}

/// Takes what a command has to say.
pub struct Report {
    records: Option<RecordWriter<Box<dyn Write>>>,
    folder: Option<RunFolder>,
    tables: bool,
}

impl Report {
    /// Opens the destination of records, if there is one.
    pub fn open(json: Option<&Destination>) -> Result<Self, Failure> {
        let out: Option<Box<dyn Write>> = match json {
            None => None,
            Some(Destination::StandardOutput) => Some(Box::new(io::stdout())),
            Some(Destination::File(path)) => {
                let failed = |error| Failure::Run(format!("cannot write to {}: {error}", path.display()));
                Some(Box::new(File::create(path).map_err(failed)?))
            }
        };
        let tables = json != Some(&Destination::StandardOutput);
        Ok(Self { records: out.map(RecordWriter::new), folder: None, tables })
    }

    /// Keeps the run in a folder, if one is asked for. `parameters` are the assignments of the command as
    /// they take effect, after those of the environment.
    pub fn keep(
        mut self,
        recording: &Recording,
        tuning: &Tuning,
        parameters: &[String],
    ) -> Result<Self, Failure> {
        if let Some(path) = &recording.record {
            let inherited = Sources::of_process(Vec::new()).and_then(|sources| sources.inherited());
            let inherited = inherited.map_err(|error| Failure::Usage(error.to_string()))?;
            let of_fabric = tuning.settings.iter().filter(|text| text.starts_with(FABRIC)).cloned();
            let parameters =
                inherited.into_iter().chain(parameters.iter().cloned()).chain(of_fabric).collect();
            let arguments = std::env::args().skip(1).collect();
            let run = Run::begin(arguments, tuning.seed, parameters);
            self.folder = Some(RunFolder::create(path, run).map_err(Failure::run)?);
        }
        Ok(self)
    }

    /// Says in the folder at which ranks of a launcher the run takes place, if it does.
    pub fn of_ranks(mut self, over: &OverRanks) -> Result<Self, Failure> {
        if let (Some(folder), Some(world)) = (&mut self.folder, &over.world) {
            folder.at_ranks(Arc::clone(world)).map_err(Failure::run)?;
        }
        Ok(self)
    }

    /// The command has done what it was asked to.
    pub fn end(self) -> Result<(), Failure> {
        self.folder.map_or(Ok(()), |folder| folder.end().map_err(Failure::run))
    }

    /// Whether standard output is for people.
    pub fn has_text(&self) -> bool {
        self.tables
    }

    /// Prints a line for people, unless standard output is for records. Whatever is in it cannot control a
    /// terminal.
    pub fn line(&mut self, line: impl std::fmt::Display) -> Result<(), Failure> {
        if self.tables {
            print_text(&format!("{line}\n"))?;
        }
        Ok(())
    }

    /// Writes a figure's record where records and runs are asked for.
    pub fn record(&mut self, record: &Record) -> Result<(), Failure> {
        if let Some(folder) = &mut self.folder {
            folder.record(record).map_err(Failure::run)?;
        }
        match &mut self.records {
            Some(records) => records.write(record).map_err(Failure::output),
            None => Ok(()),
        }
    }

    /// Writes a record where runs are kept only: it is no figure of what was asked for.
    pub fn beside(&mut self, record: &Record) -> Result<(), Failure> {
        self.folder.as_mut().map_or(Ok(()), |folder| folder.record(record).map_err(Failure::run))
    }

    /// Writes an object that is no figure, if records are asked for.
    pub fn object(&mut self, object: &Value) -> Result<(), Failure> {
        match &mut self.records {
            Some(records) => records.write(object).map_err(Failure::output),
            None => Ok(()),
        }
    }
}
