//! Collections: lists, hashes, sets and sorted sets, beside the log.
//!
//! The log has an entry for each collection, with its key, its version and its deadline, and the number of a
//! place here. So a collection is named, renamed, watched, deleted and flushed as any object, and expires as
//! one. What it has lies in ordinary memory and counts as the store's. The elements of one that is gone are
//! freed a few at a time.

mod fields;
mod list;
mod logged;
mod ranking;
mod sorted;
mod trail;

use std::collections::HashMap;

use farcall_base::SipPrefix;

pub use self::fields::{Fields, Inserted};
pub use self::list::List;
pub use self::logged::{Elements, NoCollection, Steps};
pub use self::sorted::Sorted;
pub use self::trail::Step;
use self::trail::Trail;

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

/// A hash: fields with values.
#[derive(Debug, Clone)]
pub struct Hash {
    fields: Fields<Box<[u8]>>,
    bytes: usize,
    peak: usize,
    trail: Trail,
}

/// Memory of a field beside its bytes, with the reserves of what it lies in and what the allocator adds.
const HASH_FIELD_BYTES: usize = 144;

impl Hash {
    fn new(hashes: SipPrefix) -> Self {
        Self { fields: Fields::new(hashes), bytes: 0, peak: 0, trail: Trail::default() }
    }

    /// How many fields it has.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    fn bytes(&self) -> usize {
        self.bytes + self.peak * HASH_FIELD_BYTES + self.fields.stamp_bytes()
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
        let is_new = match self.fields.insert(field, value.into()) {
            Inserted::New => {
                self.bytes += field.len();
                self.peak = self.peak.max(self.len());
                true
            }
            Inserted::Replaced(old) => {
                self.bytes -= old.len();
                false
            }
        };
        if let Some(stamp) = self.trail.put(field, value) {
            self.fields.set_stamp(field, stamp);
        }
        is_new
    }

    /// Removes a field; says whether there was one.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let Some(place) = self.fields.find(field) else { return false };
        let field = self.fields.remove(place);
        self.bytes -= field.key.len() + field.value.len();
        self.trail.remove(&field.key);
        true
    }
}

/// A set.
#[derive(Debug, Clone)]
pub struct Set {
    fields: Fields<()>,
    bytes: usize,
    peak: usize,
    trail: Trail,
}

/// Memory of a member beside its bytes, with the reserves of what it lies in and what the allocator adds.
const SET_MEMBER_BYTES: usize = 104;

impl Set {
    fn new(hashes: SipPrefix) -> Self {
        Self { fields: Fields::new(hashes), bytes: 0, peak: 0, trail: Trail::default() }
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    fn bytes(&self) -> usize {
        self.bytes + self.peak * SET_MEMBER_BYTES + self.fields.stamp_bytes()
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
            if let Some(stamp) = self.trail.put(member, b"") {
                self.fields.set_stamp(member, stamp);
            }
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
        self.trail.remove(&key);
        key
    }
}

/// A collection at its place.
#[derive(Debug)]
struct Placed {
    collection: Collection,
    /// What the log calls it, if its table is durable; 0 otherwise.
    number: u64,
    /// The version that its last record in the log has.
    recorded: u64,
}

/// The collections of a store, by their places.
#[derive(Debug, Default)]
pub struct Collections {
    places: Vec<Option<Box<Placed>>>,
    free: Vec<u32>,
    /// Those that are gone and not freed yet.
    gone: Vec<Collection>,
    bytes: usize,
    /// Places of those that the log has, by number.
    logged: HashMap<u64, u32>,
    /// Bytes of the records of their elements.
    record_bytes: u64,
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

    fn placed(&self, place: u64) -> &Placed {
        self.places[place as usize].as_ref().expect("an entry names what is there")
    }

    /// The collection at a place.
    pub fn at(&self, place: u64) -> &Collection {
        &self.placed(place).collection
    }

    /// Changes the collection at a place.
    pub fn change<T>(&mut self, place: u64, change: impl FnOnce(&mut Collection) -> T) -> T {
        let placed = self.places[place as usize].as_mut().expect("an entry names what is there");
        let collection = &mut placed.collection;
        let (before, recorded) = (collection.bytes(), collection.record_bytes());
        let done = change(collection);
        self.bytes = self.bytes + collection.bytes() - before;
        if placed.number != 0 {
            self.record_bytes = self.record_bytes + collection.record_bytes() - recorded;
        }
        done
    }

    /// Adds a collection; gives its place.
    pub fn add(&mut self, collection: Collection) -> u64 {
        self.bytes += collection.bytes();
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as u32
        });
        let placed = Placed { collection, number: 0, recorded: 0 };
        self.places[place as usize] = Some(Box::new(placed));
        u64::from(place)
    }

    /// The collection at a place is gone.
    pub fn remove(&mut self, place: u64) {
        self.end_log(place);
        let placed = self.places[place as usize].take().expect("an entry names what is there");
        let mut collection = placed.collection;
        self.free.push(place as u32);
        if collection.len() <= SHED_ELEMENTS || !collection.shed() {
            self.bytes -= collection.bytes();
            return;
        }
        self.gone.push(collection);
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
