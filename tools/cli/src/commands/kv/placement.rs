//! `farcall kv move-slots`: hash slots go from one shard to another, while both serve.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use farcall_base::printable;
use farcall_kv::placement::{SlotMap, SlotMove, begin_move, give_up_move, load_map};
use farcall_kv::replicated::{OpenRegistry, RegistryPlace};
use farcall_replica::{Record, Registry};
use serde_json::json;

use super::SCHEMA;
use crate::arguments::kv::KvMoveSlots;
use crate::failure::Failure;
use crate::output::Report;

/// The time between two looks at the map.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// How many shards the store of a registry has.
fn shards_of(registry: &mut OpenRegistry, at: &RegistryPlace) -> Result<u32, Failure> {
    let found = registry.load(&Record::key(0)).map_err(Failure::run)?;
    let record = found.and_then(|found| Record::decode(&found.value));
    record.map(|record| record.shards).ok_or_else(|| Failure::Run(format!("{at} has no record of shard 0")))
}

/// Enters the move in the map, and waits until it has ended.
pub fn run(moved: &KvMoveSlots) -> Result<(), Failure> {
    let KvMoveSlots { slots, from, to, give_up, place } = moved;
    let Some(at) = &place.registry else {
        return Err(Failure::Usage(
            "hash slots move by the map in the store's registry: give --registry".to_owned(),
        ));
    };
    let mut registry = OpenRegistry::open(at).map_err(Failure::run)?;
    let shards = shards_of(&mut registry, at)?;
    let number = match give_up {
        true => give_up_one(&mut registry, shards, moved)?,
        false => begin_move(&mut registry, shards, (*slots, *from, *to)).map_err(Failure::run)?,
    };
    let begun = Instant::now();
    let reason = loop {
        let (map, _) = load_map(&mut registry, shards).map_err(Failure::run)?;
        if map.moves().iter().all(|it| it.number != number) {
            break outcome_of(&map, number);
        }
        if place.timeout.is_some_and(|within| begun.elapsed() >= within) {
            return Err(Failure::Run(format!(
                "slots {slots} are still on their way to shard {to}; see `farcall kv status`"
            )));
        }
        thread::sleep(LOOK_AGAIN_AFTER);
    };
    let mut report = Report::open(place.json.as_ref())?;
    if *give_up && reason.is_some() {
        return report.line(format_args!("slots {slots} stay with shard {from}"));
    }
    if let Some(reason) = reason {
        return Err(Failure::Run(format!(
            "slots {slots} stay with shard {from}: {}; nothing was changed",
            printable(&reason)
        )));
    }
    report.line(format_args!("slots {slots} are shard {to}'s, and no more shard {from}'s"))?;
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "slots_moved",
        "slots": [slots.first, slots.last],
        "from": from,
        "to": to,
        "move": number,
    }))
}

/// Gives up the move that the arguments name; gives its number.
fn give_up_one(registry: &mut OpenRegistry, shards: u32, moved: &KvMoveSlots) -> Result<u64, Failure> {
    let KvMoveSlots { slots, from, to, .. } = moved;
    let (map, _) = load_map(registry, shards).map_err(Failure::run)?;
    let is_it = |it: &&SlotMove| (it.range, it.from, it.to) == (*slots, *from, *to);
    let number = map.moves().iter().find(is_it).map(|it| it.number).ok_or_else(|| {
        Failure::Run(format!("slots {slots} are not on their way from shard {from} to shard {to}"))
    })?;
    give_up_move(registry, shards, (number, "it was given up by hand")).map_err(Failure::run)?;
    Ok(number)
}

/// Why a move that has ended was given up; `None` if it was done. One that is not remembered has ended long
/// ago.
fn outcome_of(map: &SlotMap, number: u64) -> Option<String> {
    match map.ended(number) {
        Some(ended) if ended.reason.is_empty() => None,
        Some(ended) => Some(ended.reason.clone()),
        None => Some("too many moves have ended since to know how this one did".to_owned()),
    }
}

/// Shows which shard has which slots, and what moves.
pub fn show(map: &SlotMap, report: &mut Report) -> Result<(), Failure> {
    if map.version() == 0 {
        return Ok(());
    }
    let ranges = map.ranges();
    for shard in 0..map.shards() {
        let own: Vec<_> =
            ranges.iter().filter(|(_, owner)| *owner == shard).map(|(range, _)| *range).collect();
        let shown: Vec<String> = own.iter().map(ToString::to_string).collect();
        match &*shown {
            [] => report.line(format_args!("shard {shard} has no hash slots"))?,
            shown => report.line(format_args!("shard {shard} has the hash slots {}", shown.join(", ")))?,
        }
    }
    for it in map.moves() {
        report.line(format_args!(
            "slots {} are on their way from shard {} to shard {}",
            it.range, it.from, it.to
        ))?;
    }
    let owned: Vec<_> = ranges.iter().map(|(range, shard)| json!([range.first, range.last, shard])).collect();
    let moves: Vec<_> = map
        .moves()
        .iter()
        .map(|it| {
            let slots = [it.range.first, it.range.last];
            json!({ "move": it.number, "slots": slots, "from": it.from, "to": it.to })
        })
        .collect();
    report.object(&json!({
        "schema": SCHEMA, "kind": "slots", "version": map.version(), "ranges": owned, "moves": moves,
    }))
}
