//! Collections by name.

use super::collections::{Collection, CollectionKind, ELEMENTS_MAX, Kept};
use super::entry::{Entry, Kind, Tail};
use super::error::CollectionError;
use super::eviction::EVICTED_PER_WRITE;
use super::segments::Place;
use super::writing::Old;
use super::{Expiry, Object, ReadError, Store, WriteError};
use crate::Name;

/// What a change adds to a collection at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Elements.
    pub elements: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Growth {
    /// Nothing: what is not there is not created either.
    pub const NONE: Self = Self { elements: 0, bytes: 0 };

    /// Elements of these bytes.
    pub fn of<'e>(elements: impl Iterator<Item = &'e [u8]>) -> Self {
        elements.fold(Self::NONE, |growth, element| Self {
            elements: growth.elements + 1,
            bytes: growth.bytes + element.len(),
        })
    }
}

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Nothing: the version stays.
    No,
    /// Something.
    Yes,
}

impl Changed {
    /// Something, if this is so.
    pub fn when(is_so: bool) -> Self {
        if is_so { Self::Yes } else { Self::No }
    }
}

impl Store {
    /// The collection with that name; an error if the object is of another kind.
    pub(crate) fn collection<C: Kept>(&self, name: Name<'_>) -> Result<Option<&C>, CollectionError> {
        let Some((_, entry)) = self.find_entry(name)? else { return Ok(None) };
        let place = collection_place(&entry).ok_or(CollectionError::WrongKind)?;
        C::of(self.collections.at(place)).map(Some).ok_or(CollectionError::WrongKind)
    }

    /// The collection with that name, of whatever kind.
    pub(crate) fn any_collection(&self, name: Name<'_>) -> Result<Option<&Collection>, ReadError> {
        let place = self.find_entry(name)?.and_then(|(_, entry)| collection_place(&entry));
        Ok(place.map(|place| self.collections.at(place)))
    }

    /// The kind of the object with that name if it is a collection.
    pub(crate) fn collection_kind(&self, name: Name<'_>) -> Result<Option<CollectionKind>, ReadError> {
        Ok(self.any_collection(name)?.map(Collection::kind))
    }

    /// The kind of an object if it is a collection.
    pub(crate) fn kind_of(&self, object: &Object<'_>) -> Option<CollectionKind> {
        object.collection_place().map(|place| self.collections.at(place).kind())
    }

    /// Changes a collection; gives what `change` does, or `None` if there is none and nothing is to be added.
    /// Otherwise it is created if it is not there. One that is empty then is deleted.
    pub(crate) fn change_collection<C: Kept, T>(
        &mut self,
        name: Name<'_>,
        growth: Growth,
        change: impl FnOnce(&mut C) -> (T, Changed),
    ) -> Result<Option<T>, CollectionError> {
        self.sweep_within(super::SWEEP_BY_WRITE);
        self.collections.sweep();
        let is_there = self.collection::<C>(name)?.is_some();
        if !is_there && growth == Growth::NONE {
            return Ok(None);
        }
        self.admit_growth::<C>(name, growth)?;
        if !is_there {
            self.create::<C>(name)?;
        }
        let (place, entry) = self.find_entry(name)?.expect("it is there, or was created");
        let (collection, tail) = (collection_place(&entry).expect("a collection"), entry.tail());
        let old = Old::of(&entry);
        let (done, changed) =
            self.collections.change(collection, |it| change(C::of_mut(it).expect("its kind was looked at")));
        if self.collections.at(collection).len() == 0 {
            let hash = self.hash_of(name);
            self.remove(hash, place, old);
        } else if changed == Changed::Yes {
            self.last_version += 1;
            let body = body_of(collection);
            self.log.rewrite(place, name.key().len(), self.last_version, &body, tail);
            self.note_elements(collection);
            self.note_touched(name);
        }
        self.count_beside();
        Ok(Some(done))
    }

    /// Puts a whole collection where a name is, whatever is there; an empty one deletes it.
    pub(crate) fn put_collection(
        &mut self,
        name: Name<'_>,
        collection: Collection,
        expiry: Expiry,
    ) -> Result<(), CollectionError> {
        let old = self.find_entry(name)?.map(|(place, entry)| (place, Old::of(&entry)));
        if collection.len() == 0 {
            if let Some((place, old)) = old {
                let hash = self.hash_of(name);
                self.remove(hash, place, old);
            }
            return Ok(());
        }
        if collection.len() > ELEMENTS_MAX {
            return Err(CollectionError::TooMany);
        }
        let hash = self.hash_of(name);
        if !self.log.admits_beside(hash, 0, self.beside_with(collection.bytes())) {
            return Err(CollectionError::Write(WriteError::OutOfMemory));
        }
        let deadline = match expiry {
            Expiry::Never => None,
            Expiry::Keep => old.and_then(|(_, old)| old.deadline),
            Expiry::At(deadline) => Some(deadline),
        };
        let place = self.collections.add(collection);
        self.count_beside();
        let number = self.tables.find(name.table()).ok_or(WriteError::UnknownTable)?.number;
        let (body, version) = (body_of(place), self.last_version + 1);
        let first = (Kind::Collection, &body[..], version, Tail::until(deadline));
        let written = self.replace_first(number, hash, name.key(), first);
        if let Err(error) = written {
            self.collections.remove(place);
            self.count_beside();
            return Err(error.into());
        }
        Ok(())
    }

    /// An empty collection.
    pub(crate) fn empty<C: Kept>(&self) -> C {
        C::empty(self.log.hashes().of_fields())
    }

    /// Creates a collection, empty for a moment.
    fn create<C: Kept>(&mut self, name: Name<'_>) -> Result<(), CollectionError> {
        let number = self.tables.find(name.table()).ok_or(WriteError::UnknownTable)?.number;
        let place = self.collections.add(self.empty::<C>().into_collection());
        let (body, version) = (body_of(place), self.last_version + 1);
        let hash = self.hash_of(name);
        let first = (Kind::Collection, &body[..], version, Tail::default());
        let written = self.replace_first(number, hash, name.key(), first);
        if let Err(error) = written {
            self.collections.remove(place);
            return Err(error.into());
        }
        Ok(())
    }

    /// Looks whether a collection may grow so, and lets the log make room.
    fn admit_growth<C: Kept>(&mut self, name: Name<'_>, growth: Growth) -> Result<(), CollectionError> {
        if growth == Growth::NONE {
            return Ok(());
        }
        let elements = self.any_collection(name)?.map_or(0, Collection::len);
        if elements + growth.elements > ELEMENTS_MAX {
            return Err(CollectionError::TooMany);
        }
        let more = C::growth(growth.elements, growth.bytes);
        let (hash, entry_bytes) = (self.hash_of(name), super::entry_bytes(name.key().len(), 8));
        if !self.log.admits_beside(hash, entry_bytes, self.beside_with(more)) {
            self.sweep_within(super::SWEEP);
            self.expire_by_write(super::EXPIRED_BY_FULL);
            let mut evicted = 0;
            while !self.log.admits_beside(hash, entry_bytes, self.beside_with(more)) {
                if self.remove_gone() {
                    continue;
                }
                if evicted == EVICTED_PER_WRITE || !self.evict_one(hash) && !self.cut_held() {
                    return Err(CollectionError::Write(WriteError::OutOfMemory));
                }
                evicted += 1;
            }
        }
        self.log.keep_pace(more);
        Ok(())
    }

    pub(super) fn hash_of(&self, name: Name<'_>) -> u64 {
        self.tables.find(name.table()).map_or(0, |table| table.hash(name.key()))
    }

    pub(super) fn find_entry(&self, name: Name<'_>) -> Result<Option<(Place, Entry<'_>)>, ReadError> {
        let table = self.tables.find(name.table()).ok_or(ReadError::UnknownTable)?;
        Ok(self.find(table, name.key()))
    }

    /// Bytes beside the log, with this many more of collections.
    fn beside_with(&self, growth: usize) -> usize {
        self.deadlines.bytes() + self.collections.bytes_with(growth)
    }

    /// Tells the log what lies beside it.
    pub(super) fn count_beside(&mut self) {
        let bytes = self.deadlines.bytes() + self.collections.bytes();
        if bytes != self.log.beside() {
            self.log.set_beside(bytes);
        }
    }
}

/// The body of a collection's entry.
fn body_of(place: u64) -> [u8; 8] {
    place.to_le_bytes()
}

/// The place of the collection that an entry names, if it names one.
pub(super) fn collection_place(entry: &Entry<'_>) -> Option<u64> {
    let is_one = entry.kind() == Kind::Collection;
    is_one.then(|| u64::from_le_bytes(entry.body().try_into().expect("a place has eight bytes")))
}
