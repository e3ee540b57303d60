//! The commands that use a store.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};

use farcall::said::{self, Kind};
use farcall_base::{printable, printable_lines};
use farcall_kv::durable::Level;
use farcall_kv::store::Condition;
use farcall_kv::{Client, Failure as KvFailure, Name, ScanPosition, TableId, VALUE_BYTES_MAX, Value};
use serde_json::json;

use super::SCHEMA;
use super::many::named_file;
use super::refused::{Failed, no_table};
use super::replicas::tell_away;
use super::show::{Shown, show_object, show_shard};
use super::steady::Steady;
use super::way::{Connection, Repeat, Way};
use super::written::set_bytes;
use crate::arguments::kv::{KvCreate, KvDelete, KvDrop, KvGet, KvIncr, KvPut, KvScan, KvStat, KvTable};
use crate::failure::{Failure, Outcome};
use crate::output::Report;

/// What is said of scans that may not have everything.
static MOVED: Kind = Kind::new(said::Level::Warning, "scans while hash slots move");

/// Bytes of keys and values that a scan asks for at a time.
pub const PAGE_BYTES: usize = 256 << 10;

/// Prints a value.
pub fn get(get: &KvGet) -> Result<(), Failure> {
    let key = get.written.bytes(&get.key)?;
    let (name, way) = (name(&get.table, &key)?, Way::of(&get.way, &get.table));
    let found = way.go(
        Repeat::Always,
        |slots| slots.get(name),
        |client| {
            let found = client.get(name).wait()?;
            Ok(found.map(|object| (object.version(), object.value().to_vec())))
        },
    )?;
    let (version, value) = found.ok_or_else(|| no_object(&get.key, &get.table))?;
    let mut report = Report::open(way.json())?;
    report.object(&show_object(name.key(), version, Some(&value)))?;
    if report.has_text() {
        write_value(&value).map_err(Failure::output)?;
    }
    Ok(())
}

/// Writes an object.
pub fn put(put: &KvPut) -> Result<(), Failure> {
    let key = put.written.bytes(&put.key)?;
    let (name, way) = (name(&put.table, &key)?, Way::of(&put.way, &put.table));
    let value = read_value(put)?;
    let value = Value::new(&value).map_err(|error| Failure::Usage(error.to_string()))?;
    let condition = match (put.if_absent, put.if_version) {
        (true, _) => Condition::Absent,
        (false, Some(version)) => Condition::Version(version),
        (false, None) => Condition::Always,
    };
    let version = way.go(
        Repeat::IfNothingHappened,
        |slots| slots.put(name, value, condition),
        |client| client.put(name, value, condition).wait(),
    )?;
    let mut report = Report::open(way.json())?;
    report.object(&show_object(name.key(), version, None))?;
    report.line(format_args!("version {version}"))
}

/// Deletes an object.
pub fn delete(delete: &KvDelete) -> Result<(), Failure> {
    let key = delete.written.bytes(&delete.key)?;
    let (name, way) = (name(&delete.table, &key)?, Way::of(&delete.way, &delete.table));
    let condition = delete.if_version.map_or(Condition::Always, Condition::Version);
    let deleted = way.go(
        Repeat::IfNothingHappened,
        |slots| slots.delete(name, condition),
        |client| client.delete(name, condition).wait(),
    )?;
    let version = deleted.ok_or_else(|| no_object(&delete.key, &delete.table))?;
    let mut report = Report::open(way.json())?;
    report.object(&show_object(name.key(), version, None))?;
    report.line(format_args!("deleted version {version}"))
}

/// Adds to a number.
pub fn incr(incr: &KvIncr) -> Result<(), Failure> {
    let key = incr.written.bytes(&incr.key)?;
    let (name, way) = (name(&incr.table, &key)?, Way::of(&incr.way, &incr.table));
    let (version, sum) = way.go(
        Repeat::IfNothingHappened,
        |slots| slots.increment(name, incr.amount),
        |client| client.increment(name, incr.amount).wait(),
    )?;
    let mut report = Report::open(way.json())?;
    let mut number = json!({ "schema": SCHEMA, "kind": "number", "version": version, "sum": sum });
    set_bytes(&mut number, "key", name.key());
    report.object(&number)?;
    report.line(sum)
}

/// Lists a table.
pub fn scan(scan: &KvScan) -> Result<(), Failure> {
    let (table, prefix) = (table(&scan.table)?, scan.written.bytes(&scan.prefix)?);
    let connection = Connection::open(&scan.place)?;
    let client = connection.client()?;
    let mut report = Report::open(scan.place.json.as_ref())?;
    let steady = Steady::begin(&connection, &client)?;
    let mut left = scan.limit.unwrap_or(u64::MAX);
    let mut position = Some(ScanPosition::default());
    while let Some(from) = position
        && left > 0
    {
        let page = connection.endpoint.block_on(client.scan(table, from, PAGE_BYTES));
        let page = page.map_err(|failure| failure.explained(connection.about(&scan.table.table)))?;
        let wanted = page.objects().filter(|object| object.key.starts_with(&prefix));
        for object in wanted.take(usize::try_from(left).unwrap_or(usize::MAX)) {
            let value = (!scan.keys).then_some(object.value);
            report.object(&show_object(object.key, object.version, value))?;
            report.line(Shown { key: object.key, version: object.version, value })?;
            left -= 1;
        }
        position = page.next;
    }
    if steady.has_moved()? {
        MOVED.say(format_args!(
            "hash slots moved while this was read: objects may be missing, or there twice; scan again"
        ));
    }
    Ok(())
}

/// Creates a table.
pub fn create_table(create: &KvCreate) -> Result<(), Failure> {
    let shown = printable(&create.table);
    TableId::of(&create.table).map_err(|error| Failure::Usage(error.to_string()))?;
    let connection = Connection::open(&create.place)?;
    let client = connection.client()?;
    let level = create.level;
    // Somebody else may create it meanwhile: then it is called new here as well.
    let is_new = !is_everywhere(&client, &connection, &create.table)?;
    let created = connection.endpoint.block_on(client.create_table_at(&create.table, level));
    created.map_err(|failure| failure.explained(connection.about(&create.table)))?;
    let mut report = Report::open(create.place.json.as_ref())?;
    // A table that was there may have more than none.
    let at_least = (level != Level::Memory).then(|| level.to_string());
    let created = json!({
        "schema": SCHEMA, "kind": "created", "table": create.table, "level": at_least, "new": is_new,
    });
    report.object(&created)?;
    match (is_new, level) {
        (true, Level::Memory) => report.line(format_args!("created table {shown}")),
        (true, level) => report.line(format_args!("created table {shown}, {level}")),
        (false, Level::Memory) => report.line(format_args!("there is a table {shown} already")),
        (false, level) => report.line(format_args!("there is a table {shown} already, at least {level}")),
    }
}

/// Whether all shards have a table.
fn is_everywhere(client: &Client<'_>, connection: &Connection, table: &str) -> Result<bool, Failure> {
    for shard in 0..client.shards() {
        let found = client.statistics(shard).wait();
        if found == Err(KvFailure::WrongShard) {
            // It is away, and has nothing.
            continue;
        }
        let found = found.map_err(|failure| failure.explained(connection.about(table)))?;
        if !found.tables.iter().any(|there| there == table) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Drops a table.
pub fn drop_table(drop: &KvDrop) -> Result<(), Failure> {
    let shown = printable(&drop.table);
    TableId::of(&drop.table).map_err(|error| Failure::Usage(error.to_string()))?;
    let connection = Connection::open(&drop.place)?;
    let client = connection.client()?;
    let dropped = connection.endpoint.block_on(client.drop_table(&drop.table));
    if !dropped.map_err(|failure| failure.explained(connection.about(&drop.table)))? {
        return Err(no_table(&drop.table));
    }
    let mut report = Report::open(drop.place.json.as_ref())?;
    report.object(&json!({ "schema": SCHEMA, "kind": "dropped", "table": drop.table }))?;
    report.line(format_args!("dropped table {shown}"))
}

/// Prints what each shard holds.
pub fn stat(stat: &KvStat) -> Result<(), Failure> {
    let connection = Connection::open(&stat.place)?;
    let client = connection.client()?;
    let mut report = Report::open(stat.place.json.as_ref())?;
    for shard in 0..client.shards() {
        let statistics = client.statistics(shard).wait();
        if statistics == Err(KvFailure::WrongShard) {
            tell_away(shard, &mut report)?;
            continue;
        }
        let statistics = statistics.map_err(|failure| failure.explained(connection.about("")))?;
        show_shard(&statistics, &mut report)?;
    }
    Ok(())
}

pub fn table(table: &KvTable) -> Result<TableId, Failure> {
    TableId::of(&table.table).map_err(|error| Failure::Usage(error.to_string()))
}

fn name<'k>(of: &KvTable, key: &'k [u8]) -> Result<Name<'k>, Failure> {
    Name::new(table(of)?, key).map_err(|error| Failure::Usage(error.to_string()))
}

fn no_object(key: &str, table: &KvTable) -> Failure {
    Failure::Outcome(Outcome::NotFound, format!("there is no object `{key}` in table `{}`", table.table))
}

/// The value to write: from the argument, a file, or standard input. One that is too long is not read to its
/// end.
fn read_value(put: &KvPut) -> Result<Vec<u8>, Failure> {
    if let Some(value) = &put.value {
        return put.written.bytes(value);
    }
    let mut value = Vec::new();
    let most = VALUE_BYTES_MAX as u64 + 1;
    let (read, from) = match named_file(put.file.as_deref()) {
        Some(path) => {
            let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut value));
            (read, path.display().to_string())
        }
        None => (io::stdin().take(most).read_to_end(&mut value), "standard input".to_owned()),
    };
    read.map_err(|error| Failure::Run(format!("cannot read {from}: {error}")))?;
    if value.len() > VALUE_BYTES_MAX {
        return Err(Failure::Usage(format!(
            "the value in {from} is longer than the limit of {VALUE_BYTES_MAX} bytes; `farcall kv import` takes \
             strings of Redis clients that are longer"
        )));
    }
    Ok(value)
}

/// The value as it is; on a terminal, which it could control, escaped where needed, and with a line end for
/// the prompt.
fn write_value(value: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        writeln!(out, "{}", printable_lines(&String::from_utf8_lossy(value)))?;
    } else {
        out.write_all(value)?;
    }
    out.flush()
}
