//! `farcall kv status`: where the replicas of a store are.

use core::fmt;

use farcall_base::printable;
use farcall_kv::Failure as KvFailure;
use farcall_kv::replicated::{OpenRegistry, RegistryPlace};
use farcall_kv::wire::Replication;
use farcall_lab::units::Size;
use farcall_replica::{ClaimError, Record, Registry, ReplicaStage, ReplicaStatus};
use serde_json::{Value, json};

use super::place::{Process, map_in, primary_in_words};
use super::refused::Failed;
use super::way::Connection;
use super::{SCHEMA, placement};
use crate::arguments::kv::KvStatus;
use crate::failure::{Failure, Outcome};
use crate::output::Report;

/// Prints who the primary of each shard is, and where its replicas are. Where no store answers it prints what
/// the registry has recorded, and has the status for that; it has another one where a level is not reached.
pub fn status(status: &KvStatus) -> Result<(), Failure> {
    let mut report = Report::open(status.place.json.as_ref())?;
    let connection = match (Connection::open(&status.place), &status.place.registry) {
        (Ok(connection), _) => connection,
        (Err(error @ Failure::Outcome(Outcome::Unreachable, _)), Some(registry)) => {
            report.line(format_args!("no store answers; the registry at {registry} has recorded:"))?;
            tell_records(registry, &mut report)?;
            return Err(error);
        }
        (Err(error), _) => return Err(error),
    };
    let client = connection.client()?;
    // First: a shard that is away ends this.
    if let Some(at) = &status.place.registry {
        let mut registry = OpenRegistry::open(at).map_err(Failure::run)?;
        let map = map_in(&mut registry, (at, &status.place), client.shards())?;
        placement::show(&map, &mut report)?;
    }
    let mut lacking = Vec::new();
    for shard in 0..client.shards() {
        let found = client.replication(shard).wait();
        if found == Err(KvFailure::WrongShard) {
            tell_away(shard, &mut report)?;
            continue;
        }
        let found = found.map_err(|failure| failure.explained(connection.about("")))?;
        let primary = Primary::of(&connection, shard);
        match found {
            Some(found) => {
                tell_replication((shard, &primary), &found, &mut report)?;
                lacking.extend((!found.trouble.is_empty()).then(|| shard.to_string()));
            }
            None => tell_alone((shard, &primary), &mut report)?,
        }
    }
    if lacking.is_empty() {
        return Ok(());
    }
    let sentence = format!("the level is not reached now by shard {}", lacking.join(", "));
    Err(Failure::Outcome(Outcome::LevelNotReached, sentence))
}

/// A shard is away that has no hash slots: others have taken over what it had.
pub fn tell_away(shard: u32, report: &mut Report) -> Result<(), Failure> {
    report.line(format_args!("shard {shard}: nobody serves it, and it has no hash slots"))?;
    report.object(&json!({ "schema": SCHEMA, "kind": "away", "shard": shard }))
}

/// Who serves a shard, as far as it says so.
struct Primary {
    process: Option<Process>,
    /// Where clients find it. They learn from shard 0 where the others are.
    at: Option<String>,
}

impl Primary {
    fn of(connection: &Connection, shard: u32) -> Self {
        let at = (shard == 0).then(|| connection.at().to_string());
        Self { process: connection.process_of(shard), at }
    }

    /// The last one, by the name that the registry has.
    fn recorded(name: &str) -> Self {
        match Process::parse(name) {
            Some(process) => Self { process: Some(process), at: None },
            None => Self { process: None, at: Some(name.to_owned()) },
        }
    }

    fn object(&self) -> Value {
        let process = self.process.as_ref();
        json!({
            "process": process.map(|process| process.number),
            "host": process.map(|process| &process.host),
            "at": self.at,
        })
    }
}

impl fmt::Display for Primary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            Some(process) => write!(f, "{process}")?,
            None => f.write_str("a process of an older version, which does not say which")?,
        }
        self.at.as_ref().map_or(Ok(()), |at| write!(f, ", at {at}"))
    }
}

/// A shard has no replicas.
fn tell_alone((shard, primary): (u32, &Primary), report: &mut Report) -> Result<(), Failure> {
    report.line(format_args!("shard {shard}: not replicated; served by {primary}"))?;
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "alone",
        "shard": shard,
        "primary": primary.object(),
    }))
}

fn tell_replication(
    (shard, primary): (u32, &Primary),
    found: &Replication,
    report: &mut Report,
) -> Result<(), Failure> {
    // Until then it is that of a recovery.
    let has_own = replicas_recorded(found);
    let lease = if has_own { "" } else { ", which is ten times as long until backups have the log" };
    let Replication { epoch, level, bytes, lease_left, writes, failures, replicas, trouble, .. } = found;
    report.line(format_args!(
        "shard {shard}: {level} in epoch {epoch}, a log of {}, {writes} writes, {failures} replicas failed or could \
         not be begun, {} ms of the lease left{lease}",
        Size(*bytes as usize),
        lease_left.as_millis()
    ))?;
    report.line(format_args!("  its primary is {primary}"))?;
    for ReplicaStatus { backup, stage, is_recorded, behind_bytes, .. } in replicas {
        let stage = match stage {
            ReplicaStage::Beginning => "is begun".to_owned(),
            ReplicaStage::Copying(copied) => format!("is copied, {} so far", Size(*copied as usize)),
            ReplicaStage::Whole if *is_recorded => "is whole and counts".to_owned(),
            ReplicaStage::Whole => "is whole".to_owned(),
        };
        report.line(format_args!("  {} {stage}, {behind_bytes} bytes behind", printable(backup)))?;
    }
    if !trouble.is_empty() {
        report.line(format_args!("  the level is not reached now: {}", printable(trouble)))?;
    }
    let shown: Vec<_> = replicas
        .iter()
        .map(|replica| {
            json!({
                "backup": replica.backup,
                "whole": replica.stage == ReplicaStage::Whole,
                "recorded": replica.is_recorded,
                "behind_bytes": replica.behind_bytes,
            })
        })
        .collect();
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "replication",
        "shard": shard,
        "primary": primary.object(),
        "level": level.to_string(),
        "epoch": epoch,
        "log_bytes": bytes,
        "lease_left_us": lease_left.as_micros() as u64,
        "writes": writes,
        "failures": failures,
        "replicas": shown,
        "trouble": trouble,
    }))
}

/// Whether this primary has replicas that count.
fn replicas_recorded(found: &Replication) -> bool {
    found.replicas.iter().any(|replica| replica.is_recorded)
}

/// Says what the registry has recorded.
fn tell_records(place: &RegistryPlace, report: &mut Report) -> Result<(), Failure> {
    let mut registry = OpenRegistry::open(place).map_err(Failure::run)?;
    for shard in 0.. {
        let found = registry.load(&Record::key(shard)).map_err(Failure::run)?;
        let Some(found) = found else { break };
        let record = Record::decode(&found.value).ok_or_else(|| Failure::run(ClaimError::Damaged))?;
        let Record { epoch, primary, wanted, replicas, .. } = record;
        report.line(format_args!(
            "shard {shard}: the last primary was {}, in epoch {epoch}; {} replicas of {wanted} have every \
             acknowledged write",
            primary_in_words(&primary),
            replicas.len()
        ))?;
        for place in &replicas {
            report.line(format_args!("  {}", printable(&place.backup)))?;
        }
        report.object(&json!({
            "schema": SCHEMA,
            "kind": "recorded",
            "shard": shard,
            "primary": Primary::recorded(&primary).object(),
            "epoch": epoch,
            "wanted": wanted,
            "replicas": replicas.iter().map(|place| &place.backup).collect::<Vec<_>>(),
        }))?;
    }
    Ok(())
}
