//! The operations in flight: a slab of slots, each completing exactly once.
//!
//! A slot's number and generation together are the number of the operation on the wire, so a late response to an operation that
//! has ended meets another generation and is dropped.

mod deadlines;
mod receives;
mod results;
mod slot;

use core::time::Duration;

use farcall_base::Instant;
use farcall_transport::{CallId, Copied, SessionId};

use super::callback::ReceivePlaces;
use deadlines::Deadlines;
pub use deadlines::Timeouts;
pub use results::{Done, FETCHED_ONCE, OpHandle};
use slot::{Attachment, Slot, Stage};
pub use slot::{Completion, Kind, NO_SESSION};

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
    deadlines: Deadlines,
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
}

impl Slab {
    /// No operation is in flight. `remembers` as of [`Deadlines::new`].
    pub fn new(done: Done, timeouts: Timeouts, remembers: bool) -> Self {
        Self {
            slots: Vec::new(),
            first_vacant: NO_SLOT,
            added: [0; 3],
            deadlines: Deadlines::new(timeouts, remembers),
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
        self.deadlines.have_begun()
    }

    /// The clock was read: the time of operations that were added since the last reading counts from now.
    #[inline]
    pub fn clock_was_read(&mut self, now: Instant) {
        if self.deadlines.have_begun() {
            self.deadlines.count_from(now);
        }
    }

    /// No deadline is earlier than this, but for those of operations that were added since the last reading of the clock.
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

    /// The number that the next operation will have; `None` when the slab is full.
    #[inline(always)]
    pub fn next_id(&mut self) -> Option<CallId> {
        // No slot has the number that stands for none: one comparison.
        match self.slots.get(self.first_vacant as usize) {
            Some(slot) => Some(slot.id),
            None => self.grow().map(|()| self.slots[self.first_vacant as usize].id),
        }
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

    /// Adds a send of this many parts; `None` when the slab is full.
    #[inline]
    pub fn add_send(
        &mut self,
        timeout: Option<Duration>,
        parts: u32,
        completion: Completion,
    ) -> Option<CallId> {
        let (index, slot) = self.occupy((Kind::Send, Stage::Pending), NO_SESSION, timeout)?;
        slot.parts = parts;
        Some(self.attach(index, completion))
    }

    /// Says how an operation that was just added completes, of which it is known only that it is pending.
    #[inline]
    fn attach(&mut self, index: u16, completion: Completion) -> CallId {
        let slot = &mut self.slots[usize::from(index)];
        match completion {
            Completion::Event(token) => {
                slot.stage = Stage::PendingEvent;
                slot.token = token;
            }
            Completion::Future(None) => slot.stage = Stage::PendingFuture,
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

    /// As [`Slab::occupy`] where a slot is vacant.
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
        self.deadlines.add_slot();
        self.attachments.push(Attachment::Nothing);
        self.receive_callbacks.push(Box::default());
        self.copies.push(None);
        self.first_vacant = u32::from(index);
        Some(())
    }

    /// Ends a call that becomes an event, and gives its token; `None` for all others, which [`Slab::end`] knows.
    #[inline]
    pub fn end_posted_call(&mut self, call: CallId, session: SessionId) -> Option<u64> {
        let slot = self.slots.get_mut(usize::from(call.0 as u16))?;
        let is_it = slot.id == call && slot.session == session && slot.kind == Kind::Call;
        if !is_it || slot.stage != Stage::PendingEvent {
            return None;
        }
        slot.vacate(&mut self.first_vacant);
        let token = slot.token;
        self.note_ends(Kind::Call, 1);
        Some(token)
    }

    /// Ends a call for whatever reason and says how to complete it; `None` when it has ended already or is not
    /// one of `session`. One that a future waits for keeps its slot until the future has fetched the result.
    #[inline]
    pub fn end(&mut self, call: CallId, session: SessionId) -> Option<Completion> {
        let slot = self.pending(call)?;
        (slot.session == session && slot.kind == Kind::Call).then(|| self.remove_pending(call))
    }

    /// Ends an operation whatever its session; gives the session too.
    pub fn cancel(&mut self, id: CallId) -> Option<(SessionId, Completion)> {
        let session = self.pending(id)?.session;
        Some((session, self.remove_pending(id)))
    }

    /// Takes an operation back that was just added and could not begin.
    #[cold]
    pub fn take_back(&mut self, id: CallId, kind: Kind) {
        if matches!(self.cancel(id), Some((_, Completion::Future(_)))) {
            self.abandon(id);
        }
        self.added[kind as usize] -= 1;
        self.ended[kind as usize] -= 1;
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

    #[inline(always)]
    fn note_ends(&mut self, kind: Kind, operations: usize) {
        self.ended[kind as usize] += operations as u64;
    }

    #[inline]
    fn remove_pending(&mut self, id: CallId) -> Completion {
        let index = id.0 as u16;
        let slot = &mut self.slots[usize::from(index)];
        self.ended[slot.kind as usize] += 1;
        match slot.stage {
            Stage::PendingEvent => {
                slot.vacate(&mut self.first_vacant);
                let token = slot.token;
                Completion::Event(token)
            }
            Stage::PendingFuture => Completion::Future(None),
            Stage::PendingReceiveCallback => {
                slot.vacate(&mut self.first_vacant);
                let callback = self.receive_callbacks[usize::from(index)].take();
                Completion::Received(callback.expect("it is there until the receive ends"))
            }
            _ => self.detach(index),
        }
    }

    fn detach(&mut self, index: u16) -> Completion {
        let Attachment::Completion(completion) = self.take_attachment(index) else {
            unreachable!("pending slots have a completion")
        };
        if !matches!(completion, Completion::Future(_)) {
            self.slots[usize::from(index)].vacate(&mut self.first_vacant);
        }
        completion
    }

    fn take_attachment(&mut self, index: u16) -> Attachment {
        core::mem::replace(&mut self.attachments[usize::from(index)], Attachment::Nothing)
    }
}
