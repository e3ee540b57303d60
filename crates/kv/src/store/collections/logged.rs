//! Collections of durable tables, as the log has them: by element.
//!
//! An element is a name and a value: a field and what it has, a member and nothing or its score, a list's
//! number and what is there. So one record serves all kinds, and a change costs what it changes.

use core::ops::Range;
use std::collections::BTreeMap;

use farcall_base::SipPrefix;

use super::{Collection, CollectionKind, Collections, ELEMENTS_MAX, Hash, List, Set, Sorted, Step, Trail};

/// Bytes of the record of an element beside its name and value.
const ELEMENT_RECORD_BYTES: usize = 25;

/// What happened to a collection.
#[derive(Debug)]
pub struct Steps {
    /// What the log calls it.
    pub number: u64,
    pub steps: Vec<Step>,
    /// The numbers of a list's first element, and of the one behind its last, if it was cut.
    pub range: Option<(u64, u64)>,
}

/// Elements by their names: stamps and values.
type ByName = BTreeMap<Box<[u8]>, (u64, Box<[u8]>)>;

/// What a log has of a collection, while it is read.
#[derive(Debug, Default)]
pub struct Elements {
    by_name: ByName,
    next_stamp: u64,
}

/// The elements of a log are none of a collection of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCollection;

impl Elements {
    /// An element was put.
    pub fn put(&mut self, stamp: u64, name: &[u8], value: &[u8]) {
        self.next_stamp = self.next_stamp.max(stamp.saturating_add(1));
        self.by_name.insert(name.into(), (stamp, value.into()));
    }

    /// Stamps below this one are not given again.
    pub fn stamp_from(&mut self, stamp: u64) {
        self.next_stamp = self.next_stamp.max(stamp);
    }

    /// An element was removed.
    pub fn remove(&mut self, name: &[u8]) {
        self.by_name.remove(name);
    }

    /// A list was cut to the elements with these numbers.
    pub fn cut(&mut self, first: u64, end: u64) {
        let mut rest = self.by_name.split_off(&first.to_be_bytes()[..]);
        rest.split_off(&end.to_be_bytes()[..]);
        self.by_name = rest;
    }

    /// The collection that they are, which goes on from here.
    fn into_collection(self, kind: CollectionKind, hashes: SipPrefix) -> Result<Collection, NoCollection> {
        let Self { by_name, next_stamp } = self;
        if by_name.is_empty() || by_name.len() > ELEMENTS_MAX {
            return Err(NoCollection);
        }
        Ok(match kind {
            CollectionKind::List => Collection::List(list(by_name, next_stamp, hashes)?),
            CollectionKind::Hash => {
                let mut hash = Hash::new(hashes);
                for (name, (stamp, value)) in by_name {
                    hash.insert(&name, &value);
                    hash.fields.set_stamp(&name, stamp);
                }
                hash.trail.begin(next_stamp);
                Collection::Hash(hash)
            }
            CollectionKind::Set => {
                let mut set = Set::new(hashes);
                for (name, (stamp, _)) in by_name {
                    set.insert(&name);
                    set.fields.set_stamp(&name, stamp);
                }
                set.trail.begin(next_stamp);
                Collection::Set(set)
            }
            CollectionKind::Sorted => {
                let mut sorted = Sorted::new(hashes);
                for (name, (stamp, score)) in by_name {
                    let score = f64::from_le_bytes((*score).try_into().map_err(|_| NoCollection)?);
                    if score.is_nan() {
                        return Err(NoCollection);
                    }
                    sorted.insert(&name, score);
                    sorted.members.set_stamp(&name, stamp);
                }
                sorted.trail.begin(next_stamp);
                Collection::Sorted(sorted)
            }
        })
    }
}

/// Numbers of elements: a list begins in their middle, and never gets to either end.
const NUMBERS: Range<u64> = 1 << 62..3 << 62;

/// A list of elements whose numbers follow one another.
fn list(by_name: ByName, next_stamp: u64, hashes: SipPrefix) -> Result<List, NoCollection> {
    let mut list = List::new(hashes);
    let (mut first, mut stamps) = (None, std::collections::VecDeque::with_capacity(by_name.len()));
    for (name, (stamp, element)) in by_name {
        let number = u64::from_be_bytes((*name).try_into().map_err(|_| NoCollection)?);
        let expected = first.get_or_insert(number).saturating_add(list.len() as u64);
        if number != expected || !NUMBERS.contains(&number) {
            return Err(NoCollection);
        }
        list.insert(list.len(), &element);
        stamps.push_back(stamp);
    }
    list.resume_trail(first.ok_or(NoCollection)?, stamps, next_stamp);
    Ok(list)
}

impl Collection {
    fn trail(&mut self) -> &mut Trail {
        match self {
            Self::List(list) => &mut list.trail,
            Self::Hash(hash) => &mut hash.trail,
            Self::Set(set) => &mut set.trail,
            Self::Sorted(sorted) => &mut sorted.trail,
        }
    }

    /// Takes down what it has, and from now on what happens to it.
    fn begin_trail(&mut self) {
        self.trail().begin(1);
        match self {
            Self::List(list) => list.begin_trail(),
            Self::Hash(hash) => {
                let Hash { fields, trail, .. } = hash;
                stamp_all(fields, trail, |value| value.to_vec());
            }
            Self::Set(set) => {
                let Set { fields, trail, .. } = set;
                stamp_all(fields, trail, |()| Vec::new());
            }
            Self::Sorted(sorted) => {
                let Sorted { members, trail, .. } = sorted;
                stamp_all(members, trail, |score| score.to_le_bytes().to_vec());
            }
        }
    }

    fn end_trail(&mut self) {
        self.trail().end();
        match self {
            Self::List(list) => list.clear_stamps(),
            Self::Hash(hash) => hash.fields.clear_stamps(),
            Self::Set(set) => set.fields.clear_stamps(),
            Self::Sorted(sorted) => sorted.members.clear_stamps(),
        }
    }

    /// The stamp of the element that the log names so.
    fn stamp(&self, name: &[u8]) -> Option<u64> {
        match self {
            Self::List(list) => list.stamp(name),
            Self::Hash(hash) => hash.fields.stamp(name),
            Self::Set(set) => set.fields.stamp(name),
            Self::Sorted(sorted) => sorted.members.stamp(name),
        }
    }

    /// Bytes of the records of its elements.
    pub(crate) fn record_bytes(&self) -> u64 {
        /// A number of a list, and a score.
        const NUMBER_BYTES: usize = 8;
        let (beside, bytes) = match self {
            Self::List(list) => (NUMBER_BYTES, list.element_bytes()),
            Self::Hash(hash) => (0, hash.bytes),
            Self::Set(set) => (0, set.bytes),
            Self::Sorted(sorted) => (NUMBER_BYTES, sorted.member_bytes()),
        };
        (self.len() * (ELEMENT_RECORD_BYTES + beside) + bytes) as u64
    }
}

impl Collection {
    /// The longest name or value of an element.
    pub(crate) fn longest(&self) -> usize {
        let longest = match self {
            Self::List(list) => list.from(0).map(<[u8]>::len).max(),
            Self::Hash(hash) => hash.fields.iter().map(|it| it.key.len().max(it.value.len())).max(),
            Self::Set(set) => set.iter().map(<[u8]>::len).max(),
            Self::Sorted(sorted) => sorted.members.iter().map(|it| it.key.len()).max(),
        };
        longest.unwrap_or(0)
    }
}

fn stamp_all<V>(fields: &mut super::Fields<V>, trail: &mut Trail, value: impl Fn(&V) -> Vec<u8>) {
    fields.clear_stamps();
    for place in 0..fields.len() {
        let field = fields.at(place);
        if let Some(stamp) = trail.put(&field.key, &value(&field.value)) {
            let key = field.key.clone();
            fields.set_stamp(&key, stamp);
        }
    }
}

impl Collections {
    /// From now on the log has the collection at a place, and calls it so.
    pub fn begin_log(&mut self, place: u64, number: u64) {
        self.in_log(place, number, Collection::begin_trail);
    }

    /// Puts back a collection that the log has; gives its place.
    pub fn restore(
        &mut self,
        (elements, kind): (Elements, CollectionKind),
        hashes: SipPrefix,
        (number, recorded): (u64, u64),
    ) -> Result<u64, NoCollection> {
        let place = self.add(elements.into_collection(kind, hashes)?);
        self.in_log(place, number, |_| {});
        self.set_recorded(place, recorded);
        Ok(place)
    }

    fn in_log(&mut self, place: u64, number: u64, begin: impl FnOnce(&mut Collection)) {
        self.change(place, begin);
        let placed = self.places[place as usize].as_mut().expect("an entry names what is there");
        placed.number = number;
        self.record_bytes += placed.collection.record_bytes();
        self.logged.insert(number, place as u32);
    }

    /// The log has the collection at a place no longer, if it had it.
    pub fn end_log(&mut self, place: u64) {
        let placed = self.places[place as usize].as_mut().expect("an entry names what is there");
        if placed.number != 0 {
            self.record_bytes -= placed.collection.record_bytes();
            self.logged.remove(&placed.number);
            placed.number = 0;
            self.change(place, Collection::end_trail);
        }
    }

    /// What the log calls the collection at a place, and the version of its last record; 0 if it does not
    /// have it.
    pub fn in_log_as(&self, place: u64) -> (u64, u64) {
        let placed = self.placed(place);
        (placed.number, placed.recorded)
    }

    /// The log has a record of the collection at a place, with this version.
    pub fn set_recorded(&mut self, place: u64, version: u64) {
        self.places[place as usize].as_mut().expect("an entry names what is there").recorded = version;
    }

    /// The stamp of an element of the collection that the log calls so.
    pub fn stamp(&self, number: u64, name: &[u8]) -> Option<u64> {
        let place = self.logged.get(&number)?;
        self.at(u64::from(*place)).stamp(name)
    }

    /// What happened to the collection at a place since this was last asked for, if the log has it.
    pub fn take_steps(&mut self, place: u64) -> Option<Steps> {
        let placed = self.places[place as usize].as_mut().expect("an entry names what is there");
        let (steps, is_cut) = placed.collection.trail().take();
        let range = match &placed.collection {
            Collection::List(list) if is_cut => Some(list.numbers()),
            _ => None,
        };
        let is_any = placed.number != 0 && (is_cut || !steps.is_empty());
        is_any.then_some(Steps { number: placed.number, steps, range })
    }

    /// Whether the log has a collection that it calls so.
    pub fn has_logged(&self, number: u64) -> bool {
        self.logged.contains_key(&number)
    }

    /// Bytes of the records of all elements that the log has.
    pub fn record_bytes(&self) -> u64 {
        self.record_bytes
    }
}
