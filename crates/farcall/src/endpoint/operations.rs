//! The operations under way: a slab of slots, each completing exactly once.
//!
//! A slot's number and generation together are the call's number on the wire, so a late answer to an operation that
//! has ended meets another generation and is dropped. A deadline costs an operation a number in a word that it stores anyway: all
//! slots are looked through only when the earliest that any can have has passed. A bare build (`--cfg farcall_bare`) has no
//! deadlines, so that it can be measured what they cost.

mod callbacks;
mod deadlines;
mod ends;
mod messages;
mod readings;
mod results;
mod slot;
mod standing;

use core::time::Duration;

use farcall_base::Instant;
use farcall_transport::{CallId, Copied, SessionId};

use super::callback::ReceivePlaces;
use super::done::Done;
use deadlines::Deadlines;
pub use deadlines::Timeouts;
use readings::Since;
use slot::{Attachment, Slot, Stage};
pub use slot::{Completion, Kind, NO_SESSION};
use standing::Standing;

/// The most operations of one endpoint at a time: the slot's number has 16 bits on the wire.
pub const OPERATIONS_MAX: usize = 1 << 16;

/// How many callbacks of receives can be about to run; a transport hands so many messages on together.
const READY_MAX: usize = 16;

/// No slot is vacant.
const NO_SLOT: u32 = u32::MAX;

/// The slab. In the order in which it is written: what each operation needs lies on one cache line.
#[repr(C, align(64))]
pub struct Operations {
    slots: Vec<Slot>,
    /// The slot that the next operation gets; [`NO_SLOT`] when all are taken.
    first_vacant: u32,
    /// What operations are counted from that begin now: a copy, for its place.
    since: Since,
    /// Operations that were added, by kind.
    added: [u64; 3],
    /// Operations that have ended, by kind.
    ended: [u64; 3],
    /// Those in a stage that is done.
    done: Done,
    /// By slot.
    attachments: Vec<Attachment>,
    /// By slot; apart from what else can be attached, which is many times as long.
    receive_callbacks: ReceivePlaces,
    /// Memory that takes the place of callbacks that run.
    spare_places: ReceivePlaces,
    /// By slot: messages for futures that were copied.
    copies: Vec<Option<Copied>>,
    deadlines: Deadlines,
    /// Of all kinds, at the last reading of the clock.
    added_before: u64,
}

impl Operations {
    pub fn new(done: Done, timeouts: Timeouts, now: Instant) -> Self {
        let deadlines = Deadlines::new(timeouts, now);
        Self {
            slots: Vec::new(),
            first_vacant: NO_SLOT,
            since: deadlines.since(),
            added: [0; 3],
            ended: [0; 3],
            done,
            attachments: Vec::new(),
            receive_callbacks: Vec::new(),
            spare_places: (0..READY_MAX).map(|_| Box::default()).collect(),
            copies: Vec::new(),
            deadlines,
            added_before: 0,
        }
    }

    /// Operations of a kind that have not completed.
    #[inline]
    pub fn under_way(&self, kind: Kind) -> usize {
        (self.added[kind as usize] - self.ended[kind as usize]) as usize
    }

    /// How many operations of a kind there were.
    #[inline]
    pub fn added(&self, kind: Kind) -> u64 {
        self.added[kind as usize]
    }

    #[inline(always)]
    fn note_ends(&mut self, kind: Kind, operations: usize) {
        self.ended[kind as usize] += operations as u64;
    }

    /// Adds a call that becomes an event; `None` when the slab is full.
    #[inline(always)]
    pub fn add_event(&mut self, session: SessionId, timeout: Option<Duration>, token: u64) -> Option<CallId> {
        let (_, slot) = self.occupy((Kind::Call, Stage::PendingEvent), session, timeout)?;
        slot.token = token;
        Some(slot.id)
    }

    /// Adds a call with a callback or for a future; `None` when the slab is full.
    #[inline]
    pub fn add(
        &mut self,
        session: SessionId,
        timeout: Option<Duration>,
        completion: Completion,
    ) -> Option<CallId> {
        let (index, _) = self.occupy((Kind::Call, Stage::Pending), session, timeout)?;
        Some(self.attach(index, completion))
    }

    /// Says how an operation that was just added completes, of which it is known only that it is pending.
    #[inline]
    fn attach(&mut self, index: u16, completion: Completion) -> CallId {
        let slot = &mut self.slots[usize::from(index)];
        match completion {
            Completion::Event(token) => {
                slot.set_stage(Stage::PendingEvent);
                slot.token = token;
            }
            Completion::Future(None) => slot.set_stage(Stage::PendingFuture),
            other => {
                self.attachments[usize::from(index)] = Attachment::Completion(other);
            }
        }
        slot.id
    }

    #[inline(always)]
    fn occupy(
        &mut self,
        (kind, stage): (Kind, Stage),
        session: SessionId,
        timeout: Option<Duration>,
    ) -> Option<(u16, &mut Slot)> {
        if self.first_vacant == NO_SLOT {
            self.grow()?;
        }
        Some(self.occupy_vacant((kind, stage), session, timeout))
    }

    /// As [`Operations::occupy`] where a slot is vacant.
    #[inline(always)]
    fn occupy_vacant(
        &mut self,
        (kind, stage): (Kind, Stage),
        session: SessionId,
        timeout: Option<Duration>,
    ) -> (u16, &mut Slot) {
        let index = self.first_vacant as u16;
        self.added[kind as usize] += 1;
        let slot = &mut self.slots[usize::from(index)];
        self.first_vacant = slot.number;
        slot.standing =
            Standing::new(stage, kind, if cfg!(farcall_bare) { Since::SETTLED } else { self.since });
        slot.session = session;
        if let Some(timeout) = timeout {
            self.deadlines.give_own(slot, timeout);
        }
        (index, slot)
    }

    /// Adds a slot, which is vacant.
    #[cold]
    fn grow(&mut self) -> Option<()> {
        let index = u16::try_from(self.slots.len()).ok()?;
        self.slots.push(Slot::vacant(index, self.first_vacant));
        self.attachments.push(Attachment::Nothing);
        self.receive_callbacks.push(Box::default());
        self.copies.push(None);
        self.first_vacant = u32::from(index);
        Some(())
    }

    fn take_attachment(&mut self, index: u16) -> Attachment {
        core::mem::replace(&mut self.attachments[usize::from(index)], Attachment::Nothing)
    }

    #[inline]
    fn slot_mut(&mut self, call: CallId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(usize::from(call.0 as u16))?;
        (slot.id == call).then_some(slot)
    }
}
