//! Keys that were made to be slow together: all have one public hash.

use super::*;

/// Keys with one hash of [`Name::hash`], made as an attacker would, without any search. XXH3 multiplies the
/// halves of what it reads after an exclusive or with a secret, which follows from the table's number. Where
/// the lower halves are the secret's, the product is 0, and only the sum of what was read counts: here that
/// of the first words of the first two stripes, whose upper halves add up to nothing.
pub fn keys_of_one_hash(table: TableId, count: u32) -> Vec<Vec<u8>> {
    const SECRET: [u64; 2] = [0xbe4b_a423_396c_feb8, 0x1cad_21f7_2c81_017c];
    let low = [SECRET[0].wrapping_add(table.0) as u32, SECRET[1].wrapping_sub(table.0) as u32];
    let key = |number: u32| {
        let mut key = vec![0; 256];
        for (stripe, high) in [(0, number), (1, number.wrapping_neg())] {
            let word = u64::from(high) << 32 | u64::from(low[stripe]);
            key[64 * stripe..64 * stripe + 8].copy_from_slice(&word.to_le_bytes());
        }
        key
    };
    let keys: Vec<_> = (0..count).map(key).collect();
    let hash = |key: &Vec<u8>| name_in(table, key).hash();
    assert!(keys.iter().all(|key| hash(key) == hash(&keys[0])), "the attack is a real one");
    keys
}

#[test]
fn keys_of_one_public_hash_are_spread_over_the_index() {
    let (mut store, table) = store(32 << 20);
    let keys = keys_of_one_hash(table, 20_000);
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
    let keys = keys_of_one_hash(table, 20);
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
