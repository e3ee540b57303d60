//! Values of more than 1 MiB in exports and imports, part by part: neither holds more than a part of one.

use std::io::Write;

use farcall_kv::store::ReadError;
use farcall_kv::wire::LeftOut;
use farcall_kv::{Client, Failure as KvFailure, FoundPart, Name, TableId, VALUE_BYTES_MAX};
use serde_json::{Value, json};

use super::SCHEMA;
use super::many::Writing;
use super::refused::{About, Failed};
use super::saved::{Gathering, Line, Part};
use super::show::show_object;
use super::written::set_bytes;
use crate::failure::Failure;

/// How often a value is read from its beginning that is written meanwhile.
const TRIES_MAX: usize = 16;

/// What became of a value that was to be exported.
pub enum Exported {
    Whole,
    /// It was deleted meanwhile.
    Gone,
    /// The export has nothing of it.
    LeftOut(LeftOut),
}

/// What became of a try.
enum Tried {
    Ended(Exported),
    /// The value was written meanwhile.
    Changed,
}

/// Reads long values and writes their lines.
pub struct Exporter<'a> {
    pub client: &'a Client<'a>,
    pub about: About<'a>,
}

impl Exporter<'_> {
    /// Writes the lines of an object whose value is long, or was a moment ago.
    pub fn export(&self, name: Name<'_>, out: &mut impl Write) -> Result<Exported, Failure> {
        for _ in 0..TRIES_MAX {
            if let Tried::Ended(exported) = self.attempt(name, out)? {
                return Ok(exported);
            }
        }
        Ok(Exported::LeftOut(LeftOut::TooLong))
    }

    fn attempt(&self, name: Name<'_>, out: &mut impl Write) -> Result<Tried, Failure> {
        let (mut version, mut offset) = (0, 0);
        loop {
            let end = match self.client.get_part(name, version, offset).wait() {
                Ok(Some(part)) if version == 0 || part.version() == version => {
                    if part.value_bytes() <= VALUE_BYTES_MAX as u64 {
                        return self.export_short(name, out);
                    }
                    if part.bytes().is_empty() {
                        return Err(self.explained(&KvFailure::Misunderstood));
                    }
                    writeln!(out, "{}", line(name.key(), &part, offset)).map_err(Failure::output)?;
                    (version, offset) = (part.version(), offset + part.bytes().len() as u64);
                    if offset == part.value_bytes() {
                        return Ok(Tried::Ended(Exported::Whole));
                    }
                    continue;
                }
                Ok(Some(_)) => Tried::Changed,
                Ok(None) => Tried::Ended(Exported::Gone),
                Err(failure) => Tried::Ended(Exported::LeftOut(self.left_out(&failure)?)),
            };
            if offset > 0 {
                let mut withdrawn = json!({ "schema": SCHEMA, "kind": "part", "withdrawn": true });
                set_bytes(&mut withdrawn, "key", name.key());
                writeln!(out, "{withdrawn}").map_err(Failure::output)?;
            }
            return Ok(end);
        }
    }

    /// Writes the line of an object whose value is one of the short ones by now.
    fn export_short(&self, name: Name<'_>, out: &mut impl Write) -> Result<Tried, Failure> {
        match self.client.get(name).wait() {
            Ok(Some(object)) => {
                let line = show_object(name.key(), object.version(), Some(object.value()));
                writeln!(out, "{line}").map_err(Failure::output)?;
                Ok(Tried::Ended(Exported::Whole))
            }
            Ok(None) => Ok(Tried::Ended(Exported::Gone)),
            Err(KvFailure::Store(ReadError::TooLong)) => Ok(Tried::Changed),
            Err(failure) => Ok(Tried::Ended(Exported::LeftOut(self.left_out(&failure)?))),
        }
    }

    /// Why an object is left out, if it is for that reason that it is not read. A shard of an older version
    /// does not understand the question.
    fn left_out(&self, failure: &KvFailure<ReadError>) -> Result<LeftOut, Failure> {
        match failure {
            KvFailure::Store(ReadError::Collection) => Ok(LeftOut::Collection),
            KvFailure::Misunderstood => Ok(LeftOut::TooLong),
            failure => Err(self.explained(failure)),
        }
    }

    fn explained(&self, failure: &KvFailure<ReadError>) -> Failure {
        failure.explained(self.about)
    }
}

fn line(key: &[u8], part: &FoundPart, offset: u64) -> Value {
    let mut line = json!({
        "schema": SCHEMA, "kind": "part", "version": part.version(), "value_bytes": part.value_bytes(),
        "offset": offset,
    });
    set_bytes(&mut line, "key", key);
    set_bytes(&mut line, "part", part.bytes());
    line
}

/// Writes long values whose parts come line by line, one value at a time.
pub struct Importer<'a> {
    writing: Writing<'a>,
    gathering: Gathering,
    begun: Begun,
}

/// What is known of the value that is not whole yet.
#[derive(Default)]
struct Begun {
    /// The number that the shard knows it by.
    upload: u64,
    /// The object is there already, and is to be left alone.
    is_there: bool,
}

impl<'a> Importer<'a> {
    pub fn new(writing: Writing<'a>) -> Self {
        Self { writing, gathering: Gathering::default(), begun: Begun::default() }
    }

    /// The table that it writes to.
    pub fn table(&self) -> TableId {
        self.writing.table
    }

    /// Why no other line than the next part may follow, if that is so.
    pub fn lacks(&self) -> Option<String> {
        self.gathering.lacks()
    }

    /// Takes a line; says whether an object was written, or was there already, if one is complete.
    pub fn take(&mut self, line: &Line) -> Result<Result<Option<bool>, String>, Failure> {
        match line {
            Line::Object(_) => Ok(Err(self.lacks().unwrap_or_default())),
            Line::Withdrawn(key) => match self.gathering.take_back(key) {
                Ok(rest) => self.leave(rest).map(|()| Ok(None)),
                Err(reason) => Ok(Err(reason)),
            },
            Line::Part(part) => match self.gathering.take(part) {
                Ok(is_whole) => self.write(part, is_whole).map(Ok),
                Err(reason) => Ok(Err(reason)),
            },
        }
    }

    fn write(&mut self, part: &Part, is_whole: bool) -> Result<Option<bool>, Failure> {
        if part.offset == 0 {
            self.begun = Begun::default();
        }
        if !self.begun.is_there {
            match self.ask(part)? {
                Some(number) => self.begun.upload = number,
                None => self.begun.is_there = true,
            }
        }
        Ok(is_whole.then_some(!self.begun.is_there))
    }

    fn ask(&self, part: &Part) -> Result<Option<u64>, Failure> {
        let Writing { table, condition, .. } = self.writing;
        let request = part.request(table, condition, self.begun.upload).map_err(Failure::Usage)?;
        self.writing.write_part(&request)
    }

    /// Leaves nothing of a value that is not whole.
    pub fn give_up(&mut self) -> Result<(), Failure> {
        let rest = self.gathering.give_up();
        self.leave(rest)
    }

    fn leave(&self, rest: Option<Part>) -> Result<(), Failure> {
        match rest {
            Some(nothing) if !self.begun.is_there => self.ask(&nothing).map(drop),
            _ => Ok(()),
        }
    }
}
