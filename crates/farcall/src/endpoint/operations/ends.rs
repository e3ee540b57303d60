//! The ways in which an operation ends: by its answer, by a cancel, or because it could not begin.

use farcall_transport::{CallId, SessionId};

use super::Operations;
use super::slot::{Attachment, Completion, Kind, Stage};

impl Operations {
    /// Ends a call that becomes an event, and gives its token; `None` for all others, which [`Operations::end`] knows.
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
    pub(super) fn remove_pending(&mut self, call: CallId) -> Completion {
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
}
