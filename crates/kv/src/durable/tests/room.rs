//! A disk that has no room for more of the log, and has some again.

use super::*;

#[test]
fn a_full_disk_refuses_writes_and_goes_on_with_reads_and_deletes() {
    // Of a large one more than half may live before it is known to be full.
    [4, 12].into_iter().for_each(fill_and_empty);
}

/// Fills a disk of so many frames, whose log might have more, and makes room by deletes.
fn fill_and_empty(frames: u64) {
    let bytes = |frames: u64| FRAMES_AT + frames * format::FRAME_BYTES as u64;
    let disk = SimulatedDisk::new(1, Faults { bytes_max: Some(bytes(frames)), ..Faults::default() });
    let (mut durable, mut store, table) = with_table_up_to(&disk, bytes(2 * frames));
    let long = vec![7; 500_000];
    let mut keys = 0_u8;
    let code = loop {
        let value = Value::new(&long).expect("within the limit");
        match durable.put(&mut store, name(table, &[keys]), value, Condition::Always) {
            Ok(_) => keys += 1,
            Err(Code::Busy) => {}
            Err(code) => break code,
        }
        settle(&mut durable, &mut store);
    };
    assert_eq!(code, Code::LogFull);
    assert!(keys > 10, "half of 16 MiB, the least, hold {keys} objects");
    assert!(store.get(name(table, &[0])).expect("its table").is_some(), "it can be read");
    for key in 0..keys {
        durable.delete(&mut store, name(table, &[key]), Condition::Always).expect("deletes need little");
        settle(&mut durable, &mut store);
    }
    // What the deletes made useless is cleaned in the turns that come.
    let value = Value::new(&long).expect("within the limit");
    let written = (0..10_000).find_map(|_| {
        durable.turn(&mut store, &Results::default());
        durable.put(&mut store, name(table, b"new"), value, Condition::Always).ok()
    });
    assert!(written.is_some(), "there is room again: {:?}", durable.status());
}

/// Fills a log of which the disk has no more than four frames.
fn full(disk: &SimulatedDisk) -> (Durable, Store, TableId) {
    let (mut durable, mut store, table) = with_table_up_to(disk, LOG_BYTES_MIN);
    let long = vec![7; 500_000];
    for key in 0..u8::MAX {
        let value = Value::new(&long).expect("within the limit");
        match durable.put(&mut store, name(table, &[key]), value, Condition::Always) {
            Ok(_) | Err(Code::Busy) => settle(&mut durable, &mut store),
            Err(code) => {
                assert_eq!(code, Code::LogFull);
                return (durable, store, table);
            }
        }
    }
    panic!("four frames hold no 100 MB");
}

#[test]
fn a_disk_that_was_full_is_asked_for_room_again_and_not_with_every_write() {
    let faults = Faults { bytes_max: Some(FRAMES_AT + 4 * format::FRAME_BYTES as u64), ..Faults::default() };
    let disk = SimulatedDisk::new(1, faults);
    let (mut durable, mut store, table) = full(&disk);
    rest(&mut durable, &mut store);
    disk.set_faults(faults);
    let begun = Instant::now() + LOOK_FOR_ROOM_EVERY;
    let mut look_at = |durable: &mut Durable, at: Instant| {
        durable.journal.look_for_room(at);
        rest(durable, &mut store);
        disk.jobs()
    };
    assert_eq!(look_at(&mut durable, begun), 1, "it is due");
    for part in 1..10 {
        assert_eq!(look_at(&mut durable, begun + LOOK_FOR_ROOM_EVERY * part / 10), 1, "it was just now");
    }
    assert_eq!(look_at(&mut durable, begun + LOOK_FOR_ROOM_EVERY), 2);
    let most = durable.status().frames.1;
    // Somebody has made room.
    disk.set_faults(Faults::default());
    assert!(look_at(&mut durable, begun + LOOK_FOR_ROOM_EVERY * 2) > 0);
    assert!(durable.status().frames.1 > most, "the log grows again");
    let long = vec![7; 500_000];
    let written = (0..1000).find_map(|_| {
        settle(&mut durable, &mut store);
        let value = Value::new(&long).expect("within the limit");
        durable.put(&mut store, name(table, b"new"), value, Condition::Always).ok()
    });
    assert!(written.is_some(), "there is room: {:?}", durable.status());
}
