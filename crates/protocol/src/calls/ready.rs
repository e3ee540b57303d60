//! Which slots have something to send.
//!
//! The queues hold references, not packets: a slot is in each of them once at most, and what it sends is
//! decided when its turn comes. Their lengths are therefore bounded by the slots, and a cancelled call leaves
//! nothing behind but a reference that is skipped.

use std::collections::{BTreeSet, VecDeque};

use super::policy::Policy;
use super::sending::{Cut, Sending};
use super::upkeep::{Control, Upkeep};
use super::window::Window;
use farcall_base::Instant;

/// How many packets of one long message go out before the choice among them is made again.
const BULK_TURN_PACKETS: u32 = 16;

/// The number of queues for messages of one packet.
pub(super) const WHOLE_QUEUES: usize = 4;

/// Whose message a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// A call of ours.
    Caller,
    /// A call to us.
    Server,
}

/// Names a slot among all sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotRef {
    pub session: u16,
    pub slot: u16,
    pub side: Side,
}

/// A long message that waits: the bytes that it had to go when it was queued, its age, and where it is.
type Waiting = (u32, u64, SlotRef);

/// The queues, in the order in which they are served.
#[derive(Debug)]
pub(super) struct Ready {
    control: VecDeque<SlotRef>,
    /// Sessions that have calls to acknowledge.
    acknowledging: VecDeque<u16>,
    /// Sessions whose peers are to be sent cutoffs.
    informing: VecDeque<u16>,
    /// Messages of one packet; in all queues together as many as `whole_waiting`.
    whole: [VecDeque<SlotRef>; WHOLE_QUEUES],
    whole_waiting: usize,
    /// Longer ones of which nothing was sent, with their ages, in that order. Their first pieces come before
    /// others of long messages: a receiver grants to what it knows of. If it learnt of one when all that is
    /// before it was sent, the way from there to here would be empty for a round trip.
    beginnings: VecDeque<(u64, SlotRef)>,
    /// Longer ones, but for those and the one that has its turn.
    bulk: BTreeSet<Waiting>,
    /// The same, by age: peers decide how many there are.
    bulk_by_age: BTreeSet<(u64, u32, SlotRef)>,
    /// Which of the longer ones has its turn, and for how many more packets.
    turn: Option<(SlotRef, u32)>,
    /// References in all of these together, so that a turn without any looks at one word.
    waiting: usize,
    ages: u64,
    /// Sessions of which slots wait for ticks. One that ended meanwhile may be among them.
    pub(super) awake: Vec<u16>,
    /// Sessions of which messages wait for the pace of grants, in the same way.
    pub(super) paced: Vec<u16>,
    /// When the first of them is looked at; [`Instant::NEVER`] without any.
    pub(super) paced_at: Instant,
}

impl Default for Ready {
    fn default() -> Self {
        Self {
            control: VecDeque::new(),
            acknowledging: VecDeque::new(),
            informing: VecDeque::new(),
            whole: core::array::from_fn(|_| VecDeque::new()),
            whole_waiting: 0,
            beginnings: VecDeque::new(),
            bulk: BTreeSet::new(),
            bulk_by_age: BTreeSet::new(),
            turn: None,
            waiting: 0,
            ages: 0,
            awake: Vec::new(),
            paced: Vec::new(),
            paced_at: Instant::NEVER,
        }
    }
}

impl Ready {
    /// Queues a slot because it has control packets to send, if it has any.
    pub(super) fn add_control(&mut self, slot: SlotRef, upkeep: &mut Upkeep, control: Control) {
        upkeep.control.add(control);
        if !upkeep.control_queued && !control.is_empty() {
            upkeep.control_queued = true;
            self.queue_control(slot);
        }
    }

    /// Has a session looked at again when messages of it that wait for the pace of grants may have some.
    #[inline]
    pub(super) fn note_pace(&mut self, session: u16, window: &Window) {
        if let Some(until) = window.paced_until() {
            self.paced_at = self.paced_at.min(until);
            if !self.paced.contains(&session) {
                self.paced.push(session);
            }
        }
    }

    /// Queues a slot that has control packets to send.
    pub(super) fn queue_control(&mut self, slot: SlotRef) {
        self.control.push_back(slot);
        self.waiting += 1;
    }

    /// The next slot that has a control packet to send.
    pub(super) fn pop_control(&mut self) -> Option<SlotRef> {
        let slot = self.control.pop_front()?;
        self.waiting -= 1;
        Some(slot)
    }

    /// Queues a session that has calls to acknowledge.
    pub(super) fn queue_acknowledging(&mut self, session: u16) {
        self.acknowledging.push_back(session);
        self.waiting += 1;
    }

    /// The session whose calls are acknowledged next; it stays until [`Ready::pop_acknowledging`].
    pub(super) fn acknowledging(&self) -> Option<u16> {
        self.acknowledging.front().copied()
    }

    /// The session has no more calls to acknowledge.
    pub(super) fn pop_acknowledging(&mut self) {
        self.waiting -= usize::from(self.acknowledging.pop_front().is_some());
    }

    /// Queues a session whose peer is to be sent cutoffs.
    pub(super) fn queue_informing(&mut self, session: u16) {
        self.informing.push_back(session);
        self.waiting += 1;
    }

    /// The next session whose peer is to be sent cutoffs.
    pub(super) fn pop_informing(&mut self) -> Option<u16> {
        let session = self.informing.pop_front()?;
        self.waiting -= 1;
        Some(session)
    }

    /// Queues a slot because its message of one packet is due.
    #[inline]
    pub(super) fn queue_whole(&mut self, slot: SlotRef, upkeep: &mut Upkeep, queue: usize) {
        if !upkeep.whole_queued {
            upkeep.whole_queued = true;
            self.whole[queue].push_back(slot);
            self.whole_waiting += 1;
            self.waiting += 1;
        }
    }

    /// The next message of one packet.
    #[inline(always)]
    pub(super) fn pop_whole(&mut self) -> Option<SlotRef> {
        self.whole_waiting = self.whole_waiting.checked_sub(1)?;
        self.waiting -= 1;
        self.whole.iter_mut().find_map(VecDeque::pop_front)
    }

    /// The age of a long message that begins to wait now.
    pub(super) fn next_age(&mut self) -> u64 {
        self.ages += 1;
        self.ages
    }

    /// Queues a slot because bytes of its long message may be sent. The choice among all is made again.
    pub(super) fn queue_bulk<B: AsRef<[u8]>>(
        &mut self,
        slot: SlotRef,
        upkeep: &mut Upkeep,
        message: &Sending<B>,
    ) {
        if !upkeep.bulk_queued {
            upkeep.bulk_queued = true;
            self.wait(slot, message.remaining(), message.age);
            if let Some((_, left)) = &mut self.turn {
                *left = 0;
            }
        }
    }

    /// Queues a slot because its long message begins.
    fn queue_beginning(&mut self, slot: SlotRef, upkeep: &mut Upkeep, age: u64) {
        if !upkeep.bulk_queued {
            upkeep.bulk_queued = true;
            self.beginnings.push_back((age, slot));
            self.waiting += 1;
        }
    }

    /// Whether a long message begins.
    pub(super) fn any_begins(&self) -> bool {
        !self.beginnings.is_empty()
    }

    /// Gives one packet to the long message that begins next. Nobody has the turn.
    pub(super) fn start_beginning(&mut self) -> Option<SlotRef> {
        let (_, slot) = self.beginnings.pop_front()?;
        self.turn = Some((slot, 0));
        Some(slot)
    }

    /// Puts a long message among those that wait.
    pub(super) fn wait(&mut self, slot: SlotRef, remaining_bytes: u32, age: u64) {
        self.waiting += usize::from(self.bulk.insert((remaining_bytes, age, slot)));
        self.bulk_by_age.insert((age, remaining_bytes, slot));
    }

    /// The long message whose turn it is still; uses up one packet of the turn.
    pub(super) fn continue_turn(&mut self) -> Option<SlotRef> {
        let (slot, left) = self.turn.as_mut()?;
        *left = left.checked_sub(1)?;
        Some(*slot)
    }

    /// Ends the turn and says whose it was.
    pub(super) fn end_turn(&mut self) -> Option<SlotRef> {
        let (slot, _) = self.turn.take()?;
        self.waiting -= 1;
        Some(slot)
    }

    /// Takes out the waiting message with the fewest bytes to go, as far as is known, and gives it the turn,
    /// which nobody has.
    pub(super) fn start_shortest(&mut self) -> Option<Waiting> {
        let shortest = self.bulk.pop_first()?;
        let (remaining_bytes, age, slot) = shortest;
        self.bulk_by_age.remove(&(age, remaining_bytes, slot));
        self.turn = Some((shortest.2, BULK_TURN_PACKETS - 1));
        Some(shortest)
    }

    /// Takes out the message that waits longest, and gives it one packet. Nobody has the turn.
    pub(super) fn start_oldest(&mut self) -> Option<SlotRef> {
        let is_oldest = |age| self.bulk_by_age.first().is_none_or(|(other, ..)| age < *other);
        if self.beginnings.front().is_some_and(|(age, _)| is_oldest(*age)) {
            return self.start_beginning();
        }
        let (age, remaining_bytes, slot) = self.bulk_by_age.pop_first()?;
        self.bulk.remove(&(remaining_bytes, age, slot));
        self.turn = Some((slot, 0));
        Some(slot)
    }

    /// Whether anything waits.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        self.waiting > 0
    }

    /// Whether nothing waits but messages of one packet.
    #[inline]
    pub(super) fn has_only_whole(&self) -> bool {
        self.waiting == self.whole_waiting
    }

    /// Whether a control packet waits.
    #[inline]
    pub(super) fn has_control(&self) -> bool {
        !(self.control.is_empty() && self.acknowledging.is_empty() && self.informing.is_empty())
    }

    /// Whether a message waits.
    #[inline]
    pub(super) fn has_messages(&self) -> bool {
        self.whole_waiting > 0 || self.has_long()
    }

    /// Whether a long message waits.
    #[inline]
    pub(super) fn has_long(&self) -> bool {
        self.turn.is_some() || !self.bulk.is_empty() || self.any_begins()
    }
}

/// Queues a message that has just been loaded.
#[inline(always)]
pub(super) fn start_sending<B: AsRef<[u8]>, P: Policy>(
    reference: SlotRef,
    message: &mut Sending<B>,
    upkeep: &mut Upkeep,
    cut: &Cut,
    ready: &mut Ready,
) {
    if message.length() <= cut.whole_bytes_max {
        message.whole_due = true;
        ready.queue_whole(reference, upkeep, P::whole_queue(message.length()));
    } else {
        message.start(cut);
        message.age = ready.next_age();
        ready.queue_beginning(reference, upkeep, message.age);
    }
}

/// Queues what a message has to send once more.
pub(super) fn continue_sending<B: AsRef<[u8]>, P: Policy>(
    reference: SlotRef,
    message: &mut Sending<B>,
    upkeep: &mut Upkeep,
    cut: &Cut,
    ready: &mut Ready,
) {
    if message.length() <= cut.whole_bytes_max {
        message.whole_due = true;
        ready.queue_whole(reference, upkeep, P::whole_queue(message.length()));
    } else if message.has_pieces() {
        ready.queue_bulk(reference, upkeep, message);
    }
}
