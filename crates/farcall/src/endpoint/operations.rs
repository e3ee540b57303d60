//! The operations under way: a slab of slots, each completing exactly once.
//!
//! A slot's number and generation together are the call's number on the wire, so a late answer to an operation that
//! has ended meets another generation and is dropped. A deadline costs an operation a number in a word that it stores anyway: all
//! slots are looked through only when the earliest that any can have has passed. A bare build (`--cfg farcall_bare`) has no
//! deadlines, so that it can be measured what they cost.

mod callbacks;
mod deadlines;
mod messages;
mod readings;
mod slot;
mod standing;

use core::task::Waker;
use core::time::Duration;

use farcall_protocol::Instant;
use farcall_transport::{CallId, Copied, Kept, SessionId};

use super::callback::ReceivePlaces;
use super::done::Done;
use super::outcome::CallError;
use super::unfetched::FETCHED_ONCE;
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

    /// Whether an operation can be added without more memory.
    #[inline]
    pub fn has_vacant(&self) -> bool {
        self.first_vacant != NO_SLOT
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

    /// Ends a call that becomes an event, and gives its token; `None` for all others, which [`Self::end`] knows.
    #[inline]
    pub fn end_posted_call(&mut self, call: CallId, session: SessionId) -> Option<u64> {
        let slot = self.slots.get_mut(usize::from(call.0 as u16))?;
        let is_it = slot.id == call && slot.session == session && slot.kind() == Kind::Call;
        if !is_it || slot.stage() != Stage::PendingEvent {
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
        let slot = self.slot_mut(call)?;
        if !slot.is_pending() || slot.session != session || slot.kind() != Kind::Call {
            return None;
        }
        Some(self.remove_pending(call))
    }

    /// The session of an operation that has not ended.
    pub fn session_of(&self, call: CallId) -> Option<SessionId> {
        let slot = self.slots.get(usize::from(call.0 as u16))?;
        (slot.is_pending() && slot.id == call).then_some(slot.session)
    }

    /// Ends an operation whatever its session; gives the session too.
    pub fn cancel(&mut self, call: CallId) -> Option<(SessionId, Completion)> {
        let slot = self.slot_mut(call)?;
        if !slot.is_pending() {
            return None;
        }
        let session = slot.session;
        Some((session, self.remove_pending(call)))
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

    #[inline]
    fn remove_pending(&mut self, call: CallId) -> Completion {
        let index = call.0 as u16;
        let slot = &mut self.slots[usize::from(index)];
        self.ended[slot.kind() as usize] += 1;
        match slot.stage() {
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

    fn leave(&mut self, id: CallId, result: Attachment) {
        let index = usize::from(id.0 as u16);
        self.slots[index].set_stage(Stage::Done);
        self.done.set(id, true);
        self.attachments[index] = result;
    }

    /// Leaves the result of a call for its future.
    pub fn leave_result(&mut self, call: CallId, result: Result<Kept, CallError>) {
        self.leave(call, Attachment::Result(result));
    }

    /// What a future's call has come to; registers `waker` if it is not complete.
    pub fn fetch_result(&mut self, call: CallId, waker: Option<&Waker>) -> Option<Result<Kept, CallError>> {
        match self.fetch(call, waker)? {
            Attachment::Result(result) => Some(result),
            _ => unreachable!("the result of a call is one of a call"),
        }
    }

    fn fetch(&mut self, id: CallId, waker: Option<&Waker>) -> Option<Attachment> {
        let index = id.0 as u16;
        let slot = &mut self.slots[usize::from(index)];
        if slot.stage() == Stage::Done {
            slot.vacate(&mut self.first_vacant);
            self.done.set(id, false);
            return Some(self.take_attachment(index));
        }
        if let Some(waker) = waker {
            self.register(index, waker);
        }
        None
    }

    fn register(&mut self, index: u16, waker: &Waker) {
        let slot = &mut self.slots[usize::from(index)];
        assert!(slot.is_pending(), "{FETCHED_ONCE}");
        slot.set_stage(Stage::Pending);
        match &mut self.attachments[usize::from(index)] {
            Attachment::Completion(Completion::Future(Some(known))) if known.will_wake(waker) => {}
            other => *other = Attachment::Completion(Completion::Future(Some(waker.clone()))),
        }
    }

    /// Whether the operation of a future is complete.
    #[inline]
    pub fn is_done(&self, call: CallId) -> bool {
        self.done.has(call)
    }

    /// Gives the slot of a future that was dropped back after its operation was cancelled or done.
    pub fn abandon(&mut self, call: CallId) {
        let index = call.0 as u16;
        self.slots[usize::from(index)].vacate(&mut self.first_vacant);
        self.done.set(call, false);
        self.take_attachment(index);
        self.copies[usize::from(index)] = None;
    }

    #[inline]
    fn slot_mut(&mut self, call: CallId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(usize::from(call.0 as u16))?;
        (slot.id == call).then_some(slot)
    }
}
