//! Which entry an object has: a hash table of places in the log.
//!
//! It is cut into many small tables by the upper bits of the hash. A table that is full grows by itself, so
//! growth never moves more than one of them at a time, and walking the tables one after the other walks the
//! objects nearly in the order of their hashes, which is what scans do. Slots keep the whole hash: growing
//! reads no entries, and looking up reads hardly ever another one than the right one.

use farcall_driver::prefetch_lines;
use hashbrown::HashTable;

use super::segments::Place;

/// One object's, or chunk's, place.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub hash: u64,
    pub place: Place,
}

/// The tables' number is such that one that is full of the shortest objects has at most a few thousand.
const MEMORY_BYTES_PER_PART: usize = 64 << 10;

/// The most tables, as a power of two: what they take themselves stays small.
const PART_BITS_MAX: u32 = 16;

/// A table of which less than this share is used becomes smaller. It has at least twice as much room as it
/// needs then, so that it does not grow again at once.
const SPARSE_SHARE: usize = 8;

/// The index.
#[derive(Debug)]
pub struct Index {
    parts: Box<[HashTable<Slot>]>,
    part_bits: u32,
    bytes: usize,
}

/// The bits that the hash table looks at. Those that chose the part and the shard are the same for all of a
/// part.
#[inline]
fn spread(hash: u64) -> u64 {
    hash.rotate_right(7)
}

impl Index {
    /// An empty index for a store with this much memory.
    pub fn new(memory_bytes: usize) -> Self {
        let part_bits = (memory_bytes / MEMORY_BYTES_PER_PART).max(2).ilog2().min(PART_BITS_MAX);
        let parts: Box<[HashTable<Slot>]> = (0..1_usize << part_bits).map(|_| HashTable::new()).collect();
        let bytes = size_of_val(&*parts);
        Self { parts, part_bits, bytes }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The part that has a hash.
    #[inline]
    pub fn part_of(&self, hash: u64) -> usize {
        (hash >> (64 - self.part_bits)) as usize
    }

    /// How many bits of a hash choose the part.
    pub fn part_bits(&self) -> u32 {
        self.part_bits
    }

    /// How many slots a part has.
    pub fn part_len(&self, part: usize) -> usize {
        self.parts[part].len()
    }

    /// The slots of a part, in no order.
    pub fn part(&self, part: usize) -> impl Iterator<Item = &Slot> {
        self.parts[part].iter()
    }

    /// A place with this hash: nearly always the only one.
    #[inline(always)]
    pub fn first(&self, hash: u64) -> Option<Place> {
        let part = &self.parts[self.part_of(hash)];
        part.find(spread(hash), |slot| slot.hash == hash).map(|slot| slot.place)
    }

    /// Starts to fetch the part that has a hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        let part: *const [u8; size_of::<HashTable<Slot>>()] =
            (&raw const self.parts[self.part_of(hash)]).cast();
        prefetch_lines(part);
    }

    /// The place with this hash that `is_right`.
    pub fn find(&self, hash: u64, is_right: impl Fn(Place) -> bool) -> Option<Place> {
        let part = &self.parts[self.part_of(hash)];
        part.find(spread(hash), |slot| slot.hash == hash && is_right(slot.place)).map(|slot| slot.place)
    }

    /// How many places have this hash.
    pub fn count(&self, hash: u64) -> usize {
        let part = &self.parts[self.part_of(hash)];
        part.iter_hash(spread(hash)).filter(|slot| slot.hash == hash).count()
    }

    /// About how many bytes more it will take when something with this hash is inserted.
    pub fn growth_bytes(&self, hash: u64) -> usize {
        let part = &self.parts[self.part_of(hash)];
        if part.len() < part.capacity() { 0 } else { part.allocation_size().max(4 * size_of::<Slot>()) }
    }

    /// Adds a place; says whether there was memory for it.
    pub fn insert(&mut self, hash: u64, place: Place) -> bool {
        let part = self.part_of(hash);
        let part = &mut self.parts[part];
        if part.len() == part.capacity() {
            let before = part.allocation_size();
            if part.try_reserve(1, |slot| spread(slot.hash)).is_err() {
                return false;
            }
            self.bytes += part.allocation_size() - before;
        }
        part.insert_unique(spread(hash), Slot { hash, place }, |slot| spread(slot.hash));
        true
    }

    /// Puts another place in the place of one.
    pub fn replace(&mut self, hash: u64, old: Place, new: Place) {
        let part = self.part_of(hash);
        let slot = self.parts[part].find_mut(spread(hash), |slot| slot.place == old);
        slot.expect("what is replaced is in the index").place = new;
    }

    /// Removes a place.
    pub fn remove(&mut self, hash: u64, place: Place) {
        let part = self.part_of(hash);
        let same = |slot: &Slot| slot.place == place;
        // An entry that may be vacant would have room made for it, which nobody counts.
        match self.parts[part].find_entry(spread(hash), same) {
            Ok(slot) => _ = slot.remove(),
            Err(_) => unreachable!("what is removed is in the index"),
        }
        let part = &self.parts[part];
        if part.is_empty() || part.len() < part.capacity() / SPARSE_SHARE {
            self.shrink(hash);
        }
    }

    /// Gives memory back that the part with a hash does not need.
    fn shrink(&mut self, hash: u64) {
        let part = self.part_of(hash);
        let part = &mut self.parts[part];
        let mut smaller = HashTable::new();
        if smaller.try_reserve(2 * part.len(), |slot: &Slot| spread(slot.hash)).is_err() {
            return;
        }
        for slot in part.iter() {
            smaller.insert_unique(spread(slot.hash), *slot, |slot| spread(slot.hash));
        }
        self.bytes = self.bytes + smaller.allocation_size() - part.allocation_size();
        *part = smaller;
    }
}
