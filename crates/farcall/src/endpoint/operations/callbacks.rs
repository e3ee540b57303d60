//! Receives with callbacks.
//!
//! Their callbacks are beside the slab, in memory of which only a pointer moves: one stays where it was made until it has run.

use core::time::Duration;

use farcall_transport::{CallId, Matched, SessionId};

use super::{Kind, Operations, Slot, Stage};
use crate::endpoint::callback::{ReceiveCallback, ReceivePlaces};

impl Operations {
    /// Adds a receive with a callback that is made where it stays, of at most so many bytes. A slot is vacant: see
    /// [`Operations::next_id`], which is its number.
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
        slot.number = bytes_max;
        self.receive_callbacks[usize::from(index)].put(callback);
    }

    /// A receive ended when it began, which needs no slot and was never under way: it had the [`Operations::next_id`], and no other
    /// has it again.
    #[inline(always)]
    pub fn pass_receive(&mut self) {
        self.slots[self.first_vacant as usize].renew();
    }

    /// Ends the receives of these messages, up to one that has no callback or takes fewer bytes; says how many. Their callbacks are the first that [`Operations::take_ready`] gives.
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
