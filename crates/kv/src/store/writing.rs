//! How objects get into the log and out of it.
//!
//! An object is one entry, or a head and its chunks. All of its entries are written before the old ones go,
//! so that an object always has all of its chunks. What finds no room is removed again, and the old object
//! stays. Only what takes as much memory as before is written over where it lies.

use core::ops::Range;

use super::changes::record_bytes;
use super::cleaner::visited_bytes_max;
use super::collecting::collection_place;
use super::entry::{
    ChunkKey, Entry, HEAD_BODY_BYTES, Kind, NewEntry, Tail, WHOLE_BYTES_MAX, entry_bytes, head_body,
};
use super::eviction::EVICTED_PER_WRITE;
use super::log::NotAdded;
use super::long::goes_later;
use super::segments::Place;
use super::{EXPIRED_BY_FULL, EXPIRED_BY_WRITE, FETCHED_KEYS_MAX, SWEEP, SWEEP_BY_WRITE, Store, WriteError};
use crate::{TableId, VALUE_BYTES_MAX};

impl Store {
    /// Writes an object whose condition holds, of which entries of this many bytes die.
    #[inline(never)]
    pub(super) fn put_new(
        &mut self,
        table: TableId,
        key: &[u8],
        value: &[u8],
        (old_bytes, tail): (usize, Tail),
    ) -> Result<u64, WriteError> {
        self.sweep_within(SWEEP_BY_WRITE);
        self.expire_by_write(EXPIRED_BY_WRITE);
        // The key may lie in memory of a peer, which may change it. One that does not have its hash could
        // never be found again.
        let mut key_copy = core::mem::take(&mut self.key);
        key_copy.clear();
        key_copy.extend_from_slice(key);
        let new_bytes = object_bytes(key.len(), value.len()) + tail.bytes().next_multiple_of(8);
        let written = match self.rewrite_chunks(table, &key_copy, (value, tail)) {
            Some(version) => Ok(version),
            None => self
                .admit(table, &key_copy, (new_bytes, old_bytes))
                .and_then(|(number, hash)| self.write(number, hash, &key_copy, (value, tail))),
        };
        self.key = key_copy;
        written.map_err(WriteError::from)
    }

    /// Looks whether there is room for an object of `new_bytes` that takes the place of one of `old_bytes`;
    /// gives its table's number in entries, and its hash.
    fn admit(
        &mut self,
        table: TableId,
        key: &[u8],
        (new_bytes, old_bytes): (usize, usize),
    ) -> Result<(u32, u64), NotAdded> {
        let table = self.tables.find(table).expect("the object was looked up in it");
        let (number, hash) = (table.number, table.hash(key));
        if self.make_room(hash, new_bytes, old_bytes) { Ok((number, hash)) } else { Err(NotAdded::Full) }
    }

    /// Makes room for entries of this many bytes when others of `old_bytes` die with it; says whether there
    /// is room. What has this hash stays.
    pub(super) fn make_room(&mut self, hash: u64, new_bytes: usize, old_bytes: usize) -> bool {
        if self.log.admits(hash, new_bytes, old_bytes) {
            return true;
        }
        self.sweep_within(SWEEP);
        self.expire_by_write(EXPIRED_BY_FULL);
        let mut evicted = 0;
        while !self.log.admits(hash, new_bytes, old_bytes) {
            if self.remove_gone() {
                continue;
            }
            if evicted == EVICTED_PER_WRITE || !self.evict_one(hash) && !self.cut_held() {
                return false;
            }
            evicted += 1;
        }
        true
    }

    /// Writes the first entry of an object, whose chunks are there if it has any, in the place of the one
    /// that the key names. Its version is the next one, or the one that it has.
    pub(super) fn replace_first(
        &mut self,
        table: u32,
        hash: u64,
        key: &[u8],
        (kind, body, version, tail): (Kind, &[u8], u64, Tail),
    ) -> Result<(), WriteError> {
        let entry = NewEntry { kind, table, key, version, body, tail };
        let is_long = kind == Kind::Head && head_value_bytes(body) > VALUE_BYTES_MAX;
        if is_long && self.changes.tracks(table) && !self.long.logged.has(head_number(body)) {
            return Err(WriteError::TooLong);
        }
        let old = self.log.find(hash, |entry| entry.is_of(table, key));
        let old_bytes = old.map_or(0, |(_, entry)| entry.bytes());
        if !self.log.admits(hash, entry.bytes(), old_bytes) {
            return Err(WriteError::OutOfMemory);
        }
        self.log.prepare(entry.bytes()).map_err(WriteError::from)?;
        let old = self.log.find(hash, |entry| entry.is_of(table, key));
        let old = old.map(|(place, entry)| (place, Old::of(&entry)));
        match old {
            Some((place, old)) => {
                self.log.replace(hash, place, &entry);
                let keeps = match kind {
                    Kind::Head => old.id == head_number(body),
                    Kind::Collection => old.collection.is_some_and(|place| place.to_le_bytes() == *body),
                    _ => false,
                };
                if !keeps {
                    self.remove_parts(old);
                }
            }
            None => {
                self.log.add(hash, &entry)?;
                self.objects += 1;
                self.tables.count(table, 1);
            }
        }
        self.change_deadline(hash, old.and_then(|(_, old)| old.deadline), tail.deadline);
        self.last_version = self.last_version.max(version);
        let value_bytes = match kind {
            Kind::Collection => 0,
            Kind::Head => head_value_bytes(body),
            Kind::Whole | Kind::Chunk => body.len(),
        };
        self.note_replaced(table, key, (old.map(|(_, old)| old), value_bytes));
        if is_long && self.changes.is_tracking() && !self.changes.tracks(table) {
            self.long.logged.end(head_number(body));
        }
        if let (Kind::Collection, Ok(place)) = (kind, body.try_into().map(u64::from_le_bytes)) {
            self.note_placed(table, place, version);
        }
        Ok(())
    }

    /// Removes an object that is at `place`, with its chunks.
    pub(super) fn remove(&mut self, hash: u64, place: Place, old: Old) {
        self.note_removed(place, &old);
        self.log.remove(hash, place);
        self.remove_parts(old);
        self.objects -= 1;
        self.tables.count(old.table, -1);
        self.change_deadline(hash, old.deadline, None);
    }

    /// Writes an object that was admitted, and removes what it takes the place of.
    fn write(
        &mut self,
        table: u32,
        hash: u64,
        key: &[u8],
        (value, tail): (&[u8], Tail),
    ) -> Result<u64, NotAdded> {
        let version = self.last_version + 1;
        let head = head_body(value.len(), version);
        let (kind, body) =
            if value.len() <= WHOLE_BYTES_MAX { (Kind::Whole, value) } else { (Kind::Head, &head[..]) };
        let entry = NewEntry { kind, table, key, version, body, tail };
        let chunks = chunks_of(value.len());
        let written =
            self.write_chunks(version, value, chunks).and_then(|()| self.log.prepare(entry.bytes()));
        // Looked up again: places change while room is made.
        let old = self.log.find(hash, |entry| entry.is_of(table, key));
        let old = old.map(|(place, entry)| (place, Old::of(&entry)));
        let written = written.and_then(|()| match old {
            Some((place, _)) => {
                self.log.replace(hash, place, &entry);
                Ok(())
            }
            None => self.log.add(hash, &entry),
        });
        match (written, old) {
            (Err(full), _) => {
                self.remove_chunks(version, 0..chunks);
                return Err(full);
            }
            (Ok(()), Some((_, old))) => self.remove_parts(old),
            (Ok(()), None) => {
                self.objects += 1;
                self.tables.count(table, 1);
            }
        }
        self.change_deadline(hash, old.and_then(|(_, old)| old.deadline), tail.deadline);
        self.last_version = version;
        self.note_replaced(table, key, (old.map(|(_, old)| old), value.len()));
        Ok(version)
    }

    /// Writes over an object in chunks that takes as much memory as it is to take, and expires with it; gives
    /// its version. `None` when there is none. Who reads the chunks of such values copies them at one go.
    fn rewrite_chunks(&mut self, table: TableId, key: &[u8], (value, tail): (&[u8], Tail)) -> Option<u64> {
        if value.len() <= WHOLE_BYTES_MAX {
            return None;
        }
        let (place, entry) = self.find(self.tables.find(table)?, key)?;
        let takes = |value_bytes: usize, tail: Tail| (object_bytes(key.len(), value_bytes), tail.bytes());
        let is_alike = takes(entry.value_bytes(), entry.tail()) == takes(value.len(), tail);
        if entry.kind() != Kind::Head || !is_alike || entry.deadline() != tail.deadline {
            return None;
        }
        let (old, version) = (Old::of(&entry), self.last_version + 1);
        for (group, bytes) in value.chunks(FETCHED_KEYS_MAX * WHOLE_BYTES_MAX).enumerate() {
            let keys = bytes.chunks(WHOLE_BYTES_MAX).enumerate();
            let keys = keys.map(|(at, body)| (ChunkKey::new(old.id, group * FETCHED_KEYS_MAX + at), body));
            self.fetch_chunks(keys.clone().map(|(key, _)| key));
            for (key, body) in keys {
                let (place, _) = self.find_chunk(&key);
                self.log.rewrite(place, key.as_bytes().len(), version, body, Tail::default());
            }
        }
        self.log.rewrite(place, key.len(), version, &head_body(value.len(), old.id), tail);
        self.last_version = version;
        self.note_replaced(old.table, key, (Some(old), value.len()));
        Some(version)
    }

    /// Fetches the first lines of chunks into the caches, [`FETCHED_KEYS_MAX`] at most.
    fn fetch_chunks(&self, keys: impl Iterator<Item = ChunkKey>) {
        let mut hashes = [0; FETCHED_KEYS_MAX];
        let count =
            hashes.iter_mut().zip(keys).map(|(hash, key)| *hash = self.log.hashes().of_chunk(&key)).count();
        self.log.fetch(&hashes[..count]);
    }

    fn write_chunks(&mut self, version: u64, value: &[u8], chunks: usize) -> Result<(), NotAdded> {
        for (number, body) in value.chunks(WHOLE_BYTES_MAX).enumerate().take(chunks) {
            let key = ChunkKey::new(version, number);
            let (kind, key_bytes) = (Kind::Chunk, key.as_bytes());
            let entry = NewEntry { kind, table: 0, key: key_bytes, version, body, tail: Tail::default() };
            self.log.prepare(entry.bytes())?;
            self.log.add(self.log.hashes().of_chunk(&key), &entry)?;
        }
        Ok(())
    }

    /// Removes what an object has beside its first entry.
    fn remove_parts(&mut self, old: Old) {
        if goes_later(old.chunks) {
            self.long.leave(old.id, old.chunks);
        } else {
            self.remove_chunks(old.id, 0..old.chunks);
        }
        if let Some(place) = old.collection {
            self.collections.remove(place);
            self.count_beside();
        }
    }

    /// Removes those of an object's chunks that are there.
    pub(super) fn remove_chunks(&mut self, id: u64, chunks: Range<usize>) {
        for number in chunks {
            let key = ChunkKey::new(id, number);
            let is_it = |entry: &Entry<'_>| entry.kind() == Kind::Chunk && entry.key() == key.as_bytes();
            let hash = self.log.hashes().of_chunk(&key);
            if let Some((place, _)) = self.log.find(hash, is_it) {
                self.log.remove(hash, place);
            }
        }
    }

    /// An object with this hash had one deadline and has another one now.
    #[inline]
    fn change_deadline(&mut self, hash: u64, old: Option<u64>, new: Option<u64>) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            // One of two objects with one hash and one deadline may still have it.
            let is_it = |entry: &Entry<'_>| entry.kind() != Kind::Chunk && entry.deadline() == Some(old);
            if self.log.find(hash, is_it).is_none() {
                self.deadlines.remove(old, hash);
            }
        }
        if let Some(new) = new {
            self.deadlines.insert(new, hash);
        }
        self.count_beside();
    }
}

/// The most bytes of entries that are looked through, and perhaps moved, when an object of this size is
/// written.
pub fn cleaning_bytes_max(key_bytes: usize, value_bytes: usize) -> usize {
    visited_bytes_max(1 + chunks_of(value_bytes), object_bytes(key_bytes, value_bytes))
}

/// What must be known of an object to remove it.
#[derive(Clone, Copy)]
pub(super) struct Old {
    pub(super) version: u64,
    pub(super) table: u32,
    /// The number of its chunks, and how many there are.
    pub(super) id: u64,
    pub(super) chunks: usize,
    pub(super) deadline: Option<u64>,
    /// The place of the collection that it is.
    pub(super) collection: Option<u64>,
    /// Bytes of its record in the log of durable tables, were it of one.
    pub(super) record_bytes: u64,
}

impl Old {
    pub(super) fn of(entry: &Entry<'_>) -> Self {
        let (id, chunks) = match entry.kind() {
            Kind::Head => (entry.chunks(), chunks_of(entry.value_bytes())),
            _ => (0, 0),
        };
        Self {
            version: entry.version(),
            table: entry.table(),
            id,
            chunks,
            deadline: entry.deadline(),
            collection: collection_place(entry),
            record_bytes: record_bytes(entry),
        }
    }
}

/// The length of the value that the body of a head has.
fn head_value_bytes(body: &[u8]) -> usize {
    u64::from_le_bytes(body[..8].try_into().expect("eight bytes")) as usize
}

/// The number of the chunks that the body of a head has.
fn head_number(body: &[u8]) -> u64 {
    u64::from_le_bytes(body[8..HEAD_BODY_BYTES].try_into().expect("eight bytes"))
}

/// How many chunks a value is cut into; none when it lies in its entry.
fn chunks_of(value_bytes: usize) -> usize {
    if value_bytes <= WHOLE_BYTES_MAX { 0 } else { value_bytes.div_ceil(WHOLE_BYTES_MAX) }
}

/// Bytes that an object takes in the log, all its entries together.
pub(super) fn object_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    if value_bytes <= WHOLE_BYTES_MAX {
        return entry_bytes(key_bytes, value_bytes);
    }
    let chunk_key_bytes = ChunkKey::new(0, 0).as_bytes().len();
    let whole_chunks = value_bytes / WHOLE_BYTES_MAX;
    let rest = value_bytes % WHOLE_BYTES_MAX;
    let last = if rest == 0 { 0 } else { entry_bytes(chunk_key_bytes, rest) };
    entry_bytes(key_bytes, HEAD_BODY_BYTES)
        + whole_chunks * entry_bytes(chunk_key_bytes, WHOLE_BYTES_MAX)
        + last
}

/// Bytes that die at once when another object takes the place of this one.
pub(super) fn dying_bytes(entry: &Entry<'_>) -> usize {
    let is_later = entry.kind() == Kind::Head && goes_later(chunks_of(entry.value_bytes()));
    if is_later { entry.bytes() } else { object_bytes(entry.key().len(), entry.value_bytes()) }
}
