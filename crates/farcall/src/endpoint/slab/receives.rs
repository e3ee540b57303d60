//! Receives that are in flight: for futures, for events, and with callbacks.
//!
//! Callbacks are next to the slots, in memory of which only a pointer moves: a callback stays where it was made until it has run.

use core::time::Duration;

use farcall_transport::{CallId, Matched, SessionId};

use super::{Kind, Slab, Stage};
use crate::endpoint::callback::{ReceiveCallback, ReceivePlaces};

impl Slab {
    /// Adds a receive that a future waits for, of at most this many bytes; `None` when the slab is full.
    #[inline]
    pub fn add_receive_future(
        &mut self,
        session: SessionId,
        timeout: Option<Duration>,
        bytes_max: u32,
    ) -> Option<CallId> {
        let (_, slot) = self.occupy((Kind::Receive, Stage::PendingFuture), session, timeout)?;
        slot.bytes_max = bytes_max;
        Some(slot.id)
    }

    /// Adds a receive that becomes an event, of at most this many bytes; `None` when the slab is full.
    #[inline]
    pub fn add_receive_event(
        &mut self,
        session: SessionId,
        timeout: Option<Duration>,
        bytes_max: u32,
        token: u64,
    ) -> Option<CallId> {
        let (_, slot) = self.occupy((Kind::Receive, Stage::PendingEvent), session, timeout)?;
        (slot.bytes_max, slot.token) = (bytes_max, token);
        Some(slot.id)
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

    /// Adds a receive with a callback that is made where it stays, of at most this many bytes. A slot is vacant: see
    /// [`Slab::next_id`], which is its number.
    #[inline(always)]
    pub fn add_receive_callback(
        &mut self,
        session: SessionId,
        timeout: Option<Duration>,
        bytes_max: u32,
        callback: impl FnOnce() -> ReceiveCallback,
    ) {
        let (index, slot) =
            self.occupy_vacant((Kind::Receive, Stage::PendingReceiveCallback), session, timeout);
        slot.bytes_max = bytes_max;
        self.receive_callbacks[usize::from(index)].put(callback);
    }

    /// Whether a callback waits for the end of a receive.
    #[inline]
    pub fn has_callback(&self, receive: CallId) -> bool {
        let slot = self.slots.get(usize::from(receive.0 as u16));
        slot.is_some_and(|slot| slot.stage == Stage::PendingReceiveCallback && slot.id == receive)
    }

    /// A receive ended when it began, which needs no slot and was never in flight: it had the [`Slab::next_id`], and no
    /// other has it again.
    #[inline(always)]
    pub fn pass_receive(&mut self) {
        self.slots[self.first_vacant as usize].renew();
    }

    /// Ends the receives of these messages, up to one that has no callback or takes fewer bytes; says how many. Their
    /// callbacks are the first that [`Slab::take_ready`] gives.
    #[inline(always)]
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

    /// Callbacks of receives that have ended, with all the spare memory; [`Slab::give_ready_back`] follows when they have run.
    #[inline(always)]
    pub fn take_ready(&mut self) -> ReceivePlaces {
        core::mem::take(&mut self.spare_places)
    }

    /// Takes the spare memory back.
    #[inline(always)]
    pub fn give_ready_back(&mut self, places: ReceivePlaces) {
        // No callback of a receive runs in another's, so that none was added meanwhile: a drop would look.
        core::mem::forget(core::mem::replace(&mut self.spare_places, places));
    }
}
