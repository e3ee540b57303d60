//! `farcall kv watch`: an object over time.

use std::thread;

use serde_json::json;

use super::SCHEMA;
use super::client::table;
use super::many::named;
use super::refused::Failed;
use super::show::{Shown, show_object};
use super::way::Connection;
use super::written::set_bytes;
use crate::arguments::kv::KvWatch;
use crate::failure::Failure;
use crate::output::Report;

/// Prints the object as it is, and again whenever it has changed.
pub fn run(watch: &KvWatch) -> Result<(), Failure> {
    let key = watch.written.bytes(&watch.key)?;
    let name = named(table(&watch.table)?, &key)?;
    let connection = Connection::open(&watch.place)?;
    let client = connection.client()?;
    let mut report = Report::open(watch.place.json.as_ref())?;
    let mut left = watch.limit.unwrap_or(u64::MAX);
    // Nothing has been seen before the first look, not even that there is no object.
    let mut last_seen = None;
    while left > 0 {
        let found = client.get(name).wait();
        let found = found.map_err(|failure| failure.explained(connection.about(&watch.table.table)))?;
        let found = found.as_ref().map(|object| (object.version(), object.value()));
        let version = Some(found.map(|(version, _)| version));
        if last_seen != version {
            last_seen = version;
            left -= 1;
            tell(&mut report, &key, found)?;
        }
        if left > 0 {
            thread::sleep(watch.every);
        }
    }
    Ok(())
}

fn tell(report: &mut Report, key: &[u8], found: Option<(u64, &[u8])>) -> Result<(), Failure> {
    let Some((version, value)) = found else {
        let mut absent = json!({ "schema": SCHEMA, "kind": "absent" });
        set_bytes(&mut absent, "key", key);
        report.object(&absent)?;
        return report.line(format_args!("{}\tis not there", key.escape_ascii()));
    };
    report.object(&show_object(key, version, Some(value)))?;
    report.line(Shown { key, version, value: Some(value) })
}
