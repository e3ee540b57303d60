//! Parts of about as many bytes, and what a spread does not wait for.

use std::path::PathBuf;

use farcall_replica::{Life, LogId};

use super::*;
use crate::placement::{LogEnd, begin_move};

const SHARDS: u32 = 4;

/// A store of four shards whose shard 3 was claimed, and the others live, but do nothing.
struct Idle {
    folder: PathBuf,
    spreading: Spreading,
    number: u64,
    _lives: Vec<Option<Life>>,
}

impl Idle {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("farcall-{name}-{}", std::process::id()));
        let mut registry = OpenRegistry::open(&folder.clone().into()).expect("a folder");
        let record = |shard: u32| Record {
            log: LogId { store: 9, shard },
            shards: SHARDS,
            epoch: 5,
            primary: format!("primary:{shard}"),
            incarnation: u64::from(shard) + 1,
            beat: 0,
            lease: Duration::from_secs(3600),
            own: 0,
            wanted: 1,
            flushed: false,
            replicas: Vec::new(),
        };
        let mut lives = Vec::new();
        for record in (0..SHARDS).map(record) {
            lives.push(registry.live(record.incarnation).expect("a folder"));
            let set = registry.compare_and_set(&Record::key(record.log.shard), 0, &record.encode());
            set.expect("it is the first");
        }
        let mut spreading = Spreading::new(Box::new(registry), record(3), BTreeMap::new());
        let number = spreading.begin().expect("it is claimed");
        Self { folder, spreading, number, _lives: lives }
    }

    /// Enters a plan by which each of the others has a part.
    fn plan(&mut self) -> SpreadPlan {
        let end = LogEnd { log: 1, segment: 1, frame: 1, bytes: 0, crc: 0 };
        let (map, _) = load_map(&mut *self.spreading.registry, SHARDS).expect("it is there");
        let slots = (0..HASH_SLOTS).filter(|slot| map.owner(*slot) == 3);
        let parts = split(slots, &vec![1; HASH_SLOTS as usize], &[0, 1, 2]);
        let plan = SpreadPlan { end, parts, ready: BTreeSet::new() };
        self.change(|map| map.plan_spread(self.number, &plan).expect("all are free"));
        plan
    }

    /// Waits for those that live no longer than until the first look.
    fn wait_no_longer(&mut self, plan: SpreadPlan) -> Attempt {
        let now = Instant::now();
        let mut waiting = Waiting::new(self.number, plan, (now, Duration::ZERO));
        let mut look = || self.spreading.look(&mut waiting, now).expect("the registry answers");
        look().or_else(look).expect("it is given up at the first look, or done")
    }

    fn change(&self, changed: impl Fn(&SlotMap) -> Option<SlotMap>) {
        let mut registry = OpenRegistry::open(&self.folder.clone().into()).expect("a folder");
        change(&mut registry, SHARDS, |map| Ok(changed(map))).expect("it is there");
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn shards_that_live_and_do_not_store_their_parts_are_waited_for_no_longer_than_that() {
    let mut idle = Idle::new("late-parts");
    let (plan, number) = (idle.plan(), idle.number);
    idle.change(|map| map.part_ready(number, 1));
    let why = match idle.wait_no_longer(plan) {
        Attempt::GivenUp(why) => why,
        Attempt::Done(_) => panic!("two have not stored theirs"),
    };
    let late = |shard| format!("shard {shard} lives, and has not stored its part within 0ns");
    assert_eq!(why, format!("{}; {}", late(0), late(2)));
    // Another attempt goes on with the one that had its part.
    let number = idle.spreading.begin().expect("it is claimed");
    let found = idle.spreading.destinations(number, Duration::ZERO).expect("the registry answers");
    assert_eq!(found.map(|(_, shards)| shards), Ok(vec![1]));
    idle.spreading.left_out.insert(1, late(1));
    assert_eq!(
        idle.spreading.nobody_left(),
        format!("no other shard lives that could take a part; {}; {}; {}", late(0), late(1), late(2))
    );
}

#[test]
fn a_part_that_is_ready_late_is_as_good() {
    let mut idle = Idle::new("ready-parts");
    let (plan, number) = (idle.plan(), idle.number);
    (0..3).for_each(|shard| idle.change(|map| map.part_ready(number, shard)));
    let waited = idle.wait_no_longer(plan.clone());
    assert!(matches!(waited, Attempt::Done(parts) if parts == plan.parts));
}

#[test]
fn moves_of_all_others_that_do_not_end_are_not_waited_for() {
    let mut idle = Idle::new("busy-parts");
    let slots = |first| SlotRange { first, last: first };
    for (slot, from, to) in [(0, 0, 1), (8192, 2, 0)] {
        // The second one is refused: shard 0 takes part in the first one.
        let _ = begin_move(&mut *idle.spreading.registry, SHARDS, (slots(slot), from, to));
    }
    let found = idle.spreading.destinations(idle.number, Duration::ZERO).expect("it answers");
    assert_eq!(found.map(|(_, shards)| shards), Ok(vec![2]), "one is free");
    idle.spreading.left_out.insert(2, "a test".to_owned());
    let refused = idle.spreading.destinations(idle.number, Duration::ZERO).expect_err("none is free");
    assert_eq!(refused.to_string(), "all other shards take part in moves that do not end");
    let (map, _) = load_map(&mut *idle.spreading.registry, SHARDS).expect("it is there");
    assert!(map.spreads().is_empty(), "it was given up");
}

/// The bytes of each part.
fn bytes(parts: &[SpreadPart], weights: &[u64], to: u32) -> u64 {
    let own = parts.iter().filter(|part| part.to == to);
    own.flat_map(|part| part.range.first..=part.range.last).map(|slot| weights[slot as usize]).sum()
}

#[test]
fn parts_have_about_as_many_bytes_and_are_all_slots() {
    let mut weights = vec![0; HASH_SLOTS as usize];
    // Most bytes lie in few slots, far from each other.
    (100..200).for_each(|slot| weights[slot] = 1000);
    (9000..9050).for_each(|slot| weights[slot] = 10_000);
    let slots = (0..300).chain(8192..16_384);
    let parts = split(slots.clone(), &weights, &[0, 2, 5]);
    for to in [0, 2, 5] {
        let own = bytes(&parts, &weights, to);
        assert!((190_000..=210_000).contains(&own), "shard {to} takes {own} bytes: {parts:?}");
    }
    let taken: Vec<u32> = parts.iter().flat_map(|part| part.range.first..=part.range.last).collect();
    assert_eq!(taken, slots.collect::<Vec<_>>(), "each once, in their order");
}

#[test]
fn slots_without_bytes_are_split_by_their_number() {
    let parts = split(0..16, &vec![0; HASH_SLOTS as usize], &[1, 2]);
    let part = |first, last, to| SpreadPart { range: SlotRange { first, last }, to };
    assert_eq!(parts, [part(0, 7, 1), part(8, 15, 2)]);
    assert_eq!(split(3..4, &vec![9; HASH_SLOTS as usize], &[1, 2, 3]), [part(3, 3, 2)]);
}
