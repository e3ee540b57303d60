//! Receives that wait for their messages.

use farcall_base::SipKey;

use super::lists::{Firsts, Lists};
use super::pattern::{KINDS, Pattern, Source, Tag};

/// The kind of receives that ask for a source and a tag.
const EXACT: usize = 0;

/// A receive.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    receive: u32,
    /// How many receives from any source or of any tag were posted before it.
    age: u64,
}

/// Receives by what they ask for, in the order in which they were posted.
#[derive(Debug)]
pub struct Posted {
    /// By kind of pattern. The nodes are the low bits of their names.
    lists: [Lists<Waiting>; KINDS],
    /// How many wait that ask for a source and a tag, and how many that do not.
    exact: u32,
    others: u32,
    /// How many that do not were ever posted. Of two receives that ask for both, nobody needs to know which
    /// is older unless it is in the same queue, so that they have no ages of their own.
    ages: u64,
}

/// The receives that ask for one source and a tag, as long as none waits that leaves either open: what they
/// have in common is looked up once.
pub struct ExactReceives<'p> {
    firsts: Firsts<'p, Waiting>,
    source: Source,
    /// How many wait.
    exact: &'p mut u32,
}

/// The place of a receive among all.
#[inline]
fn place_of(receive: u32) -> u32 {
    receive & 0xffff
}

impl Posted {
    pub fn new(secret: SipKey) -> Self {
        Self { lists: core::array::from_fn(|_| Lists::new(secret)), exact: 0, others: 0, ages: 0 }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.exact == 0 && self.others == 0
    }

    pub fn len(&self) -> usize {
        self.exact as usize + self.others as usize
    }

    #[inline(always)]
    pub fn push(&mut self, receive: u32, pattern: Pattern) {
        let (place, kind) = (place_of(receive), pattern.kind());
        debug_assert!(self.find_receive(place).is_none(), "names are different");
        *self.lists[kind].push(pattern.key(), place) = Waiting { receive, age: self.ages };
        if kind == EXACT {
            self.exact += 1;
        } else {
            self.others += 1;
            self.ages += 1;
        }
    }

    /// As [`Posted::push`] of a receive that asks for a source and a tag, where there are a place and a queue
    /// for it; false where there are not, and then nothing has happened.
    #[inline(always)]
    pub fn push_at_once(&mut self, receive: u32, source: Source, tag: Tag) -> bool {
        debug_assert!(self.find_receive(place_of(receive)).is_none(), "names are different");
        let key = Pattern { source: Some(source), tag: Some(tag) }.key();
        let Some(waiting) = self.lists[EXACT].push_current(key, place_of(receive)) else {
            return self.push_elsewhere(receive, key);
        };
        waiting.receive = receive;
        // A place that was never written to says nought.
        if self.ages != 0 {
            waiting.age = self.ages;
        }
        self.exact += 1;
        true
    }

    /// As [`Posted::push_at_once`] where the page of the queue is not current: a tail call, so its caller has
    /// no register to keep.
    #[inline(never)]
    fn push_elsewhere(&mut self, receive: u32, key: u64) -> bool {
        let Some(waiting) = self.lists[EXACT].push_at_once(key, place_of(receive)) else { return false };
        *waiting = Waiting { receive, age: self.ages };
        self.exact += 1;
        true
    }

    /// The oldest receive that wants such a message, and the kind of its pattern. One that asks for a source
    /// and a tag, and is the first of its kinds, is older than another of its age.
    fn find(&mut self, source: Source, tag: Tag) -> Option<(usize, u32)> {
        let patterns = Pattern::of(source, tag);
        let fitting = |(kind, lists): (usize, &mut Lists<Waiting>)| {
            let place = lists.first(patterns[kind].key())?;
            Some((lists.value_mut(place)?.age, kind, place))
        };
        self.lists.iter_mut().enumerate().filter_map(fitting).min().map(|(_, kind, place)| (kind, place))
    }

    /// Whether a receive wants such a message.
    pub fn wants(&self, source: Source, tag: Tag) -> bool {
        let mut kinds = self.lists.iter().zip(Pattern::of(source, tag));
        kinds.any(|(lists, pattern)| lists.first(pattern.key()).is_some())
    }

    /// Takes the oldest receive that wants such a message out.
    #[inline(always)]
    pub fn take(&mut self, source: Source, tag: Tag) -> Option<u32> {
        if self.others > 0 {
            return self.take_oldest(source, tag);
        }
        let exact = Pattern { source: Some(source), tag: Some(tag) };
        let (_, waiting) = self.lists[EXACT].pop(exact.key())?;
        self.exact -= 1;
        Some(waiting.receive)
    }

    /// All receives that want messages of a source, if they ask for it and a tag; `None` if any leaves either
    /// open.
    #[inline(always)]
    pub fn exact_receives(&mut self, source: Source) -> Option<ExactReceives<'_>> {
        let like = Pattern { source: Some(source), tag: Some(Tag(0)) }.key();
        let firsts = self.lists[EXACT].firsts(like);
        (self.others == 0).then_some(ExactReceives { firsts, source, exact: &mut self.exact })
    }

    #[inline(never)]
    fn take_oldest(&mut self, source: Source, tag: Tag) -> Option<u32> {
        let (kind, place) = self.find(source, tag)?;
        self.take_out(kind, place);
        Some(self.lists[kind].value_mut(place)?.receive)
    }

    fn take_out(&mut self, kind: usize, place: u32) {
        self.lists[kind].remove(place);
        *(if kind == EXACT { &mut self.exact } else { &mut self.others }) -= 1;
    }

    /// Takes a receive out. False when it does not wait.
    pub fn remove(&mut self, receive: u32) -> bool {
        let place = place_of(receive);
        let Some((kind, waiting)) = self.find_receive(place) else { return false };
        let is_it = waiting.receive == receive;
        if is_it {
            self.take_out(kind, place);
        }
        is_it
    }

    /// The receive that waits at a place, and the kind of its pattern.
    fn find_receive(&mut self, place: u32) -> Option<(usize, Waiting)> {
        let mut all = self.lists.iter_mut().enumerate();
        let (kind, lists) = all.find(|(_, lists)| lists.has(place))?;
        Some((kind, *lists.value_mut(place)?))
    }

    #[cfg(test)]
    pub fn pages_and_places(&self) -> (usize, usize) {
        self.lists.iter().map(Lists::pages_and_places).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }
}

impl ExactReceives<'_> {
    /// Takes the oldest receive that asks for a tag out. The caller reports in the end how many it took, by
    /// [`ExactReceives::were_taken`].
    #[inline(always)]
    pub fn take(&mut self, tag: Tag) -> Option<u32> {
        let exact = Pattern { source: Some(self.source), tag: Some(tag) };
        let (_, waiting) = self.firsts.pop(exact.key())?;
        Some(waiting.receive)
    }

    /// This many were taken, which do not wait any longer.
    #[inline(always)]
    pub fn were_taken(self, receives: u32) {
        *self.exact -= receives;
    }
}
