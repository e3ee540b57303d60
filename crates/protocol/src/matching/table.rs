//! From the key of a queue to its two ends.
//!
//! Most programs number their tags from nought, so that most keys have neighbours. A family of neighbours of
//! which several are in use, or one again and again, has its queues side by side, in a [`Page`]: they are
//! found by a subtraction, without a hash, and a poll that takes the messages of a thousand tags looks at a
//! hundred lines for them. Sparse keys are [`Hashed`].
//!
//! The page of the family that was asked for last is the current one; there is a small number of others.

use farcall_base::SipKey;

use super::ends::Ends;
use super::hashed::Hashed;
use super::page::{FAMILY, Open, Page};

/// The most pages, of 8 KB each.
const PAGES_MAX: usize = 8;

/// A family has a page when this many of its keys got a queue one after the other.
const KEYS_OF_A_PAGE: u32 = 4;

/// Or when its hashed queues were asked for this many times, and no others between.
const TIMES_OF_A_PAGE: u32 = 64;

/// The ends of all queues.
#[derive(Debug)]
pub struct Table {
    /// The current one.
    page: Page,
    others: Others,
}

/// All queues, to take nodes out.
pub struct Queues<'t> {
    page: Open<'t>,
    others: &'t mut Others,
}

/// Queues that take longer to find.
#[derive(Debug)]
struct Others {
    pages: Vec<Page>,
    hashed: Hashed,
    /// The family of the key that got a queue last, and how many of its keys got one without another's
    /// between them.
    last_taken: (u64, u32),
    /// The family of the hashed key that was asked for last, and how many times one of it was without
    /// another's between them.
    last_asked: (u64, u32),
    /// How many keys got one since a page changed its family.
    taken_since: u64,
}

impl Table {
    /// A table without queues.
    pub fn new(secret: SipKey) -> Self {
        let hashed = Hashed::new(secret);
        let others =
            Others { pages: Vec::new(), hashed, last_taken: (0, 0), last_asked: (0, 0), taken_since: 0 };
        Self { page: Page::default(), others }
    }

    /// The queue of `key`, if it is in the current page.
    #[inline(always)]
    pub fn current(&mut self, key: u64) -> Option<&mut Ends> {
        self.page.get_mut(key)
    }

    /// The queue of `key` if it has one, to put nodes in; its page is the current one from now on.
    pub fn taken(&mut self, key: u64) -> Option<&mut Ends> {
        let is_in = |page: &Page| page.get(key).is_some();
        if is_in(&self.page) || self.turn_to(is_in) {
            return self.current(key);
        }
        if self.others.is_asked_for_often(key / FAMILY) && self.open_page(key / FAMILY) {
            return self.current(key);
        }
        self.others.hashed.taken(key)
    }

    /// The queue of `key`, to take nodes out. That of a key which has none is without nodes.
    #[inline(always)]
    pub fn queue(&mut self, key: u64) -> &mut Ends {
        match self.page.get_mut(key) {
            Some(queue) => queue,
            None => self.others.queue(key),
        }
    }

    /// All queues, to take nodes out of several; most of their keys have the upper half of this one.
    #[inline(always)]
    pub fn queues(&mut self, like: u64) -> Queues<'_> {
        if !self.page.has_upper_half_of(like) {
            self.turn_to(|page| page.has_upper_half_of(like));
        }
        Queues { page: self.page.open(), others: &mut self.others }
    }

    /// Makes a page current for which that is so, if there is one.
    #[inline(never)]
    fn turn_to(&mut self, is_it: impl Fn(&Page) -> bool) -> bool {
        let found = self.others.pages.iter_mut().find(|page| is_it(page));
        found.map(|page| core::mem::swap(page, &mut self.page)).is_some()
    }

    /// The first node of the queue of `key`, or none.
    #[inline]
    pub fn first(&self, key: u64) -> u32 {
        let mut pages = [&self.page].into_iter().chain(&self.others.pages);
        let queue = pages.find_map(|page| page.get(key));
        queue.map_or_else(|| self.others.hashed.first(key), |queue| queue.first)
    }

    /// Gives `key`, which has none, a queue.
    pub fn take(&mut self, key: u64) {
        let family = key / FAMILY;
        let (last, keys) = self.others.last_taken;
        let keys = if family == last { keys + 1 } else { 1 };
        self.others.last_taken = (family, keys);
        self.others.taken_since += 1;
        if keys < KEYS_OF_A_PAGE || !self.open_page(family) {
            self.others.hashed.take(key);
        }
    }

    /// Makes the page of that family current; false when all are in use.
    fn open_page(&mut self, family: u64) -> bool {
        if !self.page.is_blank() {
            let Some(other) = self.others.vacant_page() else { return false };
            self.others.pages.push(core::mem::replace(&mut self.page, other));
        }
        let Self { page, others } = self;
        page.turn_to(family);
        others.hashed.take_out(family, |key, queue| *page.get_mut(key).expect("it is of the family") = queue);
        true
    }

    /// How many pages there are, and how many places for hashed queues.
    #[cfg(test)]
    pub fn pages_and_places(&self) -> (usize, usize) {
        let current = usize::from(!self.page.is_blank());
        (current + self.others.pages.len(), self.others.hashed.places())
    }
}

impl Queues<'_> {
    /// The queue of `key`. That of a key which has none is without nodes.
    #[inline(always)]
    pub fn of(&mut self, key: u64) -> &mut Ends {
        match self.page.get_mut(key) {
            Some(queue) => queue,
            None => self.others.queue(key),
        }
    }
}

impl Others {
    /// A page, not the current one, that nothing uses: a blank one as long as there may be more, or else one
    /// whose queues are all without nodes. That is cleared, and so it happens as seldom as it takes to pay
    /// for it.
    fn vacant_page(&mut self) -> Option<Page> {
        if self.pages.len() + 1 < PAGES_MAX {
            return Some(Page::default());
        }
        if self.taken_since < FAMILY {
            return None;
        }
        self.taken_since = 0;
        let idle = self.pages.iter().position(Page::is_idle)?;
        Some(self.pages.swap_remove(idle))
    }

    /// Notes that a hashed queue of that family is asked for; says whether it is time for a page.
    fn is_asked_for_often(&mut self, family: u64) -> bool {
        let (last, times) = self.last_asked;
        let times = if family == last { times % TIMES_OF_A_PAGE + 1 } else { 1 };
        self.last_asked = (family, times);
        times == TIMES_OF_A_PAGE
    }

    #[inline(never)]
    fn queue(&mut self, key: u64) -> &mut Ends {
        let mut queues = self.pages.iter_mut().filter_map(|page| page.get_mut(key));
        queues.next().unwrap_or_else(|| self.hashed.queue(key))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::ends::{NONE, VACANT};
    use super::*;

    /// Keys of twice as many families as there are pages, dense and sparse.
    fn key() -> impl Strategy<Value = u64> {
        let families = 2 * PAGES_MAX as u64;
        (0..families, prop_oneof![0..8_u64, 0..FAMILY])
            .prop_map(|(family, neighbour)| (family % 5) << 32 | (family / 5 * FAMILY + neighbour))
    }

    proptest! {
        /// A queue of one node, which is its number, for each key that has one; the others' are without
        /// nodes.
        #[test]
        fn every_queue_is_found_whatever_has_a_page(
            seed: u64,
            steps in prop::collection::vec((key(), any::<bool>(), any::<bool>()), 0..4000),
        ) {
            let (mut table, mut model) = (Table::new(SipKey([seed, 0])), BTreeMap::new());
            for (node, (key, puts, one_of_many)) in (0..).zip(steps) {
                if puts {
                    if table.taken(key).is_none() {
                        prop_assert!(!model.contains_key(&key), "a queue with nodes is lost");
                        table.take(key);
                    }
                    table.taken(key).expect("it was given one").first = node;
                    model.insert(key, node);
                } else {
                    let like = if one_of_many { key } else { key ^ 1 << 32 };
                    let mut queues = table.queues(like);
                    let queue = queues.of(key);
                    prop_assert_eq!(queue.has_nodes().then_some(queue.first), model.remove(&key));
                    if queue.has_nodes() {
                        queue.first = NONE;
                    }
                }
                prop_assert_eq!(table.first(key).min(VACANT), *model.get(&key).unwrap_or(&VACANT));
            }
            for (&key, &node) in &model {
                prop_assert_eq!((table.first(key), table.queue(key).first), (node, node));
            }
        }
    }

    #[test]
    fn neighbours_have_a_page_and_single_keys_have_none() {
        let mut table = Table::new(SipKey([1, 0]));
        (0..100).for_each(|source| table.take(source << 32));
        assert!(table.page.is_blank() && table.others.pages.is_empty());
        (5..9).for_each(|tag| table.take(7 << 32 | tag));
        assert!([0, 9, FAMILY - 1].iter().all(|tag| table.current(7 << 32 | tag).is_some()));
        assert!(table.current(7 << 32 | FAMILY).is_none() && table.current(6 << 32).is_none());
    }

    #[test]
    fn a_single_key_that_is_asked_for_again_and_again_gets_a_page() {
        let mut table = Table::new(SipKey([1, 0]));
        (0..2).for_each(|source| table.take(source << 32));
        for time in 1..2 * TIMES_OF_A_PAGE {
            (0..2).for_each(|source| table.taken(source << 32).expect("it has a queue").first = time);
        }
        assert!(table.page.is_blank(), "two families in alternation have none");
        // The last of these turns was the first time.
        for time in 2..=TIMES_OF_A_PAGE {
            assert!(table.current(1 << 32).is_none(), "asked for {time} times");
            table.taken(1 << 32).expect("it has a queue").first = time;
        }
        assert_eq!(table.current(1 << 32).expect("it has a page").first, TIMES_OF_A_PAGE);
        assert_eq!(table.queue(0).first, 2 * TIMES_OF_A_PAGE - 1);
    }

    #[test]
    fn a_page_goes_to_another_family_when_nobody_uses_it() {
        let mut table = Table::new(SipKey([1, 0]));
        let take = |table: &mut Table, family: u64| {
            (0..4).for_each(|neighbour| table.take(family * FAMILY + neighbour));
            table.page.get(family * FAMILY).is_some()
        };
        let pages = PAGES_MAX as u64;
        assert!((0..pages).all(|family| take(&mut table, family)));
        assert!(!take(&mut table, pages), "too soon: all have been given away just now");
        (0..FAMILY).for_each(|family| table.take((100 + family) * FAMILY));
        (0..pages).for_each(|family| table.queue(family * FAMILY).first = 1);
        assert!(!take(&mut table, pages + 1), "all are in use");
        (0..FAMILY).for_each(|family| table.take((2000 + family) * FAMILY));
        table.queue(3 * FAMILY).first = NONE;
        assert!(take(&mut table, pages + 2));
        assert_eq!(table.first(4 * FAMILY), 1);
    }
}
