//! How operations leave the slab.
//!
//! Those that become events or have callbacks vacate their slots at once. The result of a future stays in the
//! slab until the future fetches it, which vacates the slot. The path of a short message to a future touches
//! one line of the slab and moves nothing that is bigger than the message.

use core::task::Waker;

use farcall_transport::{CallId, Copied, Kept, Matched, SessionId, Short, Spares};

use super::Slab;
use super::slot::{Attachment, Kind, Slot, Stage};
use crate::endpoint::completion::{Completes, Completion, Ended, OfCall, ReceivePlaces};
use crate::endpoint::future::FETCHED_ONCE;
use crate::endpoint::message::{Envelope, KeptMessage};

impl Slab {
    /// Ends a call that becomes an event, and gives its token; `None` for all others, which
    /// [`Slab::end_call`] knows.
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

    /// Ends a call and says how to complete it; `None` when it has ended already or is not one of `session`.
    /// One that a future waits for keeps its slot until the future has fetched the result.
    #[inline]
    pub fn end_call(&mut self, call: CallId, session: SessionId) -> Option<Completion<OfCall>> {
        let slot = self.pending(call)?;
        (slot.session == session && slot.kind == Kind::Call).then(|| self.remove(call))
    }

    /// Ends an operation, as [`Slab::end_call`] but whatever its session; gives the session too. `None` when
    /// it has ended already or is one of another kind.
    pub fn end<O: Completes>(&mut self, id: CallId) -> Option<(SessionId, Completion<O>)> {
        let slot = self.pending(id)?;
        let session = slot.session;
        (slot.kind == O::KIND).then(|| (session, self.remove(id)))
    }

    /// Takes an operation back that was just added and could not begin.
    pub fn take_back<O: Completes>(&mut self, id: CallId) {
        if let Some((_, Completion::Future(_))) = self.end::<O>(id) {
            self.vacate(id);
        }
        self.added[O::KIND as usize] -= 1;
        self.ended[O::KIND as usize] -= 1;
    }

    #[inline]
    fn note_ends(&mut self, kind: Kind, operations: usize) {
        self.ended[kind as usize] += operations as u64;
    }

    /// Ends an operation of that kind that is in flight.
    #[inline]
    fn remove<O: Completes>(&mut self, id: CallId) -> Completion<O> {
        let index = usize::from(id.0 as u16);
        let slot = &mut self.slots[index];
        self.ended[O::KIND as usize] += 1;
        let attachment = match slot.stage {
            Stage::PendingFuture => return Completion::Future(None),
            Stage::PendingEvent => {
                slot.vacate(&mut self.first_vacant);
                return Completion::Event(slot.token);
            }
            Stage::PendingReceiveCallback => {
                let callback = self.receive_callbacks[index].take();
                callback.map_or(Attachment::Nothing, Attachment::Receive)
            }
            _ => self.take_attachment(index),
        };
        let completion = attachment.into_completion();
        if !matches!(completion, Completion::Future(_)) {
            self.slots[index].vacate(&mut self.first_vacant);
        }
        completion
    }

    fn take_attachment(&mut self, index: usize) -> Attachment {
        core::mem::replace(&mut self.attachments[index], Attachment::Nothing)
    }

    /// Ends a receive that becomes an event, if it is one that takes this many bytes; gives its token.
    #[inline]
    pub fn end_event(&mut self, id: CallId, bytes: usize) -> Option<u64> {
        let slot = self.slots.get_mut(usize::from(id.0 as u16))?;
        if !slot.takes(id, Stage::PendingEvent, bytes) {
            return None;
        }
        slot.vacate(&mut self.first_vacant);
        let token = slot.token;
        self.note_ends(Kind::Receive, 1);
        Some(token)
    }

    /// Whether a callback waits for the end of a receive.
    #[inline]
    pub fn has_callback(&self, receive: CallId) -> bool {
        let slot = self.slots.get(usize::from(receive.0 as u16));
        slot.is_some_and(|slot| slot.stage == Stage::PendingReceiveCallback && slot.id == receive)
    }

    /// A receive ended when it began, which needs no slot and was never in flight: it had the
    /// [`Slab::next_id`], and no other has it again.
    #[inline]
    pub fn pass_receive(&mut self) {
        self.slots[self.first_vacant as usize].renew();
    }

    /// Ends the receives of these messages, up to one that has no callback or takes fewer bytes; says how
    /// many. Their callbacks are the first that [`Slab::take_ready`] gives.
    #[inline]
    pub fn end_receive_callbacks(&mut self, messages: &[Matched<'_>]) -> usize {
        let Self { slots, receive_callbacks, spare_places, .. } = self;
        let (slots, callbacks) = (slots.as_mut_slice(), receive_callbacks.as_mut_slice());
        let (mut first_vacant, mut ended) = (self.first_vacant, 0);
        for (message, spare) in messages.iter().zip(spare_places) {
            let (id, bytes) = (CallId(message.receive.0), message.payload.as_slice().len());
            let index = usize::from(id.0 as u16);
            let Some((slot, place)) = slots.get_mut(index).zip(callbacks.get_mut(index)) else {
                break;
            };
            if !slot.takes(id, Stage::PendingReceiveCallback, bytes) {
                break;
            }
            slot.vacate(&mut first_vacant);
            core::mem::swap(place, spare);
            ended += 1;
        }
        self.first_vacant = first_vacant;
        self.note_ends(Kind::Receive, ended);
        ended
    }

    /// Callbacks of receives that have ended, with all the spare memory; [`Slab::give_ready_back`] follows
    /// when they have run.
    #[inline]
    pub fn take_ready(&mut self) -> ReceivePlaces {
        core::mem::take(&mut self.spare_places)
    }

    /// Takes the spare memory back.
    #[inline]
    pub fn give_ready_back(&mut self, places: ReceivePlaces) {
        // No callback of a receive runs in another's, so that none was added meanwhile: a drop would look.
        core::mem::forget(core::mem::replace(&mut self.spare_places, places));
    }

    /// Stores the end of an operation for its future.
    pub fn leave<O: Completes>(&mut self, id: CallId, kept: O::Kept) {
        let index = usize::from(id.0 as u16);
        self.slots[index].stage = Stage::Done;
        self.done.set(id, true);
        self.attachments[index] = Attachment::Ended(O::into_ended(kept));
    }

    /// Ends a receive with its message, if that is short and a future waits for it that was never polled.
    /// False when that is not so; then nothing has changed. [`Slab::receives_ended`] says later how many were
    /// ended.
    #[inline(always)]
    pub fn leave_short(&mut self, id: CallId, envelope: Envelope, payload: &[u8]) -> bool {
        let Some(slot) = slot_of_future(&mut self.slots, id, payload.len()) else { return false };
        let Some(short) = Short::new(payload) else { return false };
        slot.short = short;
        slot.stage = Stage::DoneShort;
        slot.envelope = envelope;
        self.done.set(id, true);
        true
    }

    /// This many receives were ended by [`Slab::leave_short`].
    #[inline]
    pub fn receives_ended(&mut self, receives: usize) {
        self.note_ends(Kind::Receive, receives);
    }

    /// Ends a receive of a future that was never polled with a message of any length, which is copied into
    /// one of `spares`. False when it is none; then nothing has changed.
    #[inline]
    pub fn leave_copy(
        &mut self,
        id: CallId,
        envelope: Envelope,
        payload: &[u8],
        spares: &mut Spares<Copied>,
    ) -> bool {
        let Some(slot) = slot_of_future(&mut self.slots, id, payload.len()) else { return false };
        slot.stage = Stage::DoneCopy;
        slot.envelope = envelope;
        self.done.set(id, true);
        self.note_ends(Kind::Receive, 1);
        self.copies[usize::from(id.0 as u16)] = Some(spares.copy(payload));
        true
    }

    /// Ends a call of a future that was never polled with its answer, in the slot if that is short, else
    /// copied into one of `spares`. False when it is none; then nothing has changed.
    #[inline]
    pub fn leave_answer(
        &mut self,
        call: CallId,
        session: SessionId,
        answer: &[u8],
        spares: &mut Spares<Copied>,
    ) -> bool {
        let index = usize::from(call.0 as u16);
        let Some(slot) = self.slots.get_mut(index) else { return false };
        let is_it = slot.id == call && slot.session == session && slot.kind == Kind::Call;
        if !is_it || slot.stage != Stage::PendingFuture {
            return false;
        }
        if let Some(short) = Short::new(answer) {
            slot.short = short;
            slot.stage = Stage::DoneShort;
        } else {
            slot.stage = Stage::DoneCopy;
            self.copies[index] = Some(spares.copy(answer));
        }
        self.done.set(call, true);
        self.note_ends(Kind::Call, 1);
        true
    }

    /// Takes a message that was copied for a future's receive.
    #[inline]
    pub fn fetch_message(&mut self, id: CallId) -> Option<KeptMessage> {
        self.take_copied(id).map(|(envelope, payload)| KeptMessage { envelope, payload })
    }

    /// Takes an answer that was copied for a future's call.
    #[inline]
    pub fn fetch_answer(&mut self, id: CallId) -> Option<Kept> {
        self.take_copied(id).map(|(_, payload)| payload)
    }

    /// What was copied for a future, with the envelope that a message has.
    ///
    /// Always inlined: handed on through memory, each part of it would be stored and loaded again.
    #[inline(always)]
    fn take_copied(&mut self, id: CallId) -> Option<(Envelope, Kept)> {
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
        Some((slot.envelope, payload))
    }

    /// The end of a future's operation; registers `waker` if it is not complete.
    pub fn fetch<O: Completes>(&mut self, id: CallId, waker: Option<&Waker>) -> Option<O::Kept> {
        let kept = match self.fetch_message(id) {
            Some(copy) => Some(O::of_copy(copy)),
            None => self.fetch_ended(id).map(O::of_ended),
        };
        if let Some(kept) = kept {
            return Some(kept.expect("an operation ends as one of its kind"));
        }
        if let Some(waker) = waker {
            self.register(id, waker);
        }
        None
    }

    fn fetch_ended(&mut self, id: CallId) -> Option<Ended> {
        let index = usize::from(id.0 as u16);
        let slot = &mut self.slots[index];
        if slot.stage != Stage::Done {
            return None;
        }
        slot.vacate(&mut self.first_vacant);
        self.done.set(id, false);
        match self.take_attachment(index) {
            Attachment::Ended(ended) => Some(ended),
            _ => unreachable!("the end of what is done is attached"),
        }
    }

    fn register(&mut self, id: CallId, waker: &Waker) {
        let index = usize::from(id.0 as u16);
        let slot = &mut self.slots[index];
        assert!(slot.is_pending(), "{FETCHED_ONCE}");
        slot.stage = Stage::Pending;
        match &mut self.attachments[index] {
            Attachment::Waker(known) if known.will_wake(waker) => {}
            other => *other = Attachment::Waker(waker.clone()),
        }
    }

    /// The future of an operation was dropped, which continues if it is in flight.
    pub fn detach_future(&mut self, id: CallId) {
        let index = usize::from(id.0 as u16);
        if self.slots[index].is_pending() {
            self.slots[index].stage = Stage::Pending;
            self.attachments[index] = Attachment::Nobody;
        } else {
            self.vacate(id);
        }
    }

    /// The future of an operation was dropped, which is over with that. Says what it was if it was in flight.
    pub fn abandon(&mut self, id: CallId) -> Option<(Kind, SessionId)> {
        let in_flight = self.pending(id).map(|slot| (slot.kind, slot.session));
        if let Some((kind, _)) = in_flight {
            self.note_ends(kind, 1);
        }
        self.vacate(id);
        in_flight
    }

    /// Vacates the slot of a future, with what is left in it.
    fn vacate(&mut self, id: CallId) {
        let index = usize::from(id.0 as u16);
        self.slots[index].vacate(&mut self.first_vacant);
        self.done.set(id, false);
        self.take_attachment(index);
        self.copies[index] = None;
    }
}

/// The slot of a receive that takes this many bytes, if a future waits for it that was never polled.
#[inline]
fn slot_of_future(slots: &mut [Slot], receive: CallId, bytes: usize) -> Option<&mut Slot> {
    let slot = slots.get_mut(usize::from(receive.0 as u16))?;
    slot.takes(receive, Stage::PendingFuture, bytes).then_some(slot)
}
