//! Long messages on their way in, in the order in which they deserve grants.
//!
//! First comes the message with the fewest bytes still to be granted, but each sender counts with one message
//! only, its shortest: a link carries one at a time, and permission that is not used is lost (Montazeri et
//! al., SIGCOMM 2018, §3.5). A sender is the identity at the other end of a session and not a hash of its
//! address, and two sessions with the same peer are one sender.

use std::collections::{BTreeMap, BTreeSet};

use crate::calls::{Side, SlotRef};
use farcall_base::Identity;

/// Bytes still to be granted, age, and where the message arrives.
type Rank = (u32, u64, SlotRef);

/// A message of which not everything is here.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    sender: Identity,
    /// The higher, the later it began.
    age: u64,
    ungranted: u32,
    /// Granted bytes that are not here.
    outstanding: u32,
}

/// What one sender has on its way.
#[derive(Debug, Default)]
struct Sender {
    /// The messages that wait for grants, the shortest first.
    waiting: BTreeSet<Rank>,
    outstanding_bytes: u64,
    /// With no more than this it counts in the sum of all: it cannot send more in a round trip, and must not
    /// be able to keep grants from others by what it begins and does not go on with.
    counted_bytes_max: u64,
}

impl Sender {
    fn counted_bytes(&self) -> u64 {
        self.outstanding_bytes.min(self.counted_bytes_max)
    }
}

/// The messages that arrive, over all sessions.
#[derive(Debug, Default)]
pub(super) struct ArrivingMessages {
    messages: BTreeMap<SlotRef, Arriving>,
    senders: BTreeMap<Identity, Sender>,
    /// The first of every sender.
    heads: BTreeSet<Rank>,
    /// All that wait for grants, the oldest first.
    by_age: BTreeSet<(u64, SlotRef)>,
    /// The sum over all senders.
    outstanding_bytes: u64,
    ages: u64,
}

impl ArrivingMessages {
    /// Writes down how a message stands, which may be a new one. Its sender counts with `counted_max` bytes
    /// at most in the sum of all that is outstanding.
    pub(super) fn update(
        &mut self,
        slot: SlotRef,
        sender: Identity,
        ungranted: u32,
        outstanding: u32,
        counted_max: u32,
    ) {
        let entry = self.senders.entry(sender).or_default();
        self.outstanding_bytes -= entry.counted_bytes();
        entry.counted_bytes_max = u64::from(counted_max);
        self.outstanding_bytes += entry.counted_bytes();
        let before = self.messages.get(&slot).copied();
        let age = before.map_or_else(
            || {
                self.ages += 1;
                self.ages
            },
            |message| message.age,
        );
        let message = Arriving { sender, age, ungranted, outstanding };
        self.messages.insert(slot, message);
        let nothing = Arriving { ungranted: 0, outstanding: 0, ..message };
        self.follow(slot, &before.unwrap_or(nothing), &message);
    }

    /// Forgets a message that is complete, given up, or stuck. Nothing happens when it is not known.
    pub(super) fn remove(&mut self, slot: SlotRef) {
        if let Some(message) = self.messages.remove(&slot) {
            self.follow(slot, &message, &Arriving { ungranted: 0, outstanding: 0, ..message });
        }
    }

    /// Forgets all messages of a session.
    pub(super) fn remove_session(&mut self, session: u16) {
        let first = SlotRef { session, slot: 0, side: Side::Caller };
        let last = SlotRef { session, slot: u16::MAX, side: Side::Server };
        let slots: Vec<SlotRef> = self.messages.range(first..=last).map(|(slot, _)| *slot).collect();
        slots.into_iter().for_each(|slot| self.remove(slot));
    }

    /// The first `count` messages that wait for grants, each of another sender.
    pub(super) fn first(&self, count: u16) -> impl Iterator<Item = SlotRef> {
        self.heads.iter().take(usize::from(count)).map(|(_, _, slot)| *slot)
    }

    /// The oldest message that waits for grants.
    pub(super) fn oldest(&self) -> Option<SlotRef> {
        self.by_age.first().map(|(_, slot)| *slot)
    }

    /// Whether a message waits for grants.
    pub(super) fn waits(&self, slot: SlotRef) -> bool {
        self.messages.get(&slot).is_some_and(|message| message.ungranted > 0)
    }

    /// Whether any message waits for grants.
    #[inline]
    pub(super) fn any_waits(&self) -> bool {
        !self.heads.is_empty()
    }

    /// All bytes that senders may send, as far as they are not here.
    pub(super) fn outstanding_bytes(&self) -> u64 {
        self.outstanding_bytes
    }

    /// What the sender of a message may send, of all its messages, as far as it is not here.
    pub(super) fn outstanding_of_sender(&self, slot: SlotRef) -> u64 {
        let sender = self.messages.get(&slot).and_then(|message| self.senders.get(&message.sender));
        sender.map_or(0, |sender| sender.outstanding_bytes)
    }

    /// Every message that is known, with its bytes to be granted, and those granted and not here.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SlotRef, u32, u32)> {
        self.messages.iter().map(|(slot, message)| (*slot, message.ungranted, message.outstanding))
    }

    /// Draws the consequences of a message's change from `before` to `after` for its sender and its place.
    fn follow(&mut self, slot: SlotRef, before: &Arriving, after: &Arriving) {
        let sender = self.senders.entry(after.sender).or_default();
        self.outstanding_bytes -= sender.counted_bytes();
        sender.outstanding_bytes += u64::from(after.outstanding);
        sender.outstanding_bytes -= u64::from(before.outstanding);
        self.outstanding_bytes += sender.counted_bytes();
        let head_before = sender.waiting.first().copied();
        if before.ungranted != after.ungranted {
            sender.waiting.remove(&(before.ungranted, before.age, slot));
            self.by_age.remove(&(before.age, slot));
            if after.ungranted > 0 {
                sender.waiting.insert((after.ungranted, after.age, slot));
                self.by_age.insert((after.age, slot));
            }
        }
        let head = sender.waiting.first().copied();
        if head.is_none() && sender.outstanding_bytes == 0 {
            self.senders.remove(&after.sender);
        }
        if head != head_before {
            head_before.inspect(|rank| {
                self.heads.remove(rank);
            });
            self.heads.extend(head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Side;

    fn slot(session: u16, slot: u16) -> SlotRef {
        SlotRef { session, slot, side: Side::Server }
    }

    fn sender(rank: u32) -> Identity {
        Identity { incarnation: 1, rank, endpoint: 0 }
    }

    #[test]
    fn every_sender_counts_with_its_shortest_message_only() {
        let mut arriving = ArrivingMessages::default();
        for (at, from, bytes) in [(0, 7, 500), (1, 7, 100), (2, 8, 300), (3, 9, 400), (4, 8, 900)] {
            arriving.update(slot(at, 0), sender(from), bytes, 0, 1000);
        }
        let first: Vec<u16> = arriving.first(8).map(|slot| slot.session).collect();
        assert_eq!(first, [1, 2, 3]);
        arriving.remove(slot(1, 0));
        let first: Vec<u16> = arriving.first(2).map(|slot| slot.session).collect();
        assert_eq!(first, [2, 3]);
        assert_eq!(arriving.first(8).count(), 3);
    }

    #[test]
    fn senders_that_differ_in_one_bit_are_different_ones() {
        let mut arriving = ArrivingMessages::default();
        let first = Identity { incarnation: 1 << 40, rank: 0, endpoint: 0 };
        let others = (0..64).map(|bit| Identity { incarnation: first.incarnation ^ 1 << bit, ..first });
        let ranks = (0..32).map(|bit| Identity { rank: 1 << bit, ..first });
        let endpoints = (0..32).map(|bit| Identity { endpoint: 1 << bit, ..first });
        let senders: Vec<_> = [first].into_iter().chain(others).chain(ranks).chain(endpoints).collect();
        for (at, from) in senders.iter().enumerate() {
            arriving.update(slot(at as u16, 0), *from, 100, 0, 1000);
        }
        assert_eq!(arriving.first(u16::MAX).count(), 129);
    }

    #[test]
    fn a_sender_counts_with_its_share_however_much_it_begins() {
        let mut arriving = ArrivingMessages::default();
        (0..50).for_each(|at| arriving.update(slot(1, at), sender(1), 10_000, 900, 1000));
        arriving.update(slot(2, 0), sender(2), 10_000, 300, 1000);
        assert_eq!(arriving.outstanding_bytes(), 1300);
        assert_eq!(arriving.outstanding_of_sender(slot(1, 7)), 50 * 900);
        arriving.remove_session(1);
        assert_eq!(arriving.outstanding_bytes(), 300);
    }

    #[test]
    fn what_is_removed_leaves_nothing_behind() {
        let mut arriving = ArrivingMessages::default();
        for at in 0..100 {
            arriving.update(slot(at % 10, at), sender(u32::from(at % 7)), u32::from(at % 5) * 100, 50, 1000);
        }
        arriving.remove_session(3);
        (0..100).for_each(|at| arriving.remove(slot(at % 10, at)));
        assert!(arriving.messages.is_empty() && arriving.senders.is_empty());
        assert!(arriving.heads.is_empty() && arriving.by_age.is_empty());
        assert_eq!(arriving.outstanding_bytes(), 0);
    }
}
