//! A shard whose log two others take over, step by step, over logs on simulated disks.

use std::sync::Arc;
use std::sync::mpsc::channel;

use farcall_disk::Disk;
use farcall_disk::testing::{Faults, SimulatedDisk};

use super::*;
use crate::durable::parts::{CheckedSegment, PartReplay, ReplayedPart, Weights, select};
use crate::durable::{Ending, LOG_BYTES_MIN, Level, LogError, frame_at, outline, outline_until};
use crate::placement::tests::{ask, get, named, put, settle};
use crate::placement::{Exported, LogEnd, SlotMap, SlotRange, SlotSet, SpreadPart, SpreadPlan};
use crate::store::{Changed, Condition, Expiry, Growth, List, MEMORY_BYTES_MIN, Store};
use crate::wire::{ADD_CLIENT, INCREMENT, IncrementRequest, IncrementResponse, ONCE, OnceRequest};
use crate::wire::{hash_slot, identity_after};
use crate::{TableId, VALUE_BYTES_MAX, Value};

/// The shard that is gone.
const GONE: u32 = 2;

fn open(disk: &SimulatedDisk, number: u32) -> Shard {
    let mut shard = Shard::new(Store::new(4 * MEMORY_BYTES_MIN).expect("enough"), number, 3);
    shard.open_log(Box::new(disk.clone()), LOG_BYTES_MIN).expect("a log");
    shard.create_table_at("t", Level::Flushed).expect("a good name");
    shard
}

fn disks() -> [SimulatedDisk; 3] {
    [1, 2, 3].map(|seed| SimulatedDisk::new(seed, Faults::default()))
}

/// Keys of the shard.
fn keys(count: usize) -> Vec<String> {
    let of_shard = |key: &String| SlotMap::of(3).owner(hash_slot(key.as_bytes())) == GONE;
    (0..).map(|number| format!("k{number}")).filter(of_shard).take(count).collect()
}

fn add_client(shard: &mut Shard) -> u64 {
    let answer = ask(shard, ADD_CLIENT, &[]).expect("there is room");
    u64::from_le_bytes(answer.try_into().expect("a number"))
}

/// Adds one to a number, once; gives the sum.
fn add_once(shard: &mut Shard, (client, sequence): (u64, u64), key: &str) -> Result<i64, Code> {
    let (mut increment, mut message) = (Vec::new(), Vec::new());
    IncrementRequest { name: named(key), amount: 1 }.encode(&mut increment);
    OnceRequest { client, sequence, first: 1, service: INCREMENT, message: &increment }.encode(&mut message);
    ask(shard, ONCE, &message).map(|answer| IncrementResponse::decode(&answer).expect("an answer").sum)
}

fn segment_of(disk: &mut SimulatedDisk, ending: &Ending) -> Vec<u8> {
    let blocks = farcall_disk::Blocks::zeroed(ending.bytes as usize);
    disk.begin(farcall_disk::Job::Read { at: frame_at(ending.frame), blocks });
    disk.wait().expect("it has power").blocks.to_vec()
}

/// Where the log ends, and how many bytes its slots have.
fn weigh(disk: &mut SimulatedDisk) -> (LogEnd, Vec<u64>) {
    let image: &mut dyn Disk = disk;
    let (log, segments) = outline(image, (GONE, 3)).expect("it is whole").expect("it was written");
    let Ending { segment, frame, bytes, crc } = *segments.last().expect("a head");
    let mut weights = Weights::default();
    for ending in &segments {
        let mut of_segment = Weights::default();
        let segment = segment_of(disk, ending);
        of_segment.add_segment(&CheckedSegment::new(log, ending, &segment).expect("it is whole"));
        let mut message = Vec::new();
        of_segment.encode(&mut message);
        weights.add(&message).expect("it was encoded");
    }
    (LogEnd { log, segment, frame, bytes, crc }, weights.by_slot())
}

/// What a shard reads of a log of which it takes a part.
fn replayed(disk: &mut SimulatedDisk, end: LogEnd, ranges: &[SlotRange]) -> Result<ReplayedPart, LogError> {
    let LogEnd { log, segment, frame, bytes, crc } = end;
    let image: &mut dyn Disk = disk;
    let segments = outline_until(image, log, Ending { segment, frame, bytes, crc }).expect("it is whole");
    let mut replay = PartReplay::new(2 * MEMORY_BYTES_MIN).expect("enough");
    for ending in segments {
        let (mut message, segment) = (Vec::new(), segment_of(disk, &ending));
        let segment = CheckedSegment::new(log, &ending, &segment).expect("it is whole");
        select(&segment, &SlotSet::of_all(ranges), &mut message);
        replay.replay(&message).expect("it was selected");
    }
    replay.finish()
}

/// Has a shard take its part of what a disk has, until its log has it.
fn take(shard: &mut Shard, own: u32, spread: &Spread, disk: &mut SimulatedDisk) {
    let plan = spread.plan.as_ref().expect("it has one");
    let part = replayed(disk, plan.end, &spread.ranges_to(own)).expect("it has no long strings");
    let ReplayedPart { mut store, mut exporter, mut clients, last_version } = part;
    clients.iter_mut().for_each(|it| it.client = identity_after(it.client, spread.number));
    let (to, fetched) = channel();
    to.send(Fetched::Clients(clients)).expect("it is received");
    loop {
        match exporter.next_page(&mut store).expect("nothing is in the way") {
            Exported::Page(page) => to.send(Fetched::Page(page, last_version)).expect("it is received"),
            Exported::Nothing => {}
            Exported::All => break,
        }
    }
    to.send(Fetched::All(last_version)).expect("it is received");
    let mut taking =
        Taking { number: spread.number, own, fetched, next: None, pages: 0, group: 0, is_over: false };
    loop {
        match taking.turn(shard) {
            PartTurn::Ready => break,
            PartTurn::GiveUp(reason) => panic!("{reason}"),
            PartTurn::Something | PartTurn::Nothing => _ = shard.turn_log(),
        }
    }
    assert!(matches!(taking.turn(shard), PartTurn::Nothing), "it is over");
}

/// Has shards know a map.
fn adopt(shards: &mut [Shard], map: &SlotMap) {
    let map = Arc::new(map.clone());
    for shard in shards {
        shard.adopt(&map);
        while shard.drop_others() {
            shard.turn_log();
        }
    }
}

/// A map in which the slots of the shard that is gone are on their way to both others, in halves.
fn planned(map: &SlotMap, end: LogEnd) -> (SlotMap, Spread) {
    let (begun, number) = map.begin_spread(GONE, 5).expect("it has slots");
    let parts = vec![
        SpreadPart { range: SlotRange { first: 10_923, last: 13_000 }, to: 1 },
        SpreadPart { range: SlotRange { first: 13_001, last: 16_383 }, to: 0 },
    ];
    let plan = SpreadPlan { end, parts, ready: Default::default() };
    let map = begun.plan_spread(number, &plan).expect("they are free").expect("it is in progress");
    let spread = map.spreads()[0].clone();
    (map, spread)
}

/// What the shard that is gone had: values, of which some were written again, deleted, or expire; a list; a
/// number to which a client has added.
fn fill(shard: &mut Shard, keys: &[String]) -> u64 {
    keys.iter().for_each(|key| put(shard, key, "old").expect("room"));
    keys.iter().skip(1).for_each(|key| put(shard, key, key).expect("room"));
    shard.store_mut().delete(named(&keys[1]), Condition::Always).expect("it is there");
    shard.record_changes();
    let value = Value::new(b"late").expect("short");
    let expiry = Expiry::At(u64::MAX / 2);
    shard.store_mut().put_until(named(&keys[2]), value, Condition::Always, expiry).expect("room");
    shard.record_changes();
    let growth = Growth { elements: 1000, bytes: 4000 };
    shard.store_mut().delete(named(&keys[3]), Condition::Always).expect("it is there");
    shard.record_changes();
    let filled = shard.store_mut().change_collection(named(&keys[3]), growth, |list: &mut List| {
        (0..1000_u32).for_each(|number| list.insert(list.len(), &number.to_be_bytes()));
        ((), Changed::Yes)
    });
    filled.expect("room");
    shard.record_changes();
    shard.store_mut().delete(named(&keys[0]), Condition::Always).expect("it is there");
    shard.record_changes();
    let client = add_client(shard);
    assert_eq!(add_once(shard, (client, 1), &keys[0]), Ok(1));
    assert_eq!(add_once(shard, (client, 2), &keys[0]), Ok(2));
    settle(shard);
    client
}

#[test]
fn others_have_everything_of_a_shard_that_is_gone_each_its_part() {
    let mut disks = disks();
    let keys = keys(60);
    let mut gone = open(&disks[2], GONE);
    let client = fill(&mut gone, &keys);
    let before: Vec<_> = keys[4..].iter().map(|key| get(&mut gone, key).expect("its own")).collect();
    let (kept, last_version) = (get(&mut gone, &keys[2]), gone.store().last_version());
    drop(gone);
    let (end, weights) = weigh(&mut disks[2]);
    let list = weights[hash_slot(keys[3].as_bytes()) as usize];
    assert!(list > 1000 * 12, "elements count where their collection is: {list} bytes");
    let mut shards: Vec<Shard> = (0..2).map(|number| open(&disks[number as usize], number)).collect();
    let (map, spread) = planned(&SlotMap::of(3), end);
    adopt(&mut shards, &map);
    for own in 0..2 {
        take(&mut shards[own as usize], own, &spread, &mut disks[2]);
        let key = keys.iter().find(|key| spread.ranges_to(own)[0].has(hash_slot(key.as_bytes())));
        let key = key.expect("there are enough");
        assert_eq!(get(&mut shards[own as usize], key), Err(Code::SlotsMoving), "not all have theirs");
    }
    let ready = map.part_ready(spread.number, 0).expect("it has a part");
    let done = ready.part_ready(spread.number, 1).expect("it has a part");
    adopt(&mut shards, &done);
    for _ in 0..2 {
        let at = |key: &str| done.owner(hash_slot(key.as_bytes())) as usize;
        for (key, before) in keys[4..].iter().zip(&before) {
            let owner = at(key);
            assert_eq!(get(&mut shards[owner], key).as_ref(), Ok(before), "{key} has its version");
            assert_eq!(get(&mut shards[1 - owner], key), Err(Code::WrongShard));
        }
        assert_eq!(get(&mut shards[at(&keys[1])], &keys[1]), Ok(None), "it was deleted");
        assert_eq!(get(&mut shards[at(&keys[2])], &keys[2]), kept);
        let deadline =
            shards[at(&keys[2])].store().get(named(&keys[2])).expect("a table").expect("it is there");
        assert_eq!(deadline.deadline(), Some(u64::MAX / 2));
        let list = shards[at(&keys[3])].store().collection::<List>(named(&keys[3])).expect("a list");
        let list = list.expect("it is there");
        assert!(list.from(0).eq((0..1000_u32).map(u32::to_be_bytes)), "in their order");
        let (number, renamed) = (&keys[0], identity_after(client, spread.number));
        let owner = &mut shards[at(number)];
        assert_eq!(add_once(owner, (renamed, 2), number), Ok(2), "it was done");
        assert_eq!(add_once(owner, (client, 2), number), Err(Code::ClientForgotten));
        assert!(owner.store().last_version() > last_version, "versions rise");
        settle(owner);
        // The next processes.
        drop(shards);
        shards = (0..2).map(|number| open(&disks[number as usize], number)).collect();
        adopt(&mut shards, &done);
    }
    let owner = &mut shards[done.owner(hash_slot(keys[0].as_bytes())) as usize];
    assert_eq!(add_once(owner, (identity_after(client, spread.number), 3), &keys[0]), Ok(3), "it was not");
}

#[test]
fn what_was_taken_for_nothing_is_removed_and_taken_again() {
    let mut disks = disks();
    let keys = keys(30);
    let mut gone = open(&disks[2], GONE);
    let client = fill(&mut gone, &keys);
    drop(gone);
    let (end, _) = weigh(&mut disks[2]);
    let mut shards: Vec<Shard> = (0..2).map(|number| open(&disks[number as usize], number)).collect();
    let (map, first) = planned(&SlotMap::of(3), end);
    adopt(&mut shards, &map);
    take(&mut shards[0], 0, &first, &mut disks[2]);
    assert!(shards[0].store().statistics().objects > 0);
    let given_up = map.given_up(first.number, "a test").expect("it is in progress");
    adopt(&mut shards, &given_up);
    assert_eq!(shards[0].store().statistics().objects, 0, "nothing of it is left");
    let (map, second) = planned(&given_up, end);
    adopt(&mut shards, &map);
    for own in 0..2 {
        take(&mut shards[own as usize], own, &second, &mut disks[2]);
    }
    let ready = map.part_ready(second.number, 0).expect("it has a part");
    let done = ready.part_ready(second.number, 1).expect("it has a part");
    adopt(&mut shards, &done);
    let objects: u64 = shards.iter().map(|shard| shard.store().statistics().objects).sum();
    assert_eq!(objects, keys.len() as u64 - 1, "one was deleted");
    let owner = &mut shards[done.owner(hash_slot(keys[0].as_bytes())) as usize];
    let renamed = |spread: &Spread| identity_after(client, spread.number);
    assert_eq!(add_once(owner, (renamed(&second), 2), &keys[0]), Ok(2), "it was done");
    assert_eq!(get(owner, &keys[0]).map(|found| found.map(|(_, sum)| sum)), Ok(Some("2".to_owned())));
}

#[test]
fn a_long_string_that_is_there_is_not_taken_over_in_parts() {
    let mut disks = disks();
    let keys = keys(2);
    let mut gone = open(&disks[2], GONE);
    put(&mut gone, &keys[0], "short").expect("room");
    let mut held = gone.begin_long(TableId::of("t").expect("short"));
    for piece in vec![7; VALUE_BYTES_MAX + 1].chunks(64 << 10) {
        while gone.extend_long(&mut held, piece).is_err() {
            gone.turn_log();
        }
    }
    gone.store_mut().put_long(named(&keys[1]), &held, Expiry::Never).expect("room");
    gone.record_changes();
    settle(&mut gone);
    let slot = hash_slot(keys[1].as_bytes());
    let (own, other) = (SlotRange { first: slot, last: slot }, hash_slot(keys[0].as_bytes()));
    let (end, weights) = weigh(&mut disks[2]);
    assert!(weights[slot as usize] > 0, "its name counts");
    let refused = replayed(&mut disks[2], end, &[own]).expect_err("its pieces are nobody's");
    assert_eq!(refused, LogError::Pieces { key: keys[1].clone() });
    let others = replayed(&mut disks[2], end, &[SlotRange { first: other, last: other }]);
    assert_eq!(others.expect("it has no long string").store.statistics().objects, 1);
    gone.store_mut().delete(named(&keys[1]), Condition::Always).expect("it is there");
    gone.record_changes();
    settle(&mut gone);
    let (end, _) = weigh(&mut disks[2]);
    let part = replayed(&mut disks[2], end, &[own]).expect("it is gone");
    assert_eq!(part.store.statistics().objects, 0);
}
