//! The operations in flight: a slab of slots, each completing exactly once.
//!
//! A slot's number and generation together are the number of the operation on the wire, so a late response to
//! an operation that has ended meets another generation and is dropped. How operations begin and what is
//! known of them is here, how they leave the slab in `ends`.

mod deadlines;
mod ends;
mod slot;

use core::time::Duration;

use farcall_base::Instant;
use farcall_transport::{CallId, Copied, Service, SessionId};

use super::completion::{Callback, Completes, OfCall, OfReceive, OfSend, ReceivePlaces, Taker};
use super::future::Done;
use deadlines::Deadlines;
pub use deadlines::Timeouts;
pub use slot::{Attachment, Kind, NO_SESSION, Slot, Stage};

/// The most operations of one endpoint at a time: the slot's number has 16 bits on the wire.
pub const OPERATIONS_MAX: usize = 1 << 16;

/// How many callbacks of receives can be about to run: as many messages as a transport delivers together.
const READY_MAX: usize = 16;

/// No slot is vacant.
const NO_SLOT: u32 = u32::MAX;

/// The slab. In the order in which it is written: what each operation needs lies together.
#[repr(C, align(64))]
pub struct Slab {
    slots: Vec<Slot>,
    /// The slot that the next operation gets; [`NO_SLOT`] when all are taken.
    first_vacant: u32,
    /// Operations that were added, by kind.
    added: [u64; 3],
    /// Operations that have ended, by kind.
    ended: [u64; 3],
    /// Operations that were added when the clock was last read, by kind.
    added_when_read: [u64; 3],
    deadlines: Deadlines,
    /// Those in a stage that is done.
    done: Done,
    /// By slot.
    attachments: Vec<Attachment>,
    /// By slot; apart from what else can be attached, which is many times as long.
    receive_callbacks: ReceivePlaces,
    /// Memory that takes the place of callbacks that run.
    spare_places: ReceivePlaces,
    /// By slot: messages and answers for futures that were copied.
    copies: Vec<Option<Copied>>,
}

impl Slab {
    /// No operation is in flight.
    pub fn new(done: Done, timeouts: Timeouts) -> Self {
        Self {
            slots: Vec::new(),
            first_vacant: NO_SLOT,
            added: [0; 3],
            added_when_read: [0; 3],
            deadlines: Deadlines::new(timeouts),
            ended: [0; 3],
            done,
            attachments: Vec::new(),
            receive_callbacks: Vec::new(),
            spare_places: (0..READY_MAX).map(|_| Box::default()).collect(),
            copies: Vec::new(),
        }
    }

    /// Operations of a kind that have not completed.
    #[inline]
    pub fn in_flight(&self, kind: Kind) -> usize {
        (self.added[kind as usize] - self.ended[kind as usize]) as usize
    }

    /// How many operations of a kind there were.
    #[inline]
    pub fn added(&self, kind: Kind) -> u64 {
        self.added[kind as usize]
    }

    /// Whether operations were added since the last reading of the clock.
    #[inline]
    pub fn were_added(&self) -> bool {
        self.added != self.added_when_read
    }

    /// The clock was read: the time of operations that were added since the last reading counts from now.
    #[inline]
    pub fn clock_was_read(&mut self, now: Instant) {
        if self.were_added() {
            self.added_when_read = self.added;
            self.deadlines.count_from(now);
        }
    }

    /// No deadline is earlier than this, but for those of operations that were added since the last reading
    /// of the clock.
    #[inline]
    pub fn earliest_deadline(&self) -> Instant {
        self.deadlines.earliest()
    }

    /// The operations whose deadline has passed.
    pub fn expired(&mut self, now: Instant) -> Vec<CallId> {
        self.deadlines.expired(&self.slots, now)
    }

    /// The operations of a session.
    pub fn of_session(&self, session: SessionId) -> Vec<CallId> {
        let pending = self.slots.iter().filter(|slot| slot.is_pending() && slot.session == session);
        pending.map(|slot| slot.id).collect()
    }

    /// The session and the service of a call that has not completed.
    pub fn pending_call(&self) -> Option<(SessionId, u16)> {
        let pending = self.slots.iter().find(|slot| slot.kind == Kind::Call && slot.is_pending());
        pending.map(|slot| (slot.session, slot.service))
    }

    /// The number that the next operation will have; `None` when the slab is full.
    #[inline]
    pub fn next_id(&mut self) -> Option<CallId> {
        // No slot has the number that stands for none: one comparison.
        match self.slots.get(self.first_vacant as usize) {
            Some(slot) => Some(slot.id),
            None => self.grow().map(|()| self.slots[self.first_vacant as usize].id),
        }
    }

    /// Adds a call; `None` when the slab is full.
    #[inline]
    pub fn add_call(
        &mut self,
        session: SessionId,
        timeout: Option<Duration>,
        service: Service,
        taker: impl Taker<OfCall>,
    ) -> Option<CallId> {
        self.add(session, timeout, taker, |slot| slot.service = service.0)
    }

    /// Adds a send of this many parts; `None` when the slab is full.
    pub fn add_send(
        &mut self,
        timeout: Option<Duration>,
        parts: u32,
        taker: impl Taker<OfSend>,
    ) -> Option<CallId> {
        self.add(NO_SESSION, timeout, taker, |slot| slot.parts = parts)
    }

    /// Adds a receive of at most this many bytes; `None` when the slab is full. One with a callback is better
    /// added by [`Slab::add_receive_callback`].
    #[inline]
    pub fn add_receive(
        &mut self,
        session: SessionId,
        timeout: Option<Duration>,
        bytes_max: u32,
        taker: impl Taker<OfReceive>,
    ) -> Option<CallId> {
        self.add(session, timeout, taker, |slot| slot.bytes_max = bytes_max)
    }

    /// Adds a receive with a callback that is made where it stays, of at most this many bytes. A slot is
    /// vacant: see [`Slab::next_id`], which is its number.
    #[inline]
    pub fn add_receive_callback(
        &mut self,
        session: SessionId,
        timeout: Option<Duration>,
        bytes_max: u32,
        callback: impl FnOnce() -> Callback<OfReceive>,
    ) {
        let stage = Stage::PendingReceiveCallback;
        let (index, slot) = self.occupy_vacant((Kind::Receive, stage), session, timeout);
        slot.bytes_max = bytes_max;
        self.receive_callbacks[usize::from(index)].put(callback);
    }

    #[inline(always)]
    fn add<O: Completes>(
        &mut self,
        session: SessionId,
        timeout: Option<Duration>,
        taker: impl Taker<O>,
        describe: impl FnOnce(&mut Slot),
    ) -> Option<CallId> {
        if self.first_vacant == NO_SLOT {
            self.grow()?;
        }
        let (index, slot) = self.occupy_vacant((O::KIND, taker.stage()), session, timeout);
        describe(slot);
        let id = slot.id;
        if let Some(attachment) = taker.occupy(slot) {
            self.attachments[usize::from(index)] = attachment;
        }
        Some(id)
    }

    /// The slot that is vacant first begins an operation.
    #[inline(always)]
    fn occupy_vacant(
        &mut self,
        (kind, stage): (Kind, Stage),
        session: SessionId,
        timeout: Option<Duration>,
    ) -> (u16, &mut Slot) {
        let index = self.first_vacant as u16;
        self.added[kind as usize] += 1;
        self.deadlines.begin(index, kind, timeout);
        let slot = &mut self.slots[usize::from(index)];
        self.first_vacant = slot.next_vacant;
        (slot.stage, slot.kind, slot.session) = (stage, kind, session);
        (index, slot)
    }

    /// Adds a slot, which is vacant.
    #[cold]
    fn grow(&mut self) -> Option<()> {
        let index = u16::try_from(self.slots.len()).ok()?;
        self.slots.push(Slot::vacant(index, self.first_vacant));
        self.deadlines.add_slot(index);
        self.attachments.push(Attachment::Nothing);
        self.receive_callbacks.push(Box::default());
        self.copies.push(None);
        self.first_vacant = u32::from(index);
        Some(())
    }

    /// The session of an operation in flight.
    pub fn session_of(&self, id: CallId) -> Option<SessionId> {
        self.pending(id).map(|slot| slot.session)
    }

    /// What an operation in flight is.
    pub fn kind_of(&self, id: CallId) -> Option<Kind> {
        self.pending(id).map(|slot| slot.kind)
    }

    /// The parts of a send in flight that have not ended.
    pub fn parts_of_send(&mut self, id: CallId) -> Option<&mut u32> {
        let slot = self.slots.get_mut(usize::from(id.0 as u16))?;
        (slot.id == id && slot.is_pending() && slot.kind == Kind::Send).then_some(&mut slot.parts)
    }

    /// The most bytes that a receive in flight takes.
    pub fn bytes_max_of_receive(&self, id: CallId) -> Option<u32> {
        self.pending(id).filter(|slot| slot.kind == Kind::Receive).map(|slot| slot.bytes_max)
    }

    /// From now on an operation ends with another session.
    pub fn set_session(&mut self, id: CallId, session: SessionId) {
        let slot = &mut self.slots[usize::from(id.0 as u16)];
        if slot.id == id {
            slot.session = session;
        }
    }

    #[inline]
    fn pending(&self, id: CallId) -> Option<&Slot> {
        let slot = self.slots.get(usize::from(id.0 as u16))?;
        (slot.id == id && slot.is_pending()).then_some(slot)
    }
}
