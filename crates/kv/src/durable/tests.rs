//! The format byte by byte, and what recovery makes of bytes that no log has.

mod damage;
mod reserve;
mod room;

use std::collections::BTreeMap;

use farcall_base::{Random, SipKey};
use farcall_disk::testing::{Faults, SimulatedDisk};
use farcall_disk::{BLOCK_BYTES, Blocks, Disk, Job};
use farcall_replica::Fate;

use super::certificate::Part;
use super::format::{
    Ending, FORMAT_VERSION, FRAMES_AT, GROUP_HEADER_BYTES, GroupHeader, NoSuperblock, Record, Superblock,
};
use super::journal::room::LOOK_FOR_ROOM_EVERY;
use super::*;
use crate::shard::{Known, Results};
use crate::store::{CollectionKind, Condition, MEMORY_BYTES_MIN, PIECE_BYTES};

const DOCUMENT: &str = include_str!("../../../../docs/protocol/log.md");

const SUPERBLOCK: Superblock = Superblock {
    version: FORMAT_VERSION,
    shard: 1,
    shards: 2,
    head_frame: 3,
    log: 0x0123_4567_89ab_cdef,
    epoch: 4,
    generation: 5,
    head: 6,
};

const RECORDS: [(&str, Record<'static>); 18] = [
    ("put", Record::Put { table: 7, version: 8, key: b"k", value: b"value" }),
    ("tombstone", Record::Tombstone { table: 7, version: 8, key: b"k" }),
    ("table", Record::Table { level: 1, name: "orders" }),
    ("drop", Record::Drop { table: 7, version: 8 }),
    ("segment", Record::Segment(Ending { segment: 5, frame: 2, bytes: 8192, crc: 0xfeed })),
    ("retired", Record::Retired { segment: 4 }),
    ("client", Record::Client { client: 11 }),
    ("result", Record::Result { client: 11, sequence: 3, first: 2, answer: b"done" }),
    ("gone", Record::Gone { client: 11 }),
    ("put until", Record::PutUntil { table: 7, version: 8, deadline: 9, key: b"k", value: b"value" }),
    (
        "collection",
        Record::Collection {
            kind: CollectionKind::Hash,
            table: 7,
            version: 8,
            deadline: 9,
            number: 6,
            key: b"k",
        },
    ),
    ("element", Record::Element { number: 6, stamp: 2, name: b"field", value: b"value" }),
    ("removed", Record::Removed { number: 6, name: b"field" }),
    ("cut", Record::Cut { number: 6, first: 1 << 63, end: (1 << 63) + 2 }),
    ("cleared", Record::Cleared { table: 7, version: 8 }),
    ("piece", Record::Piece { id: 6, stamp: 9, number: 1, body: b"value" }),
    ("long", Record::Long { table: 7, version: 8, deadline: 9, id: 6, bytes: 2 << 20, key: b"k" }),
    ("ended", Record::Ended { id: 6 }),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn encoded(record: &Record<'_>) -> Blocks {
    let mut bytes = Blocks::new();
    record.encode(&mut bytes);
    bytes
}

fn group() -> (GroupHeader, Blocks) {
    let mut header = GroupHeader {
        segment: 6,
        epoch: 4,
        at: 4096,
        bytes: 0,
        last_version: 8,
        records: 1,
        crc_before: 9,
        crc: 0,
        continues: false,
    };
    let mut blocks = Blocks::zeroed(GROUP_HEADER_BYTES);
    RECORDS[1].1.encode(&mut blocks);
    header.seal(SUPERBLOCK.log, &mut blocks);
    (header, blocks)
}

#[test]
fn a_log_has_the_documented_bytes() {
    let block =
        DOCUMENT.split("```golden\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let documented: BTreeMap<_, _> = block.lines().filter_map(|line| line.split_once(": ")).collect();
    let (header, blocks) = group();
    let mut written: BTreeMap<_, _> =
        RECORDS.iter().map(|(name, record)| (*name, hex(&encoded(record)))).collect();
    written.insert("superblock", hex(&SUPERBLOCK.encode()[..64]));
    written.insert("group", hex(&blocks[..GROUP_HEADER_BYTES + header.bytes as usize]));
    for (name, bytes) in &written {
        println!("{name}: {bytes}");
    }
    assert_eq!(written.len(), documented.len());
    for (name, bytes) in &written {
        assert_eq!(documented.get(name), Some(&bytes.as_str()), "{name}");
    }
}

#[test]
fn what_is_written_is_read_and_damage_is_noticed() {
    assert_eq!(Superblock::decode(&SUPERBLOCK.encode()), Ok(SUPERBLOCK));
    assert_eq!(Superblock::decode(&Blocks::zeroed(BLOCK_BYTES)), Err(NoSuperblock::Blank));
    let mut newer = SUPERBLOCK.encode();
    newer[8] = 9;
    assert_eq!(Superblock::decode(&newer), Err(NoSuperblock::Version(9)));
    for (name, record) in RECORDS {
        let bytes = encoded(&record);
        assert_eq!(format::records(&bytes).collect::<Vec<_>>(), [Ok(record)], "{name}");
        let cut = &bytes[..bytes.len() - 1];
        assert!(format::records(cut).any(|record| record.is_err()), "{name}");
    }
    let (header, blocks) = group();
    let found = GroupHeader::verify(SUPERBLOCK.log, &blocks).expect("it verifies");
    assert_eq!(found, (header, &*encoded(&RECORDS[1].1)));
    assert!(GroupHeader::verify(SUPERBLOCK.log + 1, &blocks).is_none(), "it is of another log");
    for at in 0..GROUP_HEADER_BYTES + header.bytes as usize {
        let mut damaged = Blocks::zeroed(blocks.len());
        damaged.copy_from_slice(&blocks);
        damaged[at] ^= 1;
        assert!(GroupHeader::verify(SUPERBLOCK.log, &damaged).is_none(), "byte {at}");
    }
}

fn store() -> Store {
    Store::with_key(4 * MEMORY_BYTES_MIN, SipKey([1, 2])).expect("enough")
}

/// Most of a log of few frames.
const LOG_BYTES: u64 = FRAMES_AT + 6 * format::FRAME_BYTES as u64;

fn open(disk: &SimulatedDisk, of: (u32, u32)) -> Result<(Durable, Store), LogError> {
    open_up_to(disk, of, LOG_BYTES)
}

fn open_up_to(disk: &SimulatedDisk, of: (u32, u32), log_bytes: u64) -> Result<(Durable, Store), LogError> {
    let (mut store, mut results) = (store(), Results::default());
    let (durable, _) =
        Durable::open((&mut store, &mut results), Box::new(disk.clone()), None, of, log_bytes)?;
    Ok((durable, store))
}

fn name(table: TableId, key: &[u8]) -> Name<'_> {
    Name::new(table, key).expect("a good key")
}

/// Turns until everything is flushed.
fn settle(durable: &mut Durable, store: &mut Store) {
    while durable.is_busy() && durable.failure().is_none() {
        durable.turn(store, &Results::default());
    }
}

fn with_table(disk: &SimulatedDisk) -> (Durable, Store, TableId) {
    with_table_up_to(disk, LOG_BYTES)
}

fn with_table_up_to(disk: &SimulatedDisk, log_bytes: u64) -> (Durable, Store, TableId) {
    let (mut durable, mut store) = open_up_to(disk, (0, 1), log_bytes).expect("a log");
    let table = store.create_table("orders").expect("the first");
    durable.add_table(&mut store, "orders", table, Level::Flushed);
    (durable, store, table)
}

fn write(disk: &mut SimulatedDisk, at: u64, byte: u8) {
    let mut blocks = Blocks::zeroed(BLOCK_BYTES);
    blocks.fill(byte);
    disk.begin(Job::Write { at, blocks, flush: true });
    disk.wait().expect("it is done");
}

#[test]
fn other_logs_and_other_files_are_refused_as_they_are() {
    let disk = SimulatedDisk::new(1, Faults::default());
    drop(open(&disk, (0, 1)).expect("an empty disk"));
    let other = open(&disk, (1, 2)).expect_err("it is another shard's");
    assert_eq!(other, LogError::OtherShard { shard: 0, shards: 1, own: 1, own_shards: 2 });
    for at in [0, 64 << 10] {
        write(&mut disk.clone(), at, 7);
    }
    let before = disk.platter();
    assert_eq!(open(&disk, (0, 1)).expect_err("no superblock is whole"), LogError::NotALog);
    assert!(disk.platter() == before, "nothing was changed");
}

/// Keys were placed by another function: at their shards they would not be found.
#[test]
fn an_older_log_of_several_shards_is_refused_and_says_how_it_is_brought_over() {
    let disk = SimulatedDisk::new(1, Faults::default());
    drop(open(&disk, (0, 2)).expect("an empty disk"));
    for at in [0, 64 << 10] {
        let mut block = disk.platter()[at as usize..][..BLOCK_BYTES].to_vec();
        block[format::SUPERBLOCK_MAGIC.len()..][..4].copy_from_slice(&2_u32.to_le_bytes());
        let crc = crc32c::crc32c(&block[..60]);
        block[60..64].copy_from_slice(&crc.to_le_bytes());
        let mut blocks = Blocks::zeroed(BLOCK_BYTES);
        blocks.copy_from_slice(&block);
        disk.clone().begin(Job::Write { at, blocks, flush: true });
        disk.clone().wait().expect("it is done");
    }
    let refused = open(&disk, (0, 2)).expect_err("its keys are elsewhere");
    assert_eq!(refused, LogError::OtherPlacement { version: 2, shards: 2 });
    assert!(refused.to_string().contains("kv restore"));
}

#[test]
fn one_superblock_is_enough() {
    for lost in [0, 64 << 10] {
        let disk = SimulatedDisk::new(1, Faults::default());
        let (mut durable, mut store, table) = with_table(&disk);
        let value = Value::new(b"value").expect("short");
        durable.put(&mut store, name(table, b"k"), value, Condition::Always).expect("room");
        settle(&mut durable, &mut store);
        drop(durable);
        drop(open(&disk, (0, 1)).expect("a second epoch"));
        write(&mut disk.clone(), lost, 7);
        let (_, store) = open(&disk, (0, 1)).expect("the other superblock");
        assert!(store.get(name(table, b"k")).expect("its table").is_some(), "superblock at {lost}");
    }
}

/// Where the superblock of a log is that was opened once and has one segment.
const SUPERBLOCK_SLOT_OF_FIRST_LIFE: u64 = 64 << 10;

/// Turns until the disk has nothing to do.
fn rest(durable: &mut Durable, store: &mut Store) {
    while durable.journal.is_working() {
        durable.turn(store, &Results::default());
    }
}

#[test]
fn a_disk_that_fails_refuses_what_waits_and_what_comes() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let (mut durable, mut store, table) = with_table(&disk);
    settle(&mut durable, &mut store);
    disk.set_faults(Faults { fails_from: Some(0), ..Faults::default() });
    let value = Value::new(b"value").expect("short");
    let (_, when) = durable.put(&mut store, name(table, b"k"), value, Condition::Always).expect("it may");
    let When::Flushed(group) = when else { panic!("it is not flushed") };
    durable.hold(group, Parked::Numbered(1), Held::new(b"done"));
    settle(&mut durable, &mut store);
    let released = durable.release().expect("nobody waits for ever");
    assert_eq!(released.answer, Held::Refused(Code::DiskFailed));
    let next = durable.put(&mut store, name(table, b"l"), value, Condition::Always);
    assert_eq!(next.expect_err("no more writes"), Code::DiskFailed);
    let dropped = durable.drop_table(&mut store, "orders", table).map(drop);
    assert_eq!(dropped, Err(Code::DiskFailed));
    assert!(store.get(name(table, b"k")).expect("its table is there").is_some(), "it can still be read");
}

#[test]
fn a_result_is_found_after_the_segment_of_its_client_was_cleaned() {
    const CLIENT: u64 = 7;
    let disk = SimulatedDisk::new(1, Faults::default());
    let (mut durable, mut store, table) = with_table(&disk);
    let mut results = Results::default();
    let long = vec![7; 500_000];
    // The same object again and again, until so many segments were begun or cleaned.
    let mut overwrite = |durable: &mut Durable, results: &Results, is_enough: &dyn Fn(&Durable) -> bool| {
        for _ in 0..1000 {
            let value = Value::new(&long).expect("within the limit");
            let put = durable.put(&mut store, name(table, b"again"), value, Condition::Always);
            assert!(matches!(put, Ok(_) | Err(Code::Busy | Code::LogFull)), "{put:?}");
            while durable.is_busy() {
                durable.turn(&mut store, results);
            }
            if is_enough(durable) {
                return;
            }
        }
        panic!("it is never enough: {:?}", durable.status());
    };
    assert!(results.add_client(CLIENT));
    durable.client_added(CLIENT);
    overwrite(&mut durable, &results, &|durable| durable.status().statistics.segments > 1);
    let recorded = Recorded { answer: b"done".to_vec(), when: When::Now };
    durable.record_result(CLIENT, (1, 1), b"done");
    results.record(CLIENT, (1, 1), recorded.clone());
    overwrite(&mut durable, &results, &|durable| durable.status().statistics.cleaned == 1);
    drop(durable);
    let mut found = Results::default();
    let to = (&mut self::store(), &mut found);
    Durable::open(to, Box::new(disk.clone()), None, (0, 1), LOG_BYTES).expect("a log");
    assert_eq!(found.look_up(CLIENT, 1, 1), Known::Done(recorded), "it would happen again");
}

#[test]
fn recovery_takes_any_bytes() {
    let mut random = Random::new(u64::from(std::process::id()));
    let disk = SimulatedDisk::new(1, Faults::default());
    let (mut durable, mut store, table) = with_table(&disk);
    for number in 0..20_u8 {
        let value = Value::new(&[1, 2, 3]).expect("short");
        durable.put(&mut store, name(table, &[number % 5]), value, Condition::Always).expect("room");
        settle(&mut durable, &mut store);
    }
    drop(durable);
    for _ in 0..60 {
        let at = [0, 64 << 10, FRAMES_AT][random.index(3)] + random.below(90_000);
        disk.flip_bit(at, random.below(8) as u32);
        // It opens, or says why not.
        match open(&disk, (0, 1)) {
            Ok((durable, _)) => drop(durable),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn collections_and_long_values_of_any_records_are_put_back_or_refused() {
    let list = |number: u64, first: u64| {
        let name = first.to_be_bytes();
        let element = Record::Element { number, stamp: 7, name: &name, value: b"v" };
        let kind = CollectionKind::List;
        let named = Record::Collection { kind, table: 7, version: 8, deadline: 0, number, key: b"k" };
        [encoded(&element), encoded(&named)].map(|blocks| blocks.to_vec()).concat()
    };
    for first in [0, 1, 1 << 62, 1 << 63, u64::MAX] {
        fuzz_log(&list(6, first));
        fuzz_log(&[list(6, first), list(6, first.wrapping_add(2))].concat());
    }
    let (whole, id) = (PIECE_BYTES, 6);
    let piece = |number: u32, bytes: usize| {
        encoded(&Record::Piece { id, stamp: 9, number, body: &vec![7; bytes] }).to_vec()
    };
    let named = |pieces: u32, rest: u32| {
        let bytes = (pieces - 1) * whole as u32 + rest;
        encoded(&Record::Long { table: 7, version: 8, deadline: 0, id, bytes, key: b"k" }).to_vec()
    };
    let (pieces, rest) = (66, 100);
    let full: Vec<u8> = (0..pieces - 1).flat_map(|number| piece(number, whole)).collect();
    let last = piece(pieces - 1, rest as usize);
    let other = encoded(&Record::Long {
        table: 8,
        version: 9,
        deadline: 0,
        id,
        bytes: (pieces - 1) * whole as u32 + rest,
        key: b"other",
    });
    for parts in [
        [&full[..], &last, &named(pieces, rest)],
        [&named(pieces, rest), &full, &last],
        // Some are missing, too short, or too many; the value has ended; two keys have the same pieces.
        [&full, &[], &named(pieces, rest)],
        [&full, &last, &named(pieces, rest + 1)],
        [&full, &last, &named(pieces - 1, whole as u32)],
        [&full, &encoded(&Record::Ended { id }), &named(pieces, rest)],
        [&[&full[..], &last].concat(), &other, &named(pieces, rest)],
    ] {
        fuzz_log(&parts.concat());
    }
    let all: Vec<u8> = RECORDS.iter().flat_map(|(_, record)| encoded(record).to_vec()).collect();
    fuzz_log(&all);
}
