//! Receives with callbacks.
//!
//! Their callbacks are beside the slab, in memory of which only a pointer moves: one stays where it was made until it has run.

use core::time::Duration;

use farcall_transport::{CallId, Matched, SessionId};

use super::{Completion, Kind, Operations, Slot, Stage};
use crate::endpoint::callback::{ReceiveCallback, ReceivePlace, ReceivePlaces};

impl Operations {
    /// Adds a receive with a callback, of at most so many bytes; `None` when the slab is full.
    #[inline]
    pub fn add_receive_callback(
        &mut self,
        session: SessionId,
        timeout: Option<Duration>,
        bytes_max: u32,
        callback: ReceiveCallback,
    ) -> Option<CallId> {
        let (index, slot) = self.occupy((Kind::Receive, Stage::PendingReceiveCallback), session, timeout)?;
        slot.number = bytes_max;
        let id = slot.id;
        self.receive_callbacks[usize::from(index)].put(|| callback);
        Some(id)
    }

    /// The number that the next operation will have, if nothing has to grow for it.
    #[inline(always)]
    pub fn vacant_id(&self) -> Option<CallId> {
        Some(self.slots.get(self.first_vacant as usize)?.id)
    }

    /// As [`Operations::add_receive_callback`] of a callback that is made where it stays, when there is an
    /// [`Operations::vacant_id`], which is its number.
    #[inline(always)]
    pub fn add_receive_at_once(
        &mut self,
        session: SessionId,
        bytes_max: u32,
        callback: impl FnOnce() -> ReceiveCallback,
    ) {
        let (index, slot) = self.occupy_vacant((Kind::Receive, Stage::PendingReceiveCallback), session, None);
        slot.number = bytes_max;
        self.receive_callbacks[usize::from(index)].put(callback);
    }

    /// A receive ended when it began, which needs no slot and was never under way: it had the [`Operations::vacant_id`], and no other
    /// has it again.
    #[inline(always)]
    pub fn pass_receive(&mut self) {
        self.slots[self.first_vacant as usize].renew();
    }

    /// Ends a receive that was just added; gives its callback.
    pub fn take_callback_back(&mut self, id: CallId) -> ReceiveCallback {
        match self.cancel(id) {
            Some((_, Completion::Received(callback))) => callback,
            _ => unreachable!("it was just added, with a callback"),
        }
    }

    /// Takes the callback of a receive out, with its memory; [`Operations::give_back`] follows when it has run.
    #[inline(always)]
    fn take_place(&mut self, index: usize) -> Box<ReceivePlace> {
        let spare = self.spare_places.pop().unwrap_or_default();
        core::mem::replace(&mut self.receive_callbacks[index], spare)
    }

    /// Takes the memory of a callback back that has run.
    #[inline(always)]
    pub fn give_back(&mut self, place: Box<ReceivePlace>) {
        self.spare_places.push(place);
    }

    /// Ends a receive with a callback, if it is one that takes so many bytes; gives its callback, with its
    /// memory; [`Operations::give_back`] follows when it has run.
    #[inline]
    pub fn end_receive_callback(&mut self, id: CallId, bytes: usize) -> Option<Box<ReceivePlace>> {
        let index = usize::from(id.0 as u16);
        let slot = self.slots.get_mut(index)?;
        if !takes(slot, id, bytes) {
            return None;
        }
        slot.vacate(&mut self.first_vacant);
        self.note_ends(Kind::Receive, 1);
        Some(self.take_place(index))
    }

    /// Ends the receives of these messages as [`Operations::end_receive_callback`] does, up to one that it does not end; says how
    /// many. Their callbacks are the first that [`Operations::take_ready`] gives.
    #[inline(always)]
    pub fn end_receive_callbacks(&mut self, messages: &[Matched<'_>]) -> usize {
        let Self { slots, receive_callbacks, spare_places, .. } = self;
        let (slots, callbacks) = (slots.as_mut_slice(), receive_callbacks.as_mut_slice());
        let (mut first_vacant, mut ended) = (self.first_vacant, 0);
        for (message, spare) in messages.iter().zip(spare_places) {
            let (id, bytes) = (CallId(message.receive.0), message.payload_bytes());
            let index = usize::from(id.0 as u16);
            let Some((slot, place)) = slots.get_mut(index).zip(callbacks.get_mut(index)) else {
                break;
            };
            if !takes(slot, id, bytes) {
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

    /// Callbacks of receives that have ended, with all the spare memory; [`Operations::give_ready_back`] follows when they have run.
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

/// Whether a slot is that of a receive with a callback that takes so many bytes.
#[inline(always)]
fn takes(slot: &Slot, receive: CallId, bytes: usize) -> bool {
    let waits = slot.stage() == Stage::PendingReceiveCallback && slot.id == receive;
    waits && bytes <= slot.number as usize
}
