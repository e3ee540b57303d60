//! How the end of a call that begins is told.
//!
//! A trait and not a value, so that a call whose end is an event is made without anything that would have to be dropped if it
//! could not be made.

use core::time::Duration;

use farcall_transport::{CallId, SessionId};

use super::slab::{Completion, Slab};

/// Adds a call whose end is told in one way.
pub trait Ending {
    /// The call's number; `None` when as many are in flight as there can be.
    fn add_to(self, operations: &mut Slab, session: SessionId, timeout: Option<Duration>) -> Option<CallId>;
}

/// By an event with this token.
pub struct AsEvent(pub u64);

impl Ending for AsEvent {
    #[inline(always)]
    fn add_to(self, operations: &mut Slab, session: SessionId, timeout: Option<Duration>) -> Option<CallId> {
        operations.add_event(session, timeout, self.0)
    }
}

/// By a callback or a future.
impl Ending for Completion {
    #[inline]
    fn add_to(self, operations: &mut Slab, session: SessionId, timeout: Option<Duration>) -> Option<CallId> {
        operations.add(session, timeout, self)
    }
}
