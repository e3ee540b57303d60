//! Stores that are nearly full: memory stays within its bound, nothing is lost, and no operation works for
//! long.

use farcall_base::Random;

use super::*;

/// A store filled to 90 % of its memory, index included, and what must be in it: for each object, the write
/// that made it last, and its length.
struct Filled {
    store: Store,
    table: TableId,
    objects: Vec<(u64, usize)>,
    lengths: fn(&mut Random) -> usize,
    random: Random,
    writes: u64,
    live_wanted: usize,
}

impl Filled {
    fn new(memory_bytes: usize, seed: u64, lengths: fn(&mut Random) -> usize) -> Self {
        println!("seed {seed}");
        let (store, table) = store(memory_bytes);
        let (objects, random) = (Vec::new(), Random::new(seed));
        let live_wanted = memory_bytes / 10 * 9;
        let mut filled = Self { store, table, objects, lengths, random, writes: 0, live_wanted };
        while filled.has_room() {
            filled.objects.push((0, 0));
            filled.write(filled.objects.len() - 1);
        }
        filled
    }

    fn has_room(&self) -> bool {
        let statistics = self.store.statistics();
        let index_bytes = statistics.used_bytes % SEGMENT;
        let live_bytes = statistics.live_bytes + index_bytes;
        live_bytes < self.live_wanted.min(statistics.live_bytes_max)
    }

    /// Writes an object with another length, and checks that no more was done for it than may be.
    fn write(&mut self, object: usize) {
        let length = (self.lengths)(&mut self.random);
        self.writes += 1;
        let before = self.store.statistics().cleaner;
        let (name, contents) = (name(object), pattern(self.writes, length));
        match self.store.put(name_in(self.table, &name), value(&contents), Condition::Always) {
            Ok(_) => self.objects[object] = (self.writes, length),
            // Lengths vary, and so the sum may come to more than what fits.
            Err(error) => assert_eq!(error, WriteError::OutOfMemory),
        }
        let after = self.store.statistics();
        let visited = (after.cleaner.visited_bytes - before.visited_bytes) as usize;
        assert!(visited <= cleaning_bytes_max(name.len(), length), "{visited} bytes looked through");
        assert!(after.used_bytes <= after.memory_bytes, "{} bytes of memory", after.used_bytes);
    }

    fn overwrite(&mut self, times: usize) {
        for _ in 0..times {
            let object = self.random.below(self.objects.len() as u64) as usize;
            self.write(object);
        }
    }

    fn check(&self) {
        for (object, &(write, length)) in
            self.objects.iter().enumerate().filter(|(_, (write, _))| *write != 0)
        {
            let found = value_of(&self.store, name_in(self.table, &name(object)));
            assert!(found == Some(pattern(write, length)), "object {object} was lost");
        }
    }
}

const SEGMENT: usize = segments::SEGMENT_BYTES;

fn name(object: usize) -> Vec<u8> {
    format!("a key of thirty bytes {object:08}").into_bytes()
}

/// Mostly small, as values are, some large.
fn mixed(random: &mut Random) -> usize {
    match random.below(100) {
        0..70 => random.below(300) as usize,
        70..97 => random.below(10_000) as usize,
        _ => random.below(200_000) as usize,
    }
}

/// How often objects are overwritten in the longest test.
const OVERWRITES: &str = "FARCALL_TEST_KV_OVERWRITES";

#[test]
fn a_store_at_ninety_percent_takes_overwrites_of_mixed_sizes() {
    let mut filled = Filled::new(256 << 20, 1, mixed);
    let overwrites = std::env::var(OVERWRITES).map_or(60_000, |text| text.parse().expect("a number"));
    filled.overwrite(overwrites);
    let statistics = filled.store.statistics();
    println!("{statistics:?}");
    assert!(statistics.cleaner.segments_freed > 0, "cleaning was needed");
    assert_eq!(statistics.cleaner.forced, 0, "cleaning kept pace");
    filled.check();
}

#[test]
fn a_small_store_of_large_values_takes_overwrites() {
    let mut filled = Filled::new(MEMORY_BYTES_MIN, 2, |random| random.below(1 << 20) as usize);
    filled.overwrite(500);
    filled.check();
}

/// All objects have one length, and every second one is overwritten by a longer one: dead bytes are spread
/// evenly, so that no segment is cheap to clean.
#[test]
fn evenly_spread_dead_bytes_are_found() {
    let mut filled = Filled::new(64 << 20, 3, |_| 1000);
    filled.lengths = |random| 1000 + 8 * random.below(3) as usize;
    for round in 0..6 {
        for object in (round % 2..filled.objects.len()).step_by(2) {
            filled.write(object);
        }
    }
    let statistics = filled.store.statistics();
    println!("{statistics:?}");
    assert!(statistics.cleaner.segments_freed > 0, "cleaning was needed");
    filled.check();
}

#[test]
fn a_full_store_refuses_and_goes_on_after_deletes() {
    let (mut store, table) = store(MEMORY_BYTES_MIN);
    let contents = pattern(1, 1000);
    let fill = |store: &mut Store, from: usize| {
        let mut put =
            |number: &usize| store.put(name_in(table, &name(*number)), value(&contents), Condition::Always);
        (from..)
            .map_while(|number| put(&number).map_err(|error| assert_eq!(error, WriteError::OutOfMemory)).ok())
            .count()
    };
    let fitted = fill(&mut store, 0);
    assert!(fitted * 1000 > MEMORY_BYTES_MIN / 3, "{fitted} objects fitted");
    assert_eq!(store.statistics().objects, fitted as u64);
    assert!(store.put(name_in(table, &name(0)), value(&contents), Condition::Always).is_ok(), "in place");
    for number in 0..fitted {
        assert!(value_of(&store, name_in(table, &name(number))).as_deref() == Some(&contents[..]));
        if number % 2 == 0 {
            store.delete(name_in(table, &name(number)), Condition::Always).expect("a table");
        }
    }
    let fitted_again = fill(&mut store, fitted);
    assert!(fitted_again.abs_diff(fitted / 2) <= fitted / 10, "{fitted_again} more fitted");
}

/// Only what becomes longer or shorter, or expires at another time, is written elsewhere.
#[test]
fn a_value_in_chunks_is_written_over_where_it_lies() {
    let (mut store, table) = store(MEMORY_BYTES_MIN);
    let long = 20 * entry::WHOLE_BYTES_MAX + 100;
    let put = |store: &mut Store, seed: u64, length: usize, expiry: Expiry| {
        let contents = pattern(seed, length);
        let name = name_in(table, b"key");
        let version = store.put_until(name, value(&contents), Condition::Always, expiry).expect("room");
        let object = store.get(name).expect("a table").expect("it was put");
        assert_eq!((object.version(), object.value_bytes()), (version, length));
        assert!(object.to_vec() == contents, "write {seed}");
        (version, store.statistics())
    };
    let (mut last, first) = put(&mut store, 0, long, Expiry::Never);
    // Several times the memory.
    for seed in 1..200 {
        let (version, now) = put(&mut store, seed, long - seed as usize % 4, Expiry::Never);
        assert!(version > last, "versions grow");
        assert_eq!((now.used_bytes, now.live_bytes), (first.used_bytes, first.live_bytes), "write {seed}");
        last = version;
    }
    for (seed, length) in [(200, long + 8), (201, long - 200), (202, long)] {
        assert_eq!(put(&mut store, seed, length, Expiry::Never).1.objects, 1);
    }
    put(&mut store, 203, long, Expiry::At(10));
    put(&mut store, 204, long, Expiry::At(10));
    put(&mut store, 205, long, Expiry::At(20));
    store.set_clock(10);
    assert!(value_of(&store, name_in(table, b"key")).is_some(), "its deadline is the last one");
    store.set_clock(20);
    assert_eq!((store.expire(9), store.statistics().live_bytes), (1, 0), "none of it is left");
}
