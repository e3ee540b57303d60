//! The store: tables of versioned objects in log-structured memory.
//!
//! One thread owns a store. No operation waits for anything, and none does more work than its own bytes ask
//! for: cleaning is done in small steps, by the writes ([`cleaning_bytes_max`]), so is the removal of dropped
//! tables, and the index grows in small parts. Which keys are neighbours in the index is a secret of the
//! store, so that nobody can choose keys that are slow together. Memory stays within what the store was
//! given, index included; what does not fit is refused.
//!
//! Objects may expire. What has expired is not there for anybody, from that millisecond of the store's clock
//! on, which is set by [`Store::set_clock`]; [`Store::expire`] and writes remove it.

mod changes;
mod cleaner;
mod collecting;
mod collections;
mod conditions;
mod deadlines;
mod entry;
mod error;
mod eviction;
mod hashes;
mod index;
mod log;
mod logged_long;
mod long;
mod moving;
mod object;
mod reserve;
mod restore;
mod scan;
mod segments;
mod tables;
#[cfg(test)]
mod tests;
mod writing;

pub(crate) use changes::{Change, CollectionHeader};
pub use cleaner::CleanerStatistics;
pub(crate) use collecting::{Changed, Growth};
pub(crate) use collections::{
    Collection, CollectionKind, Elements, Hash, Kept, List, Set, Sorted, Step, Steps,
};
pub use conditions::{Condition, Expiry};
pub(crate) use error::CollectionError;
pub use error::{CreateTableError, IncrementError, ReadError, StoreSizeError, WriteError};
pub use eviction::Eviction;
pub(crate) use logged_long::{LongHeader, long_record_bytes};
pub use long::LONG_BYTES_MAX;
pub(crate) use long::{Cut, Held, PIECE_BYTES};
pub use object::Object;
pub use scan::{PageLimits, ScanFrom, ScanNext};
pub use writing::cleaning_bytes_max;

use self::changes::Changes;
use self::collections::Collections;
use self::deadlines::Deadlines;
pub(crate) use self::entry::Tail;
use self::entry::{Entry, Kind, WHOLE_BYTES_MAX, entry_bytes, entry_bytes_with};
use self::eviction::Uses;
use self::hashes::{Hashes, secret_key};
use self::log::Log;
use self::long::{LongValues, is_long};
use self::scan::{Start, walk};
use self::segments::Place;
use self::tables::{Dropped, Table, Tables};
use self::writing::{Old, dying_bytes, object_bytes};
use crate::placement::SlotSet;
use crate::{Name, TableId, Value, decimal};
use farcall_base::SipKey;

/// The least memory of a store, in bytes: some segments are always free.
pub const MEMORY_BYTES_MIN: usize = 16 << 20;

/// How many deadlines are looked at for one of a table in memory, among those of durable tables.
const DEADLINES_LOOKED_AT: usize = 256;

/// What a write of another length does for the removal of dropped tables.
const SWEEP_BY_WRITE: PageLimits = PageLimits { bytes: 4 << 10, looks: 32 };

/// Objects that have expired and that a write of another length removes.
const EXPIRED_BY_WRITE: usize = 4;

/// The same when there is no room for it.
const EXPIRED_BY_FULL: usize = 256;

/// What one call of [`Store::sweep`] does for it.
const SWEEP: PageLimits = PageLimits { bytes: 256 << 10, looks: 256 };

/// Keys whose objects are fetched at once: a core has no more misses than about that many in flight.
pub(crate) const FETCHED_KEYS_MAX: usize = 16;

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
    deadlines: Deadlines,
    collections: Collections,
    changes: Changes,
    uses: Uses,
    long: LongValues,
    /// Milliseconds of the clock by which objects expire.
    now: u64,
    /// For the key of an object that is written, used again.
    key: Vec<u8>,
    /// Hash slots whose objects are in no page.
    hidden: Option<Box<SlotSet>>,
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
        Ok(Self {
            log,
            tables: Tables::default(),
            objects: 0,
            last_version: 0,
            deadlines: Deadlines::default(),
            collections: Collections::default(),
            changes: Changes::default(),
            uses: Uses::default(),
            long: LongValues::default(),
            now: 0,
            key: Vec::new(),
            hidden: None,
        })
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

    /// Takes all objects of a table away, as if it were dropped and created again.
    pub fn clear_table(&mut self, table: TableId) -> Result<(), CreateTableError> {
        let had_any = self.table_objects(table) > 0;
        self.tables.clear(self.log.hashes(), table)?;
        if had_any {
            self.table_cleared(table);
        }
        Ok(())
    }

    /// How many objects a table has. Those that have expired and are not removed yet count.
    pub fn table_objects(&self, table: TableId) -> u64 {
        self.tables.find(table).map_or(0, |table| self.tables.objects(table.number))
    }

    /// Sets the clock by which objects expire: milliseconds, of whatever epoch deadlines are given in.
    #[inline]
    pub fn set_clock(&mut self, now: u64) {
        self.now = now;
    }

    /// The clock, as it was set.
    #[inline]
    pub fn clock(&self) -> u64 {
        self.now
    }

    /// When the next object expires, if any does.
    #[inline]
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline, _)| deadline)
    }

    /// How many objects expire.
    pub fn expiring(&self) -> usize {
        self.deadlines.count()
    }

    /// Removes objects that have expired, at most `objects_max`; gives how many.
    pub fn expire(&mut self, objects_max: usize) -> usize {
        let mut expired = 0;
        while expired < objects_max
            && let Some((deadline, hash)) = self.deadlines.first()
            && deadline <= self.now
        {
            let (place, entry) = self.of_deadline(deadline, hash);
            let old = Old::of(&entry);
            self.remove(hash, place, old);
            expired += 1;
        }
        expired
    }

    /// The object of a deadline.
    fn of_deadline(&self, deadline: u64, hash: u64) -> (Place, Entry<'_>) {
        let is_it = |entry: &Entry<'_>| entry.kind() != Kind::Chunk && entry.deadline() == Some(deadline);
        self.log.find(hash, is_it).expect("the queue has what is in the log")
    }

    /// Whether the object that has expired first is one of a durable table; `None` if none has expired.
    pub(crate) fn expires_durably(&self) -> Option<bool> {
        let (deadline, hash) = self.deadlines.first().filter(|(deadline, _)| *deadline <= self.now)?;
        Some(self.changes.tracks(self.of_deadline(deadline, hash).1.table()))
    }

    /// As [`Store::expire`], of tables in memory only, as far as they are found among some deadlines.
    pub(crate) fn expire_in_memory(&mut self, objects_max: usize) -> usize {
        let now = self.now;
        let passed = self.deadlines.iter().take(DEADLINES_LOOKED_AT).take_while(|(at, _)| *at <= now);
        let is_in_memory =
            |&(at, hash): &(u64, u64)| !self.changes.tracks(self.of_deadline(at, hash).1.table());
        let found: Vec<_> = passed.filter(is_in_memory).take(objects_max).collect();
        for (at, hash) in &found {
            let (place, entry) = self.of_deadline(*at, *hash);
            let old = Old::of(&entry);
            self.remove(*hash, place, old);
        }
        found.len()
    }

    /// Removes some objects of dropped tables; says whether there may be more.
    #[inline]
    pub fn sweep(&mut self) -> bool {
        self.sweep_within(SWEEP);
        let is_freeing = self.collections.sweep();
        self.count_beside();
        let is_removing = self.remove_gone();
        is_freeing || is_removing || self.tables.dropped().is_some()
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

    /// Fetches into the caches what reads and writes will look at for these keys; the first
    /// [`FETCHED_KEYS_MAX`] count.
    pub(crate) fn fetch(&self, table: TableId, keys: &[&[u8]]) {
        let Some(table) = self.tables.find(table) else { return };
        let mut hashes = [0; FETCHED_KEYS_MAX];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = table.hash(key);
        }
        self.log.fetch(&hashes[..keys.len().min(FETCHED_KEYS_MAX)]);
    }

    /// Writes an object, if the one that is there fulfils the condition; gives its version.
    ///
    /// Always inlined, up to where an object of another size is written: a name that was just put together is
    /// then in registers. Handed over in memory it would be read by longer loads than the stores that wrote
    /// it, and reading it would wait until those are done, and all stores before them.
    #[inline]
    pub fn put(&mut self, name: Name<'_>, value: Value<'_>, condition: Condition) -> Result<u64, WriteError> {
        self.put_with_tail(name, value, condition, |_| Tail::default())
    }

    /// The same with an object that may expire.
    #[inline]
    pub fn put_until(
        &mut self,
        name: Name<'_>,
        value: Value<'_>,
        condition: Condition,
        expiry: Expiry,
    ) -> Result<u64, WriteError> {
        self.put_with_tail(name, value, condition, |old| expiry.tail(old))
    }

    /// The same with what `tail_of` makes of what the object that is there has beside its value.
    #[inline(always)]
    pub(crate) fn put_with_tail(
        &mut self,
        name: Name<'_>,
        value: Value<'_>,
        condition: Condition,
        tail_of: impl FnOnce(Tail) -> Tail,
    ) -> Result<u64, WriteError> {
        let table = self.tables.find(name.table()).ok_or(WriteError::UnknownTable)?;
        let (key, value) = (name.key(), value.as_bytes());
        let found = self.find(table, key);
        let (version, old_bytes, old_tail) = found.map_or((0, 0, Tail::default()), |(_, entry)| {
            (entry.version(), dying_bytes(&entry), entry.tail())
        });
        condition.check(version)?;
        let tail = tail_of(old_tail);
        if let Some((place, entry)) = found
            && entry.kind() == Kind::Whole
            && value.len() <= WHOLE_BYTES_MAX
            && tail.deadline == old_tail.deadline
            && entry.bytes() == entry_bytes_with(key.len(), value.len(), tail.bytes())
        {
            self.last_version += 1;
            self.log.rewrite(place, key.len(), self.last_version, value, tail);
            self.note_rewritten(place);
            return Ok(self.last_version);
        }
        self.put_new(name.table(), key, value, (old_bytes, tail))
    }

    /// Lets an object expire at another time, or never; gives its new version, `None` when there is none.
    pub fn set_deadline(&mut self, name: Name<'_>, deadline: Option<u64>) -> Result<Option<u64>, WriteError> {
        let version = self.last_version + 1;
        let changed = self.change_tail(name, |old| (version, Tail { deadline, ..old.tail() }));
        Ok(changed?.then_some(version))
    }

    /// Gives an object the version and what it has beside its value that `change` says; says whether there is
    /// one.
    pub(crate) fn change_tail(
        &mut self,
        name: Name<'_>,
        change: impl FnOnce(&Object<'_>) -> (u64, Tail),
    ) -> Result<bool, WriteError> {
        let table = self.tables.find(name.table()).ok_or(WriteError::UnknownTable)?;
        let (number, hash) = (table.number, table.hash(name.key()));
        let Some((_, entry)) = self.find(table, name.key()) else { return Ok(false) };
        let (kind, body, old_bytes) = (entry.kind(), entry.body().to_vec(), entry.bytes());
        let (version, tail) = change(&Object::new(&self.log, entry));
        let new_bytes = entry_bytes_with(name.key().len(), body.len(), tail.bytes());
        if !self.make_room(hash, new_bytes, old_bytes) {
            return Err(WriteError::OutOfMemory);
        }
        self.replace_first(number, hash, name.key(), (kind, &body, version, tail))?;
        Ok(true)
    }

    /// Gives an object another key, in place of what that names; says whether there is such an object.
    pub fn rename(&mut self, from: Name<'_>, to: Name<'_>) -> Result<bool, WriteError> {
        let of = |name: Name<'_>| {
            let table = self.tables.find(name.table()).ok_or(WriteError::UnknownTable)?;
            Ok::<_, WriteError>((table.number, table.hash(name.key())))
        };
        let ((number, hash), (to_number, to_hash)) = (of(from)?, of(to)?);
        let table = self.tables.find(from.table()).expect("it was looked up");
        let Some((_, entry)) = self.find(table, from.key()) else { return Ok(false) };
        if from == to {
            return Ok(true);
        }
        let (kind, body, tail) = (entry.kind(), entry.body().to_vec(), entry.tail());
        let version = self.last_version + 1;
        self.replace_first(to_number, to_hash, to.key(), (kind, &body, version, tail))?;
        let is_it = |entry: &Entry<'_>| entry.is_of(number, from.key());
        let (place, entry) = self.log.find(hash, is_it).expect("its entry is there until it is removed");
        // What the entry names is the new one's.
        let old = Old { chunks: 0, collection: None, ..Old::of(&entry) };
        self.remove(hash, place, old);
        Ok(true)
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
        let found = self.get(name).map_err(|_| WriteError::UnknownTable)?;
        let number = found.map_or(Ok(0), |object| number_of(&object))?;
        let sum = number.checked_add(amount).ok_or(IncrementError::Overflow)?;
        let mut digits = [0; decimal::DIGITS_MAX];
        let value = Value::new(decimal::write(sum, &mut digits)).expect("twenty bytes are not too many");
        Ok((self.put_until(name, value, Condition::Always, Expiry::Keep)?, sum))
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
        visit: impl FnMut(Object<'s>),
    ) -> Result<ScanNext, ReadError> {
        self.scan_for(table, from, limits, |_| true, visit)
    }

    /// The same with the objects that have a value which is read at one go: all but collections and those
    /// with long values.
    pub fn scan_values<'s>(
        &'s self,
        table: TableId,
        from: ScanFrom<'_>,
        limits: PageLimits,
        visit: impl FnMut(Object<'s>),
    ) -> Result<ScanNext, ReadError> {
        self.scan_for(table, from, limits, |entry| entry.kind() != Kind::Collection && !is_long(entry), visit)
    }

    fn scan_for<'s>(
        &'s self,
        table: TableId,
        from: ScanFrom<'_>,
        limits: PageLimits,
        is_wanted: fn(&Entry<'_>) -> bool,
        visit: impl FnMut(Object<'s>),
    ) -> Result<ScanNext, ReadError> {
        let is_shown = |entry: &Entry<'_>| is_wanted(entry) && !self.is_hidden(entry.key());
        self.scan_all(table, from, limits, is_shown, visit)
    }

    fn scan_all<'s>(
        &'s self,
        table: TableId,
        from: ScanFrom<'_>,
        limits: PageLimits,
        is_wanted: impl Fn(&Entry<'_>) -> bool,
        mut visit: impl FnMut(Object<'s>),
    ) -> Result<ScanNext, ReadError> {
        let table = self.tables.find(table).ok_or(ReadError::UnknownTable)?;
        let start = match from {
            ScanFrom::Hash(hash) => Start { hash, after: None },
            ScanFrom::After(key) => Start { hash: table.hash(key), after: Some(key) },
        };
        Ok(walk(&self.log, (table.number, is_wanted), start, limits, |_, entry| {
            if !entry.is_expired(self.now) {
                visit(Object::new(&self.log, entry));
            }
        }))
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
        let found = self.log.find(table.hash(key), move |entry| entry.is_of(number, key));
        found.filter(|(_, entry)| !entry.is_expired(self.now))
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
        let next = walk(&self.log, (dropped.number, |_| true), start, limits, |slot, entry| {
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
}

fn number_of(object: &Object<'_>) -> Result<i64, IncrementError> {
    /// The longest number has a sign and 19 digits.
    const DIGITS_MAX: usize = 20;
    if object.value_bytes() > DIGITS_MAX {
        return Err(IncrementError::NotANumber);
    }
    let bytes = object.version_and_value().ok_or(IncrementError::NotANumber)?;
    decimal::parse(&bytes[8..]).ok_or(IncrementError::NotANumber)
}
