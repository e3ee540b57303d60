//! Operations of futures that have ended: the result stays in the slab until the future fetches it, which vacates the slot.
//!
//! The path of a short message to a future touches one line of the slab and moves nothing that is bigger than the message.

use core::task::Waker;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use farcall_transport::{CallId, Copied, Kept, Short, Spares, Tag};

use super::slot::{Attachment, Completion, Kind, Slot, Stage};
use super::{OPERATIONS_MAX, Slab};
use crate::endpoint::label::Label;
use crate::endpoint::messages::{KeptMessage, ReceiveError, SendError};
use crate::endpoint::outcome::CallError;
use crate::endpoint::sessions::Peer;

/// What is said of futures that are polled after their end.
pub const FETCHED_ONCE: &str = "a future fetches its result once";

/// The operation of a future, until its result was fetched.
///
/// A single word: futures are moved right after they were made, and one of two parts would be loaded as a whole behind the stores
/// of its parts, which is a store-forwarding stall.
#[derive(Clone, Copy)]
pub struct OpHandle(u64);

impl OpHandle {
    /// The result was fetched, or there is none to be fetched.
    pub const NONE: Self = Self(u64::MAX);

    /// The handle of that operation.
    #[inline]
    pub const fn of(operation: CallId) -> Self {
        Self(operation.0 as u64)
    }

    /// The operation whose result was not fetched.
    #[inline]
    pub fn operation(self) -> Option<CallId> {
        u32::try_from(self.0).ok().map(CallId)
    }
}

/// Which operations of futures are done, by slot. Shared by an endpoint and its core, which are on the same thread.
///
/// It is a copy of what the slab knows, outside of the core that is borrowed during polls: a program that looks which of a thousand
/// futures are complete reads a byte for each, and neither borrows anything nor loads the slab's lines.
#[derive(Clone)]
pub struct Done(Arc<[AtomicBool; OPERATIONS_MAX]>);

impl Done {
    /// None is done.
    pub fn new() -> Self {
        Self(Arc::new([const { AtomicBool::new(false) }; OPERATIONS_MAX]))
    }

    /// Whether the result of the operation is there for its future.
    #[inline]
    pub fn has(&self, operation: CallId) -> bool {
        self.place(operation).load(Relaxed)
    }

    #[inline]
    fn set(&self, operation: CallId, is_done: bool) {
        self.place(operation).store(is_done, Relaxed);
    }

    #[inline]
    fn place(&self, operation: CallId) -> &AtomicBool {
        &self.0[usize::from(operation.0 as u16)]
    }
}

impl Slab {
    /// Whether the operation of a future is complete.
    #[inline]
    pub fn is_done(&self, id: CallId) -> bool {
        self.done.has(id)
    }

    /// Stores the result of a call for its future.
    pub fn leave_result(&mut self, id: CallId, result: Result<Kept, CallError>) {
        self.leave(id, Attachment::Result(result));
    }

    /// Stores the result of a send for its future.
    pub fn leave_sent(&mut self, id: CallId, result: Result<(), SendError>) {
        self.leave(id, Attachment::Sent(result));
    }

    /// Stores the result of a receive for its future.
    pub fn leave_received(&mut self, id: CallId, result: Result<KeptMessage, ReceiveError>) {
        self.leave(id, Attachment::Received(result));
    }

    fn leave(&mut self, id: CallId, result: Attachment) {
        let index = usize::from(id.0 as u16);
        self.slots[index].stage = Stage::Done;
        self.done.set(id, true);
        self.attachments[index] = result;
    }

    /// Ends a receive with its message, if that is short and a future waits for it that was never polled. False when that is not
    /// so; then nothing has changed. [`Slab::receives_ended`] says later how many were ended.
    #[inline(always)]
    pub fn leave_short(&mut self, id: CallId, label: Label, payload: &[u8]) -> bool {
        let Some(slot) = slot_of_future(&mut self.slots, id, payload.len()) else { return false };
        let Some(short) = Short::new(payload) else { return false };
        slot.short = short;
        slot.stage = Stage::DoneShort;
        slot.label = label;
        self.done.set(id, true);
        true
    }

    /// This many receives were ended by [`Slab::leave_short`].
    #[inline]
    pub fn receives_ended(&mut self, receives: usize) {
        self.note_ends(Kind::Receive, receives);
    }

    /// Ends a receive of a future that was never polled with a message of any length, which is copied into one of `spares`.
    /// False when it is none; then nothing has changed.
    #[inline]
    pub fn leave_copy(
        &mut self,
        id: CallId,
        peer: Peer,
        tag: Tag,
        payload: &[u8],
        spares: &mut Spares<Copied>,
    ) -> bool {
        let Some(slot) = slot_of_future(&mut self.slots, id, payload.len()) else { return false };
        slot.stage = Stage::DoneCopy;
        slot.label = Label::new(peer, tag);
        self.done.set(id, true);
        self.note_ends(Kind::Receive, 1);
        self.copies[usize::from(id.0 as u16)] = Some(spares.copy(payload));
        true
    }

    /// The result of a future's call; registers `waker` if it is not complete.
    pub fn fetch_result(&mut self, id: CallId, waker: Option<&Waker>) -> Option<Result<Kept, CallError>> {
        match self.fetch(id, waker)? {
            Attachment::Result(result) => Some(result),
            _ => unreachable!("the result of a call is one of a call"),
        }
    }

    /// The result of a future's send, as [`Slab::fetch_result`].
    pub fn fetch_sent(&mut self, id: CallId, waker: Option<&Waker>) -> Option<Result<(), SendError>> {
        match self.fetch(id, waker)? {
            Attachment::Sent(result) => Some(result),
            _ => unreachable!("the result of a send is one of a send"),
        }
    }

    /// The result of a future's receive, as [`Slab::fetch_result`].
    pub fn fetch_received(
        &mut self,
        id: CallId,
        waker: Option<&Waker>,
    ) -> Option<Result<KeptMessage, ReceiveError>> {
        if let Some(message) = self.fetch_message(id) {
            return Some(Ok(message));
        }
        match self.fetch(id, waker)? {
            Attachment::Received(result) => Some(result),
            _ => unreachable!("the result of a receive is one of a receive"),
        }
    }

    /// Takes a message that was copied for a future's receive.
    #[inline(always)]
    pub fn fetch_message(&mut self, id: CallId) -> Option<KeptMessage> {
        let index = usize::from(id.0 as u16);
        let slot = &mut self.slots[index];
        // Most messages are short.
        let payload = if slot.stage == Stage::DoneShort {
            Kept::Short(slot.short)
        } else if slot.stage == Stage::DoneCopy {
            Kept::Copy(self.copies[index].take()?)
        } else {
            return None;
        };
        slot.vacate(&mut self.first_vacant);
        self.done.set(id, false);
        Some(KeptMessage { label: slot.label, payload })
    }

    fn fetch(&mut self, id: CallId, waker: Option<&Waker>) -> Option<Attachment> {
        let index = id.0 as u16;
        let slot = &mut self.slots[usize::from(index)];
        if slot.stage == Stage::Done {
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
        slot.stage = Stage::Pending;
        match &mut self.attachments[usize::from(index)] {
            Attachment::Completion(Completion::Future(Some(known))) if known.will_wake(waker) => {}
            other => *other = Attachment::Completion(Completion::Future(Some(waker.clone()))),
        }
    }

    /// The future of an operation in flight was dropped, and the operation continues.
    pub fn detach_future(&mut self, id: CallId) {
        let index = usize::from(id.0 as u16);
        if self.slots[index].is_pending() {
            self.slots[index].stage = Stage::Pending;
            self.attachments[index] = Attachment::Completion(Completion::Nobody);
        } else {
            self.abandon(id);
        }
    }

    /// Vacates the slot of a future that was dropped, after its operation was cancelled or done.
    pub fn abandon(&mut self, id: CallId) {
        let index = id.0 as u16;
        self.slots[usize::from(index)].vacate(&mut self.first_vacant);
        self.done.set(id, false);
        self.take_attachment(index);
        self.copies[usize::from(index)] = None;
    }
}

/// The slot of a receive that takes this many bytes, if a future waits for it that was never polled.
#[inline]
fn slot_of_future(slots: &mut [Slot], receive: CallId, bytes: usize) -> Option<&mut Slot> {
    let slot = slots.get_mut(usize::from(receive.0 as u16))?;
    slot.takes(receive, Stage::PendingFuture, bytes).then_some(slot)
}
