//! Receives that wait for their messages.

use super::lists::Lists;
use super::pattern::{KINDS, Pattern, Source, Tag};

/// A receive that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    receive: u32,
    /// Of which kind its pattern is; [`KINDS`] when nothing waits here.
    kind: u8,
    /// How many receives were posted before it.
    age: u64,
}

const NOBODY: Waiting = Waiting { receive: 0, kind: KINDS as u8, age: 0 };

/// Receives by what they ask for, in the order in which they were posted.
#[derive(Debug)]
pub struct Posted {
    lists: [Lists; KINDS],
    /// How many wait of each kind.
    waiting: [u32; KINDS],
    /// How many wait of all kinds, and of those that leave something open.
    waiting_all: u32,
    waiting_open: u32,
    /// By the low bits of their names.
    receives: Vec<Waiting>,
    ages: u64,
}

/// The place of a receive among all.
#[inline]
fn place_of(receive: u32) -> usize {
    receive as usize & 0xffff
}

impl Posted {
    pub fn new(seed: u64) -> Self {
        let lists = core::array::from_fn(|_| Lists::new(seed));
        Self { lists, waiting: [0; KINDS], waiting_all: 0, waiting_open: 0, receives: Vec::new(), ages: 0 }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting_all == 0
    }

    pub fn len(&self) -> usize {
        self.waiting_all as usize
    }

    #[inline]
    pub fn push(&mut self, receive: u32, pattern: Pattern) {
        let (place, kind) = (place_of(receive), pattern.kind());
        if self.receives.len() <= place {
            self.receives.resize(place + 1, NOBODY);
        }
        let waiting = &mut self.receives[place];
        debug_assert_eq!(waiting.kind, NOBODY.kind, "names are different");
        waiting.receive = receive;
        waiting.kind = kind as u8;
        waiting.age = self.ages;
        self.ages += 1;
        self.waiting[kind] += 1;
        self.waiting_all += 1;
        self.waiting_open += u32::from(kind > 0);
        self.lists[kind].push(pattern.key(), place as u32);
    }

    /// The oldest receive that wants such a message, and the kind of its pattern.
    #[inline]
    fn find(&self, source: Source, tag: Tag) -> Option<(usize, u32)> {
        let patterns = Pattern::of(source, tag);
        let fitting = |kind: usize| {
            let place = self.lists[kind].first(patterns[kind].key())?;
            Some((self.receives[place as usize].age, kind, place))
        };
        let kinds = (0..KINDS).filter(|&kind| self.waiting[kind] > 0);
        kinds.filter_map(fitting).min().map(|(_, kind, place)| (kind, place))
    }

    /// Takes the oldest receive that wants such a message out.
    #[inline]
    pub fn take(&mut self, source: Source, tag: Tag) -> Option<u32> {
        let (kind, place) = if self.waiting_open == 0 {
            let exact = Pattern { source: Some(source), tag: Some(tag) };
            (0, self.lists[0].pop(exact.key())?)
        } else {
            let (kind, place) = self.find(source, tag)?;
            self.lists[kind].remove(place);
            (kind, place)
        };
        self.uncount(kind);
        let waiting = &mut self.receives[place as usize];
        waiting.kind = NOBODY.kind;
        Some(waiting.receive)
    }

    /// Takes a receive out. False when it does not wait.
    pub fn remove(&mut self, receive: u32) -> bool {
        let place = place_of(receive);
        let Some(waiting) = self.receives.get_mut(place) else { return false };
        let kind = usize::from(waiting.kind);
        if kind == KINDS || waiting.receive != receive {
            return false;
        }
        *waiting = NOBODY;
        self.uncount(kind);
        self.lists[kind].remove(place as u32);
        true
    }

    #[inline]
    fn uncount(&mut self, kind: usize) {
        self.waiting[kind] -= 1;
        self.waiting_all -= 1;
        self.waiting_open -= u32::from(kind > 0);
    }

    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.lists.iter().map(Lists::places).sum()
    }
}
