//! The store over a network that loses, doubles, delays, reorders and damages packets.

mod common;

use std::collections::BTreeMap;

use common::{LONG, fault_seed, faulty_shards, name, value};
use farcall_base::Random;
use farcall_kv::store::{Condition, WriteError};
use farcall_kv::{Client, Failure, FoundObject};

#[test]
fn one_client_sees_what_a_map_would_show() {
    let seed = fault_seed();
    let shards = faulty_shards(1, seed);
    let endpoint = shards.client(0);
    let client = Client::new(&endpoint, 0..2);
    let mut random = Random::new(seed);
    let mut model: BTreeMap<u8, (u64, Vec<u8>)> = BTreeMap::new();
    for step in 0..400_u64 {
        let number = random.below(8) as u8;
        let key = [number];
        let known = model.get(&number).map_or(0, |(version, _)| *version);
        match random.below(4) {
            0 => {
                let found = client.get(name(&key)).within(LONG).wait().expect("an answer");
                let found = found.as_ref().map(|object| (object.version(), object.value().to_vec()));
                assert!(found.as_ref() == model.get(&number), "step {step}");
            }
            1 => {
                let deleted = client.delete(name(&key), Condition::Always).within(LONG).wait();
                assert_eq!(deleted, Ok((known != 0).then_some(known)), "step {step}");
                model.remove(&number);
            }
            2 => {
                let put = client
                    .put(name(&key), value(b"never"), Condition::Version(known + 1))
                    .within(LONG)
                    .wait();
                assert_eq!(
                    put,
                    Err(Failure::Store(WriteError::WrongVersion { version: known })),
                    "step {step}"
                );
            }
            _ => {
                let contents = vec![step as u8; random.below(40_000) as usize];
                let condition = if known == 0 { Condition::Absent } else { Condition::Version(known) };
                let version = client.put(name(&key), value(&contents), condition).within(LONG).wait();
                let version = version.expect("the condition holds");
                assert!(version > known, "step {step}");
                model.insert(number, (version, contents));
            }
        }
    }
}

/// Each increment is answered with another sum, and all of them together with all sums: an increment that
/// happened twice, or was lost, would leave a gap. Sums that a client sees only rise.
#[test]
fn increments_of_many_clients_happen_once_each() {
    const CLIENTS: u32 = 3;
    const INCREMENTS: usize = 100;
    let shards = faulty_shards(CLIENTS, fault_seed());
    let mut sums: Vec<i64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let shards = &shards;
                scope.spawn(move || {
                    let endpoint = shards.client(number);
                    let client = Client::new(&endpoint, 0..2);
                    let increment =
                        |_| client.increment(name(b"n"), 1).within(LONG).wait().expect("an answer").1;
                    let sums: Vec<i64> = (0..INCREMENTS).map(increment).collect();
                    assert!(sums.is_sorted_by(|a, b| a < b), "{sums:?}");
                    let found = client.get(name(b"n")).within(LONG).wait().expect("an answer");
                    let read = found
                        .as_ref()
                        .map(FoundObject::value)
                        .and_then(|value| std::str::from_utf8(value).ok());
                    let read: i64 = read.and_then(|text| text.parse().ok()).expect("a number");
                    assert!(Some(&read) >= sums.last(), "a read is not older than one's own write");
                    sums
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect()
    });
    sums.sort_unstable();
    assert!(sums.iter().copied().eq(1..=i64::from(CLIENTS) * INCREMENTS as i64), "{sums:?}");
}
