//! `farcall kv move`: a shard goes to a process that waits for it.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use farcall_base::printable;
use farcall_kv::replicated::OpenRegistry;
use farcall_replica::{Record, Registry};
use serde_json::json;

use super::SCHEMA;
use super::place::primary_in_words;
use super::refused::Failed;
use super::way::Connection;
use crate::arguments::kv::KvMove;
use crate::failure::Failure;
use crate::output::Report;

/// The time between two looks at the record.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// How long the next primary may take until it serves, unless it is told otherwise.
const SERVES_WITHIN: Duration = Duration::from_secs(60);

/// What a claim and the first replicas of a new primary raise the epoch by.
const EPOCHS_TO_SERVE: u64 = 2;

/// Has the primary of a shard hand over to a process that waits, and waits until that has replicas.
pub fn run(moved: &KvMove) -> Result<(), Failure> {
    let (place, shard) = (&moved.place, moved.shard);
    let Some(at) = &place.registry else {
        return Err(Failure::Usage(
            "a shard is moved to where its registry says that a process waits for it: give --registry"
                .to_owned(),
        ));
    };
    let mut registry = OpenRegistry::open(at).map_err(Failure::run)?;
    let before = record(&mut registry, shard)?;
    let before = before.ok_or_else(|| Failure::Run(format!("{at} has no record of shard {shard}")))?;
    check_that_somebody_waits(&mut registry, shard, &before)?;
    let connection = Connection::open(place)?;
    let client = connection.client()?;
    if shard >= client.shards() {
        return Err(Failure::Usage(format!("--shard {shard}: the store has {}", client.shards())));
    }
    let asked = client.hand_over(shard).wait();
    asked.map_err(|failure| failure.explained(connection.about("")))?;
    let after = taken_over(&mut registry, shard, &before, place.timeout.unwrap_or(SERVES_WITHIN))?;
    tell(&mut Report::open(place.json.as_ref())?, shard, &before, &after)
}

/// Refuses a move that nobody could take, or that would take the shard from where it is looked for.
fn check_that_somebody_waits(
    registry: &mut OpenRegistry,
    shard: u32,
    before: &Record,
) -> Result<(), Failure> {
    let waiting = registry.waiting(shard).map_err(Failure::run)?;
    if waiting.is_empty() {
        return Err(Failure::Run(format!(
            "no process waits for shard {shard}; start `farcall kv serve` where it is to go, with the arguments \
             that the one at {} has",
            primary_in_words(&before.primary)
        )));
    }
    let elsewhere = waiting.iter().find(|waiting| **waiting != before.primary);
    if let Some(elsewhere) = elsewhere.filter(|_| shard == 0 && before.shards > 1) {
        return Err(Failure::Usage(format!(
            "shard 0 of {} is where the others are met, at {}: it moves to another process at its address only, \
             and one at {} waits for it; end that one",
            before.shards,
            primary_in_words(&before.primary),
            printable(elsewhere)
        )));
    }
    Ok(())
}

/// Waits until another process serves the shard with its replicas, and returns its record.
fn taken_over(
    registry: &mut OpenRegistry,
    shard: u32,
    before: &Record,
    within: Duration,
) -> Result<Record, Failure> {
    let begun = Instant::now();
    loop {
        let found = record(registry, shard)?;
        let is_taken = |after: &Record| after.incarnation != before.incarnation;
        let serves = |after: &Record| after.epoch >= before.epoch + EPOCHS_TO_SERVE;
        match found {
            Some(after) if is_taken(&after) && serves(&after) => return Ok(after),
            Some(after) if !is_taken(&after) && begun.elapsed() >= within => {
                return Err(Failure::Run(format!(
                    "nobody has taken shard {shard} over within {within:?}: the one that waited is gone, or the \
                     primary goes on while too few backups confirm what it has; see `farcall kv status`"
                )));
            }
            _ if begun.elapsed() >= within => {
                return Err(Failure::Run(format!(
                    "shard {shard} was handed over, and nobody serves it within {within:?}; see `farcall kv \
                     status`"
                )));
            }
            _ => thread::sleep(LOOK_AGAIN_AFTER),
        }
    }
}

fn tell(report: &mut Report, shard: u32, before: &Record, after: &Record) -> Result<(), Failure> {
    let (from, to, epoch) = (&before.primary, &after.primary, after.epoch);
    // Shards other than 0 are found by shard 0, wherever they are.
    match from == to {
        true => report.line(format_args!("shard {shard} is served by another process now; epoch {epoch}"))?,
        false => report.line(format_args!(
            "shard {shard} is at {}, and no more at {}; epoch {epoch}",
            primary_in_words(to),
            primary_in_words(from)
        ))?,
    }
    report.object(&json!({
        "schema": SCHEMA, "kind": "moved", "shard": shard, "from": from, "to": to, "epoch": epoch,
    }))
}

fn record(registry: &mut OpenRegistry, shard: u32) -> Result<Option<Record>, Failure> {
    let found = registry.load(&Record::key(shard)).map_err(Failure::run)?;
    Ok(found.and_then(|found| Record::decode(&found.value)))
}
