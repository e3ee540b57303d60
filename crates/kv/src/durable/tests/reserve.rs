//! A log at its last frames: what keeps the cleaner's reserve, and what a process leaves that ends while the
//! cleaner has taken of it.

use std::collections::BTreeMap;

use super::super::format::FRAME_BYTES;
use super::super::frames::SURVIVORS_RESERVE;
use super::super::journal::SPLIT_BYTES;
use super::*;

/// Turns within which a write is taken, and a log comes to rest.
const TURNS_MAX: u32 = 100_000;

/// Keys that are written once, and keys that are written again and again. With the longest values they are
/// less than five in eight bytes of the three segments that such a log has besides its head and its reserve.
const KEYS_AT_REST: u8 = 4;
const KEYS: u8 = 8;

/// Flushes take some turns.
const SLOW: Faults =
    Faults { power_fails_after: None, fails_from: None, bytes_max: None, misdirects: None, polls_max: 4 };

/// A store that is killed and opened again, and what its clients know.
struct Lives {
    disk: SimulatedDisk,
    durable: Durable,
    store: Store,
    table: TableId,
    random: Random,
    /// The last number that was written to a key, and the last that was acknowledged.
    written: BTreeMap<u8, u32>,
    acknowledged: BTreeMap<u8, u32>,
    waiting: Vec<(u8, u32, When)>,
    number: u32,
}

impl Lives {
    fn new(seed: u64) -> Self {
        let disk = SimulatedDisk::new(seed, SLOW);
        let (durable, store, table) = with_table(&disk);
        let (written, acknowledged, waiting) = Default::default();
        let random = Random::new(seed);
        let mut lives =
            Self { disk, durable, store, table, random, written, acknowledged, waiting, number: 0 };
        (0..KEYS).for_each(|key| lives.write(key, 950_000));
        lives
    }

    fn turn(&mut self) {
        self.durable.turn(&mut self.store, &Results::default());
        assert_eq!(self.durable.failure(), None);
        let Self { waiting, durable, acknowledged, .. } = self;
        waiting.retain(|&(key, number, when)| {
            let waits = durable.still(when) != When::Now;
            if !waits {
                acknowledged.insert(key, number);
            }
            waits
        });
    }

    /// Overwrites an object as soon as the log takes it, which is never full.
    fn write(&mut self, key: u8, bytes: usize) {
        self.number += 1;
        let mut value = vec![key; bytes];
        value[..4].copy_from_slice(&self.number.to_le_bytes());
        let value = Value::new(&value).expect("within the limit");
        for _ in 0..TURNS_MAX {
            match self.durable.put(&mut self.store, name(self.table, &[key]), value, Condition::Always) {
                Ok((_, when)) => {
                    self.written.insert(key, self.number);
                    return self.waiting.push((key, self.number, when));
                }
                Err(code) => assert_eq!(code, Code::Busy, "{:?}", self.durable.status()),
            }
            self.turn();
        }
        panic!("it is never taken: {:?}", self.durable.status());
    }

    fn write_any(&mut self) {
        let key = KEYS_AT_REST + self.random.below(u64::from(KEYS - KEYS_AT_REST)) as u8;
        let bytes = [4, 1000, 100_000, 500_000, 950_000][self.random.index(5)];
        self.write(key, bytes);
        (0..self.random.below(4)).for_each(|_| self.turn());
    }

    fn free(&self) -> usize {
        self.durable.journal.frames().free()
    }

    /// Writes until the cleaner has taken of its reserve; says whether it has.
    fn write_into_reserve(&mut self) -> bool {
        for _ in 0..200 {
            self.write_any();
            for _ in 0..10 {
                if self.free() < SURVIVORS_RESERVE {
                    return true;
                }
                self.turn();
            }
        }
        false
    }

    /// Ends the process and opens the log again; everything acknowledged is there.
    fn kill(&mut self) {
        self.disk.cut_power();
        (self.durable, self.store) = open(&self.disk, (0, 1)).expect("it opens again");
        self.disk.set_faults(SLOW);
        self.waiting.clear();
        for (key, acknowledged) in &self.acknowledged {
            let object = self.store.get(name(self.table, &[*key])).expect("its table");
            let value = object.expect("it was acknowledged").to_vec();
            let found = u32::from_le_bytes(value[..4].try_into().expect("four bytes"));
            let known = *acknowledged..=self.written[key];
            assert!(known.contains(&found), "key {key} has {found}, and was {known:?}");
        }
        let groups = self.longest_group();
        assert!(groups <= SPLIT_BYTES + BLOCK_BYTES, "a group has {groups} bytes");
    }

    /// Bytes of the longest group that lies in any frame.
    fn longest_group(&self) -> usize {
        let platter = self.disk.platter();
        let log = self.durable.journal.log();
        let blocks = platter[FRAMES_AT as usize..].chunks(BLOCK_BYTES);
        let groups = blocks.filter_map(|block| GroupHeader::parse(log, block));
        groups.map(|(header, _)| header.disk_bytes()).max().expect("some group")
    }
}

#[test]
fn a_log_killed_while_its_cleaner_is_at_the_reserve_opens_again_with_all_that_was_acknowledged() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut lives = Lives::new(seed);
    let mut kills = 0;
    for _ in 0..30 {
        kills += u32::from(lives.write_into_reserve());
        // Some lives are short.
        (0..lives.random.below(30)).for_each(|_| lives.turn());
        lives.kill();
        while lives.random.chance(0.3) {
            lives.write_any();
            lives.kill();
        }
    }
    assert!(kills > 0, "the cleaner was never at the reserve: {:?}", lives.durable.status());
}

/// A group that is being flushed has its place in the head, though its bytes are the disk's by then.
#[test]
fn writes_leave_the_cleaner_its_reserve_while_flushes_are_out() {
    let faults = Faults { bytes_max: Some(FRAMES_AT + 4 * FRAME_BYTES as u64), ..SLOW };
    let disk = SimulatedDisk::new(1, faults);
    let (mut durable, mut store, table) = with_table_up_to(&disk, LOG_BYTES_MIN);
    let long = vec![7; 500_000];
    let mut key = 0_u8;
    for _ in 0..TURNS_MAX {
        let value = Value::new(&long).expect("within the limit");
        match durable.put(&mut store, name(table, &[key]), value, Condition::Always) {
            Ok(_) => key += 1,
            Err(Code::LogFull) => break,
            Err(code) => assert_eq!(code, Code::Busy),
        }
        durable.turn(&mut store, &Results::default());
    }
    settle(&mut durable, &mut store);
    assert!(key > 10, "{key} objects");
    assert_eq!(durable.journal.frames().free(), SURVIVORS_RESERVE, "{:?}", durable.status());
}

/// The group that waits for a segment needs no frame beside the one that is being opened.
#[test]
fn writes_are_taken_while_a_segment_is_opened() {
    let disk = SimulatedDisk::new(1, SLOW);
    let (mut durable, mut store, table) = with_table_up_to(&disk, 4 * LOG_BYTES);
    let bytes = vec![7; 20_000];
    let value = Value::new(&bytes).expect("within the limit");
    rest(&mut durable, &mut store);
    let begun = durable.journal.statistics().segments;
    for turn in 0..TURNS_MAX {
        let put = durable.put(&mut store, name(table, b"k"), value, Condition::Always);
        assert!(put.is_ok(), "turn {turn}: {put:?}, {:?}", durable.journal);
        // A turn in which nothing comes ends what gathers.
        for _ in 0..2 {
            durable.turn(&mut store, &Results::default());
        }
        if durable.journal.statistics().segments == begun + 2 {
            return;
        }
    }
    panic!("no segment was full: {:?}", durable.status());
}

/// Lives that end early leave a head each.
#[test]
fn a_log_without_a_free_frame_gets_one_beyond_its_most() {
    const VALUES: u8 = 25;
    let disk = SimulatedDisk::new(1, Faults::default());
    let (mut durable, mut store, table) = with_table(&disk);
    let long = vec![7; 500_000];
    for key in 0..VALUES {
        let value = Value::new(&long).expect("within the limit");
        durable.put(&mut store, name(table, &[key]), value, Condition::Always).expect("half of it may live");
        settle(&mut durable, &mut store);
    }
    drop(durable);
    let (mut durable, mut store) = open(&disk, (0, 1)).expect("a frame is left");
    durable.delete(&mut store, name(table, &[0]), Condition::Always).expect("the last room is for deletes");
    settle(&mut durable, &mut store);
    drop(durable);
    for jobs in 10..50 {
        disk.cut_power();
        disk.set_faults(Faults { power_fails_after: Some(jobs), ..Faults::default() });
        let opened = open(&disk, (0, 1)).map(drop);
        assert!(matches!(opened, Ok(()) | Err(LogError::Disk(_))), "{opened:?}");
    }
    assert!(disk.platter().len() as u64 > LOG_BYTES, "no life lacked a frame");
    disk.cut_power();
    let (_, store) = open(&disk, (0, 1)).expect("it opens again");
    let is_there = |key: u8| store.get(name(table, &[key])).expect("its table").is_some();
    assert!(!is_there(0) && (1..VALUES).all(is_there));
}
