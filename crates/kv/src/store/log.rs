//! The log and its index together: entries are added, replaced and removed, and cleaning keeps pace.

use std::io;

use super::cleaner::{Cleaner, CleanerStatistics, live_bytes_max};
use super::entry::{ENTRY_BYTES_MAX, Entry, NewEntry, Tail};
use super::hashes::Hashes;
use super::index::{Index, Slot};
use super::segments::{Head, Place, SEGMENT_BYTES, Segments};

/// Why an entry was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdded {
    /// The memory has no room for it.
    Full,
    /// The index has [`SAME_HASH_MAX`] entries with its hash.
    SameHash,
}

/// The most entries with one hash. Hashes of 64 bits under a secret key are hardly ever the same twice;
/// should that ever fail, look-ups are bounded all the same.
pub const SAME_HASH_MAX: usize = 16;

/// All entries of a store, within its memory.
#[derive(Debug)]
pub struct Log {
    memory_bytes: usize,
    /// Bytes of it that something beside the log takes.
    beside_bytes: usize,
    /// The most bytes that entries, their index and what lies beside the log may take together.
    limit_bytes: usize,
    hashes: Hashes,
    segments: Segments,
    index: Index,
    cleaner: Cleaner,
}

impl Log {
    /// An empty log that will take at most `memory_bytes`, its index included.
    pub fn new(memory_bytes: usize, hashes: Hashes) -> io::Result<Self> {
        let index = Index::new(memory_bytes);
        let mut segments = Segments::new(memory_bytes)?;
        segments.set_max(segments_beside(memory_bytes, index.bytes()));
        let (limit_bytes, cleaner) = (memory_bytes, Cleaner::new(hashes));
        Ok(Self { memory_bytes, beside_bytes: 0, limit_bytes, hashes, segments, index, cleaner })
    }

    /// The hashes by which the index finds entries.
    #[inline]
    pub fn hashes(&self) -> &Hashes {
        &self.hashes
    }

    /// The entry with this hash that `is_right`.
    ///
    /// The first with the hash is looked at here, where what is compared with it is still in registers; it is
    /// the right one unless two names have the same hash.
    #[inline(always)]
    pub fn find(&self, hash: u64, is_right: impl Fn(&Entry<'_>) -> bool) -> Option<(Place, Entry<'_>)> {
        let place = self.index.first(hash)?;
        self.segments.prefetch(place);
        let entry = self.segments.entry(place);
        if is_right(&entry) { Some((place, entry)) } else { self.find_another(hash, is_right) }
    }

    /// Fetches the first entries with these hashes into the caches. No step of one waits for another's, so
    /// the processor has many of them in flight.
    pub fn fetch(&self, hashes: &[u64]) {
        for &hash in hashes {
            self.index.prefetch(hash);
        }
        for &hash in hashes {
            if let Some(place) = self.index.first(hash) {
                self.segments.prefetch(place);
            }
        }
    }

    /// The same among all entries with this hash.
    #[cold]
    #[inline(never)]
    fn find_another(&self, hash: u64, is_right: impl Fn(&Entry<'_>) -> bool) -> Option<(Place, Entry<'_>)> {
        let place = self.index.find(hash, |place| is_right(&self.segments.entry(place)))?;
        Some((place, self.segments.entry(place)))
    }

    /// The entry at a place, which is that of a lookup since the last change.
    #[inline]
    pub fn entry(&self, place: Place) -> Entry<'_> {
        self.segments.entry(place)
    }

    /// Whether entries of this many bytes may be added when others of `dead_bytes` die with it; `hash` is
    /// that of the first of them.
    pub fn admits(&self, hash: u64, new_bytes: usize, dead_bytes: usize) -> bool {
        let index_bytes = self.index.bytes() + self.index.growth_bytes(hash) + self.beside_bytes;
        self.fits(self.segments.live_bytes() + new_bytes - dead_bytes, index_bytes)
    }

    /// The same for an entry that comes with what lies beside the log, which takes `beside_bytes` then.
    pub fn admits_beside(&self, hash: u64, new_bytes: usize, beside_bytes: usize) -> bool {
        let index_bytes = self.index.bytes() + self.index.growth_bytes(hash);
        self.fits(self.segments.live_bytes() + new_bytes, index_bytes + beside_bytes)
    }

    /// Whether entries of this many bytes fit beside an index and others of so many.
    fn fits(&self, live_bytes: usize, others_bytes: usize) -> bool {
        let segments = segments_beside(self.memory_bytes, others_bytes);
        live_bytes <= live_bytes_max(segments) && live_bytes + others_bytes <= self.limit_bytes
    }

    /// Bytes that entries, their index and what lies beside the log take together.
    pub fn taken_bytes(&self) -> usize {
        self.segments.live_bytes() + self.index.bytes() + self.beside_bytes
    }

    /// The most that this may become.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Sets the most that it may become: no more than the memory. What is there stays.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit_bytes = bytes.min(self.memory_bytes);
    }

    /// Does the cleaning that comes with this many bytes beside the log. Places change.
    pub fn keep_pace(&mut self, bytes: usize) {
        self.cleaner.keep_pace(&mut self.segments, &mut self.index, bytes);
    }

    /// Makes room for an entry of this many bytes, and does the cleaning that comes with it. Places change.
    pub fn prepare(&mut self, bytes: usize) -> Result<(), NotAdded> {
        debug_assert!(bytes <= ENTRY_BYTES_MAX, "entries are bounded");
        self.cleaner.keep_pace(&mut self.segments, &mut self.index, bytes);
        let ready = self.cleaner.make_room(&mut self.segments, &mut self.index, bytes);
        if ready { Ok(()) } else { Err(NotAdded::Full) }
    }

    /// Adds an entry for which room was prepared.
    pub fn add(&mut self, hash: u64, entry: &NewEntry<'_>) -> Result<(), NotAdded> {
        if self.index.count(hash) >= SAME_HASH_MAX {
            return Err(NotAdded::SameHash);
        }
        let place = self.segments.append(Head::Writes, entry);
        let index_bytes = self.index.bytes();
        if !self.index.insert(hash, place) {
            self.segments.kill(place);
            return Err(NotAdded::Full);
        }
        if self.index.bytes() != index_bytes {
            self.divide();
        }
        Ok(())
    }

    /// Bytes of the memory that something beside the log takes.
    pub fn beside(&self) -> usize {
        self.beside_bytes
    }

    /// Sets how many bytes of the memory something beside the log takes.
    pub fn set_beside(&mut self, bytes: usize) {
        self.beside_bytes = bytes;
        self.divide();
    }

    /// Gives the segments what the index and others do not take.
    fn divide(&mut self) {
        let others_bytes = self.index.bytes() + self.beside_bytes;
        self.segments.set_max(segments_beside(self.memory_bytes, others_bytes));
    }

    /// Puts an entry for which room was prepared in the place of one with the same hash.
    pub fn replace(&mut self, hash: u64, old: Place, entry: &NewEntry<'_>) {
        let new = self.segments.append(Head::Writes, entry);
        self.index.replace(hash, old, new);
        self.segments.kill(old);
    }

    /// Replaces all but the key of an entry, which must stay as long as it is.
    #[inline]
    pub fn rewrite(&mut self, place: Place, key_bytes: usize, version: u64, body: &[u8], tail: Tail) {
        self.segments.rewrite(place, key_bytes, version, body, tail);
    }

    /// Says how the entry at a place is used.
    pub fn set_uses(&mut self, place: Place, uses: u8) {
        self.segments.set_uses(place, uses);
    }

    /// Removes an entry.
    pub fn remove(&mut self, hash: u64, place: Place) {
        let index_bytes = self.index.bytes();
        self.index.remove(hash, place);
        self.segments.kill(place);
        if self.index.bytes() != index_bytes {
            self.divide();
        }
    }

    /// The part of the index that has a hash.
    pub fn part_of(&self, hash: u64) -> usize {
        self.index.part_of(hash)
    }

    /// How many bits of a hash choose the part.
    pub fn part_bits(&self) -> u32 {
        self.index.part_bits()
    }

    /// How many slots a part has.
    pub fn part_len(&self, part: usize) -> usize {
        self.index.part_len(part)
    }

    /// The slots of a part, in no order.
    pub fn part(&self, part: usize) -> impl Iterator<Item = &Slot> {
        self.index.part(part)
    }

    /// Bytes that it takes: segments and index.
    pub fn used_bytes(&self) -> usize {
        self.segments.allocated() * SEGMENT_BYTES + self.index.bytes() + self.beside_bytes
    }

    /// Bytes that it may take.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Bytes of entries that are not dead.
    pub fn live_bytes(&self) -> usize {
        self.segments.live_bytes()
    }

    /// The most bytes of entries that may live beside the index as it is.
    pub fn live_bytes_max(&self) -> usize {
        live_bytes_max(self.segments.max())
    }

    /// What cleaning has done.
    pub fn cleaner_statistics(&self) -> CleanerStatistics {
        self.cleaner.statistics
    }
}

/// How many segments there may be beside an index of this many bytes. One less than would fit: while a part
/// of the index grows it is there twice, and a segment that the index displaces must first become free.
fn segments_beside(memory_bytes: usize, index_bytes: usize) -> usize {
    (memory_bytes.saturating_sub(index_bytes) / SEGMENT_BYTES).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MEMORY_BYTES_MIN;
    use crate::store::entry::Kind;
    use farcall_base::SipKey;

    fn log() -> Log {
        Log::new(MEMORY_BYTES_MIN, Hashes::new(SipKey([1, 2]))).expect("memory")
    }

    fn add(log: &mut Log, hash: u64, key: &[u8]) -> Result<(), NotAdded> {
        let entry =
            NewEntry { kind: Kind::Whole, table: 1, key, version: 1, body: key, tail: Tail::default() };
        log.prepare(entry.bytes())?;
        log.add(hash, &entry)
    }

    #[test]
    fn entries_of_one_hash_are_bounded_and_the_others_are_served() {
        let mut log = log();
        for number in 0..SAME_HASH_MAX {
            add(&mut log, 7, &[number as u8]).expect("one of the first");
        }
        let live_bytes = log.live_bytes();
        assert_eq!(add(&mut log, 7, b"one more"), Err(NotAdded::SameHash));
        assert_eq!(log.live_bytes(), live_bytes, "nothing is left of it");
        add(&mut log, 8, b"another").expect("there is room");
        let (place, _) = log.find(7, |entry| entry.is_of(1, &[3])).expect("it was added");
        log.remove(7, place);
        add(&mut log, 7, b"one more").expect("one was removed");
    }

    #[test]
    fn entries_with_the_same_hash_are_told_apart() {
        const HASH: u64 = 0x0123_4567_89ab_cdef;
        let mut log = log();
        for key in [b"one", b"two"] {
            add(&mut log, HASH, key).expect("room");
        }
        let found = |key| log.find(HASH, |entry| entry.is_of(1, key)).map(|(_, entry)| entry.key());
        assert_eq!(
            (found(b"one"), found(b"two"), found(b"six")),
            (Some(&b"one"[..]), Some(&b"two"[..]), None)
        );
    }
}
