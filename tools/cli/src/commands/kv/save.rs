//! `farcall kv backup --export` and `farcall kv restore`: copies of durable tables that are kept elsewhere.
//!
//! A file is lines of JSON: what it is and which tables there are, the objects, and at the end their number
//! and a checksum of all lines before, so that one that was cut off or changed is refused before anything is
//! written.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use farcall_base::printable;
use farcall_disk::FileDisk;
use farcall_kv::durable::SavedLog;
use farcall_kv::store::{Condition, ReadError};
use farcall_kv::{Failure as KvFailure, TableId};
use serde_json::{Value, json};

use super::SCHEMA;
use super::many::{IMPORT_BYTES, IMPORT_OBJECTS, KeyAndValue, LINE_BYTES_MAX, Writing, named};
use super::refused::Failed;
use super::way::Connection;
use super::written::{bytes_of, set_bytes};
use crate::arguments::kv::{KvBackup, KvRestore};
use crate::failure::{Failure, Outcome};
use crate::output::Report;

/// What the first line of a file says that it is.
const FORMAT: &str = "farcall.kv.backup.v1";

/// What logs, and replicas of logs, are called.
const LOG_ENDINGS: [&str; 2] = ["log", "replica"];

/// Writes the durable tables of all logs in a directory to a file.
pub fn export(backup: &KvBackup, file: &Path) -> Result<(), Failure> {
    let folder = backup.data.as_ref().expect("the grammar asks for it");
    let mut report = Report::open(backup.json.as_ref())?;
    let logs = logs_in(folder)?;
    let (mut tables, mut objects) = (BTreeMap::new(), 0);
    for (path, saved) in logs.values() {
        let (shard, shards) = saved.of;
        let found = saved.recovered.objects;
        if saved.others > 0 {
            return Err(Failure::Run(format!(
                "{}: {} objects are collections of Redis clients, or expire, which a file of objects does not \
                 hold; copy the directory instead, while no process uses it",
                path.display(),
                saved.others
            )));
        }
        report.line(format_args!("shard {shard} of {shards}: {found} objects from {}", path.display()))?;
        tables.extend(saved.tables.iter().map(|(name, level)| (name.clone(), level.to_string())));
        objects += found;
    }
    let created = OpenOptions::new().write(true).create_new(true).open(file);
    let created =
        created.map_err(|error| Failure::Run(format!("cannot create {}: {error}", file.display())))?;
    let mut out = Summed { out: BufWriter::new(created), crc: 0 };
    let named: Vec<Value> =
        tables.iter().map(|(name, level)| json!({ "table": name, "level": level })).collect();
    out.line(&json!({ "schema": FORMAT, "tables": named })).map_err(Failure::output)?;
    let names: BTreeMap<TableId, &String> =
        tables.keys().filter_map(|name| Some((TableId::of(name).ok()?, name))).collect();
    for (_, saved) in logs.values() {
        for ((table, key), (version, value)) in &saved.objects {
            let Some(name) = names.get(table) else { continue };
            let mut object = json!({ "table": name, "version": version });
            set_bytes(&mut object, "key", key);
            set_bytes(&mut object, "value", value);
            out.line(&object).map_err(Failure::output)?;
        }
    }
    let crc = format!("{:08x}", out.crc);
    out.line(&json!({ "objects": objects, "crc32c": crc })).map_err(Failure::output)?;
    let written = out.out.into_inner().map_err(|error| Failure::output(error.into_error()))?;
    written.sync_all().map_err(Failure::output)?;
    report.line(format_args!("{objects} objects of {} tables to {}", tables.len(), file.display()))?;
    report.object(&json!({ "schema": SCHEMA, "kind": "saved", "objects": objects, "tables": tables.len() }))
}

/// A file, and the checksum of its lines.
struct Summed<W> {
    out: W,
    crc: u32,
}

impl<W: Write> Summed<W> {
    fn line(&mut self, line: &Value) -> io::Result<()> {
        let text = format!("{line}\n");
        self.crc = crc32c::crc32c_append(self.crc, text.as_bytes());
        self.out.write_all(text.as_bytes())
    }
}

/// The latest copy of each shard's log in a directory, and where it is.
fn logs_in(folder: &Path) -> Result<BTreeMap<u32, (PathBuf, SavedLog)>, Failure> {
    let shown = folder.display();
    let cannot = |error: io::Error| Failure::Run(format!("cannot read {shown}: {error}"));
    let mut logs: BTreeMap<u32, (PathBuf, SavedLog)> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if !LOG_ENDINGS.contains(&ending) {
            continue;
        }
        let mut disk = FileDisk::open(&path).map_err(Failure::run)?;
        let saved = match SavedLog::read(&mut disk) {
            Ok(Some(saved)) => saved,
            Ok(None) => continue,
            Err(error) => {
                let at = path.display();
                return Err(Failure::Run(format!(
                    "{at}: {error}; take another copy of the shard, or move this file away"
                )));
            }
        };
        let shard = saved.of.0;
        match logs.get(&shard) {
            Some((other, found)) if (found.log, found.of.1) != (saved.log, saved.of.1) => {
                return Err(Failure::Run(format!(
                    "{} and {} are of shard {shard} of two stores; move one of them away",
                    other.display(),
                    path.display()
                )));
            }
            Some((_, found)) if !saved.is_later_than(found) => {}
            _ => _ = logs.insert(shard, (path, saved)),
        }
    }
    if logs.is_empty() {
        return Err(Failure::Run(format!(
            "{shown} has no log; give the --data of a backup or store with durable tables"
        )));
    }
    Ok(logs)
}

/// Writes the objects of a file into a store.
pub fn restore(restore: &KvRestore) -> Result<(), Failure> {
    let tables = verify(&restore.file)?;
    let connection = Connection::open(&restore.place)?;
    check_tables(&connection, &tables)?;
    let condition = if restore.if_absent { Condition::Absent } else { Condition::Always };
    let mut writing: BTreeMap<String, Batch> = BTreeMap::new();
    let (mut written, mut there) = (0_u64, 0_u64);
    let mut flush = |table: &str, batch: &mut Batch| -> Result<(), Failure> {
        let id = TableId::of(table).map_err(Failure::run)?;
        let of = Writing { connection: &connection, table: id, table_name: table, condition };
        let outcomes = of.write(&core::mem::take(&mut batch.objects))?;
        batch.bytes = 0;
        let done = outcomes.iter().flatten().count() as u64;
        written += done;
        there += outcomes.len() as u64 - done;
        Ok(())
    };
    let mut lines = Lines::open(&restore.file)?;
    lines.next()?;
    while let Some(line) = lines.next()? {
        let Some((table, object)) = object_of(&line).map_err(|why| lines.wrong(&why))? else { break };
        let batch = writing.entry(table.clone()).or_default();
        batch.bytes += object.0.len() + object.1.len();
        batch.objects.push(object);
        if batch.objects.len() >= IMPORT_OBJECTS || batch.bytes >= IMPORT_BYTES {
            flush(&table, batch)?;
        }
    }
    for (table, batch) in &mut writing {
        flush(table, batch)?;
    }
    let mut report = Report::open(restore.place.json.as_ref())?;
    let of_those = if there > 0 { format!("; {there} were there already") } else { String::new() };
    report.line(format_args!("{written} objects{of_those}"))?;
    report.object(&json!({ "schema": SCHEMA, "kind": "restored", "objects": written, "there": there }))
}

/// Objects of a table that are written together.
#[derive(Default)]
struct Batch {
    objects: Vec<KeyAndValue>,
    bytes: usize,
}

/// Makes sure that a store has the tables of a file.
fn check_tables(connection: &Connection<'_>, tables: &[(String, String)]) -> Result<(), Failure> {
    let client = connection.client()?;
    for (table, level) in tables {
        let id = TableId::of(table).map_err(Failure::run)?;
        match client.get(named(id, b"?")?).wait() {
            Ok(_) => {}
            Err(KvFailure::Store(ReadError::UnknownTable)) => {
                let shown = printable(table);
                return Err(Failure::Outcome(
                    Outcome::NotFound,
                    format!(
                        "there is no table `{shown}`, which was {level}; start the store with \
                         --tables {shown}:{level}, or make one in memory with `farcall kv create {shown}`"
                    ),
                ));
            }
            Err(failure) => return Err(failure.explained(connection.about(table))),
        }
    }
    Ok(())
}

/// The lines of a file, and where one is.
struct Lines<'a> {
    file: &'a Path,
    lines: BufReader<File>,
    number: u64,
    /// Of all lines before the last one.
    crc: u32,
    last: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn open(file: &'a Path) -> Result<Self, Failure> {
        let opened = File::open(file);
        let opened =
            opened.map_err(|error| Failure::Run(format!("cannot read {}: {error}", file.display())))?;
        Ok(Self { file, lines: BufReader::new(opened), number: 0, crc: 0, last: Vec::new() })
    }

    fn wrong(&self, why: &str) -> Failure {
        Failure::Run(format!("{}, line {}: {why}", self.file.display(), self.number))
    }

    fn next(&mut self) -> Result<Option<Value>, Failure> {
        self.crc = crc32c::crc32c_append(self.crc, &self.last);
        self.last.clear();
        self.number += 1;
        let read = io::Read::take(&mut self.lines, LINE_BYTES_MAX).read_until(b'\n', &mut self.last);
        read.map_err(|error| self.wrong(&error.to_string()))?;
        if self.last.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&self.last).map(Some).map_err(|error| {
            let no_backup = format!("it is no file of `farcall kv backup --export`: {error}");
            let cut = format!("the file was damaged or cut off: {error}");
            self.wrong(if self.number == 1 { &no_backup } else { &cut })
        })
    }
}

/// Makes sure that a file is whole; gives its tables and their levels.
fn verify(file: &Path) -> Result<Vec<(String, String)>, Failure> {
    let mut lines = Lines::open(file)?;
    let first = lines.next()?.unwrap_or(Value::Null);
    if first["schema"] != FORMAT {
        return Err(match first["schema"].as_str() {
            Some(other) if other.starts_with("farcall.kv.backup.") => lines.wrong(&format!(
                "the file has format `{}`, and this farcall understands `{FORMAT}` only",
                printable(other)
            )),
            _ => lines.wrong("it is no file of `farcall kv backup --export`; `kv import` reads `kv export`"),
        });
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let table = |table: &Value| Some((text(&table["table"])?, text(&table["level"])?));
    let tables: Option<Vec<_>> = first["tables"].as_array().and_then(|all| all.iter().map(table).collect());
    let tables = tables.ok_or_else(|| lines.wrong("it names no tables"))?;
    let mut objects = 0_u64;
    while let Some(line) = lines.next()? {
        let Some((of, _)) = object_of(&line).map_err(|why| lines.wrong(&why))? else {
            let whole = json!({ "objects": objects, "crc32c": format!("{:08x}", lines.crc) });
            return match (line == whole, lines.next()?) {
                (true, None) => Ok(tables),
                _ => Err(lines.wrong("the file was damaged: what it ends with is not what was written")),
            };
        };
        if tables.iter().all(|(table, _)| *table != of) {
            return Err(lines.wrong("the object is of a table that the file does not name"));
        }
        objects += 1;
    }
    Err(lines.wrong("the file was cut off: its end is missing"))
}

/// The table, key and value of a line; `None` for the line at the end.
fn object_of(line: &Value) -> Result<Option<(String, KeyAndValue)>, String> {
    let Some(table) = line["table"].as_str() else {
        return if line.get("crc32c").is_some() { Ok(None) } else { Err("it is no object".to_owned()) };
    };
    Ok(Some((table.to_owned(), (bytes_of(line, "key")?, bytes_of(line, "value")?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_changed_or_cut_off_is_refused() {
        let folder = std::env::temp_dir().join(format!("farcall-save-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let path = folder.join("saved");
        let mut out = Summed { out: Vec::new(), crc: 0 };
        let tables = json!([{ "table": "t", "level": "flushed" }]);
        out.line(&json!({ "schema": FORMAT, "tables": tables })).expect("memory");
        out.line(&json!({ "table": "t", "version": 1, "key": "a", "value": "b" })).expect("memory");
        let crc = format!("{:08x}", out.crc);
        out.line(&json!({ "objects": 1, "crc32c": crc })).expect("memory");
        let whole = out.out;
        let outcome = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("room");
            verify(&path)
        };
        assert_eq!(outcome(&whole).expect("it is whole"), [("t".to_owned(), "flushed".to_owned())]);
        // Without the end of its last line it is whole as well.
        for at in 0..whole.len() - 1 {
            assert!(outcome(&whole[..at]).is_err(), "cut at {at}");
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(outcome(&damaged).is_err(), "byte {at}");
        }
        let newer = String::from_utf8(whole).expect("text").replace("backup.v1", "backup.v2");
        let Err(Failure::Run(sentence)) = outcome(newer.as_bytes()) else { panic!("a later format") };
        assert!(sentence.contains("understands `farcall.kv.backup.v1` only"), "{sentence}");
        std::fs::remove_dir_all(&folder).expect("the test's own");
    }
}
