//! The store: tables of versioned objects in log-structured memory.
//!
//! One thread owns a store. No operation waits for anything, and none does more work than its own bytes ask
//! for: cleaning is done in small steps, by the writes ([`cleaning_bytes_max`]), and the index grows in small
//! parts. Memory stays within what the store was given, index included; what does not fit is refused.

mod cleaner;
mod entry;
mod error;
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

use self::cleaner::visited_bytes_max;
use self::entry::{ChunkKey, Entry, Kind, NewEntry, WHOLE_BYTES_MAX, entry_bytes};
use self::log::{Full, Log};
use self::segments::Place;
use self::tables::Tables;
use crate::{Name, TableId, Value};

/// The least memory of a store, in bytes: some segments are always free.
pub const MEMORY_BYTES_MIN: usize = 16 << 20;

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
        if memory_bytes < MEMORY_BYTES_MIN {
            return Err(StoreSizeError::TooSmall { bytes: memory_bytes });
        }
        let log = Log::new(memory_bytes).map_err(|_| StoreSizeError::NotThere { bytes: memory_bytes })?;
        Ok(Self { log, tables: Tables::default(), objects: 0, last_version: 0, key: Vec::new() })
    }

    /// Creates a table, unless there is one of that name; gives its number either way.
    pub fn create_table(&mut self, name: &str) -> Result<TableId, CreateTableError> {
        self.tables.create(name)
    }

    /// The names of the tables.
    pub fn table_names(&self) -> impl Iterator<Item = &str> {
        self.tables.names()
    }

    /// The object with that key, if there is one.
    #[inline(always)]
    pub fn get(&self, name: Name<'_>) -> Result<Option<Object<'_>>, ReadError> {
        if !self.tables.has(name.table()) {
            return Err(ReadError::UnknownTable);
        }
        let found = self.find(name);
        Ok(found.map(|(_, entry)| Object::new(&self.log, entry)))
    }

    /// Writes an object, if the one that is there fulfils the condition; gives its version.
    ///
    /// Always inlined, up to where an object of another size is written: a name that was just put together is
    /// then in registers. Handed over in memory it would be read by longer loads than the stores that wrote
    /// it, and reading it would wait until those are done, and all stores before them.
    #[inline(always)]
    pub fn put(&mut self, name: Name<'_>, value: Value<'_>, condition: Condition) -> Result<u64, WriteError> {
        if !self.tables.has(name.table()) {
            return Err(WriteError::UnknownTable);
        }
        let (key, value) = (name.key(), value.as_bytes());
        let found = self.find(name);
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
        // The key may lie in memory of a peer, which may change it. One that does not have its hash could
        // never be found again.
        let mut key_copy = core::mem::take(&mut self.key);
        key_copy.clear();
        key_copy.extend_from_slice(key);
        let name = Name::new(table, &key_copy).expect("as long as the name's key");
        let is_admitted = self.log.admits(name.hash(), object_bytes(key.len(), value.len()), old_bytes);
        let written = if is_admitted { self.write(name, value) } else { Err(Full) };
        self.key = key_copy;
        written.map_err(|Full| WriteError::OutOfMemory)
    }

    /// Deletes an object, if the one that is there fulfils the condition; gives the version that it had,
    /// `None` when there was none.
    pub fn delete(&mut self, name: Name<'_>, condition: Condition) -> Result<Option<u64>, WriteError> {
        if !self.tables.has(name.table()) {
            return Err(WriteError::UnknownTable);
        }
        let found = self.find(name).map(|(place, entry)| (place, Old::of(&entry)));
        condition.check(found.map_or(0, |(_, old)| old.version))?;
        let Some((place, old)) = found else { return Ok(None) };
        self.log.remove(name.hash(), place);
        self.remove_chunks(old.version, old.chunks);
        self.objects -= 1;
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

    /// Calls `visit` with the objects of a table whose keys have the hash `from` or a higher one, in the
    /// order of their hashes, until their keys and values have `page_bytes`; at least one, unless few of the
    /// objects looked at are the table's. Gives the hash to go on from; `None` when the table has no more.
    ///
    /// Every object that exists from the first page of a scan to the last is met exactly once.
    pub fn scan<'s>(
        &'s self,
        table: TableId,
        from: u64,
        page_bytes: usize,
        visit: impl FnMut(Object<'s>),
    ) -> Result<Option<u64>, ReadError> {
        if !self.tables.has(table) {
            return Err(ReadError::UnknownTable);
        }
        Ok(scan::scan(&self.log, table, from, page_bytes, visit))
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
    fn find(&self, name: Name<'_>) -> Option<(Place, Entry<'_>)> {
        let (table, key) = (name.table(), name.key());
        self.log.find(name.hash(), move |entry| entry.is_of(table, key))
    }

    /// Writes an object that was admitted, and removes what it takes the place of.
    fn write(&mut self, name: Name<'_>, value: &[u8]) -> Result<u64, Full> {
        let (table, key, hash) = (name.table(), name.key(), name.hash());
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
        let old = self.find(name).map(|(place, entry)| (place, Old::of(&entry)));
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

    fn write_chunks(&mut self, version: u64, value: &[u8], chunks: usize) -> Result<(), Full> {
        for (number, body) in value.chunks(WHOLE_BYTES_MAX).enumerate().take(chunks) {
            let key = ChunkKey::new(version, number);
            let entry = NewEntry { kind: Kind::Chunk, table: TableId(0), key: key.as_bytes(), version, body };
            self.log.prepare(entry.bytes())?;
            self.log.add(key.hash(), &entry)?;
        }
        Ok(())
    }

    /// Removes those of an object's chunks that are there.
    fn remove_chunks(&mut self, version: u64, chunks: usize) {
        for number in 0..chunks {
            let key = ChunkKey::new(version, number);
            let is_it = |entry: &Entry<'_>| entry.kind() == Kind::Chunk && entry.key() == key.as_bytes();
            if let Some((place, _)) = self.log.find(key.hash(), is_it) {
                self.log.remove(key.hash(), place);
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
