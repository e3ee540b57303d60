//! Keys that were made to be slow together: all have one public hash slot.

use super::*;
use crate::wire::hash_slot;

/// Keys of one hash slot, made without any search.
pub fn keys_of_one_slot(count: u32) -> Vec<Vec<u8>> {
    let keys: Vec<_> = (0..count).map(|number| format!("{{slot}}{number}").into_bytes()).collect();
    assert!(keys.iter().all(|key| hash_slot(key) == hash_slot(b"slot")), "the attack is a real one");
    keys
}

#[test]
fn keys_of_one_public_slot_are_spread_over_the_index() {
    let (mut store, table) = store(32 << 20);
    let keys = keys_of_one_slot(20_000);
    for key in &keys {
        store.put(name_in(table, key), value(b""), Condition::Always).expect("room");
    }
    let mut hashes: Vec<u64> =
        (0..1 << store.log.part_bits()).flat_map(|part| store.log.part(part)).map(|slot| slot.hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), keys.len(), "each has a hash by itself");
    let longest = (0..1 << store.log.part_bits()).map(|part| store.log.part_len(part)).max();
    assert!(longest < Some(120), "{longest:?} of 20000 in one of 512 parts");
    assert!(keys.iter().all(|key| value_of(&store, name_in(table, key)).is_some()));
}

#[test]
fn two_stores_have_two_orders() {
    let order = || {
        let (mut store, table) = store(MEMORY_BYTES_MIN);
        for number in 0..100_u8 {
            store.put(name_in(table, &[number]), value(b""), Condition::Always).expect("room");
        }
        let (mut scan, mut keys) = (Scan::new(table), Vec::new());
        while scan.page(&store, 1000, |object| keys.push(object.key().to_vec())) {}
        keys
    };
    assert_ne!(order(), order(), "where keys are in the index is a secret");
}

#[test]
fn pages_are_bounded_whatever_the_keys_are() {
    let (mut store, table) = store(64 << 20);
    let keys = keys_of_one_slot(20);
    let contents = pattern(1, 1 << 20);
    for key in &keys {
        store.put(name_in(table, key), value(&contents), Condition::Always).expect("room");
    }
    let (mut scan, mut seen) = (Scan::new(table), 0);
    loop {
        let mut objects = 0;
        if !scan.page(&store, 1000, |_| objects += 1) {
            break;
        }
        assert!(objects <= 1, "a page of {objects} MiB");
        seen += objects;
    }
    assert_eq!(seen, keys.len());
}
