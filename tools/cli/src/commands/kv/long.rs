//! Values of more than 1 MiB in exports and imports, part by part: neither holds more than a part of one.

use std::io::Write;

use farcall_kv::store::ReadError;
use farcall_kv::wire::{LeftOut, PutPartRequest};
use farcall_kv::{Client, Failure as KvFailure, FoundPart, Name, VALUE_BYTES_MAX};
use serde_json::{Value, json};

use super::SCHEMA;
use super::many::{Writing, named};
use super::refused::{About, Failed};
use super::saved::{Line, Part};
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
    writing: &'a Writing<'a>,
    /// The value that is not whole yet.
    begun: Option<Begun>,
}

struct Begun {
    key: Vec<u8>,
    value_bytes: u64,
    /// How much of it there was.
    offset: u64,
    /// The number that the shard knows it by.
    upload: u64,
    /// The object is there already, and is to be left alone.
    is_there: bool,
}

impl<'a> Importer<'a> {
    pub fn new(writing: &'a Writing<'a>) -> Self {
        Self { writing, begun: None }
    }

    /// Why no other line than the next part may follow, if that is so.
    pub fn lacks(&self) -> Option<String> {
        let begun = self.begun.as_ref()?;
        let (key, there, all) = (begun.key.escape_ascii(), begun.offset, begun.value_bytes);
        Some(format!("the next part of the value of `{key}` is missing: {there} of {all} bytes were there"))
    }

    /// Takes a line; says whether an object was written, or was there already, if one is complete.
    pub fn take(&mut self, line: &Line) -> Result<Result<Option<bool>, String>, Failure> {
        match line {
            Line::Object(_) => Ok(Err(self.lacks().unwrap_or_default())),
            Line::Withdrawn(key) => match &self.begun {
                Some(begun) if begun.key == *key => self.give_up().map(|()| Ok(None)),
                _ => Ok(Err("it takes parts back that are not there".to_owned())),
            },
            Line::Part(part) => match self.check(part) {
                Ok(()) => self.write(part).map(Ok),
                Err(reason) => Ok(Err(reason)),
            },
        }
    }

    fn check(&self, part: &Part) -> Result<(), String> {
        let is_next = |begun: &Begun| {
            (&begun.key, begun.value_bytes, begun.offset) == (&part.key, part.value_bytes, part.offset)
        };
        match &self.begun {
            Some(begun) if !is_next(begun) => return Err(self.lacks().unwrap_or_default()),
            None if part.offset > 0 => return Err("the parts in front of it are missing".to_owned()),
            _ => {}
        }
        // The number is any that a part of this place may have.
        let request = self.request(part, u64::from(part.offset > 0));
        if request.is_ok_and(|request| request.is_part()) && !part.bytes.is_empty() {
            return Ok(());
        }
        let sentence =
            "it is no part of a value of more than 1 MiB: `value_bytes`, `offset` or its length is wrong";
        Err(sentence.to_owned())
    }

    fn request<'p>(&self, part: &'p Part, upload: u64) -> Result<PutPartRequest<'p>, Failure> {
        let Writing { table, condition, .. } = *self.writing;
        let (value_bytes, offset) = (part.value_bytes, part.offset);
        Ok(PutPartRequest {
            name: named(table, &part.key)?,
            condition,
            upload,
            value_bytes,
            offset,
            part: &part.bytes,
        })
    }

    fn write(&mut self, part: &Part) -> Result<Option<bool>, Failure> {
        let mut begun = self.begun.take().unwrap_or_else(|| Begun {
            key: part.key.clone(),
            value_bytes: part.value_bytes,
            offset: 0,
            upload: 0,
            is_there: false,
        });
        if !begun.is_there {
            let request = self.request(part, begun.upload)?;
            match self.writing.write_part(&request)? {
                Some(number) => begun.upload = number,
                None => begun.is_there = true,
            }
        }
        begun.offset += part.bytes.len() as u64;
        if begun.offset == begun.value_bytes {
            return Ok(Some(!begun.is_there));
        }
        self.begun = Some(begun);
        Ok(None)
    }

    /// Leaves nothing of a value that is not whole.
    pub fn give_up(&mut self) -> Result<(), Failure> {
        let Some(begun) = self.begun.take().filter(|begun| !begun.is_there) else { return Ok(()) };
        let Begun { key, value_bytes, offset, upload, .. } = begun;
        let nothing = Part { key, value_bytes, offset, bytes: Vec::new() };
        let request = self.request(&nothing, upload)?;
        self.writing.write_part(&request).map(drop)
    }
}
