//! What happened to the objects of durable tables, until the log has it.
//!
//! Whatever changes an object passes here, so that no command can be forgotten. An object is named, and the
//! log records what it is by then; of a collection the elements that changed.

use core::ops::Range;

use super::collecting::collection_place;
use super::collections::{Collection, CollectionKind, Elements, NoCollection, Steps};
use super::entry::{Entry, Kind, Tail};
use super::moving::Watched;
use super::segments::Place;
use super::writing::Old;
use super::{Store, WriteError};
use crate::{Name, TableId, VALUE_BYTES_MAX};

/// Bytes of the record of an object beside its key and value, at most.
const OBJECT_RECORD_BYTES: u64 = 41;

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Change {
    /// To an object: it was written, deleted, or expires at another time.
    Object { table: TableId, key: Vec<u8> },
    /// All objects of a table are gone.
    Cleared { table: TableId },
    /// To elements of a collection.
    Elements(Steps),
    /// To pieces of a long value, which are in the log as well.
    Pieces { id: u64, numbers: Range<usize> },
}

/// A durable table.
#[derive(Debug)]
struct Tracked {
    /// Its number in entries.
    number: u32,
    id: TableId,
    /// Bytes of the records of its objects, without those of elements.
    record_bytes: u64,
}

/// What happened, and the tables to which it matters.
#[derive(Debug, Default)]
pub struct Changes {
    tables: Vec<Tracked>,
    pub(super) happened: Vec<Change>,
    /// What is noted for a move of hash slots, while there is one.
    pub(super) watched: Option<Box<Watched>>,
}

impl Changes {
    #[inline]
    fn table(&mut self, number: u32) -> Option<&mut Tracked> {
        self.tables.iter_mut().find(|table| table.number == number)
    }

    /// Whether anything is tracked.
    #[inline]
    pub fn is_tracking(&self) -> bool {
        !self.tables.is_empty()
    }

    /// Whether a table is durable.
    #[inline]
    pub fn tracks(&self, number: u32) -> bool {
        self.tables.iter().any(|table| table.number == number)
    }

    /// A table has lost everything, which nobody notes by key.
    fn emptied(&mut self) {
        if let Some(watched) = &mut self.watched {
            watched.is_emptied = true;
        }
    }

    /// An object of a table took the place of another one, or of none.
    pub fn replaced(&mut self, number: u32, key: &[u8], (old_bytes, new_bytes): (u64, u64)) {
        if let Some(table) = self.table(number) {
            table.record_bytes = (table.record_bytes + new_bytes).saturating_sub(old_bytes);
            let table = table.id;
            if let Some(watched) = &mut self.watched {
                watched.touch(table, key);
            }
            self.happened.push(Change::Object { table, key: key.to_vec() });
        }
    }
}

/// The record of a collection: where it is named, and what it is called in those of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectionHeader {
    pub kind: CollectionKind,
    pub number: u64,
    pub version: u64,
    pub deadline: Option<u64>,
}

/// Bytes of the record of an object.
pub(super) fn record_bytes(entry: &Entry<'_>) -> u64 {
    let value = if entry.kind() == Kind::Collection { 0 } else { entry.value_bytes() };
    record_bytes_of(entry.key().len(), value)
}

pub(super) fn record_bytes_of(key_bytes: usize, value_bytes: usize) -> u64 {
    // A long value has records of its own.
    let value_bytes = if value_bytes > VALUE_BYTES_MAX { 0 } else { value_bytes };
    OBJECT_RECORD_BYTES + (key_bytes + value_bytes) as u64
}

impl Store {
    /// From now on what happens to a table's objects is noted. What it has is in the log.
    pub(crate) fn track(&mut self, table: TableId) {
        let Some(number) = self.tables.find(table).map(|table| table.number) else { return };
        if !self.changes.tracks(number) {
            let record_bytes = self.record_bytes_of_table(table);
            self.changes.tables.push(Tracked { number, id: table, record_bytes });
        }
    }

    /// A table is not durable any more.
    pub(crate) fn untrack(&mut self, table: TableId) {
        self.changes.tables.retain(|tracked| tracked.id != table);
        self.changes.emptied();
    }

    /// What happened since this was last asked for.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        core::mem::take(&mut self.changes.happened)
    }

    /// Whether something happened that the log does not have.
    #[inline]
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.happened.is_empty()
    }

    /// Bytes of the records of all objects of durable tables.
    pub(crate) fn record_bytes(&self) -> u64 {
        let objects: u64 = self.changes.tables.iter().map(|table| table.record_bytes).sum();
        objects + self.collections.record_bytes() + self.long.logged.bytes()
    }

    /// Bytes of the records of an object with its elements, and without pieces; 0 if there is none.
    pub(crate) fn record_bytes_at(&self, name: Name<'_>) -> u64 {
        let Ok(Some((_, entry))) = self.find_entry(name) else { return 0 };
        let elements = collection_place(&entry).map_or(0, |place| self.collections.at(place).record_bytes());
        record_bytes(&entry) + elements
    }

    /// The longest name or value of an element of a collection; 0 for other objects.
    pub(crate) fn longest_element(&self, name: Name<'_>) -> usize {
        self.any_collection(name).ok().flatten().map_or(0, Collection::longest)
    }

    fn record_bytes_of_table(&self, table: TableId) -> u64 {
        use super::{PageLimits, ScanFrom, ScanNext};
        let (mut bytes, mut from) = (0, 0);
        loop {
            let limits = PageLimits { bytes: usize::MAX, looks: 1024 };
            let next = self.scan(table, ScanFrom::Hash(from), limits, |object| {
                let value = if object.is_collection() { 0 } else { object.value_bytes() };
                bytes += record_bytes_of(object.key().len(), value);
            });
            match next {
                Ok(ScanNext::Hash(next)) => from = next,
                Ok(ScanNext::End | ScanNext::AfterLast) | Err(_) => return bytes,
            }
        }
    }

    /// All objects of a table are gone; its number in entries is another one.
    pub(super) fn table_cleared(&mut self, table: TableId) {
        let number = self.tables.find(table).map(|table| table.number);
        if let Some(tracked) = self.changes.tables.iter_mut().find(|tracked| tracked.id == table)
            && let Some(number) = number
        {
            (tracked.number, tracked.record_bytes) = (number, 0);
            self.changes.happened.push(Change::Cleared { table });
            self.changes.emptied();
        }
    }

    /// The object at a place was written over by one of its length.
    #[inline]
    pub(super) fn note_rewritten(&mut self, place: Place) {
        if self.changes.is_tracking() {
            let entry = self.log.entry(place);
            let bytes = record_bytes(&entry);
            self.changes.replaced(entry.table(), entry.key(), (bytes, bytes));
        }
    }

    /// An object was written where another one was, or none.
    #[inline]
    pub(super) fn note_replaced(
        &mut self,
        number: u32,
        key: &[u8],
        (old, value_bytes): (Option<Old>, usize),
    ) {
        if self.changes.is_tracking() {
            let old_bytes = old.map_or(0, |old| old.record_bytes);
            self.changes.replaced(number, key, (old_bytes, record_bytes_of(key.len(), value_bytes)));
        }
    }

    /// The object at a place is about to be removed.
    #[inline]
    pub(super) fn note_removed(&mut self, place: Place, old: &Old) {
        if self.changes.is_tracking() {
            let entry = self.log.entry(place);
            self.changes.replaced(old.table, entry.key(), (old.record_bytes, 0));
        }
    }

    /// Removes objects that have expired for a write that needs room. Where tables are durable the turns of
    /// their shard do that: a removal is recorded, and a write records no more than it was admitted for.
    #[inline]
    pub(super) fn expire_by_write(&mut self, objects_max: usize) {
        if self.changes.is_tracking() {
            self.expire_in_memory(objects_max);
        } else {
            self.expire(objects_max);
        }
    }

    /// A collection was put where an entry of a table names it: if that is durable, the log gets to know all
    /// that it has, unless it does.
    pub(super) fn note_placed(&mut self, number: u32, place: u64, version: u64) {
        // Before tables are tracked a log is read, which has what it puts back.
        if !self.changes.is_tracking() {
            return;
        }
        let (called, _) = self.collections.in_log_as(place);
        match (self.changes.tracks(number), called) {
            (true, 0) => {
                self.collections.begin_log(place, version);
                self.note_elements(place);
            }
            (false, 1..) => self.collections.end_log(place),
            _ => {}
        }
    }

    /// Something may have happened to the elements of the collection at a place.
    #[inline]
    pub(super) fn note_elements(&mut self, place: u64) {
        if self.changes.is_tracking()
            && let Some(steps) = self.collections.take_steps(place)
        {
            self.changes.happened.push(Change::Elements(steps));
        }
    }

    /// Elements of a collection have changed.
    #[inline]
    pub(super) fn note_touched(&mut self, name: Name<'_>) {
        if self.changes.watched.is_none() {
            return;
        }
        let number = self.tables.find(name.table()).map(|table| table.number);
        if number.is_some_and(|number| self.changes.tracks(number))
            && let Some(watched) = &mut self.changes.watched
        {
            watched.touch(name.table(), name.key());
        }
    }

    /// The record of the collection of a name, if the log has it.
    pub(crate) fn collection_header(&self, name: Name<'_>) -> Option<CollectionHeader> {
        let (_, entry) = self.find_entry(name).ok()??;
        let place = collection_place(&entry)?;
        let (number, _) = self.collections.in_log_as(place);
        let kind = self.collections.at(place).kind();
        let (version, deadline) = (entry.version(), entry.deadline());
        (number != 0).then_some(CollectionHeader { kind, number, version, deadline })
    }

    /// The log has this record of the collection of a name.
    pub(crate) fn collection_recorded(&mut self, name: Name<'_>, version: u64) {
        let found = self.find_entry(name).ok().flatten();
        if let Some(place) = found.and_then(|(_, entry)| collection_place(&entry)) {
            self.collections.set_recorded(place, version);
        }
    }

    /// Whether the last record of the collection of a name has this number and version.
    pub(crate) fn is_recorded(&self, name: Name<'_>, recorded: (u64, u64)) -> bool {
        let found = self.find_entry(name).ok().flatten();
        let place = found.and_then(|(_, entry)| collection_place(&entry));
        place.is_some_and(|place| self.collections.in_log_as(place) == recorded)
    }

    /// Whether the log has a collection that it calls so.
    pub(crate) fn has_logged(&self, number: u64) -> bool {
        self.collections.has_logged(number)
    }

    /// The stamp of an element of the collection that the log calls so.
    pub(crate) fn element_stamp(&self, number: u64, name: &[u8]) -> Option<u64> {
        self.collections.stamp(number, name)
    }

    /// Puts a collection back that the log has.
    pub(crate) fn restore_collection(
        &mut self,
        name: Name<'_>,
        header: CollectionHeader,
        elements: Elements,
    ) -> Result<Result<(), NoCollection>, WriteError> {
        let number = self.tables.find(name.table()).ok_or(WriteError::UnknownTable)?.number;
        let CollectionHeader { kind, number: called, version, deadline } = header;
        let hashes = self.log.hashes().of_fields();
        let place = match self.collections.restore((elements, kind), hashes, (called, version)) {
            Ok(place) => place,
            Err(none) => return Ok(Err(none)),
        };
        let hash = self.hash_of(name);
        let beside = self.deadlines.bytes() + self.collections.bytes();
        if !self.log.admits_beside(hash, 0, beside) {
            return Err(WriteError::OutOfMemory);
        }
        self.count_beside();
        let body = place.to_le_bytes();
        let first = (Kind::Collection, &body[..], version, Tail::until(deadline));
        self.replace_first(number, hash, name.key(), first)?;
        Ok(Ok(()))
    }
}
