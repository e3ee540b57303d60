//! A list: elements in an order.
//!
//! Elements have consecutive numbers, so that the log can name them: at the ends a list grows and shrinks
//! without a number changing, and where something is put between two elements, or taken from there, the
//! shorter side is numbered again.

use core::ops::Range;
use std::collections::VecDeque;

use farcall_base::SipPrefix;

use super::trail::Trail;

/// The number of the first element of a list that was never pushed in front of.
const FIRST_NUMBER: u64 = 1 << 63;

/// Memory of an element of a list beside its bytes, with the list's reserve and what the allocator adds.
const LIST_ELEMENT_BYTES: usize = 56;

/// The same of its stamp, where it has one.
const STAMP_BYTES: usize = 16;

/// A list.
#[derive(Debug, Clone)]
pub struct List {
    elements: VecDeque<Box<[u8]>>,
    bytes: usize,
    peak: usize,
    /// The number of the first element.
    first: u64,
    /// Of each element, while there is a trail.
    stamps: VecDeque<u64>,
    pub(super) trail: Trail,
}

impl List {
    pub(super) fn new(_: SipPrefix) -> Self {
        Self {
            elements: VecDeque::new(),
            bytes: 0,
            peak: 0,
            first: FIRST_NUMBER,
            stamps: VecDeque::new(),
            trail: Trail::default(),
        }
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let stamps = if self.trail.is_on() { self.stamps.len() * STAMP_BYTES } else { 0 };
        self.bytes + self.peak * LIST_ELEMENT_BYTES + stamps
    }

    /// Bytes of all elements.
    pub(super) fn element_bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn growth(elements: usize, bytes: usize) -> usize {
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
        let length = self.len();
        self.bytes += element.len();
        self.elements.insert(place, element.into());
        if self.trail.is_on() {
            self.stamps.insert(place, 0);
        }
        self.peak = self.peak.max(length + 1);
        if place < length - place {
            self.first -= 1;
            self.restate(0..place + 1);
        } else {
            self.restate(place..length + 1);
        }
    }

    /// Removes the element at a place.
    pub fn remove(&mut self, place: usize) -> Option<Box<[u8]>> {
        let length = self.len();
        let element = self.elements.remove(place)?;
        self.bytes -= element.len();
        if self.trail.is_on() {
            self.stamps.remove(place);
        }
        self.trail.cut();
        if place < length - place {
            self.first += 1;
            self.restate(0..place);
        } else {
            self.restate(place..length - 1);
        }
        Some(element)
    }

    /// Replaces the element at a place.
    pub fn set(&mut self, place: usize, element: &[u8]) {
        let old = core::mem::replace(&mut self.elements[place], element.into());
        self.bytes = self.bytes + element.len() - old.len();
        self.restate(place..place + 1);
    }

    /// Keeps the elements between two places.
    pub fn trim(&mut self, from: usize, end: usize) {
        let (from, end) = (from.min(end), end.min(self.len()));
        let bytes = |elements: &mut dyn Iterator<Item = Box<[u8]>>| {
            elements.map(|element| element.len()).sum::<usize>()
        };
        self.bytes -= bytes(&mut self.elements.drain(end..));
        self.bytes -= bytes(&mut self.elements.drain(..from));
        if self.trail.is_on() {
            self.stamps.truncate(end);
            self.stamps.drain(..from);
        }
        self.first += from as u64;
        self.trail.cut();
    }

    /// Removes the elements that `is_wanted` is false for.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&[u8]) -> bool) {
        let (mut bytes, mut stay) = (0, Vec::with_capacity(self.len()));
        self.elements.retain(|element| {
            let stays = is_wanted(element);
            bytes += if stays { element.len() } else { 0 };
            stay.push(stays);
            stays
        });
        self.bytes = bytes;
        let Some(first_gone) = stay.iter().position(|stays| !stays) else { return };
        let gone = stay.len() - self.len();
        let behind_last = stay.iter().rev().take_while(|stays| **stays).count();
        if self.trail.is_on() {
            let mut stay = stay.into_iter();
            self.stamps.retain(|_| stay.next().unwrap_or(true));
        }
        self.trail.cut();
        let before_last = self.len() - behind_last;
        if before_last < self.len() - first_gone {
            self.first += gone as u64;
            self.restate(0..before_last);
        } else {
            self.restate(first_gone..self.len());
        }
    }

    /// Elements have other numbers, or are others.
    fn restate(&mut self, places: Range<usize>) {
        if !self.trail.is_on() {
            return;
        }
        for place in places {
            let name = (self.first + place as u64).to_be_bytes();
            if let Some(stamp) = self.trail.put(&name, &self.elements[place]) {
                self.stamps[place] = stamp;
            }
        }
    }

    /// The numbers of its first element, and of the one behind its last.
    pub(super) fn numbers(&self) -> (u64, u64) {
        (self.first, self.first + self.len() as u64)
    }

    /// Takes down what it has, and from now on what happens to it.
    pub(super) fn begin_trail(&mut self) {
        self.trail.begin(1);
        self.stamps = core::iter::repeat_n(0, self.len()).collect();
        self.restate(0..self.len());
    }

    /// No element has a stamp any more.
    pub(super) fn clear_stamps(&mut self) {
        self.stamps = VecDeque::new();
    }

    /// Goes on from what the log has: the number of the first element, and the stamp of each.
    pub(super) fn resume_trail(&mut self, first: u64, stamps: VecDeque<u64>, next_stamp: u64) {
        (self.first, self.stamps) = (first, stamps);
        self.trail.begin(next_stamp);
    }

    /// The stamp of the element that the log names so.
    pub(super) fn stamp(&self, name: &[u8]) -> Option<u64> {
        let number = u64::from_be_bytes(name.try_into().ok()?);
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.stamps.get(place).copied()
    }

    pub(super) fn shed(&mut self, elements: usize) -> bool {
        self.elements.truncate(self.len().saturating_sub(elements));
        !self.elements.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use farcall_base::SipKey;
    use proptest::prelude::*;

    use super::super::trail::Step;
    use super::*;

    /// What the log makes of the steps of a list.
    fn follow(log: &mut BTreeMap<Vec<u8>, (u64, Vec<u8>)>, list: &mut List) {
        let (steps, is_cut) = list.trail.take();
        for step in steps {
            let Step::Put { stamp, name, value } = step else { panic!("lists are cut") };
            log.insert(name.to_vec(), (stamp, value.to_vec()));
        }
        if is_cut {
            let (first, end) = list.numbers();
            log.retain(|name, _| {
                (first..end).contains(&u64::from_be_bytes(name.as_slice().try_into().expect("eight bytes")))
            });
        }
    }

    proptest! {
        #[test]
        fn steps_lead_to_the_same_list(
            steps in prop::collection::vec((0..8_u8, any::<u8>(), 0..4_u8), 0..200),
        ) {
            let (mut list, mut model, mut log) =
                (List::new(SipKey([1, 2]).prefix(0)), Vec::new(), BTreeMap::new());
            list.begin_trail();
            for (step, at, byte) in steps {
                let place = usize::from(at) % (model.len() + 1);
                let element = vec![byte];
                match step {
                    0..=3 => {
                        list.insert(place, &element);
                        model.insert(place, element);
                    }
                    4 if place < model.len() => {
                        prop_assert_eq!(list.remove(place).map(<[u8]>::into_vec), Some(model.remove(place)));
                    }
                    5 if place < model.len() => {
                        list.set(place, &element);
                        model[place] = element;
                    }
                    6 => {
                        list.retain(|other| *other != *element);
                        model.retain(|other| *other != element);
                    }
                    7 => {
                        let from = place.saturating_sub(2);
                        list.trim(from, place);
                        model = model[from..place].to_vec();
                    }
                    _ => {}
                }
                follow(&mut log, &mut list);
                prop_assert_eq!(list.from(0).map(<[u8]>::to_vec).collect::<Vec<_>>(), model.clone());
                let logged: Vec<_> = log.values().map(|(_, value)| value.clone()).collect();
                prop_assert_eq!(logged, model.clone());
                prop_assert_eq!(list.element_bytes(), model.len());
                for (name, (stamp, _)) in &log {
                    prop_assert_eq!(list.stamp(name), Some(*stamp));
                }
            }
        }
    }
}
