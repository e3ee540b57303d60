//! The commands that use a store.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};

use farcall::{Endpoint, Node};
use farcall_kv::store::{Condition, ReadError};
use farcall_kv::{Client, Failure as KvFailure, Name, ScanPosition, TableId, VALUE_BYTES_MAX, Value};
use serde_json::json;

use super::show::{Shown, show_object, show_shard, shown};
use super::{SCHEMA, join_as_client};
use crate::arguments::kv::{KvDelete, KvGet, KvIncr, KvPlace, KvPut, KvScan, KvStat, KvTable};
use crate::arguments::load_settings;
use crate::failure::Failure;
use crate::output::Report;

/// Bytes of keys and values that a scan asks for at a time.
const PAGE_BYTES: usize = 256 << 10;

/// A client's endpoint. The store knows how many shards it has, and says so to those who ask shard 0.
struct Connection {
    endpoint: Endpoint,
    _node: Node,
}

impl Connection {
    fn open(place: &KvPlace) -> Result<Self, Failure> {
        let settings = load_settings(&place.settings)?;
        let node = Node::new(join_as_client(place)?, settings);
        let endpoint = node.endpoint(place.transport.name()).map_err(Failure::run)?;
        Ok(Self { endpoint, _node: node })
    }

    fn client(&self) -> Result<Client<'_>, Failure> {
        let first = Client::new(&self.endpoint, [0]);
        let shards = first.statistics(0).wait().map_err(Failure::run)?.shards;
        Ok(Client::new(&self.endpoint, 0..shards))
    }
}

/// Prints a value.
pub fn get(get: &KvGet) -> Result<(), Failure> {
    let name = name(&get.table, &get.key)?;
    let connection = Connection::open(&get.place)?;
    let found = connection.client()?.get(name).wait().map_err(|failure| explain(failure, &get.table))?;
    let found = found.ok_or_else(|| no_object(&get.key, &get.table))?;
    let mut report = Report::open(get.place.json.as_ref())?;
    report.object(&show_object(name.key(), found.version(), Some(found.value())))?;
    if report.has_text() {
        write_value(found.value()).map_err(Failure::output)?;
    }
    Ok(())
}

/// Writes an object.
pub fn put(put: &KvPut) -> Result<(), Failure> {
    let name = name(&put.table, &put.key)?;
    let value = read_value(put)?;
    let value = Value::new(&value).map_err(|error| Failure::Usage(error.to_string()))?;
    let condition = match (put.if_absent, put.if_version) {
        (true, _) => Condition::Absent,
        (false, Some(version)) => Condition::Version(version),
        (false, None) => Condition::Always,
    };
    let connection = Connection::open(&put.place)?;
    let written = connection.client()?.put(name, value, condition).wait();
    let version = written.map_err(|failure| explain(failure, &put.table))?;
    let mut report = Report::open(put.place.json.as_ref())?;
    report.object(&show_object(name.key(), version, None))?;
    report.line(format_args!("version {version}"))
}

/// Deletes an object.
pub fn delete(delete: &KvDelete) -> Result<(), Failure> {
    let name = name(&delete.table, &delete.key)?;
    let condition = delete.if_version.map_or(Condition::Always, Condition::Version);
    let connection = Connection::open(&delete.place)?;
    let deleted = connection.client()?.delete(name, condition).wait();
    let deleted = deleted.map_err(|failure| explain(failure, &delete.table))?;
    let version = deleted.ok_or_else(|| no_object(&delete.key, &delete.table))?;
    let mut report = Report::open(delete.place.json.as_ref())?;
    report.object(&show_object(name.key(), version, None))?;
    report.line(format_args!("deleted version {version}"))
}

/// Adds to a number.
pub fn incr(incr: &KvIncr) -> Result<(), Failure> {
    let name = name(&incr.table, &incr.key)?;
    let connection = Connection::open(&incr.place)?;
    let added = connection.client()?.increment(name, incr.amount).wait();
    let (version, sum) = added.map_err(|failure| explain(failure, &incr.table))?;
    let mut report = Report::open(incr.place.json.as_ref())?;
    report.object(&json!({
        "schema": SCHEMA, "kind": "number", "key": shown(name.key()), "version": version, "sum": sum,
    }))?;
    report.line(sum)
}

/// Lists a table.
pub fn scan(scan: &KvScan) -> Result<(), Failure> {
    let table = table(&scan.table)?;
    let connection = Connection::open(&scan.place)?;
    let client = connection.client()?;
    let mut report = Report::open(scan.place.json.as_ref())?;
    let mut left = scan.limit.unwrap_or(u64::MAX);
    let mut position = Some(ScanPosition::default());
    while let Some(from) = position
        && left > 0
    {
        let page = connection.endpoint.block_on(client.scan(table, from, PAGE_BYTES));
        let page = page.map_err(|failure| explain(failure, &scan.table))?;
        for object in page.objects().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            report.object(&show_object(object.key, object.version, Some(object.value)))?;
            report.line(Shown { key: object.key, version: object.version, value: object.value })?;
            left -= 1;
        }
        position = page.next;
    }
    Ok(())
}

/// Prints what each shard holds.
pub fn stat(stat: &KvStat) -> Result<(), Failure> {
    let connection = Connection::open(&stat.place)?;
    let client = connection.client()?;
    let mut report = Report::open(stat.place.json.as_ref())?;
    for shard in 0..client.shards() {
        let statistics = client.statistics(shard).wait().map_err(Failure::run)?;
        show_shard(&statistics, &mut report)?;
    }
    Ok(())
}

fn table(table: &KvTable) -> Result<TableId, Failure> {
    TableId::of(&table.table).map_err(|error| Failure::Usage(error.to_string()))
}

fn name<'k>(of: &KvTable, key: &'k str) -> Result<Name<'k>, Failure> {
    Name::new(table(of)?, key.as_bytes()).map_err(|error| Failure::Usage(error.to_string()))
}

fn no_object(key: &str, table: &KvTable) -> Failure {
    Failure::Run(format!("there is no object `{key}` in table `{}`", table.table))
}

/// The sentence for a failure; a missing table is named.
fn explain<E: core::error::Error + 'static>(failure: KvFailure<E>, table: &KvTable) -> Failure {
    let sentence = failure.to_string();
    if sentence == ReadError::UnknownTable.to_string() {
        return Failure::Run(format!("there is no table `{}`", table.table));
    }
    Failure::Run(sentence)
}

/// The value to write: from the argument, a file, or standard input. One that is too long is not read to its end.
fn read_value(put: &KvPut) -> Result<Vec<u8>, Failure> {
    if let Some(value) = &put.value {
        return Ok(value.clone().into_bytes());
    }
    let mut value = Vec::new();
    let most = VALUE_BYTES_MAX as u64 + 1;
    let (read, from) = match &put.file {
        Some(path) => {
            let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut value));
            (read, path.display().to_string())
        }
        None => (io::stdin().take(most).read_to_end(&mut value), "standard input".to_owned()),
    };
    read.map_err(|error| Failure::Run(format!("cannot read {from}: {error}")))?;
    Ok(value)
}

/// The value as it is; on a terminal with a line end, for the prompt.
fn write_value(value: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(value)?;
    if out.is_terminal() {
        out.write_all(b"\n")?;
    }
    out.flush()
}
