//! What a store does while hash slots move: it notes what is written of a range, hides what is not its
//! shard's, and takes over what another one has.

use std::collections::HashSet;

use super::collections::{CollectionKind, Hash, List, Set, Sorted};
use super::error::CollectionError;
use super::{
    Changed, Condition, Expiry, Growth, Object, PageLimits, ReadError, ScanFrom, ScanNext, Store, WriteError,
};
use crate::placement::{SlotRange, SlotSet};
use crate::wire::hash_slot;
use crate::{Name, TableId, Value};

/// The most memory for keys that were written while a range is copied.
const TOUCHED_BYTES_MAX: usize = 64 << 20;

/// What a key takes beside its bytes.
const TOUCHED_KEY_BYTES: usize = 64;

/// Keys of a range that were written since somebody began to look.
#[derive(Debug)]
pub(crate) struct Watched {
    range: SlotRange,
    /// Whether keys matter.
    notes_keys: bool,
    /// Those of objects that are to be looked at again.
    touched: HashSet<(TableId, Vec<u8>)>,
    /// What that takes, about.
    touched_bytes: usize,
    /// More was written than is noted.
    pub is_overrun: bool,
    /// A table was emptied or dropped meanwhile.
    pub is_emptied: bool,
}

impl Watched {
    fn new(range: SlotRange, notes_keys: bool) -> Self {
        let touched = HashSet::new();
        Self { range, notes_keys, touched, touched_bytes: 0, is_overrun: false, is_emptied: false }
    }

    pub(super) fn touch(&mut self, table: TableId, key: &[u8]) {
        if !self.notes_keys || !self.range.has(hash_slot(key)) {
            return;
        }
        if self.touched_bytes + key.len() > TOUCHED_BYTES_MAX {
            self.is_overrun = true;
        } else if self.touched.insert((table, key.to_vec())) {
            self.touched_bytes += key.len() + TOUCHED_KEY_BYTES;
        }
    }

    /// What was noted, and is forgotten here.
    pub(crate) fn take(&mut self) -> HashSet<(TableId, Vec<u8>)> {
        self.touched_bytes = 0;
        core::mem::take(&mut self.touched)
    }
}

/// An element of a collection: what it is called, and what it has.
type Named<'e> = (&'e [u8], &'e [u8]);

impl Store {
    /// From now on it is noted whether tables are emptied, and, if keys matter, which durable objects of a
    /// range are written; nothing of none.
    pub(crate) fn watch_slots(&mut self, watched: Option<(SlotRange, bool)>) {
        self.changes.watched = watched.map(|(range, notes_keys)| Box::new(Watched::new(range, notes_keys)));
    }

    /// What was noted.
    pub(crate) fn watched(&mut self) -> Option<&mut Watched> {
        self.changes.watched.as_deref_mut()
    }

    /// Objects of these slots are in no page from now on: they are another shard's.
    pub(crate) fn hide_slots(&mut self, slots: SlotSet) {
        self.hidden = (!slots.is_empty()).then(|| Box::new(slots));
    }

    #[inline]
    pub(super) fn is_hidden(&self, key: &[u8]) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| hidden.has(hash_slot(key)))
    }

    /// A page of a table with what is hidden as well.
    pub(crate) fn scan_hidden<'s>(
        &'s self,
        table: TableId,
        from: ScanFrom<'_>,
        limits: PageLimits,
        visit: impl FnMut(Object<'s>),
    ) -> Result<ScanNext, ReadError> {
        self.scan_all(table, from, limits, |_| true, visit)
    }

    /// Writes an object with the version that it has at another shard. What is there has a lower one.
    pub(crate) fn import(
        &mut self,
        name: Name<'_>,
        value: Value<'_>,
        (version, deadline): (u64, Option<u64>),
    ) -> Result<(), WriteError> {
        self.restore(name, value, version, deadline.map_or(Expiry::Never, Expiry::At))
    }

    /// Adds elements to a collection, which is created if it is not there, and gives it a deadline. Its
    /// version is a new one of this store: logs call collections by versions.
    pub(crate) fn import_elements<'e>(
        &mut self,
        name: Name<'_>,
        (kind, deadline): (CollectionKind, Option<u64>),
        elements: impl Iterator<Item = Named<'e>> + Clone,
    ) -> Result<(), CollectionError> {
        let growth = Growth::of(elements.clone().flat_map(|(name, value)| [name, value]));
        match kind {
            CollectionKind::List => self.change_collection(name, growth, |list: &mut List| {
                elements.for_each(|(_, value)| list.insert(list.len(), value));
                ((), Changed::Yes)
            }),
            CollectionKind::Hash => self.change_collection(name, growth, |hash: &mut Hash| {
                elements.for_each(|(field, value)| _ = hash.insert(field, value));
                ((), Changed::Yes)
            }),
            CollectionKind::Set => self.change_collection(name, growth, |set: &mut Set| {
                elements.for_each(|(member, _)| _ = set.insert(member));
                ((), Changed::Yes)
            }),
            CollectionKind::Sorted => self.change_collection(name, growth, |sorted: &mut Sorted| {
                elements.for_each(|(member, score)| {
                    // Whatever the source says: a score that is no number has no place in the order.
                    let score = score.try_into().map(f64::from_le_bytes).ok().filter(|score| !score.is_nan());
                    sorted.insert(member, score.unwrap_or(0.0));
                });
                ((), Changed::Yes)
            }),
        }?;
        let found = self.get(name)?.and_then(|object| object.deadline());
        if found != deadline {
            self.set_deadline(name, deadline)?;
        }
        Ok(())
    }

    /// Deletes an object, whatever version it has.
    pub(crate) fn import_gone(&mut self, name: Name<'_>) -> Result<bool, WriteError> {
        Ok(self.delete(name, Condition::Always)?.is_some())
    }
}
