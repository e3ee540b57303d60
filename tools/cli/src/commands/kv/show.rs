//! Objects and shards, for people and as JSON.

use core::fmt;

use farcall_base::printable;
use farcall_kv::wire::ShardStatistics;
use farcall_lab::units::Size;
use serde_json::{Value, json};

use super::SCHEMA;
use super::written::set_bytes;
use crate::failure::Failure;
use crate::output::Report;

/// Bytes of a value that a line shows; of longer ones it also tells the length.
const SHOWN_BYTES_MAX: usize = 64;

/// An object on a line: key, version and the start of the value with tabs in between, and every other byte
/// than printable ASCII escaped.
pub struct Shown<'a> {
    pub key: &'a [u8],
    pub version: u64,
    /// Without one the line ends behind the version.
    pub value: Option<&'a [u8]>,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}", self.key.escape_ascii(), self.version)?;
        let Some(value) = self.value else { return Ok(()) };
        let shown = &value[..value.len().min(SHOWN_BYTES_MAX)];
        write!(f, "\t{}", shown.escape_ascii())?;
        if shown.len() < value.len() {
            write!(f, "… ({} bytes)", value.len())?;
        }
        Ok(())
    }
}

/// An object as JSON, with its value if it is known.
pub fn show_object(key: &[u8], version: u64, value: Option<&[u8]>) -> Value {
    let mut object = json!({ "schema": SCHEMA, "kind": "object", "version": version });
    set_bytes(&mut object, "key", key);
    if let Some(value) = value {
        set_bytes(&mut object, "value", value);
    }
    object
}

/// What a shard holds.
pub fn show_shard(statistics: &ShardStatistics, report: &mut Report) -> Result<(), Failure> {
    let ShardStatistics { shard, shards, store, tables } = statistics;
    report.line(format_args!(
        "shard {shard} of {shards}: {} objects in {}",
        store.objects,
        tables.iter().map(|name| printable(name)).collect::<Vec<_>>().join(", ")
    ))?;
    let percent = 100.0 * store.live_bytes as f64 / store.live_bytes_max.max(1) as f64;
    let memory = Size(store.memory_bytes);
    report.line(format_args!(
        "  {} bytes of memory used of {memory}, {} of them by objects: {percent:.1} % of what fits",
        store.used_bytes, store.live_bytes
    ))?;
    let cleaner = &store.cleaner;
    report.line(format_args!(
        "  {} segments cleaned, {} bytes moved, {} writes waited for it",
        cleaner.segments_freed, cleaner.moved_bytes, cleaner.forced
    ))?;
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "shard",
        "shard": shard,
        "shards": shards,
        "tables": tables,
        "objects": store.objects,
        "memory_bytes": store.memory_bytes,
        "used_bytes": store.used_bytes,
        "live_bytes": store.live_bytes,
        "live_bytes_max": store.live_bytes_max,
        "cleaner_visited_bytes": cleaner.visited_bytes,
        "cleaner_moved_bytes": cleaner.moved_bytes,
        "cleaner_segments_freed": cleaner.segments_freed,
        "cleaner_forced": cleaner.forced,
    }))
}
