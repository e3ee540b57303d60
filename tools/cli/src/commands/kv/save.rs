//! `farcall kv backup --export` and `farcall kv restore`: copies of durable tables that are kept elsewhere,
//! in files of [`super::saved`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};

use farcall_base::printable;
use farcall_disk::FileDisk;
use farcall_kv::durable::SavedLog;
use farcall_kv::store::{Condition, ReadError};
use farcall_kv::{Failure as KvFailure, TableId};
use serde_json::{Value, json};

use super::SCHEMA;
use super::long::Importer;
use super::many::{IMPORT_BYTES, IMPORT_OBJECTS, Writing, create_new, named};
use super::refused::Failed;
use super::saved::{FORMAT, KeyAndValue, Line, SavedObjects, Summed, Wrong, verify};
use super::way::Connection;
use super::written::set_bytes;
use crate::arguments::kv::{KvBackup, KvRestore};
use crate::failure::{Failure, Outcome};
use crate::output::Report;

/// What logs, and replicas of logs, are called.
const LOG_ENDINGS: [&str; 2] = ["log", "replica"];

/// Writes the durable tables of all logs in a directory to a file.
pub fn export(backup: &KvBackup, file: &Path) -> Result<(), Failure> {
    let folder = backup.data.as_ref().expect("the grammar asks for it");
    let mut report = Report::open(backup.json.as_ref())?;
    let logs = logs_in(folder)?;
    if !backup.partial {
        check_shards(folder, &logs)?;
    }
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
    let created = create_new(file)?;
    if let Err(failed) = write_all(created, &logs, &tables, objects) {
        // A part of an export is of no use, and would be in the way of the next one.
        let _ = std::fs::remove_file(file);
        return Err(failed);
    }
    report.line(format_args!("{objects} objects of {} tables to {}", tables.len(), file.display()))?;
    report.object(&json!({ "schema": SCHEMA, "kind": "saved", "objects": objects, "tables": tables.len() }))
}

/// Writes the objects of all logs to a file.
fn write_all(
    file: File,
    logs: &BTreeMap<u32, (PathBuf, SavedLog)>,
    tables: &BTreeMap<String, String>,
    objects: u64,
) -> Result<(), Failure> {
    let mut out = Summed::new(BufWriter::new(file));
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
        for ((table, key), long) in &saved.longs {
            let Some(name) = names.get(table) else { continue };
            for (offset, part) in long.parts() {
                let mut line = json!({
                    "table": name, "version": long.version(), "value_bytes": long.value_bytes(),
                    "offset": offset,
                });
                set_bytes(&mut line, "key", key);
                set_bytes(&mut line, "part", &part);
                out.line(&line).map_err(Failure::output)?;
            }
        }
    }
    out.end(objects).map_err(Failure::output)?;
    let written = out.out.into_inner().map_err(|error| Failure::output(error.into_error()))?;
    written.sync_all().map_err(Failure::output)
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

/// Refuses a directory that lacks shards of its store: what is exported would be taken for all of it.
fn check_shards(folder: &Path, logs: &BTreeMap<u32, (PathBuf, SavedLog)>) -> Result<(), Failure> {
    let shards = logs.values().map(|(_, saved)| saved.of.1).max().unwrap_or(0);
    let lacking: Vec<String> =
        (0..shards).filter(|shard| !logs.contains_key(shard)).map(|shard| shard.to_string()).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Failure::Run(format!(
        "{} has {} of {shards} shards of its store, and lacks {}; give a directory that has all of them, or \
         --partial, and export the others as well",
        folder.display(),
        logs.len(),
        lacking.join(", ")
    )))
}

/// Bytes of keys and values of all tables that are read before they are written.
const RESTORE_BYTES_MAX: usize = 4 * IMPORT_BYTES;

/// Writes the objects of a file into a store.
pub fn restore(restore: &KvRestore) -> Result<(), Failure> {
    let file = &restore.file;
    let (tables, _) = verify(open(file)?).map_err(|wrong| refused(file, &wrong))?;
    let connection = Connection::open(&restore.place)?;
    check_tables(&connection, &tables)?;
    let condition = if restore.if_absent { Condition::Absent } else { Condition::Always };
    let (batches, counts, long) = (BTreeMap::new(), (0, 0), None);
    let mut writing =
        Restoring { connection: &connection, condition, tables: &tables, batches, long, counts };
    let mut saved = SavedObjects::open(open(file)?).map_err(|wrong| refused(file, &wrong))?;
    while let Some((table, line)) = saved.next().map_err(|wrong| refused(file, &wrong))? {
        match line {
            Line::Object(object) => writing.add(table, object)?,
            line => writing.add_part(&table, &line)?,
        }
    }
    writing.flush_all()?;
    let (written, there) = writing.counts;
    let mut report = Report::open(restore.place.json.as_ref())?;
    let of_those = if there > 0 { format!("; {there} were there already") } else { String::new() };
    report.line(format_args!("{written} objects{of_those}"))?;
    report.object(&json!({ "schema": SCHEMA, "kind": "restored", "objects": written, "there": there }))
}

fn open(file: &Path) -> Result<BufReader<File>, Failure> {
    let opened = File::open(file);
    let opened = opened.map_err(|error| Failure::Run(format!("cannot read {}: {error}", file.display())))?;
    Ok(BufReader::new(opened))
}

fn refused(file: &Path, Wrong { line, why }: &Wrong) -> Failure {
    Failure::Run(format!("{}, line {line}: {why}", file.display()))
}

/// Objects of a table that are written together.
#[derive(Default)]
struct Batch {
    objects: Vec<KeyAndValue>,
    bytes: usize,
}

/// Writes objects of several tables.
struct Restoring<'a> {
    connection: &'a Connection,
    condition: Condition,
    /// The file's, with their levels.
    tables: &'a BTreeMap<String, String>,
    batches: BTreeMap<String, Batch>,
    /// Writes the long values of the table that it is of.
    long: Option<Importer<'a>>,
    /// Those that were written, and those that were there already.
    counts: (u64, u64),
}

impl<'a> Restoring<'a> {
    /// Takes a line of a long value.
    fn add_part(&mut self, table: &str, line: &Line) -> Result<(), Failure> {
        let of = self.writing(table)?;
        let mut long = self.long.take().filter(|long| long.table() == of.table).unwrap_or(Importer::new(of));
        // The lines were looked at before the first one was written.
        match long.take(line)?.map_err(Failure::Run)? {
            Some(true) => self.counts.0 += 1,
            Some(false) => self.counts.1 += 1,
            None => {}
        }
        self.long = Some(long);
        Ok(())
    }

    fn writing(&self, table: &str) -> Result<Writing<'a>, Failure> {
        let id = TableId::of(table).map_err(Failure::run)?;
        let (table_name, _) = self.tables.get_key_value(table).expect("the file names it");
        Ok(Writing { connection: self.connection, table: id, table_name, condition: self.condition })
    }

    fn add(&mut self, table: String, object: KeyAndValue) -> Result<(), Failure> {
        let batch = self.batches.entry(table.clone()).or_default();
        batch.bytes += object.0.len() + object.1.len();
        batch.objects.push(object);
        if batch.objects.len() >= IMPORT_OBJECTS || batch.bytes >= IMPORT_BYTES {
            let batch = self.batches.remove(&table).unwrap_or_default();
            return self.flush(&table, &batch);
        }
        let all: usize = self.batches.values().map(|batch| batch.bytes).sum();
        if all >= RESTORE_BYTES_MAX { self.flush_all() } else { Ok(()) }
    }

    fn flush_all(&mut self) -> Result<(), Failure> {
        let batches = core::mem::take(&mut self.batches);
        batches.iter().try_for_each(|(table, batch)| self.flush(table, batch))
    }

    fn flush(&mut self, table: &str, batch: &Batch) -> Result<(), Failure> {
        let outcomes = self.writing(table)?.write(&batch.objects)?;
        let done = outcomes.iter().flatten().count() as u64;
        self.counts.0 += done;
        self.counts.1 += outcomes.len() as u64 - done;
        Ok(())
    }
}

/// Makes sure that a store has the tables of a file.
fn check_tables(connection: &Connection, tables: &BTreeMap<String, String>) -> Result<(), Failure> {
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
