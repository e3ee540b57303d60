//! What has ended and waits for its future, which fetches the result and gives the slot back.

use core::task::Waker;

use farcall_transport::{CallId, Kept};

use super::Operations;
use super::slot::{Attachment, Completion, Stage};
use crate::endpoint::outcome::CallError;
use crate::endpoint::unfetched::FETCHED_ONCE;

impl Operations {
    pub(super) fn leave(&mut self, id: CallId, result: Attachment) {
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

    pub(super) fn fetch(&mut self, id: CallId, waker: Option<&Waker>) -> Option<Attachment> {
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
}
