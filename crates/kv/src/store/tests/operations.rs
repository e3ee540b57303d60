//! What each operation does, and how it refuses.

use super::*;
use crate::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

#[test]
fn what_was_put_is_there_until_it_is_deleted() {
    let (mut store, table) = store(MEMORY_BYTES_MIN);
    for bytes in [0, 1, 100, WHOLE_BYTES_MAX, WHOLE_BYTES_MAX + 1, 3 * WHOLE_BYTES_MAX, VALUE_BYTES_MAX] {
        let contents = pattern(bytes as u64, bytes);
        let version = store.put(name_in(table, b"k"), value(&contents), Condition::Always).expect("room");
        let object = store.get(name_in(table, b"k")).expect("a table").expect("an object");
        assert_eq!((object.key(), object.version(), object.value_bytes()), (&b"k"[..], version, bytes));
        assert!(object.to_vec() == contents, "{bytes} bytes");
        let together = [&version.to_le_bytes(), &contents[..]].concat();
        let side_by_side = object.version_and_value().map(|bytes| bytes == together);
        assert_eq!(side_by_side, (bytes <= WHOLE_BYTES_MAX).then_some(true));
        assert_eq!(store.statistics().objects, 1);
    }
    assert!(store.delete(name_in(table, b"k"), Condition::Always).expect("a table").is_some());
    assert_eq!(store.delete(name_in(table, b"k"), Condition::Always), Ok(None));
    assert!(value_of(&store, name_in(table, b"k")).is_none());
    let statistics = store.statistics();
    assert_eq!((statistics.objects, statistics.live_bytes), (0, 0), "chunks are gone too");
}

#[test]
fn the_longest_key_is_a_key() {
    let (mut store, table) = store(MEMORY_BYTES_MIN);
    let long = pattern(1, KEY_BYTES_MAX);
    store.put(name_in(table, &long), value(b"long"), Condition::Absent).expect("room");
    assert_eq!(value_of(&store, name_in(table, &long)).as_deref(), Some(&b"long"[..]));
    assert!(value_of(&store, name_in(table, &long[1..])).is_none());
}

#[test]
fn conditions_are_kept_and_versions_only_rise() {
    let (mut store, table) = store(MEMORY_BYTES_MIN);
    let mut put = |contents: &[u8], condition| store.put(name_in(table, b"k"), value(contents), condition);
    assert_eq!(put(b"1", Condition::Version(1)), Err(WriteError::WrongVersion { version: 0 }));
    assert_eq!(
        put(b"1", Condition::Version(0)),
        Err(WriteError::WrongVersion { version: 0 }),
        "0 is no version"
    );
    let first = put(b"1", Condition::Absent).expect("absent");
    assert_eq!(put(b"2", Condition::Absent), Err(WriteError::WrongVersion { version: first }));
    let second = put(b"22", Condition::Version(first)).expect("right");
    assert_eq!(put(b"3", Condition::Version(first)), Err(WriteError::WrongVersion { version: second }));
    assert!(second > first);
    let wrong = store.delete(name_in(table, b"k"), Condition::Version(first));
    assert_eq!(wrong, Err(WriteError::WrongVersion { version: second }));
    assert_eq!(store.delete(name_in(table, b"k"), Condition::Version(second)), Ok(Some(second)));
    let again = store.put(name_in(table, b"k"), value(b""), Condition::Absent).expect("absent");
    assert!(again > second, "a deleted object that comes back has a higher version");
}

#[test]
fn tables_are_separate_and_must_exist() {
    let (mut store, one) = store(MEMORY_BYTES_MIN);
    let two = store.create_table("two").expect("room");
    store.put(name_in(one, b"k"), value(b"1"), Condition::Always).expect("room");
    store.put(name_in(two, b"k"), value(b"2"), Condition::Absent).expect("absent there");
    assert_eq!(value_of(&store, name_in(one, b"k")).as_deref(), Some(&b"1"[..]));
    assert_eq!(store.create_table("two"), Ok(two));
    assert_eq!(store.table_names().count(), 2);
    let none = TableId::of("none").expect("short");
    assert_eq!(store.get(name_in(none, b"k")).map(|_| ()), Err(ReadError::UnknownTable));
    assert_eq!(store.put(name_in(none, b"k"), value(b""), Condition::Always), Err(WriteError::UnknownTable));
    assert_eq!(store.delete(name_in(none, b"k"), Condition::Always), Err(WriteError::UnknownTable));
    assert_eq!(store.increment(name_in(none, b"k"), 1), Err(WriteError::UnknownTable.into()));
    let limits = PageLimits { bytes: 1, looks: 1 };
    assert_eq!(store.scan(none, ScanFrom::Hash(0), limits, |_| ()), Err(ReadError::UnknownTable));
}

#[test]
fn numbers_are_counted_up_and_down() {
    let (mut store, table) = store(MEMORY_BYTES_MIN);
    let (first, sum) = store.increment(name_in(table, b"n"), 5).expect("0 at first");
    assert_eq!(sum, 5);
    let (second, sum) = store.increment(name_in(table, b"n"), -12).expect("a number");
    assert_eq!((sum, second > first), (-7, true));
    assert_eq!(value_of(&store, name_in(table, b"n")).as_deref(), Some(&b"-7"[..]));
    for (contents, refusal) in [
        ("", IncrementError::NotANumber),
        ("seven", IncrementError::NotANumber),
        ("9223372036854775808", IncrementError::NotANumber),
        ("000000000000000000000000000001", IncrementError::NotANumber),
        ("9223372036854775807", IncrementError::Overflow),
    ] {
        store.put(name_in(table, b"n"), value(contents.as_bytes()), Condition::Always).expect("room");
        assert_eq!(store.increment(name_in(table, b"n"), 1), Err(refusal), "{contents}");
        assert_eq!(value_of(&store, name_in(table, b"n")).as_deref(), Some(contents.as_bytes()));
    }
}

#[test]
fn a_store_that_is_too_small_is_refused() {
    let refusal = Store::new(MEMORY_BYTES_MIN - 1).map(drop);
    assert_eq!(refusal, Err(StoreSizeError::TooSmall { bytes: MEMORY_BYTES_MIN - 1 }));
    let bytes = 1 << 60;
    assert_eq!(Store::new(bytes).map(drop), Err(StoreSizeError::NotThere { bytes }));
}
