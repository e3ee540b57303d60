//! What only sends and receives need of the slab.
//!
//! The path of a short message to a future or an event touches one line of the slab and moves nothing that is bigger than
//! the message.

use core::task::Waker;
use core::time::Duration;

use farcall_transport::{CallId, Copied, Kept, Matched, SessionId, Short, Spares, Tag};

use super::{Attachment, Completion, Kind, NO_SESSION, NO_SLOT, Operations, Slot, Stage};
use crate::endpoint::label::Label;
use crate::endpoint::messages::{KeptMessage, ReceiveError, SendError};
use crate::endpoint::sessions::Peer;

impl Operations {
    /// The number that the next operation will have; `None` when the slab is full.
    #[inline]
    pub fn next_id(&mut self) -> Option<CallId> {
        if self.first_vacant == NO_SLOT {
            self.grow()?;
        }
        Some(self.slots[self.first_vacant as usize].id)
    }

    /// Adds a receive that a future waits for, of at most so many bytes; `None` when the slab is full.
    #[inline]
    pub fn add_receive_future(
        &mut self,
        session: SessionId,
        timeout: Option<Duration>,
        bytes_max: u32,
    ) -> Option<CallId> {
        let (_, slot) = self.occupy((Kind::Receive, Stage::PendingFuture), session, timeout)?;
        slot.number = bytes_max;
        Some(slot.id)
    }

    /// Adds a receive that becomes an event, of at most so many bytes; `None` when the slab is full.
    #[inline]
    pub fn add_receive_event(
        &mut self,
        session: SessionId,
        timeout: Option<Duration>,
        bytes_max: u32,
        token: u64,
    ) -> Option<CallId> {
        let (_, slot) = self.occupy((Kind::Receive, Stage::PendingEvent), session, timeout)?;
        slot.number = bytes_max;
        slot.token = token;
        Some(slot.id)
    }

    /// Adds a send of so many parts; `None` when the slab is full.
    #[inline]
    pub fn add_send(
        &mut self,
        timeout: Option<Duration>,
        parts: u32,
        completion: Completion,
    ) -> Option<CallId> {
        let (index, slot) = self.occupy((Kind::Send, Stage::Pending), NO_SESSION, timeout)?;
        slot.number = parts;
        Some(self.attach(index, completion))
    }

    /// Of a receive under way the most bytes it takes, of a send the parts that have not ended; `None` when it is over or
    /// of another kind.
    #[inline]
    pub fn number(&mut self, id: CallId, kind: Kind) -> Option<&mut u32> {
        let slot = self.slot_mut(id)?;
        (slot.is_pending() && slot.kind() == kind).then_some(&mut slot.number)
    }

    /// From now on an operation ends with another session.
    pub fn set_session(&mut self, id: CallId, session: SessionId) {
        if let Some(slot) = self.slot_mut(id) {
            slot.session = session;
        }
    }

    /// What an operation is that has not ended.
    pub fn kind_of(&self, id: CallId) -> Option<Kind> {
        let slot = self.slots.get(usize::from(id.0 as u16))?;
        (slot.is_pending() && slot.id == id).then_some(slot.kind())
    }

    /// Adds a receive for a future that has its message already, where a slot is vacant; `None` when the message is not short.
    #[inline(always)]
    pub fn add_received_short(&mut self, label: Label, payload: &[u8]) -> Option<CallId> {
        let short = Short::new(payload)?;
        let (_, slot) = self.occupy_vacant((Kind::Receive, Stage::DoneShort), NO_SESSION, None);
        (slot.short, slot.label) = (short, label);
        let id = slot.id;
        self.done.set(id, true);
        self.note_ends(Kind::Receive, 1);
        Some(id)
    }

    /// As [`Operations::add_received_short`] of a message of which this is a copy.
    #[inline(never)]
    pub fn add_received_copy(&mut self, label: Label, copy: Copied) -> CallId {
        let (index, slot) = self.occupy_vacant((Kind::Receive, Stage::DoneCopy), NO_SESSION, None);
        slot.label = label;
        let id = slot.id;
        self.copies[usize::from(index)] = Some(copy);
        self.done.set(id, true);
        self.note_ends(Kind::Receive, 1);
        id
    }

    /// Ends the receives of these messages, up to one that is not for a future that was never polled, takes fewer bytes, or
    /// whose message is not short; says how many.
    #[inline(always)]
    pub fn leave_short(&mut self, messages: &[Matched<'_>], peer: Peer) -> usize {
        let mut left = 0;
        for &Matched { receive, tag, payload } in messages {
            let (id, payload) = (CallId(receive.0), payload.as_slice());
            let Some(slot) = slot_of_future(&mut self.slots, id, payload.len()) else { break };
            let Some(short) = Short::new(payload) else { break };
            slot.short = short;
            slot.set_stage(Stage::DoneShort);
            slot.label = Label::new(peer, tag);
            self.done.set(id, true);
            left += 1;
        }
        self.note_ends(Kind::Receive, left);
        left
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
        slot.set_stage(Stage::DoneCopy);
        slot.label = Label::new(peer, tag);
        self.done.set(id, true);
        self.note_ends(Kind::Receive, 1);
        self.copies[usize::from(id.0 as u16)] = Some(spares.copy(payload));
        true
    }

    /// Ends a receive that becomes an event, if it is one that takes so many bytes; gives its token.
    #[inline]
    pub fn end_event(&mut self, id: CallId, bytes: usize) -> Option<u64> {
        let slot = self.slots.get_mut(usize::from(id.0 as u16))?;
        let waits = slot.stage() == Stage::PendingEvent && slot.id == id;
        if !waits || bytes > slot.number as usize {
            return None;
        }
        slot.vacate(&mut self.first_vacant);
        let token = slot.token;
        self.note_ends(Kind::Receive, 1);
        Some(token)
    }

    /// Leaves the end of a send for its future.
    pub fn leave_sent(&mut self, id: CallId, result: Result<(), SendError>) {
        self.leave(id, Attachment::Sent(result));
    }

    /// Leaves the end of a receive for its future.
    pub fn leave_received(&mut self, id: CallId, result: Result<KeptMessage, ReceiveError>) {
        self.leave(id, Attachment::Received(result));
    }

    /// What a future's send has come to, as [`Operations::fetch_result`].
    pub fn fetch_sent(&mut self, id: CallId, waker: Option<&Waker>) -> Option<Result<(), SendError>> {
        match self.fetch(id, waker)? {
            Attachment::Sent(result) => Some(result),
            _ => unreachable!("the result of a send is one of a send"),
        }
    }

    /// Takes a message that was copied for a future's receive.
    #[inline(always)]
    pub fn fetch_message(&mut self, id: CallId) -> Option<KeptMessage> {
        let index = usize::from(id.0 as u16);
        let slot = &mut self.slots[index];
        // Most messages are short.
        let payload = if slot.stage() == Stage::DoneShort {
            Kept::Short(slot.short)
        } else if slot.stage() == Stage::DoneCopy {
            Kept::Copy(self.copies[index].take()?)
        } else {
            return None;
        };
        slot.vacate(&mut self.first_vacant);
        self.done.set(id, false);
        Some(KeptMessage { label: slot.label, payload })
    }

    /// What a future's receive has come to, as [`Operations::fetch_result`].
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

    /// Nobody waits for the end of an operation any more, which goes on.
    pub fn detach_future(&mut self, id: CallId) {
        let index = usize::from(id.0 as u16);
        if self.slots[index].is_pending() {
            self.slots[index].set_stage(Stage::Pending);
            self.attachments[index] = Attachment::Completion(Completion::Nobody);
        } else {
            self.abandon(id);
        }
    }
}

/// The slot of a receive that takes so many bytes, if a future waits for it that was never polled.
#[inline]
fn slot_of_future(slots: &mut [Slot], receive: CallId, bytes: usize) -> Option<&mut Slot> {
    let slot = slots.get_mut(usize::from(receive.0 as u16))?;
    let waits = slot.stage() == Stage::PendingFuture && slot.id == receive;
    (waits && bytes <= slot.number as usize).then_some(slot)
}
