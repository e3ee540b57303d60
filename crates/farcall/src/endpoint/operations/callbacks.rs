//! Receives with callbacks.
//!
//! Their callbacks are beside the slab, in memory of which only a pointer moves: one stays where it was made until it has run.

use core::time::Duration;

use farcall_transport::{CallId, SessionId, Short};

use super::{Kind, Operations, Stage};
use crate::endpoint::callback::{ReceiveCallback, ReceivePlace};
use crate::endpoint::label::Label;
use crate::endpoint::messages::{KeptMessage, ReceiveError};

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

    /// Gives a receive that was added for a future just now to a callback instead.
    #[inline(always)]
    pub fn turn_to_callback(&mut self, id: CallId, callback: impl FnOnce() -> ReceiveCallback) {
        self.slots[usize::from(id.0 as u16)].set_stage(Stage::PendingReceiveCallback);
        self.put_callback(id, callback);
    }

    /// Makes the callback of a receive, where it stays.
    #[inline(always)]
    pub fn put_callback(&mut self, id: CallId, callback: impl FnOnce() -> ReceiveCallback) {
        self.receive_callbacks[usize::from(id.0 as u16)].put(callback);
    }

    /// The message of a receive with a callback, if it is a short one that was there when it was asked for, and the callback.
    #[inline]
    pub fn take_short(&mut self, id: CallId) -> Option<(Label, Short, ReceivePlace)> {
        let index = usize::from(id.0 as u16);
        let slot = &mut self.slots[index];
        if slot.stage() != Stage::DoneShort {
            return None;
        }
        let (label, short) = (slot.label, slot.short);
        slot.vacate(&mut self.first_vacant);
        self.done.set(id, false);
        Some((label, short, self.take_place(index)))
    }

    /// The outcome of a receive with a callback that was there when it was asked for, and the callback.
    pub fn take_received(&mut self, id: CallId) -> Option<(Result<KeptMessage, ReceiveError>, ReceivePlace)> {
        let outcome = self.fetch_received(id, None)?;
        Some((outcome, self.take_place(usize::from(id.0 as u16))))
    }

    /// Takes the callback of a receive out, with its memory; [`Operations::give_back`] follows when it has run.
    #[inline(always)]
    fn take_place(&mut self, index: usize) -> ReceivePlace {
        let spare = core::mem::take(&mut self.spare_place);
        core::mem::replace(&mut self.receive_callbacks[index], spare)
    }

    /// Takes the memory of a callback back that has run.
    #[inline(always)]
    pub fn give_back(&mut self, place: ReceivePlace) {
        // The other is empty since this one was taken: a drop would look.
        core::mem::forget(core::mem::replace(&mut self.spare_place, place));
    }

    /// Ends a receive with a callback, if it is one that takes so many bytes; gives its callback, with its
    /// memory; [`Operations::give_back`] follows when it has run.
    #[inline]
    pub fn end_receive_callback(&mut self, id: CallId, bytes: usize) -> Option<ReceivePlace> {
        let index = usize::from(id.0 as u16);
        let slot = self.slots.get_mut(index)?;
        let waits = slot.stage() == Stage::PendingReceiveCallback && slot.id == id;
        if !waits || bytes > slot.number as usize {
            return None;
        }
        slot.vacate(&mut self.first_vacant);
        self.note_ends(Kind::Receive, 1);
        Some(self.take_place(index))
    }

    /// Leaves the outcome of a receive that was there when it was asked for, for its callback.
    pub fn leave_for_callback(&mut self, id: CallId, result: Result<KeptMessage, ReceiveError>) {
        self.note_ends(Kind::Receive, 1);
        self.leave_received(id, result);
    }
}
