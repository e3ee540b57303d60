//! Long values beside a model: written in pieces, held while they are read, and gone in the end.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::long::{Held, PIECE_BYTES};
use super::*;
use crate::VALUE_BYTES_MAX;

/// A store that has room for some long values.
const MEMORY_BYTES: usize = 48 << 20;

/// What happens to one of a few keys.
#[derive(Clone, Debug)]
enum Step {
    /// A value of this many bytes is begun; some pieces of it are written.
    Begin(usize),
    /// The value that was begun first is written to its end and put.
    Finish(u8),
    /// The value that was begun first is given up.
    GiveUp,
    Put(u8, usize),
    Append(u8, usize),
    Overwrite(u8, usize, usize),
    Delete(u8),
    Rename(u8, u8),
    /// Somebody begins to read.
    Hold(u8),
    /// The reader that came first reads all of it.
    Read,
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let long = || VALUE_BYTES_MAX + 1..3 * VALUE_BYTES_MAX;
    let key = || 0..4_u8;
    prop_oneof![
        3 => long().prop_map(Step::Begin),
        3 => key().prop_map(Step::Finish),
        1 => Just(Step::GiveUp),
        2 => (key(), 0..2 * PIECE_BYTES).prop_map(|(key, bytes)| Step::Put(key, bytes)),
        2 => (key(), 1..5 * PIECE_BYTES).prop_map(|(key, bytes)| Step::Append(key, bytes)),
        2 => (key(), 0..VALUE_BYTES_MAX, 1..3 * PIECE_BYTES)
            .prop_map(|(key, offset, bytes)| Step::Overwrite(key, offset, bytes)),
        1 => key().prop_map(Step::Delete),
        1 => (key(), key()).prop_map(|(from, to)| Step::Rename(from, to)),
        3 => key().prop_map(Step::Hold),
        3 => Just(Step::Read),
        1 => Just(Step::Sweep),
    ]
}

/// A value that is being written: what it is to be, and what has been written.
struct Written {
    whole: Vec<u8>,
    held: Held,
}

#[derive(Default)]
struct Model {
    objects: BTreeMap<u8, Vec<u8>>,
    written: Vec<Written>,
    /// What is read, as it was then, and whether its object has been written over in place.
    read: Vec<(u8, Vec<u8>, Held)>,
}

fn key(number: u8) -> [u8; 1] {
    [number]
}

fn apply(store: &mut Store, table: TableId, model: &mut Model, seed: u64, step: Step) {
    match step {
        Step::Begin(bytes) => {
            let (whole, mut held) = (pattern(seed, bytes), store.begin_long());
            if store.extend_long(&mut held, &whole[..4 * PIECE_BYTES]).is_ok() {
                model.written.push(Written { whole, held });
            }
        }
        Step::Finish(number) if !model.written.is_empty() => {
            let Written { whole, mut held } = model.written.remove(0);
            let written = store.extend_long(&mut held, &whole[4 * PIECE_BYTES..]);
            let put =
                written.and_then(|()| store.put_long(name_in(table, &key(number)), &held, Expiry::Never));
            if put.is_ok() {
                model.objects.insert(number, whole);
            }
        }
        Step::GiveUp if !model.written.is_empty() => drop(model.written.remove(0)),
        Step::Put(number, bytes) => {
            let contents = pattern(seed, bytes);
            if store.put(name_in(table, &key(number)), value(&contents), Condition::Always).is_ok() {
                model.objects.insert(number, contents);
            }
        }
        Step::Append(number, bytes) => append(store, table, model, (number, pattern(seed, bytes))),
        Step::Overwrite(number, offset, bytes) => {
            overwrite(store, table, model, (number, offset, pattern(seed, bytes)));
        }
        Step::Delete(number) => {
            let deleted = store.delete(name_in(table, &key(number)), Condition::Always).expect("a table");
            assert_eq!(deleted.is_some(), model.objects.remove(&number).is_some());
        }
        Step::Rename(from, to) => {
            let (from_key, to_key) = (key(from), key(to));
            if let Ok(true) = store.rename(name_in(table, &from_key), name_in(table, &to_key)) {
                let contents = model.objects.remove(&from).expect("it was there");
                model.objects.insert(to, contents);
            }
        }
        Step::Hold(number) => {
            let held = store.hold_long(name_in(table, &key(number)));
            let long = model.objects.get(&number).filter(|contents| contents.len() > VALUE_BYTES_MAX);
            assert_eq!(held.is_some(), long.is_some());
            model.read.extend(held.zip(long).map(|(held, contents)| (number, contents.clone(), held)));
        }
        Step::Read if !model.read.is_empty() => {
            let (_, contents, held) = model.read.remove(0);
            let mut read = Vec::new();
            let done = store.read_long(&held, (0, held.len()), |piece| read.extend_from_slice(piece));
            assert!(done.is_err() || read == contents, "never a mixture");
        }
        Step::Sweep => _ = store.sweep(),
        Step::Finish(_) | Step::GiveUp | Step::Read => {}
    }
}

fn append(store: &mut Store, table: TableId, model: &mut Model, (number, part): (u8, Vec<u8>)) {
    let Some(contents) = model.objects.get_mut(&number).filter(|it| it.len() > PIECE_BYTES) else { return };
    if store.append_long(name_in(table, &key(number)), &part).is_ok() {
        contents.extend_from_slice(&part);
    }
}

fn overwrite(
    store: &mut Store,
    table: TableId,
    model: &mut Model,
    (number, offset, part): (u8, usize, Vec<u8>),
) {
    let Some(contents) = model.objects.get_mut(&number).filter(|it| it.len() > PIECE_BYTES) else { return };
    let end = offset + part.len();
    if end > contents.len() {
        return;
    }
    store.overwrite_long(name_in(table, &key(number)), offset, &part).expect("it takes no memory");
    contents[offset..end].copy_from_slice(&part);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn long_values_are_what_a_map_would_have(steps in prop::collection::vec(step(), 1..80)) {
        let (mut store, table) = store(MEMORY_BYTES);
        let mut model = Model::default();
        for (number, step) in steps.into_iter().enumerate() {
            apply(&mut store, table, &mut model, number as u64, step);
            let statistics = store.statistics();
            prop_assert_eq!(statistics.objects, model.objects.len() as u64);
            prop_assert!(statistics.used_bytes <= statistics.memory_bytes);
        }
        for (number, contents) in &model.objects {
            prop_assert!(value_of(&store, name_in(table, &key(*number))).as_ref() == Some(contents));
        }
        for number in core::mem::take(&mut model).objects.into_keys() {
            store.delete(name_in(table, &key(number)), Condition::Always).expect("a table");
        }
        while store.sweep() {}
        prop_assert_eq!(store.statistics().live_bytes, 0, "nobody holds anything");
    }
}

/// A value in a store, written in pieces.
fn put_long(store: &mut Store, table: TableId, key: &[u8], contents: &[u8]) -> Result<u64, WriteError> {
    let mut held = store.begin_long();
    store.extend_long(&mut held, contents)?;
    store.put_long(name_in(table, key), &held, Expiry::Never)
}

#[test]
fn what_is_only_read_goes_when_its_memory_is_needed() {
    let (mut store, table) = store(32 << 20);
    let contents = pattern(1, 10 << 20);
    put_long(&mut store, table, b"a", &contents).expect("room");
    let held = store.hold_long(name_in(table, b"a")).expect("it is long");
    store.delete(name_in(table, b"a"), Condition::Always).expect("a table");
    while store.sweep() {}
    assert!(store.statistics().live_bytes > contents.len(), "it is read");
    put_long(&mut store, table, b"b", &contents).expect("room beside it");
    assert!(store.read_long(&held, (0, 1), |_| ()).is_ok());
    put_long(&mut store, table, b"c", &contents).expect("it makes room");
    assert!(store.read_long(&held, (0, 1), |_| ()).is_err(), "it is cut, and says so");
    assert_eq!(put_long(&mut store, table, b"d", &contents), Err(WriteError::OutOfMemory));
    while store.sweep() {}
    for key in [b"b", b"c"] {
        assert!(value_of(&store, name_in(table, key)).as_ref() == Some(&contents), "others are whole");
    }
}

#[test]
fn what_is_read_is_not_evicted() {
    let (mut store, table) = store(32 << 20);
    store.set_eviction(Eviction::Random, 7);
    let contents = pattern(1, 5 << 20);
    put_long(&mut store, table, b"read", &contents).expect("room");
    let held = store.hold_long(name_in(table, b"read")).expect("it is long");
    for number in 0..20 {
        put_long(&mut store, table, &[number], &contents).expect("others make room");
    }
    assert!(store.evicted() > 10 && store.statistics().used_bytes <= store.statistics().memory_bytes);
    let mut read = Vec::new();
    store.read_long(&held, (0, held.len()), |piece| read.extend_from_slice(piece)).expect("it is there");
    assert!(read == contents && store.get(name_in(table, b"read")).expect("a table").is_some());
}

#[test]
fn a_long_value_is_removed_in_steps() {
    let (mut store, table) = store(MEMORY_BYTES);
    put_long(&mut store, table, b"a", &pattern(1, 16 << 20)).expect("room");
    let mut before = store.statistics().live_bytes;
    store.delete(name_in(table, b"a"), Condition::Always).expect("a table");
    assert!(before - store.statistics().live_bytes < PIECE_BYTES, "its chunks go later");
    let mut steps = 0;
    while store.sweep() {
        let left = store.statistics().live_bytes;
        assert!(before - left <= VALUE_BYTES_MAX + VALUE_BYTES_MAX / 64, "a step is bounded");
        (before, steps) = (left, steps + 1);
    }
    assert!(steps >= 16 && store.statistics().live_bytes == 0);
}
