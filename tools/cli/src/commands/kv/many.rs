//! The commands on several objects: `mget`, `mput`, `export`, `import`.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use farcall::said::{Kind, Level};
use farcall_kv::store::{Condition, ReadError, WriteError};
use farcall_kv::wire::{LeftOut, PutPartRequest, PutRequest};
use farcall_kv::{Failure as KvFailure, Name, ScanPosition, TableId, Value};
use serde_json::json;

use super::SCHEMA;
use super::client::{PAGE_BYTES, table};
use super::long::{Exported, Exporter, Importer};
use super::refused::Failed;
use super::saved::{KeyAndValue, Line, Lines, decode_line};
use super::show::{Shown, show_object};
use super::steady::Steady;
use super::way::Connection;
use crate::arguments::kv::{KvExport, KvImport, KvMget, KvMput, KvTable};
use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Report};

/// What is said of objects that an export does not have.
static LEFT_OUT: Kind = Kind::new(Level::Warning, "objects that an export leaves out");

/// Lines that `import` reads before it writes them.
pub const IMPORT_OBJECTS: usize = 1024;

/// Bytes of keys and values that `import` reads before it writes them.
pub const IMPORT_BYTES: usize = 4 << 20;

/// Prints several objects.
pub fn mget(mget: &KvMget) -> Result<(), Failure> {
    let table = table(&mget.table)?;
    let keys: Vec<_> = mget.keys.iter().map(|key| mget.written.bytes(key)).collect::<Result<_, _>>()?;
    let names: Vec<_> = keys.iter().map(|key| named(table, key)).collect::<Result<_, _>>()?;
    let connection = Connection::open(&mget.place)?;
    let client = connection.client()?;
    let found = connection.endpoint.block_on(client.multi_get(&names));
    let mut report = Report::open(mget.place.json.as_ref())?;
    let (mut absent, mut unread) = (Vec::new(), Vec::new());
    for (name, found) in names.iter().zip(found) {
        let found = match found {
            Err(KvFailure::Store(why @ (ReadError::Collection | ReadError::TooLong))) => {
                unread.push(format!("`{}`: {why}", name.key().escape_ascii()));
                continue;
            }
            found => found.map_err(|failure| failure.explained(connection.about(&mget.table.table)))?,
        };
        match found {
            Some(object) => {
                let (key, version, value) = (name.key(), object.version(), object.value());
                report.object(&show_object(key, version, Some(value)))?;
                report.line(Shown { key, version, value: Some(value) })?;
            }
            None => absent.push(name.key().escape_ascii().to_string()),
        }
    }
    let unread = unread.join("; ");
    let absent = absent.join("`, `");
    let table = &mget.table.table;
    match (absent.is_empty(), unread.is_empty()) {
        (true, true) => Ok(()),
        (true, false) => Err(Failure::Run(unread)),
        (false, is_all) => {
            let absent = format!("there is no object `{absent}` in table `{table}`");
            let sentence = if is_all { absent } else { format!("{absent}; {unread}") };
            Err(Failure::Outcome(Outcome::NotFound, sentence))
        }
    }
}

/// Writes several objects.
pub fn mput(mput: &KvMput) -> Result<(), Failure> {
    let (pairs, rest) = mput.pairs.as_chunks::<2>();
    if let [key] = rest {
        return Err(Failure::Usage(format!("key `{key}` has no value behind it")));
    }
    let written = |argument: &String| mput.written.bytes(argument);
    let pairs: Vec<KeyAndValue> = pairs
        .iter()
        .map(|[key, value]| Ok((written(key)?, written(value)?)))
        .collect::<Result<_, Failure>>()?;
    let connection = Connection::open(&mput.place)?;
    let writing = Writing::to(&connection, &mput.table, mput.if_absent)?;
    let mut report = Report::open(mput.place.json.as_ref())?;
    let outcomes = writing.write(&pairs)?;
    let mut there = Vec::new();
    for ((key, _), version) in pairs.iter().zip(outcomes) {
        let shown = key.escape_ascii();
        if let Some(version) = version {
            report.object(&show_object(key, version, None))?;
            report.line(format_args!("{shown}\t{version}"))?;
        } else {
            there.push(shown.to_string());
        }
    }
    if there.is_empty() {
        return Ok(());
    }
    let sentence = format!("the condition does not hold: there is an object `{}`", there.join("`, `"));
    Err(Failure::Outcome(Outcome::ConditionFailed, sentence))
}

/// Writes a table as lines of JSON.
pub fn export(export: &KvExport) -> Result<(), Failure> {
    let table = table(&export.table)?;
    if let (Some(file), Some(Destination::File(json))) =
        (named_file(export.file.as_deref()), &export.place.json)
        && is_same(file, json)
    {
        let shown = json.display();
        return Err(Failure::Usage(format!(
            "--json {shown} would empty the file of the export; give another one"
        )));
    }
    let connection = Connection::open(&export.place)?;
    let client = connection.client()?;
    let steady = Steady::begin(&connection, &client)?;
    let long = Exporter { client: &client, about: connection.about(&export.table.table) };
    // The file is made when there is something to write into it: a table that is not there empties none.
    let mut out: Option<Box<dyn Write>> = None;
    let (mut objects, mut position) = (0_u64, Some(ScanPosition::default()));
    let mut left_out = Vec::new();
    while let Some(from) = position {
        let page = connection.endpoint.block_on(client.scan_naming_left_out(table, from, PAGE_BYTES));
        let page = page.map_err(|failure| failure.explained(connection.about(&export.table.table)))?;
        if out.is_none() {
            out = Some(export_to(export)?);
        }
        let out = out.as_mut().expect("made for the first page");
        for object in page.objects() {
            let line = show_object(object.key, object.version, Some(object.value));
            writeln!(out, "{line}").map_err(Failure::output)?;
            objects += 1;
        }
        for (key, why) in page.left_out() {
            let exported = match why {
                LeftOut::TooLong => long.export(named(table, key)?, out)?,
                LeftOut::Collection => Exported::LeftOut(why),
            };
            match exported {
                Exported::Whole => objects += 1,
                Exported::Gone => {}
                Exported::LeftOut(why) => left_out.push(why),
            }
        }
        position = page.next;
    }
    out.map_or(Ok(()), |mut out| out.flush()).map_err(Failure::output)?;
    if steady.has_moved()? {
        return Err(moved_meanwhile(export));
    }
    if !left_out.is_empty() {
        LEFT_OUT.say(format_args!("the export leaves {}", left_out_words(&left_out)));
    }
    if named_file(export.file.as_deref()).is_none() {
        // Standard output has the objects.
        return Ok(());
    }
    let mut report = Report::open(export.place.json.as_ref())?;
    report.object(&json!({
        "schema": SCHEMA, "kind": "exported", "table": export.table.table, "objects": objects,
        "left_out": left_out.len(),
    }))?;
    report.line(format_args!("{objects} objects"))
}

/// An export in which objects may be missing is of no use, and its file would be in the way of the next one.
fn moved_meanwhile(export: &KvExport) -> Failure {
    let removed = named_file(export.file.as_deref()).map(std::fs::remove_file);
    let of_file = if let Some(Ok(())) = removed { "; the file was removed" } else { "" };
    Failure::Run(format!(
        "hash slots moved while the table was read, so objects may be missing, or there twice{of_file}; \
         export when nothing moves: see `farcall kv status`"
    ))
}

/// What an export does not have, and why.
fn left_out_words(left_out: &[LeftOut]) -> String {
    let collections = (LeftOut::Collection, ["collection", "collections"], "which only Redis clients read");
    let strings = (
        LeftOut::TooLong,
        ["string of more than 1 MiB", "strings of more than 1 MiB"],
        "written all the while, or in a shard of an older version",
    );
    let words = [collections, strings].map(|(why, [one, many], because)| {
        match left_out.iter().filter(|other| **other == why).count() {
            0 => None,
            1 => Some(format!("1 {one} out, {because}")),
            count => Some(format!("{count} {many} out, {because}")),
        }
    });
    words.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Whether two paths lead to the same file, which may not be there yet.
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Where there is no folder no file can be made.
        path.canonicalize().ok().or_else(|| Some(folder.canonicalize().ok()?.join(path.file_name()?)))
    };
    place(one).is_some_and(|path| Some(path) == place(other))
}

/// Where an export goes. A file is not written over: what is in it may be the only copy.
fn export_to(export: &KvExport) -> Result<Box<dyn Write>, Failure> {
    match named_file(export.file.as_deref()) {
        Some(path) => Ok(Box::new(BufWriter::new(create_new(path)?))),
        None => Ok(Box::new(BufWriter::new(io::stdout()))),
    }
}

/// The file that is named: `-` is none, but standard output or input.
pub fn named_file(path: Option<&Path>) -> Option<&Path> {
    path.filter(|path| *path != Path::new("-"))
}

/// Makes a file. One that is there is not written over.
pub fn create_new(path: &Path) -> Result<File, Failure> {
    let shown = path.display();
    OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::Run(format!(
            "{shown} is there already, and is not written over; give another name, or remove it"
        )),
        _ => Failure::Run(format!("cannot create {shown}: {error}")),
    })
}

/// Writes the objects of lines of JSON.
pub fn import(import: &KvImport) -> Result<(), Failure> {
    let (lines, from): (Box<dyn BufRead>, _) = match named_file(import.file.as_deref()) {
        Some(path) => {
            let file = File::open(path);
            let file =
                file.map_err(|error| Failure::Run(format!("cannot read {}: {error}", path.display())))?;
            (Box::new(BufReader::new(file)), path.display().to_string())
        }
        None => (Box::new(BufReader::new(io::stdin())), "standard input".to_owned()),
    };
    let connection = Connection::open(&import.place)?;
    let writing = Writing::to(&connection, &import.table, import.if_absent)?;
    let (mut lines, mut imported) = (Lines::new(lines), Imported::default());
    let mut long = Importer::new(writing);
    loop {
        let (batch, end) = read_batch(&mut lines, long.lacks());
        let behind = |failure: Failure| imported.ended_by(failure);
        let outcomes = writing.write(&batch).map_err(behind)?;
        imported.count(&outcomes);
        let failed = match end {
            BatchEnd::More => continue,
            BatchEnd::Whole => break,
            BatchEnd::Line(line) => match long.take(&line).map_err(|failure| imported.ended_by(failure))? {
                Ok(complete) => {
                    imported.count_one(complete);
                    continue;
                }
                Err(reason) => reason,
            },
            BatchEnd::Failed(reason) => reason,
        };
        long.give_up()?;
        let (before, number) = (imported.written, lines.number());
        return Err(Failure::Run(format!(
            "{from}, line {number}: {failed}; {before} objects of the lines before it were written"
        )));
    }
    let Imported { written, there } = imported;
    let mut report = Report::open(import.place.json.as_ref())?;
    report.object(&json!({
        "schema": SCHEMA, "kind": "imported", "table": import.table.table, "objects": written,
        "there": there,
    }))?;
    let of_those = if there > 0 { format!("; {there} were there already") } else { String::new() };
    report.line(format_args!("{written} objects{of_those}"))
}

/// What became of the lines.
#[derive(Default)]
struct Imported {
    written: u64,
    there: u64,
}

impl Imported {
    /// The failure with what was written before. Of what was being written nobody knows, unless it was
    /// refused.
    fn ended_by(&self, failure: Failure) -> Failure {
        let written = self.written;
        if matches!(failure, Failure::Usage(_) | Failure::Outcome(Outcome::NotFound, _)) {
            return failure;
        }
        failure.with(&format!("{written} objects were written before, and some of the next lines may be"))
    }

    fn count(&mut self, outcomes: &[Option<u64>]) {
        let written = outcomes.iter().flatten().count();
        self.written += written as u64;
        self.there += (outcomes.len() - written) as u64;
    }

    /// Counts a value that came part by part, if it is complete: it was written, or was there already.
    fn count_one(&mut self, complete: Option<bool>) {
        match complete {
            Some(true) => self.written += 1,
            Some(false) => self.there += 1,
            None => {}
        }
    }
}

/// Why a batch ends.
enum BatchEnd {
    /// It is long enough.
    More,
    /// The lines are over.
    Whole,
    /// By a line that is no whole object, or is not wanted here.
    Line(Line),
    /// The line of that number cannot be taken.
    Failed(String),
}

/// The objects of the next lines; none where something is lacking that must come first.
fn read_batch(lines: &mut Lines<impl BufRead>, lacking: Option<String>) -> (Vec<KeyAndValue>, BatchEnd) {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < IMPORT_OBJECTS && bytes < IMPORT_BYTES {
        let line = match lines.next() {
            Ok(Some(line)) => line,
            Ok(None) => return (batch, lacking.map_or(BatchEnd::Whole, BatchEnd::Failed)),
            Err(wrong) => return (batch, BatchEnd::Failed(wrong.why)),
        };
        match decode_line(line) {
            Ok(Line::Object((key, value))) if lacking.is_none() => {
                bytes += key.len() + value.len();
                batch.push((key, value));
            }
            Ok(line) => return (batch, BatchEnd::Line(line)),
            Err(reason) => return (batch, BatchEnd::Failed(reason)),
        }
    }
    (batch, BatchEnd::More)
}

/// Writes objects of a table.
#[derive(Clone, Copy)]
pub struct Writing<'a> {
    pub connection: &'a Connection,
    pub table: TableId,
    pub table_name: &'a str,
    pub condition: Condition,
}

impl<'a> Writing<'a> {
    fn to(connection: &'a Connection, of: &'a KvTable, if_absent: bool) -> Result<Self, Failure> {
        let condition = if if_absent { Condition::Absent } else { Condition::Always };
        Ok(Self { connection, table: table(of)?, table_name: &of.table, condition })
    }

    /// Writes objects, and gives their new versions; none where the condition does not hold.
    pub fn write(&self, objects: &[KeyAndValue]) -> Result<Vec<Option<u64>>, Failure> {
        let puts: Vec<_> = objects
            .iter()
            .map(|(key, value)| {
                let value = Value::new(value).map_err(|error| Failure::Usage(error.to_string()))?;
                Ok(PutRequest { name: named(self.table, key)?, value, condition: self.condition })
            })
            .collect::<Result<_, Failure>>()?;
        let client = self.connection.client()?;
        let outcomes = self.connection.endpoint.block_on(client.multi_put(&puts));
        let about = self.connection.about(self.table_name);
        let version = |outcome: Result<u64, KvFailure<WriteError>>| match outcome {
            Ok(version) => Ok(Some(version)),
            Err(KvFailure::Store(WriteError::WrongVersion { .. })) => Ok(None),
            Err(failure) => Err(failure.explained(about)),
        };
        outcomes.into_iter().map(version).collect()
    }

    /// Writes a part of a long value, and gives what the next part needs; nothing where the condition does
    /// not hold.
    pub fn write_part(&self, part: &PutPartRequest<'_>) -> Result<Option<u64>, Failure> {
        match self.connection.client()?.put_part(part).wait() {
            Ok(number) => Ok(Some(number)),
            Err(KvFailure::Store(WriteError::WrongVersion { .. })) => Ok(None),
            Err(failure) => Err(failure.explained(self.connection.about(self.table_name))),
        }
    }
}

/// An object's name, whose key came from a user.
pub fn named(table: TableId, key: &[u8]) -> Result<Name<'_>, Failure> {
    Name::new(table, key).map_err(|error| Failure::Usage(error.to_string()))
}
