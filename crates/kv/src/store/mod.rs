//! The store: tables of versioned objects in log-structured memory.
//!
//! One thread owns a store. No operation waits for anything, and none does more work than its own bytes ask
//! for: cleaning is done in small steps, by the writes ([`cleaning_bytes_max`]), so is the removal of dropped
//! tables, and the index grows in small parts. Which keys are neighbours in the index is a secret of the
//! store, so that nobody can choose keys that are slow together. Memory stays within what the store was
//! given, index included; what does not fit is refused.

mod cleaner;
mod entry;
mod error;
mod hashes;
mod index;
mod log;
mod object;
mod reserve;
mod scan;
mod segments;
mod tables;
#[cfg(test)]
mod tests;

pub use cleaner::CleanerStatistics;
pub use error::{CreateTableError, IncrementError, ReadError, StoreSizeError, WriteError};
pub use object::Object;
pub use scan::{PageLimits, ScanFrom, ScanNext};

use self::cleaner::visited_bytes_max;
use self::entry::{ChunkKey, Entry, Kind, NewEntry, WHOLE_BYTES_MAX, entry_bytes};
use self::hashes::{Hashes, secret_key};
use self::log::{Log, NotAdded};
use self::scan::{Start, walk};
use self::segments::Place;
use self::tables::{Dropped, Table, Tables};
use crate::{Name, TableId, Value};
use farcall_base::SipKey;

/// The least memory of a store, in bytes: some segments are always free.
pub const MEMORY_BYTES_MIN: usize = 16 << 20;

/// What a write of another length does for the removal of dropped tables.
const SWEEP_BY_WRITE: PageLimits = PageLimits { bytes: 4 << 10, looks: 32 };

/// What one call of [`Store::sweep`] does for it.
const SWEEP: PageLimits = PageLimits { bytes: 256 << 10, looks: 256 };

/// What an object must be for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Whatever it is, and whether or not it exists.
    Always,
    /// It must not exist.
    Absent,
    /// It must exist and have this version.
    Version(u64),
}

impl Condition {
    /// Whether an object that has `version`, 0 when it does not exist, fulfils it.
    #[inline]
    fn check(self, version: u64) -> Result<(), WriteError> {
        let wanted = match self {
            Self::Always => return Ok(()),
            Self::Absent => 0,
            Self::Version(wanted) => wanted,
        };
        // No object has version 0, so that a condition on it cannot be one on absence by accident.
        let holds = version == wanted && (version != 0 || self == Self::Absent);
        if holds { Ok(()) } else { Err(WriteError::WrongVersion { version }) }
    }
}

/// What a store holds and what it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreStatistics {
    /// Objects in all tables.
    pub objects: u64,
    /// Bytes that the store may take.
    pub memory_bytes: usize,
    /// Bytes that it takes: segments and index.
    pub used_bytes: usize,
    /// Bytes of keys, values and what belongs to them.
    pub live_bytes: usize,
    /// The most that `live_bytes` may become with the index as it is.
    pub live_bytes_max: usize,
    /// What cleaning has done.
    pub cleaner: CleanerStatistics,
}

/// Tables of objects, in the memory of one thread.
#[derive(Debug)]
pub struct Store {
    log: Log,
    tables: Tables,
    objects: u64,
    /// The version that was given last. There is one count for all objects: a deleted object that comes back
    /// has a higher version than it ever had.
    last_version: u64,
    /// For the key of an object that is written, used again.
    key: Vec<u8>,
}

impl Store {
    /// An empty store that takes at most `memory_bytes`, at least [`MEMORY_BYTES_MIN`].
    pub fn new(memory_bytes: usize) -> Result<Self, StoreSizeError> {
        Self::with_key(memory_bytes, secret_key())
    }

    /// As [`Store::new`], with index and scans in an order that is the same in every run, for simulations and
    /// tests. Whoever has the key can make keys that are slow together.
    pub fn with_key(memory_bytes: usize, key: SipKey) -> Result<Self, StoreSizeError> {
        if memory_bytes < MEMORY_BYTES_MIN {
            return Err(StoreSizeError::TooSmall { bytes: memory_bytes });
        }
        let log = Log::new(memory_bytes, Hashes::new(key))
            .map_err(|_| StoreSizeError::NotThere { bytes: memory_bytes })?;
        Ok(Self { log, tables: Tables::default(), objects: 0, last_version: 0, key: Vec::new() })
    }

    /// Creates a table, unless there is one of that name; gives its number either way.
    pub fn create_table(&mut self, name: &str) -> Result<TableId, CreateTableError> {
        self.tables.create(self.log.hashes(), name)
    }

    /// Drops a table with all that is in it; says whether there was one of that name. Nobody finds its
    /// objects any more. They count, and take memory, until writes and [`Store::sweep`] have removed them.
    pub fn drop_table(&mut self, name: &str) -> bool {
        self.tables.drop_table(name)
    }

    /// Removes some objects of dropped tables; says whether there may be more.
    #[inline]
    pub fn sweep(&mut self) -> bool {
        self.sweep_within(SWEEP);
        self.tables.dropped().is_some()
    }

    /// The names of the tables.
    pub fn table_names(&self) -> impl Iterator<Item = &str> {
        self.tables.names()
    }

    /// The object with that key, if there is one.
    #[inline(always)]
    pub fn get(&self, name: Name<'_>) -> Result<Option<Object<'_>>, ReadError> {
        let table = self.tables.find(name.table()).ok_or(ReadError::UnknownTable)?;
        let found = self.find(table, name.key());
        Ok(found.map(|(_, entry)| Object::new(&self.log, entry)))
    }

    /// Writes an object, if the one that is there fulfils the condition; gives its version.
    ///
    /// Always inlined, up to where an object of another size is written: a name that was just put together is
    /// then in registers. Handed over in memory it would be read by longer loads than the stores that wrote
    /// it, and reading it would wait until those are done, and all stores before them.
    #[inline(always)]
    pub fn put(&mut self, name: Name<'_>, value: Value<'_>, condition: Condition) -> Result<u64, WriteError> {
        let table = self.tables.find(name.table()).ok_or(WriteError::UnknownTable)?;
        let (key, value) = (name.key(), value.as_bytes());
        let found = self.find(table, key);
        let (version, old_bytes) = found
            .map_or((0, 0), |(_, entry)| (entry.version(), object_bytes(key.len(), entry.value_bytes())));
        condition.check(version)?;
        if let Some((place, entry)) = found
            && entry.kind() == Kind::Whole
            && value.len() <= WHOLE_BYTES_MAX
            && entry.bytes() == entry_bytes(key.len(), value.len())
        {
            self.last_version += 1;
            self.log.rewrite(place, key.len(), self.last_version, value);
            return Ok(self.last_version);
        }
        self.put_new(name.table(), key, value, old_bytes)
    }

    /// Writes an object whose condition holds, of which entries of this many bytes die.
    #[inline(never)]
    fn put_new(
        &mut self,
        table: TableId,
        key: &[u8],
        value: &[u8],
        old_bytes: usize,
    ) -> Result<u64, WriteError> {
        self.sweep_within(SWEEP_BY_WRITE);
        // The key may lie in memory of a peer, which may change it. One that does not have its hash could
        // never be found again.
        let mut key_copy = core::mem::take(&mut self.key);
        key_copy.clear();
        key_copy.extend_from_slice(key);
        let written = self.admit(table, &key_copy, (object_bytes(key.len(), value.len()), old_bytes));
        let written = written.and_then(|(number, hash)| self.write(number, hash, &key_copy, value));
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
        if !self.log.admits(hash, new_bytes, old_bytes) {
            self.sweep_within(SWEEP);
            if !self.log.admits(hash, new_bytes, old_bytes) {
                return Err(NotAdded::Full);
            }
        }
        Ok((number, hash))
    }

    /// Deletes an object, if the one that is there fulfils the condition; gives the version that it had,
    /// `None` when there was none.
    pub fn delete(&mut self, name: Name<'_>, condition: Condition) -> Result<Option<u64>, WriteError> {
        let table = self.tables.find(name.table()).ok_or(WriteError::UnknownTable)?;
        let hash = table.hash(name.key());
        let found = self.find(table, name.key()).map(|(place, entry)| (place, Old::of(&entry)));
        condition.check(found.map_or(0, |(_, old)| old.version))?;
        let Some((place, old)) = found else { return Ok(None) };
        self.remove(hash, place, old);
        Ok(Some(old.version))
    }

    /// Adds to the number that an object is, in decimal digits; one that does not exist counts as 0. Gives
    /// the object's version and the sum.
    pub fn increment(&mut self, name: Name<'_>, amount: i64) -> Result<(u64, i64), IncrementError> {
        let found = self.get(name).map_err(|ReadError::UnknownTable| WriteError::UnknownTable)?;
        let number = found.map_or(Ok(0), |object| number_of(&object))?;
        let sum = number.checked_add(amount).ok_or(IncrementError::Overflow)?;
        let digits = sum.to_string();
        let value = Value::new(digits.as_bytes()).expect("twenty bytes are not too many");
        Ok((self.put(name, value, Condition::Always)?, sum))
    }

    /// Calls `visit` with objects of a table, in an order that is the store's own, as many as the limits
    /// allow; at least one, unless few of the entries looked at are the table's. Says where the next page
    /// begins.
    ///
    /// Every object that exists from the first page of a scan to the last is met exactly once.
    pub fn scan<'s>(
        &'s self,
        table: TableId,
        from: ScanFrom<'_>,
        limits: PageLimits,
        mut visit: impl FnMut(Object<'s>),
    ) -> Result<ScanNext, ReadError> {
        let table = self.tables.find(table).ok_or(ReadError::UnknownTable)?;
        let start = match from {
            ScanFrom::Hash(hash) => Start { hash, after: None },
            ScanFrom::After(key) => Start { hash: table.hash(key), after: Some(key) },
        };
        Ok(walk(&self.log, table.number, start, limits, |_, entry| visit(Object::new(&self.log, entry))))
    }

    /// What the store holds.
    pub fn statistics(&self) -> StoreStatistics {
        StoreStatistics {
            objects: self.objects,
            memory_bytes: self.log.memory_bytes(),
            used_bytes: self.log.used_bytes(),
            live_bytes: self.log.live_bytes(),
            live_bytes_max: self.log.live_bytes_max(),
            cleaner: self.log.cleaner_statistics(),
        }
    }

    #[inline(always)]
    fn find(&self, table: &Table, key: &[u8]) -> Option<(Place, Entry<'_>)> {
        let number = table.number;
        self.log.find(table.hash(key), move |entry| entry.is_of(number, key))
    }

    fn remove(&mut self, hash: u64, place: Place, old: Old) {
        self.log.remove(hash, place);
        self.remove_chunks(old.version, old.chunks);
        self.objects -= 1;
    }

    /// Removes objects of the table that was dropped first, within the limits.
    #[inline]
    fn sweep_within(&mut self, limits: PageLimits) {
        if let Some(dropped) = self.tables.dropped() {
            self.sweep_table(dropped, limits);
        }
    }

    fn sweep_table(&mut self, dropped: Dropped, limits: PageLimits) {
        let mut met = Vec::new();
        let start = Start { hash: dropped.from, after: None };
        let next = walk(&self.log, dropped.number, start, limits, |slot, entry| {
            met.push((slot, Old::of(&entry)));
        });
        met.into_iter().for_each(|(slot, old)| self.remove(slot.hash, slot.place, old));
        match next {
            ScanNext::End => self.tables.removed_all(),
            ScanNext::Hash(hash) => self.tables.removed_to(hash),
            // What the page had is gone: the next one begins where it did.
            ScanNext::AfterLast => {}
        }
    }

    /// Writes an object that was admitted, and removes what it takes the place of.
    fn write(&mut self, table: u32, hash: u64, key: &[u8], value: &[u8]) -> Result<u64, NotAdded> {
        let version = self.last_version + 1;
        let length = (value.len() as u64).to_le_bytes();
        let entry = if value.len() <= WHOLE_BYTES_MAX {
            NewEntry { kind: Kind::Whole, table, key, version, body: value }
        } else {
            NewEntry { kind: Kind::Head, table, key, version, body: &length }
        };
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
                self.remove_chunks(version, chunks);
                return Err(full);
            }
            (Ok(()), Some((_, old))) => self.remove_chunks(old.version, old.chunks),
            (Ok(()), None) => self.objects += 1,
        }
        self.last_version = version;
        Ok(version)
    }

    fn write_chunks(&mut self, version: u64, value: &[u8], chunks: usize) -> Result<(), NotAdded> {
        for (number, body) in value.chunks(WHOLE_BYTES_MAX).enumerate().take(chunks) {
            let key = ChunkKey::new(version, number);
            let entry = NewEntry { kind: Kind::Chunk, table: 0, key: key.as_bytes(), version, body };
            self.log.prepare(entry.bytes())?;
            self.log.add(self.log.hashes().of_chunk(&key), &entry)?;
        }
        Ok(())
    }

    /// Removes those of an object's chunks that are there.
    fn remove_chunks(&mut self, version: u64, chunks: usize) {
        for number in 0..chunks {
            let key = ChunkKey::new(version, number);
            let is_it = |entry: &Entry<'_>| entry.kind() == Kind::Chunk && entry.key() == key.as_bytes();
            let hash = self.log.hashes().of_chunk(&key);
            if let Some((place, _)) = self.log.find(hash, is_it) {
                self.log.remove(hash, place);
            }
        }
    }
}

/// The most bytes of entries that are looked through, and perhaps moved, when an object of this size is
/// written.
pub fn cleaning_bytes_max(key_bytes: usize, value_bytes: usize) -> usize {
    visited_bytes_max(1 + chunks_of(value_bytes), object_bytes(key_bytes, value_bytes))
}

/// What must be known of an object to remove it.
#[derive(Clone, Copy)]
struct Old {
    version: u64,
    chunks: usize,
}

impl Old {
    fn of(entry: &Entry<'_>) -> Self {
        Self { version: entry.version(), chunks: chunks_of(entry.value_bytes()) }
    }
}

/// How many chunks a value is cut into; none when it lies in its entry.
fn chunks_of(value_bytes: usize) -> usize {
    if value_bytes <= WHOLE_BYTES_MAX { 0 } else { value_bytes.div_ceil(WHOLE_BYTES_MAX) }
}

/// Bytes that an object takes in the log, all its entries together.
fn object_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    if value_bytes <= WHOLE_BYTES_MAX {
        return entry_bytes(key_bytes, value_bytes);
    }
    let chunk_key_bytes = ChunkKey::new(0, 0).as_bytes().len();
    let whole_chunks = value_bytes / WHOLE_BYTES_MAX;
    let rest = value_bytes % WHOLE_BYTES_MAX;
    let last = if rest == 0 { 0 } else { entry_bytes(chunk_key_bytes, rest) };
    entry_bytes(key_bytes, 8) + whole_chunks * entry_bytes(chunk_key_bytes, WHOLE_BYTES_MAX) + last
}

fn number_of(object: &Object<'_>) -> Result<i64, IncrementError> {
    /// The longest number has a sign and 19 digits.
    const DIGITS_MAX: usize = 20;
    if object.value_bytes() > DIGITS_MAX {
        return Err(IncrementError::NotANumber);
    }
    let text = object.to_vec();
    let text = core::str::from_utf8(&text).map_err(|_| IncrementError::NotANumber)?;
    text.parse().map_err(|_| IncrementError::NotANumber)
}
