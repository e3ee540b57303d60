//! Receives that wait for their messages.

use super::lists::Lists;
use super::pattern::{KINDS, Pattern, Source, Tag};

/// A receive.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    receive: u32,
    /// Whether it waits still.
    waits: bool,
    /// How many receives were posted before it.
    age: u64,
}

impl Waiting {
    #[inline(always)]
    fn begin(&mut self, receive: u32, ages: &mut u64) {
        self.receive = receive;
        self.waits = true;
        self.age = *ages;
        *ages += 1;
    }
}

/// Receives by what they ask for, in the order in which they were posted.
#[derive(Debug)]
pub struct Posted {
    /// By kind of pattern. The nodes are the low bits of their names.
    lists: [Lists<Waiting>; KINDS],
    /// How many wait of each kind.
    waiting: [u32; KINDS],
    ages: u64,
}

/// The place of a receive among all.
#[inline]
fn place_of(receive: u32) -> u32 {
    receive & 0xffff
}

impl Posted {
    pub fn new(seed: u64) -> Self {
        Self { lists: core::array::from_fn(|_| Lists::new(seed)), waiting: [0; KINDS], ages: 0 }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting == [0; KINDS]
    }

    pub fn len(&self) -> usize {
        self.waiting.iter().map(|&waiting| waiting as usize).sum()
    }

    #[inline(always)]
    pub fn push(&mut self, receive: u32, pattern: Pattern) {
        let (place, kind) = (place_of(receive), pattern.kind());
        debug_assert!(self.find_receive(place).is_none(), "names are different");
        self.lists[kind].push(pattern.key(), place).begin(receive, &mut self.ages);
        self.waiting[kind] += 1;
    }

    /// As [`Posted::push`] of a receive that asks for a source and a tag, where that takes no memory; false where it does, and
    /// then nothing has happened.
    #[inline(always)]
    pub fn push_at_once(&mut self, receive: u32, source: Source, tag: Tag) -> bool {
        debug_assert!(self.find_receive(place_of(receive)).is_none(), "names are different");
        let exact = Pattern { source: Some(source), tag: Some(tag) };
        let Some(waiting) = self.lists[0].push_at_once(exact.key(), place_of(receive)) else { return false };
        waiting.begin(receive, &mut self.ages);
        self.waiting[0] += 1;
        true
    }

    /// The oldest receive that wants such a message, and the kind of its pattern.
    fn find(&mut self, source: Source, tag: Tag) -> Option<(usize, u32)> {
        let patterns = Pattern::of(source, tag);
        let fitting = |(kind, lists): (usize, &mut Lists<Waiting>)| {
            let place = lists.first(patterns[kind].key())?;
            Some((lists.value_mut(place)?.age, kind, place))
        };
        self.lists.iter_mut().enumerate().filter_map(fitting).min().map(|(_, kind, place)| (kind, place))
    }

    /// Takes the oldest receive that wants such a message out.
    #[inline(always)]
    pub fn take(&mut self, source: Source, tag: Tag) -> Option<u32> {
        if self.waiting[1..] != [0; KINDS - 1] {
            return self.take_oldest(source, tag);
        }
        let exact = Pattern { source: Some(source), tag: Some(tag) };
        let (_, waiting) = self.lists[0].pop(exact.key())?;
        self.waiting[0] -= 1;
        waiting.waits = false;
        Some(waiting.receive)
    }

    #[inline(never)]
    fn take_oldest(&mut self, source: Source, tag: Tag) -> Option<u32> {
        let (kind, place) = self.find(source, tag)?;
        self.lists[kind].remove(place);
        self.waiting[kind] -= 1;
        let waiting = self.lists[kind].value_mut(place)?;
        waiting.waits = false;
        Some(waiting.receive)
    }

    /// Takes a receive out. False when it does not wait.
    pub fn remove(&mut self, receive: u32) -> bool {
        let place = place_of(receive);
        let Some((kind, waiting)) = self.find_receive(place) else { return false };
        let is_it = waiting.receive == receive;
        if is_it {
            waiting.waits = false;
            self.waiting[kind] -= 1;
            self.lists[kind].remove(place);
        }
        is_it
    }

    /// The receive that waits at a place, and the kind of its pattern.
    fn find_receive(&mut self, place: u32) -> Option<(usize, &mut Waiting)> {
        let all = self.lists.iter_mut().enumerate();
        let mut at_place = all.filter_map(|(kind, lists)| Some((kind, lists.value_mut(place)?)));
        at_place.find(|(_, waiting)| waiting.waits)
    }

    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.lists.iter().map(Lists::places).sum()
    }
}
