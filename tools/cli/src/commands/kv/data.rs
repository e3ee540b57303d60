//! The data directory of a shard, and its tables.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use farcall::said::{self, Kind};
use farcall_disk::FileDisk;
use farcall_kv::Shard;
use farcall_kv::durable::{LOG_BYTES_MIN, Level, LogError, Recovered};
use farcall_kv::replicated::{images_in, log_without_replicas};
use farcall_lab::units::Size;
use farcall_replica::FolderOfLogs;
use serde_json::json;

use super::SCHEMA;
use crate::ahead::checks::lies_in_memory;
use crate::arguments::kv::{KvServe, TableArgument};
use crate::failure::Failure;
use crate::output::Report;

/// What is said of logs that no disk has.
static IN_MEMORY: Kind = Kind::new(said::Level::Warning, "logs that lie in memory");

/// The log of a store is this many times as long as its memory unless told otherwise: half of it may live,
/// and the emptier it is the less is cleaned.
const LOG_PER_MEMORY: u64 = 4;

/// That of a log which begins.
const FIRST_EPOCH: u64 = 1;

/// What was found in a log.
pub struct Found {
    path: PathBuf,
    recovered: Recovered,
    is_direct: bool,
    /// The file was there, and had nothing.
    was_empty: bool,
}

/// Opens the log, if there is to be one, and creates the tables that are not there yet.
pub fn open_tables(serve: &KvServe, shard: &mut Shard) -> Result<Option<Found>, Failure> {
    let found = match &serve.data {
        Some(folder) => Some(open_log(serve, folder, shard)?),
        None => {
            if let Some(table) = tables(serve).find(|table| table.level != Level::Memory) {
                let (name, level) = (&table.name, table.level);
                return Err(Failure::Usage(format!(
                    "table `{name}` is to be {level}, which takes a directory for its log: give --data DIR"
                )));
            }
            None
        }
    };
    create_tables(serve, shard)?;
    Ok(found)
}

/// The tables that are named.
pub fn tables(serve: &KvServe) -> impl Iterator<Item = &TableArgument> {
    serve.tables.iter().flat_map(|list| &list.0)
}

/// Refuses tables that are named twice: which level was meant nobody knows.
pub fn check_tables(serve: &KvServe) -> Result<(), Failure> {
    let mut named = BTreeSet::new();
    match tables(serve).find(|table| !named.insert(&table.name)) {
        Some(TableArgument { name, .. }) => {
            Err(Failure::Usage(format!("--tables names `{name}` twice: name each table once")))
        }
        None => Ok(()),
    }
}

/// Creates the tables that are not there yet.
pub fn create_tables(serve: &KvServe, shard: &mut Shard) -> Result<(), Failure> {
    for table in tables(serve) {
        let level = shard
            .create_table_at(&table.name, table.level)
            .map_err(|error| Failure::Usage(format!("--tables: {error}")))?;
        if level.and(table.level) != level {
            let (name, wanted) = (&table.name, table.level);
            return Err(Failure::Usage(format!(
                "table `{name}` is to be {wanted}, and is {level} in the log, which it stays: give it that level, \
                 or another name"
            )));
        }
    }
    Ok(())
}

/// The longest that the log may become.
pub fn log_bytes_max(serve: &KvServe) -> Result<u64, Failure> {
    let bytes_max = serve.data_size.map_or(LOG_PER_MEMORY * serve.memory.0 as u64, |size| size.0 as u64);
    if bytes_max < LOG_BYTES_MIN {
        let (given, least) = (Size(bytes_max as usize), Size(LOG_BYTES_MIN as usize));
        return Err(Failure::Usage(format!(
            "--data-size {given} is too little for a log; give at least {least}"
        )));
    }
    Ok(bytes_max)
}

/// The longest that a log in memory may become, of tables that are replicated and not flushed; 0 if there is
/// none.
pub fn log_bytes_in_memory(serve: &KvServe) -> Result<u64, Failure> {
    if has_log_in_memory(serve) { log_bytes_max(serve) } else { Ok(0) }
}

fn has_log_in_memory(serve: &KvServe) -> bool {
    let level = tables(serve).fold(Level::Memory, |level, table| level.and(table.level));
    level.replicas() > 0 && !level.is_flushed()
}

/// Refuses the size of a log that is nowhere.
pub fn check_size(serve: &KvServe) -> Result<(), Failure> {
    if serve.data_size.is_some() && serve.data.is_none() && !has_log_in_memory(serve) {
        return Err(Failure::Usage(
            "--data-size is for a log, and there is none: give --data DIR, or a table that is replicated"
                .to_owned(),
        ));
    }
    Ok(())
}

fn open_log(serve: &KvServe, folder: &Path, shard: &mut Shard) -> Result<Found, Failure> {
    let bytes_max = log_bytes_max(serve)?;
    take_folder(folder)?;
    warn_of_memory(folder);
    let shard_number = serve.shard as u32;
    let images = images_in(folder, shard_number);
    let images = images.map_err(|error| Failure::Run(format!("{}: {error}", folder.display())))?;
    if let Some(image) = images.first() {
        return Err(Failure::Run(format!(
            "{} is the log of a replicated shard, and its registry says which copy of it counts: give --registry \
             and a level such as replicated=1, or another --data",
            image.display()
        )));
    }
    let path = log_without_replicas(folder, shard_number);
    let was_there = path.exists();
    let disk = FileDisk::open(&path).map_err(|error| Failure::Run(error.to_string()))?;
    let is_direct = disk.is_direct();
    let recovered = shard.open_log(Box::new(disk), bytes_max);
    let recovered = recovered.map_err(|error| not_opened(&path, &error))?;
    let was_empty = was_there && recovered.epoch == FIRST_EPOCH;
    Ok(Found { path, recovered, is_direct, was_empty })
}

/// The sentence for a log that has no replicas and is not opened.
fn not_opened(path: &Path, error: &LogError) -> Failure {
    let shown = path.display();
    let advice = match error {
        LogError::Damaged { .. } | LogError::CutOff { .. } | LogError::NotALog => {
            "; put back a copy of the file, or move it away and bring the last file of `farcall kv backup --export` \
             into the store that begins then, by `farcall kv restore`"
        }
        _ => "",
    };
    Failure::Run(format!("{shown}: {error}{advice}"))
}

/// Makes the directory of a log, and has no backup use it as long as this process lives.
pub fn take_folder(folder: &Path) -> Result<(), Failure> {
    if folder.exists() && !folder.is_dir() {
        let shown = folder.display();
        return Err(Failure::Usage(format!(
            "--data: {shown} is a file, and a log needs a directory: give one"
        )));
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| Failure::Usage(format!("--data: cannot create {}: {error}", folder.display())))?;
    let taken = FolderOfLogs::share(folder).map_err(|error| Failure::Run(format!("--data: {error}")))?;
    // The system unlocks it, whatever ends the process.
    core::mem::forget(taken);
    Ok(())
}

/// Says so where a directory lies in memory: a flush does nothing there.
pub fn warn_of_memory(folder: &Path) {
    if lies_in_memory(folder) {
        IN_MEMORY.say(format_args!(
            "{} lies in the memory of this machine (tmpfs): what is flushed there does not survive a power cut; \
             give --data a directory on a disk",
            folder.display()
        ));
    }
}

/// Says what was found.
pub fn tell(found: &Found, report: &mut Report) -> Result<(), Failure> {
    let Found { path, recovered, is_direct, was_empty } = found;
    let shown = path.display();
    report.line(format_args!(
        "{} objects of durable tables from {shown}, epoch {}",
        recovered.objects, recovered.epoch
    ))?;
    if *was_empty {
        report.line(format_args!("  {shown} had nothing: a new log begins in it"))?;
    }
    if recovered.torn_bytes > 0 {
        report.line(format_args!(
            "  a write of {} bytes was in flight when the last process ended; it was never acknowledged, and is \
             left out",
            recovered.torn_bytes
        ))?;
    }
    if !*is_direct {
        report.line(format_args!(
            "  {shown} lies on a file system without O_DIRECT: writes take its page cache"
        ))?;
    }
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "recovered",
        "file": path.display().to_string(),
        "epoch": recovered.epoch,
        "objects": recovered.objects,
        "bytes": recovered.bytes,
        "torn_bytes": recovered.torn_bytes,
        "took_us": recovered.took.as_micros() as u64,
        "direct": is_direct,
        "was_empty": was_empty,
    }))
}
