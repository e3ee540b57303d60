//! Objects that expire, in virtual time.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, usize, Option<u64>),
    PutKeeping(u8, usize),
    Increment(u8),
    SetDeadline(u8, Option<u64>),
    Rename(u8, u8),
    Delete(u8),
    Wait(u64),
    Expire(usize),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let length = || prop_oneof![0..40_usize, 16_000..17_000_usize, 0..100_000_usize];
    let key = || 0..24_u8;
    let after = || proptest::option::of(0..50_u64);
    prop_oneof![
        6 => (key(), length(), after()).prop_map(|(key, length, after)| Step::Put(key, length, after)),
        2 => (key(), length()).prop_map(|(key, length)| Step::PutKeeping(key, length)),
        1 => key().prop_map(Step::Increment),
        3 => (key(), after()).prop_map(|(key, after)| Step::SetDeadline(key, after)),
        2 => (key(), key()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => key().prop_map(Step::Delete),
        3 => (0..20_u64).prop_map(Step::Wait),
        1 => (0..5_usize).prop_map(Step::Expire),
        1 => Just(Step::Clear),
    ]
}

/// What must be there: values and deadlines.
type Model = BTreeMap<u8, (Vec<u8>, Option<u64>)>;

fn run(store: &mut Store, table: TableId, model: &mut Model, step: &Step) {
    let now = store.clock();
    let keys: Vec<[u8; 1]> = (0..=u8::MAX).map(|key| [key]).collect();
    let name = |key: u8| Name::new(table, &keys[usize::from(key)]).expect("short");
    let put = |store: &mut Store, key, length: usize, expiry| {
        let bytes = vec![key; length];
        store
            .put_until(name(key), Value::new(&bytes).expect("short"), Condition::Always, expiry)
            .expect("room");
        bytes
    };
    match *step {
        Step::Put(key, length, after) => {
            let deadline = after.map(|after| now + after);
            let bytes = put(store, key, length, deadline.map_or(Expiry::Never, Expiry::At));
            model.insert(key, (bytes, deadline));
        }
        Step::PutKeeping(key, length) => {
            let bytes = put(store, key, length, Expiry::Keep);
            let deadline = model.get(&key).and_then(|(_, deadline)| *deadline);
            model.insert(key, (bytes, deadline));
        }
        Step::Increment(key) => {
            let sum = store.increment(name(key), 7);
            // Only increments write digits.
            let number = |value: &[u8]| core::str::from_utf8(value).ok()?.parse::<i64>().ok();
            let (expected, deadline) = match model.get(&key) {
                None => (Some(7), None),
                Some((value, deadline)) => (number(value).map(|number| number + 7), *deadline),
            };
            assert_eq!(sum.ok().map(|(_, sum)| sum), expected);
            if let Some(expected) = expected {
                model.insert(key, (expected.to_string().into_bytes(), deadline));
            }
        }
        Step::SetDeadline(key, after) => {
            let deadline = after.map(|after| now + after);
            let set = store.set_deadline(name(key), deadline).expect("room");
            assert_eq!(set.is_some(), model.contains_key(&key));
            model.entry(key).and_modify(|(_, old)| *old = deadline);
        }
        Step::Rename(from, to) => {
            let renamed = store.rename(name(from), name(to)).expect("room");
            assert_eq!(renamed, model.contains_key(&from));
            if let Some(object) = model.remove(&from) {
                model.insert(to, object);
            }
        }
        Step::Delete(key) => {
            let deleted = store.delete(name(key), Condition::Always).expect("a table");
            assert_eq!(deleted.is_some(), model.remove(&key).is_some());
        }
        Step::Wait(time) => store.set_clock(now + time),
        Step::Expire(most) => assert!(store.expire(most) <= most),
        Step::Clear => {
            store.clear_table(table).expect("few tables");
            model.clear();
        }
    }
    let now = store.clock();
    model.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline > now));
}

fn check(store: &mut Store, table: TableId, model: &Model) {
    for key in 0..24_u8 {
        let key_bytes = [key];
        let object = store.get(Name::new(table, &key_bytes).expect("short")).expect("a table");
        let object = object.map(|object| (object.to_vec(), object.deadline()));
        assert_eq!(object.as_ref(), model.get(&key), "key {key}");
    }
    let (mut seen, all) = (0, PageLimits { bytes: usize::MAX, looks: 1 << 20 });
    assert_eq!(store.scan(table, ScanFrom::Hash(0), all, |_| seen += 1), Ok(ScanNext::End));
    assert_eq!(seen, model.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_object_is_there_until_its_deadline_and_leaves_nothing_behind(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        let mut store = Store::with_key(MEMORY_BYTES_MIN, SipKey([3, 4])).expect("memory");
        let table = store.create_table("t").expect("the first");
        let mut model = Model::new();
        for step in &steps {
            run(&mut store, table, &mut model, step);
            check(&mut store, table, &model);
        }
        while store.expire(10) > 0 || store.sweep() {}
        prop_assert_eq!(store.table_objects(table), model.len() as u64);
        prop_assert_eq!(store.expiring(), model.values().filter(|(_, deadline)| deadline.is_some()).count());
        store.clear_table(table).expect("few tables");
        while store.sweep() {}
        prop_assert_eq!(store.statistics().objects, 0);
        prop_assert_eq!(store.statistics().live_bytes, 0);
        prop_assert_eq!(store.expiring(), 0);
    }
}

#[test]
fn what_has_expired_makes_room_for_writes() {
    let mut store = Store::new(MEMORY_BYTES_MIN).expect("memory");
    let table = store.create_table("t").expect("the first");
    let value = vec![1; 10_000];
    let value = Value::new(&value).expect("short");
    for round in 0..4_u64 {
        store.set_clock(round * 1000);
        let mut written = 0_u32;
        loop {
            let key = [&round.to_le_bytes()[..], &written.to_le_bytes()].concat();
            let name = Name::new(table, &key).expect("short");
            match store.put_until(name, value, Condition::Always, Expiry::At(round * 1000 + 500)) {
                Ok(_) => written += 1,
                Err(error) => break assert_eq!(error, WriteError::OutOfMemory),
            }
        }
        assert!(written > 500, "round {round}: {written} objects");
    }
}

/// Those of durable tables wait for the log, which is not here, and survive their process: they make no room.
#[test]
fn what_is_in_memory_expires_and_makes_room_behind_what_is_durable() {
    let (mut store, memory) = store(MEMORY_BYTES_MIN);
    let durable = store.create_table("durable").expect("few tables");
    store.track(durable);
    store.set_clock(1_000);
    let put = |store: &mut Store, table, key: &[u8], at| {
        store.put_until(name_in(table, key), value(&[7; 60_000]), Condition::Always, Expiry::At(at))
    };
    put(&mut store, durable, b"first", 2_000).expect("room");
    put(&mut store, memory, b"second", 3_000).expect("room");
    store.set_clock(3_000);
    assert_eq!(store.expires_durably(), Some(true));
    assert_eq!(store.expire_in_memory(10), 1);
    assert_eq!((store.table_objects(memory), store.table_objects(durable)), (0, 1));
    store.set_eviction(Eviction::FirstToExpire, 1);
    for number in 0..2_000_u64 {
        put(&mut store, memory, &number.to_le_bytes(), 4_000 + number).expect("another one makes room");
    }
    assert_eq!(store.table_objects(durable), 1);
}
