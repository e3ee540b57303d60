//! Commands about what writes survive, and what `INFO` says of it.
//!
//! A reply to a write says already that the level of its table is reached. These commands say how much more
//! than that is true: nothing here starts a copy of the store, because the log is one.

use std::time::UNIX_EPOCH;

use super::call::{Call, Done, Refusal};
use super::waiting::wait_for_log;
use crate::durable::{Level, LogStatus};
use crate::resp::reply::{Protocol, Reply};
use crate::resp::session::Session;
use crate::{Shard, TableId};

/// What has a client's writes, all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Acknowledged {
    /// The disk of this process.
    here: bool,
    /// Replicas at backups, and those on disks.
    replicas: i64,
    flushed_replicas: i64,
}

fn acknowledged(session: &Session, shard: &Shard) -> Acknowledged {
    if session.wrote_in_memory || !shard.has_log() {
        return Acknowledged::default();
    }
    let (is_flushed, replicas) = shard.acknowledged(session.last_group);
    let level = shard.log_level();
    let replicas = i64::try_from(replicas).unwrap_or(i64::MAX);
    let flushed_replicas = if level.is_flushed() { replicas } else { 0 };
    Acknowledged { here: is_flushed && level.is_flushed(), replicas, flushed_replicas }
}

/// A number that an argument is, which is not negative.
fn natural(call: &Call<'_>, number: usize, name: &str) -> Result<i64, Refusal> {
    let natural = call.integer(number)?;
    if natural >= 0 { Ok(natural) } else { Err(Refusal::new(format!("ERR {name} is negative"))) }
}

pub fn wait(call: &mut Call<'_>) -> Done {
    let (wanted, timeout) = (call.integer(1)?, natural(call, 2, "timeout")?);
    let Acknowledged { replicas, .. } = acknowledged(call.session, call.shard);
    if replicas >= wanted {
        call.reply.integer(replicas);
        return Ok(());
    }
    let mut otherwise = Reply::new(Vec::new(), call.session.protocol);
    otherwise.integer(replicas);
    wait_for_log(call, timeout as u64, otherwise.into_bytes())
}

pub fn waitaof(call: &mut Call<'_>) -> Done {
    let (local, wanted) = (natural(call, 1, "numlocal")?, natural(call, 2, "numreplicas")?);
    let timeout = natural(call, 3, "timeout")?;
    if local > 1 {
        return Err(Refusal::of("ERR value is out of range, must be positive"));
    }
    if local == 1 && !call.shard.log_level().is_flushed() {
        return Err(Refusal::of(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    let Acknowledged { here, flushed_replicas, .. } = acknowledged(call.session, call.shard);
    let answer = |protocol: Protocol| {
        let mut reply = Reply::new(Vec::new(), protocol);
        reply.array(2);
        reply.integer(i64::from(here));
        reply.integer(flushed_replicas);
        reply.into_bytes()
    };
    let answer = answer(call.session.protocol);
    if i64::from(here) >= local && flushed_replicas >= wanted {
        call.reply.append(&answer);
        return Ok(());
    }
    wait_for_log(call, timeout as u64, answer)
}

const NO_LOG: Refusal =
    Refusal::of("ERR nothing is written to a disk: start the store with --data and tables with a level");

pub fn save(call: &mut Call<'_>) -> Done {
    if !call.shard.log_level().is_flushed() {
        return Err(NO_LOG);
    }
    call.engine.needed = call.engine.needed.max(call.shard.group_of_all());
    call.reply.ok();
    Ok(())
}

pub fn bgsave(call: &mut Call<'_>) -> Done {
    if !call.shard.log_level().is_flushed() {
        return Err(NO_LOG);
    }
    if call.args.len() == 2 && !call.is(1, "schedule") {
        return Err(Refusal::SYNTAX);
    }
    // What gathers is flushed whether or not anybody asks.
    call.reply.simple("Background saving started");
    Ok(())
}

pub fn bgrewriteaof(_: &mut Call<'_>) -> Done {
    Err(Refusal::of("ERR the log is cleaned as it fills: there is nothing to rewrite"))
}

pub fn lastsave(call: &mut Call<'_>) -> Done {
    let seconds = last_flush(call.shard);
    call.reply.integer(i64::try_from(seconds).unwrap_or(i64::MAX));
    Ok(())
}

/// When this process last flushed something, in seconds since 1970; 0 if it has not.
fn last_flush(shard: &Shard) -> u64 {
    let since = shard.flushed_at().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs())
}

type Lines = Vec<(String, String)>;

/// What the tables of databases survive, and what the log does for it.
pub fn persistence(shard: &Shard, database: TableId, databases: &[TableId]) -> Lines {
    let mut lines: Lines = Vec::new();
    let mut line = |key: &str, value: String| lines.push((key.to_owned(), value));
    let status = shard.log_status();
    line("loading", "0".to_owned());
    line("rdb_bgsave_in_progress", "0".to_owned());
    line("rdb_last_save_time", last_flush(shard).to_string());
    line("aof_enabled", u8::from(shard.log_level().is_flushed()).to_string());
    line("aof_rewrite_in_progress", "0".to_owned());
    line("farcall_level", shard.level_of(database).to_string());
    for (number, table) in databases.iter().enumerate() {
        let level = shard.level_of(*table);
        if level != Level::Memory {
            line(&format!("farcall_level_db{number}"), level.to_string());
        }
    }
    let Some(LogStatus { epoch, live_bytes, frames, statistics, failure, .. }) = status else {
        return lines;
    };
    let written = if failure.is_none() { "ok" } else { "err" };
    line("aof_last_write_status", written.to_owned());
    if let Some(failure) = failure {
        line("farcall_log_failure", failure.to_string());
    }
    line("farcall_log_epoch", epoch.to_string());
    line("farcall_log_live_bytes", live_bytes.to_string());
    line("farcall_log_frames", format!("{} of {}", frames.0, frames.1));
    line("farcall_log_groups", statistics.groups.to_string());
    line("farcall_log_records", statistics.records.to_string());
    line("farcall_log_unflushed", u8::from(shard.is_flushing()).to_string());
    line("farcall_last_flush", last_flush(shard).to_string());
    lines
}

/// Who has replicas of the log, and what each of them lacks.
pub fn replication(shard: &Shard) -> Lines {
    let mut lines: Lines = Vec::new();
    let mut line = |key: &str, value: String| lines.push((key.to_owned(), value));
    let role = if shard.may_answer().is_ok() { "master" } else { "slave" };
    line("role", role.to_owned());
    let Some(status) = shard.mirror().map(|mirror| mirror.status()) else {
        line("connected_slaves", "0".to_owned());
        return lines;
    };
    line("connected_slaves", status.replicas.len().to_string());
    for (number, replica) in status.replicas.iter().enumerate() {
        let place = replica.backup.split('/').next().unwrap_or_default();
        let (host, port) = place.rsplit_once(':').unwrap_or((place, "0"));
        let state = if replica.is_recorded { "online" } else { "wait_bgsave" };
        let behind = replica.behind_bytes;
        let offset = status.bytes.saturating_sub(behind);
        line(
            &format!("slave{number}"),
            format!("ip={host},port={port},state={state},offset={offset},lag=0,behind_bytes={behind}"),
        );
    }
    line("master_repl_offset", status.bytes.to_string());
    line("farcall_replicas_wanted", status.record.wanted.to_string());
    line("farcall_epoch", status.record.epoch.to_string());
    line("farcall_lease_left_ms", status.lease_left.as_millis().to_string());
    if let Some(trouble) = status.trouble {
        line("farcall_trouble", trouble);
    }
    lines
}
