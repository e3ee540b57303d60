//! `farcall kv move-slots`: hash slots go from one shard to another, while both serve.

use core::time::Duration;
use std::collections::BTreeSet;
use std::thread;
use std::time::Instant;

use farcall_base::printable;
use farcall_kv::placement::{SlotMap, SlotMove, SlotRange, begin_move, give_up_move};
use farcall_kv::replicated::{OpenRegistry, RegistryPlace};
use farcall_replica::{Record, Registry};
use serde_json::json;

use super::place::map_in;
use super::{SCHEMA, spread};
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
        true => give_up_one(&mut registry, (at, shards), moved)?,
        false => begin_move(&mut registry, shards, (*slots, *from, *to)).map_err(Failure::run)?,
    };
    let begun = Instant::now();
    let ended = loop {
        let map = map_in(&mut registry, (at, place), shards)?;
        if map.moves().iter().all(|it| it.number != number) {
            break outcome_of(&map, (number, *slots), (*from, *to));
        }
        if place.timeout.is_some_and(|within| begun.elapsed() >= within) {
            return Err(Failure::Run(format!(
                "slots {slots} are still on their way to shard {to}; see `farcall kv status`"
            )));
        }
        thread::sleep(LOOK_AGAIN_AFTER);
    };
    let mut report = Report::open(place.json.as_ref())?;
    match ended {
        Ended::Done => {}
        Ended::GivenUp(_) if *give_up => {
            return report.line(format_args!("slots {slots} stay with shard {from}"));
        }
        Ended::GivenUp(reason) => {
            return Err(Failure::Run(format!(
                "slots {slots} stay with shard {from}: {}; nothing was changed",
                printable(&reason)
            )));
        }
        Ended::Forgotten(owners) => {
            return Err(Failure::Run(format!(
                "too many moves have ended since to know how this one did; now slots {slots} are {owners}"
            )));
        }
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
fn give_up_one(
    registry: &mut OpenRegistry,
    (at, shards): (&RegistryPlace, u32),
    moved: &KvMoveSlots,
) -> Result<u64, Failure> {
    let KvMoveSlots { slots, from, to, place, .. } = moved;
    let map = map_in(registry, (at, place), shards)?;
    let is_it = |it: &&SlotMove| (it.range, it.from, it.to) == (*slots, *from, *to);
    let number = map.moves().iter().find(is_it).map(|it| it.number).ok_or_else(|| {
        Failure::Run(format!("slots {slots} are not on their way from shard {from} to shard {to}"))
    })?;
    give_up_move(registry, shards, (number, "it was given up by hand")).map_err(Failure::run)?;
    Ok(number)
}

/// How a move ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    Done,
    /// For this reason.
    GivenUp(String),
    /// Long ago; whose its slots are now, if not the destination's.
    Forgotten(String),
}

/// How a move ended that is not in progress. Of one that is not remembered the owners of its slots tell.
fn outcome_of(map: &SlotMap, (number, slots): (u64, SlotRange), (from, to): (u32, u32)) -> Ended {
    match map.ended(number) {
        Some(ended) if ended.reason.is_empty() => return Ended::Done,
        Some(ended) => return Ended::GivenUp(ended.reason.clone()),
        None => {}
    }
    let owners: BTreeSet<u32> = (slots.first..=slots.last).map(|slot| map.owner(slot)).collect();
    match *owners.into_iter().collect::<Vec<_>>() {
        [owner] if owner == to => Ended::Done,
        [owner] if owner == from => Ended::Forgotten(format!("shard {from}'s, as before")),
        [owner] => Ended::Forgotten(format!("shard {owner}'s")),
        _ => Ended::Forgotten("those of several shards".to_owned()),
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
    spread::show(map, report)?;
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
        "spreads": spread::recorded(map),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: SlotRange = SlotRange { first: 0, last: 99 };

    /// A map in which as many moves of other slots have ended as are not remembered.
    fn much_later(mut map: SlotMap) -> SlotMap {
        let range = SlotRange { first: 200, last: 201 };
        for _ in 0..50 {
            let (next, number) = map.begin(range, 0, 1).expect("shard 0 has it");
            map = next.given_up(number, "a test").expect("it is in progress");
        }
        map
    }

    #[test]
    fn a_move_that_is_forgotten_is_known_by_the_owner_of_its_slots() {
        let ended = |map: &SlotMap, number| outcome_of(map, (number, SLOTS), (0, 1));
        let (map, number) = SlotMap::of(2).begin(SLOTS, 0, 1).expect("shard 0 has them");
        let done = map.done(number).expect("it is in progress");
        assert_eq!(ended(&done, number), Ended::Done);
        assert_eq!(ended(&much_later(done.clone()), number), Ended::Done);
        let given_up = map.given_up(number, "a table in memory").expect("it is in progress");
        assert_eq!(ended(&given_up, number), Ended::GivenUp("a table in memory".to_owned()));
        let as_before = Ended::Forgotten("shard 0's, as before".to_owned());
        assert_eq!(ended(&much_later(given_up), number), as_before);
        let (back, part) = done.begin(SlotRange { first: 0, last: 9 }, 1, 0).expect("shard 1 has them");
        let back = much_later(back.done(part).expect("it is in progress"));
        assert_eq!(ended(&back, number), Ended::Forgotten("those of several shards".to_owned()));
    }
}
