//! Where results go: tables to standard output, records to wherever `--json` says.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use farcall_lab::record::{Record, RecordWriter};
use serde_json::Value;

use crate::failure::Failure;

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard output, in the place of tables.
    StandardOutput,
    /// A file, which is made or emptied.
    File(PathBuf),
}

/// Takes what a command has to say.
pub struct Report {
    records: Option<RecordWriter<Box<dyn Write>>>,
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
        Ok(Self { records: out.map(RecordWriter::new), tables })
    }

    /// Whether standard output is for people.
    pub fn has_text(&self) -> bool {
        self.tables
    }

    /// Prints a line for people, unless standard output is for records.
    pub fn line(&mut self, line: impl std::fmt::Display) -> Result<(), Failure> {
        if self.tables {
            writeln!(io::stdout(), "{line}").map_err(Failure::output)?;
        }
        Ok(())
    }

    /// Writes a figure's record, if records are asked for.
    pub fn record(&mut self, record: &Record) -> Result<(), Failure> {
        match &mut self.records {
            Some(records) => records.write(record).map_err(Failure::output),
            None => Ok(()),
        }
    }

    /// Writes an object that is no figure, if records are asked for.
    pub fn object(&mut self, object: &Value) -> Result<(), Failure> {
        match &mut self.records {
            Some(records) => records.write(object).map_err(Failure::output),
            None => Ok(()),
        }
    }
}
