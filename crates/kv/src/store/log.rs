//! The log and its index together: entries are added, replaced and removed, and cleaning keeps pace.

use std::io;

use super::cleaner::{Cleaner, CleanerStatistics, live_bytes_max};
use super::entry::{ENTRY_BYTES_MAX, Entry, NewEntry};
use super::index::{Index, Slot};
use super::segments::{Head, Place, SEGMENT_BYTES, Segments};

/// The memory has no room for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// All entries of a store, within its memory.
#[derive(Debug)]
pub struct Log {
    memory_bytes: usize,
    segments: Segments,
    index: Index,
    cleaner: Cleaner,
}

impl Log {
    /// An empty log that will take at most `memory_bytes`, its index included.
    pub fn new(memory_bytes: usize) -> io::Result<Self> {
        let index = Index::new(memory_bytes);
        let mut segments = Segments::new(memory_bytes)?;
        segments.set_max(segments_beside(memory_bytes, index.bytes()));
        Ok(Self { memory_bytes, segments, index, cleaner: Cleaner::default() })
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
        let index_bytes = self.index.bytes() + self.index.growth_bytes(hash);
        let segments = segments_beside(self.memory_bytes, index_bytes);
        self.segments.live_bytes() + new_bytes - dead_bytes <= live_bytes_max(segments)
    }

    /// Makes room for an entry of this many bytes, and does the cleaning that comes with it. Places change.
    pub fn prepare(&mut self, bytes: usize) -> Result<(), Full> {
        debug_assert!(bytes <= ENTRY_BYTES_MAX, "entries are bounded");
        self.cleaner.keep_pace(&mut self.segments, &mut self.index, bytes);
        let ready = self.cleaner.make_room(&mut self.segments, &mut self.index, bytes);
        if ready { Ok(()) } else { Err(Full) }
    }

    /// Adds an entry for which room was prepared.
    pub fn add(&mut self, hash: u64, entry: &NewEntry<'_>) -> Result<(), Full> {
        let place = self.segments.append(Head::Writes, entry);
        let index_bytes = self.index.bytes();
        if !self.index.insert(hash, place) {
            self.segments.kill(place);
            return Err(Full);
        }
        if self.index.bytes() != index_bytes {
            self.segments.set_max(segments_beside(self.memory_bytes, self.index.bytes()));
        }
        Ok(())
    }

    /// Puts an entry for which room was prepared in the place of one with the same hash.
    pub fn replace(&mut self, hash: u64, old: Place, entry: &NewEntry<'_>) {
        let new = self.segments.append(Head::Writes, entry);
        self.index.replace(hash, old, new);
        self.segments.kill(old);
    }

    /// Replaces version and body of an entry, which must stay as long as it is.
    #[inline]
    pub fn rewrite(&mut self, place: Place, key_bytes: usize, version: u64, body: &[u8]) {
        self.segments.rewrite(place, key_bytes, version, body);
    }

    /// Removes an entry.
    pub fn remove(&mut self, hash: u64, place: Place) {
        self.index.remove(hash, place);
        self.segments.kill(place);
    }

    /// The index's parts: how many there are, and which has a hash.
    pub fn parts(&self) -> usize {
        self.index.parts()
    }

    /// The part of the index that has a hash.
    pub fn part_of(&self, hash: u64) -> usize {
        self.index.part_of(hash)
    }

    /// The slots of a part, in no order.
    pub fn part(&self, part: usize) -> impl Iterator<Item = &Slot> {
        self.index.part(part)
    }

    /// Bytes that it takes: segments and index.
    pub fn used_bytes(&self) -> usize {
        self.segments.allocated() * SEGMENT_BYTES + self.index.bytes()
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
    use crate::TableId;
    use crate::store::MEMORY_BYTES_MIN;
    use crate::store::entry::Kind;

    #[test]
    fn entries_with_the_same_hash_are_told_apart() {
        const HASH: u64 = 0x0123_4567_89ab_cdef;
        let mut log = Log::new(MEMORY_BYTES_MIN).expect("memory");
        for key in [b"one", b"two"] {
            let entry = NewEntry { kind: Kind::Whole, table: TableId(1), key, version: 1, body: key };
            log.prepare(entry.bytes()).expect("room");
            log.add(HASH, &entry).expect("room");
        }
        let found = |key| log.find(HASH, |entry| entry.is_of(TableId(1), key)).map(|(_, entry)| entry.key());
        assert_eq!(
            (found(b"one"), found(b"two"), found(b"six")),
            (Some(&b"one"[..]), Some(&b"two"[..]), None)
        );
    }
}
