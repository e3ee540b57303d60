//! Collections: lists, hashes, sets and sorted sets, beside the log.
//!
//! The log has an entry for each collection, with its key, its version and its deadline, and the number of a
//! place here. So a collection is named, renamed, watched, deleted and flushed as any object, and expires as
//! one. What it has lies in ordinary memory and counts as the store's. The elements of one that is gone are
//! freed a few at a time.

mod fields;
mod ranking;
mod sorted;

use std::collections::VecDeque;

use farcall_base::SipPrefix;

pub use self::fields::{Fields, Inserted};
pub use self::sorted::Sorted;

/// The most elements of a collection.
pub const ELEMENTS_MAX: usize = 1 << 20;

/// Memory of a collection beside its elements.
const COLLECTION_BYTES: usize = 256;

/// Memory is counted in steps of this.
const STEP_BYTES: usize = 64 << 10;

/// Elements that are freed together.
const SHED_ELEMENTS: usize = 256;

/// What kind of collection an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionKind {
    List,
    Hash,
    Set,
    Sorted,
}

/// A collection.
#[derive(Debug, Clone)]
pub enum Collection {
    List(List),
    Hash(Hash),
    Set(Set),
    Sorted(Sorted),
}

impl Collection {
    /// Its kind.
    pub fn kind(&self) -> CollectionKind {
        match self {
            Self::List(_) => CollectionKind::List,
            Self::Hash(_) => CollectionKind::Hash,
            Self::Set(_) => CollectionKind::Set,
            Self::Sorted(_) => CollectionKind::Sorted,
        }
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Hash(hash) => hash.len(),
            Self::Set(set) => set.len(),
            Self::Sorted(sorted) => sorted.len(),
        }
    }

    /// Memory that it takes, about.
    pub fn bytes(&self) -> usize {
        COLLECTION_BYTES
            + match self {
                Self::List(list) => list.bytes(),
                Self::Hash(hash) => hash.bytes(),
                Self::Set(set) => set.bytes(),
                Self::Sorted(sorted) => sorted.bytes(),
            }
    }

    /// Frees some elements; says whether there are more.
    fn shed(&mut self) -> bool {
        match self {
            Self::List(list) => list.shed(SHED_ELEMENTS),
            Self::Hash(hash) => hash.fields.shed(SHED_ELEMENTS),
            Self::Set(set) => set.fields.shed(SHED_ELEMENTS),
            Self::Sorted(sorted) => sorted.shed(SHED_ELEMENTS),
        }
    }
}

/// One kind of collection, to those that ask for it.
pub trait Kept: Sized {
    /// An empty one, with places under a secret.
    fn empty(hashes: SipPrefix) -> Self;
    /// It, if a collection is of this kind.
    fn of(collection: &Collection) -> Option<&Self>;
    /// The same, to be changed.
    fn of_mut(collection: &mut Collection) -> Option<&mut Self>;
    /// The collection.
    fn into_collection(self) -> Collection;
    /// Memory that this many more elements with this many bytes take.
    fn growth(elements: usize, bytes: usize) -> usize;
}

macro_rules! kept {
    ($($kind:ident),*) => {$(
        impl Kept for $kind {
            fn empty(hashes: SipPrefix) -> Self {
                Self::new(hashes)
            }

            fn of(collection: &Collection) -> Option<&Self> {
                if let Collection::$kind(it) = collection { Some(it) } else { None }
            }

            fn of_mut(collection: &mut Collection) -> Option<&mut Self> {
                if let Collection::$kind(it) = collection { Some(it) } else { None }
            }

            fn into_collection(self) -> Collection {
                Collection::$kind(self)
            }

            fn growth(elements: usize, bytes: usize) -> usize {
                Self::growth(elements, bytes)
            }
        }
    )*};
}

kept!(List, Hash, Set, Sorted);

/// A list.
#[derive(Debug, Clone)]
pub struct List {
    elements: VecDeque<Box<[u8]>>,
    bytes: usize,
    peak: usize,
}

/// Memory of an element of a list beside its bytes, with the list's reserve and what the allocator adds.
const LIST_ELEMENT_BYTES: usize = 56;

impl List {
    fn new(_: SipPrefix) -> Self {
        Self { elements: VecDeque::new(), bytes: 0, peak: 0 }
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Memory that it takes.
    fn bytes(&self) -> usize {
        self.bytes + self.peak * LIST_ELEMENT_BYTES
    }

    fn growth(elements: usize, bytes: usize) -> usize {
        bytes + elements * LIST_ELEMENT_BYTES
    }

    /// The element at a place.
    pub fn get(&self, place: usize) -> Option<&[u8]> {
        self.elements.get(place).map(|element| &**element)
    }

    /// The elements from a place on.
    pub fn from(&self, place: usize) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.elements.range(place.min(self.len())..).map(|element| &**element)
    }

    /// Puts an element in front of the one at a place, or behind all.
    pub fn insert(&mut self, place: usize, element: &[u8]) {
        self.bytes += element.len();
        if place == 0 {
            self.elements.push_front(element.into());
        } else if place == self.len() {
            self.elements.push_back(element.into());
        } else {
            self.elements.insert(place, element.into());
        }
        self.peak = self.peak.max(self.len());
    }

    /// Removes the element at a place.
    pub fn remove(&mut self, place: usize) -> Option<Box<[u8]>> {
        let element = match place {
            0 => self.elements.pop_front(),
            place => self.elements.remove(place),
        }?;
        self.bytes -= element.len();
        Some(element)
    }

    /// Replaces the element at a place.
    pub fn set(&mut self, place: usize, element: &[u8]) {
        let old = core::mem::replace(&mut self.elements[place], element.into());
        self.bytes = self.bytes + element.len() - old.len();
    }

    /// Keeps the elements between two places.
    pub fn trim(&mut self, from: usize, end: usize) {
        let bytes =
            |elements: VecDeque<Box<[u8]>>| elements.iter().map(|element| element.len()).sum::<usize>();
        self.bytes -= bytes(self.elements.split_off(end.min(self.len())));
        let rest = self.elements.split_off(from.min(self.len()));
        self.bytes -= bytes(core::mem::replace(&mut self.elements, rest));
    }

    /// Removes the elements that `is_wanted` is false for.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&[u8]) -> bool) {
        let mut bytes = 0;
        self.elements.retain(|element| {
            let stays = is_wanted(element);
            bytes += if stays { element.len() } else { 0 };
            stays
        });
        self.bytes = bytes;
    }

    fn shed(&mut self, elements: usize) -> bool {
        self.elements.truncate(self.len().saturating_sub(elements));
        !self.elements.is_empty()
    }
}

/// A hash: fields with values.
#[derive(Debug, Clone)]
pub struct Hash {
    fields: Fields<Box<[u8]>>,
    bytes: usize,
    peak: usize,
}

/// Memory of a field beside its bytes, with the reserves of what it lies in and what the allocator adds.
const HASH_FIELD_BYTES: usize = 144;

impl Hash {
    fn new(hashes: SipPrefix) -> Self {
        Self { fields: Fields::new(hashes), bytes: 0, peak: 0 }
    }

    /// How many fields it has.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    fn bytes(&self) -> usize {
        self.bytes + self.peak * HASH_FIELD_BYTES
    }

    fn growth(elements: usize, bytes: usize) -> usize {
        bytes + elements * HASH_FIELD_BYTES
    }

    /// The value of a field.
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.fields.get(field).map(|value| &**value)
    }

    /// The field at a place, and its value.
    pub fn at(&self, place: usize) -> (&[u8], &[u8]) {
        let field = self.fields.at(place);
        (&field.key, &field.value)
    }

    /// Sets the value of a field; says whether it is new.
    pub fn insert(&mut self, field: &[u8], value: &[u8]) -> bool {
        self.bytes += value.len();
        match self.fields.insert(field, value.into()) {
            Inserted::New => {
                self.bytes += field.len();
                self.peak = self.peak.max(self.len());
                true
            }
            Inserted::Replaced(old) => {
                self.bytes -= old.len();
                false
            }
        }
    }

    /// Removes a field; says whether there was one.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let Some(place) = self.fields.find(field) else { return false };
        let field = self.fields.remove(place);
        self.bytes -= field.key.len() + field.value.len();
        true
    }
}

/// A set.
#[derive(Debug, Clone)]
pub struct Set {
    fields: Fields<()>,
    bytes: usize,
    peak: usize,
}

/// Memory of a member beside its bytes, with the reserves of what it lies in and what the allocator adds.
const SET_MEMBER_BYTES: usize = 104;

impl Set {
    fn new(hashes: SipPrefix) -> Self {
        Self { fields: Fields::new(hashes), bytes: 0, peak: 0 }
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    fn bytes(&self) -> usize {
        self.bytes + self.peak * SET_MEMBER_BYTES
    }

    fn growth(elements: usize, bytes: usize) -> usize {
        bytes + elements * SET_MEMBER_BYTES
    }

    /// Whether it has a member.
    pub fn has(&self, member: &[u8]) -> bool {
        self.fields.find(member).is_some()
    }

    /// The member at a place.
    pub fn at(&self, place: usize) -> &[u8] {
        &self.fields.at(place).key
    }

    /// All members.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.fields.iter().map(|field| &*field.key)
    }

    /// Adds a member; says whether it is new.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        let is_new = self.fields.find(member).is_none();
        if is_new {
            self.fields.insert(member, ());
            self.bytes += member.len();
            self.peak = self.peak.max(self.len());
        }
        is_new
    }

    /// Removes a member; says whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.fields.find(member).map(|place| self.remove_at(place)).is_some()
    }

    /// Removes the member at a place.
    pub fn remove_at(&mut self, place: usize) -> Box<[u8]> {
        let key = self.fields.remove(place).key;
        self.bytes -= key.len();
        key
    }
}

/// The collections of a store, by their places.
#[derive(Debug, Default)]
pub struct Collections {
    places: Vec<Option<Box<Collection>>>,
    free: Vec<u32>,
    /// Those that are gone and not freed yet.
    gone: Vec<Collection>,
    bytes: usize,
}

impl Collections {
    /// Memory that they take, in steps.
    pub fn bytes(&self) -> usize {
        self.bytes.next_multiple_of(STEP_BYTES)
    }

    /// Memory that they would take with this much more.
    pub fn bytes_with(&self, growth: usize) -> usize {
        (self.bytes + COLLECTION_BYTES + growth).next_multiple_of(STEP_BYTES)
    }

    /// The collection at a place.
    pub fn at(&self, place: u64) -> &Collection {
        self.places[place as usize].as_ref().expect("an entry names what is there")
    }

    /// Changes the collection at a place.
    pub fn change<T>(&mut self, place: u64, change: impl FnOnce(&mut Collection) -> T) -> T {
        let collection = self.places[place as usize].as_mut().expect("an entry names what is there");
        let before = collection.bytes();
        let done = change(collection);
        self.bytes = self.bytes + collection.bytes() - before;
        done
    }

    /// Adds a collection; gives its place.
    pub fn add(&mut self, collection: Collection) -> u64 {
        self.bytes += collection.bytes();
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as u32
        });
        self.places[place as usize] = Some(Box::new(collection));
        u64::from(place)
    }

    /// The collection at a place is gone.
    pub fn remove(&mut self, place: u64) {
        let mut collection = self.places[place as usize].take().expect("an entry names what is there");
        self.free.push(place as u32);
        if collection.len() <= SHED_ELEMENTS || !collection.shed() {
            self.bytes -= collection.bytes();
            return;
        }
        self.gone.push(*collection);
    }

    /// Frees some elements of what is gone; says whether there are more.
    pub fn sweep(&mut self) -> bool {
        if let Some(collection) = self.gone.last_mut()
            && !collection.shed()
        {
            self.bytes -= self.gone.pop().map_or(0, |collection| collection.bytes());
        }
        !self.gone.is_empty()
    }
}
