//! Scans in pages, and tables that are dropped.

use super::*;
use crate::VALUE_BYTES_MAX;

#[test]
fn a_scan_meets_every_object_once_whatever_else_happens() {
    let (mut store, table) = store(MEMORY_BYTES_MIN);
    let other = store.create_table("other").expect("room");
    let name = |number: usize| format!("object {number}").into_bytes();
    for number in 0..10_000 {
        store
            .put(name_in(table, &name(number)), value(&pattern(1, number % 50)), Condition::Always)
            .expect("room");
        store.put(name_in(other, &name(number)), value(b"other"), Condition::Always).expect("room");
    }
    let (mut scan, mut pages, mut seen) = (Scan::new(table), 0, Vec::new());
    loop {
        let mut bytes = 0;
        let visit = |object: Object<'_>| {
            assert_eq!(object.version_and_value().expect("short").len(), 8 + object.value_bytes());
            bytes += object.key().len() + object.value_bytes();
            seen.push(object.key().to_vec());
        };
        if !scan.page(&store, 1000, visit) {
            break;
        }
        assert!(bytes <= 1000, "a page of {bytes} bytes");
        pages += 1;
        // Moves objects, and makes the index grow.
        for number in 0..50 {
            let touched = name((pages * 50 + number) % 10_000);
            store
                .put(name_in(table, &touched), value(&pattern(2, pages % 60)), Condition::Always)
                .expect("room");
            store
                .put(name_in(other, format!("{pages} {number}").as_bytes()), value(b""), Condition::Always)
                .expect("room");
        }
    }
    seen.sort_unstable();
    let mut expected: Vec<_> = (0..10_000).map(name).collect();
    expected.sort_unstable();
    assert!(seen == expected, "{} of {} objects in {pages} pages", seen.len(), expected.len());
}

#[test]
fn a_page_has_at_least_one_object() {
    let (mut store, table) = store(MEMORY_BYTES_MIN);
    for name in [b"a", b"b"] {
        store.put(name_in(table, name), value(&[0; VALUE_BYTES_MAX]), Condition::Always).expect("room");
    }
    let mut pages = Vec::new();
    let mut scan = Scan::new(table);
    loop {
        let mut objects = 0;
        if !scan.page(&store, 1, |_| objects += 1) {
            break;
        }
        pages.push(objects);
    }
    assert_eq!(pages.iter().sum::<usize>(), 2);
    assert!(pages.iter().all(|&objects| objects <= 1), "{pages:?}");
}

#[test]
fn a_scan_goes_on_behind_a_key_that_was_deleted() {
    let (mut store, table) = store(MEMORY_BYTES_MIN);
    for number in 0..100_u32 {
        store.put(name_in(table, &number.to_le_bytes()), value(b"1"), Condition::Always).expect("room");
    }
    let (mut scan, mut seen) = (Scan::new(table), Vec::new());
    while scan.page(&store, 1, |object| seen.push(object.key().to_vec())) {
        if let Some(key) = seen.last() {
            store.delete(name_in(table, key), Condition::Always).expect("a table");
        }
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!((seen.len(), store.statistics().objects), (100, 0));
}

#[test]
fn a_page_looks_at_few_entries_of_other_tables() {
    let (mut store, table) = store(MEMORY_BYTES_MIN);
    let other = store.create_table("other").expect("room");
    for number in 0..50_000_u32 {
        store.put(name_in(other, &number.to_le_bytes()), value(b""), Condition::Always).expect("room");
    }
    let (mut scan, mut pages) = (Scan::new(table), 0);
    while scan.page(&store, 1000, |_| unreachable!("the table is empty")) {
        pages += 1;
    }
    assert!((100..400).contains(&pages), "{pages} pages for 50000 entries");
}

#[test]
fn a_dropped_table_is_gone_at_once_and_its_memory_soon() {
    let (mut store, table) = store(MEMORY_BYTES_MIN);
    let kept = store.create_table("kept").expect("room");
    store.put(name_in(kept, b"k"), value(b"kept"), Condition::Always).expect("room");
    let live_bytes = store.statistics().live_bytes;
    for number in 0..3000_usize {
        let contents = pattern(number as u64, if number % 100 == 0 { 100_000 } else { 100 });
        let name = number.to_le_bytes();
        store.put(name_in(table, &name), value(&contents), Condition::Always).expect("room");
    }
    assert!(store.drop_table(TABLE) && !store.drop_table(TABLE));
    let name = 1_usize.to_le_bytes();
    assert_eq!(store.get(name_in(table, &name)).map(drop), Err(ReadError::UnknownTable));
    assert_eq!(store.create_table(TABLE), Ok(table), "the name is free");
    assert_eq!(value_of(&store, name_in(table, &name)), None, "what was dropped does not come back");
    let mut sweeps = 0;
    while store.sweep() {
        sweeps += 1;
    }
    let statistics = store.statistics();
    assert_eq!((statistics.objects, statistics.live_bytes), (1, live_bytes));
    assert!(sweeps >= 10, "{sweeps} sweeps for 3000 objects: each is short");
    assert_eq!(value_of(&store, name_in(kept, b"k")).as_deref(), Some(&b"kept"[..]));
}

#[test]
fn writes_make_room_in_a_store_that_a_dropped_table_fills() {
    let (mut store, table) = store(MEMORY_BYTES_MIN);
    let kept = store.create_table("kept").expect("room");
    let put = |store: &mut Store, table, number: usize| {
        store.put(name_in(table, &number.to_le_bytes()), value(&pattern(1, 1000)), Condition::Always)
    };
    let fitted = (0..).take_while(|&number| put(&mut store, table, number).is_ok()).count();
    assert!(store.drop_table(TABLE));
    for number in 0..fitted {
        put(&mut store, kept, number).expect("the dropped objects make room");
    }
}
