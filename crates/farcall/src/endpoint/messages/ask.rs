//! How a receive begins: it is posted, and has its message at once if that is here already.

use core::time::Duration;

use farcall_transport::{
    Arrived, CallId, DownReason, MessageId, Origin, Outbox, Posted, SessionId, Source, Tag,
};

use super::ends::outcome_of;
use super::outcome::ReceiveError;
use super::wanted::Wanted;
use crate::endpoint::context::Context;
use crate::endpoint::label::Label;
use crate::endpoint::sessions::Peer;
use crate::endpoint::slab::{NO_SESSION, OPERATIONS_MAX};
use crate::endpoint::state::State;

/// What became of a receive that was posted under the number of the next operation.
pub enum Asked {
    /// It waits, as long as that session is up.
    Waiting(SessionId),
    /// Its message was delivered.
    Delivered,
    /// It can have none: its session is down, and there is no other to that endpoint.
    Down,
}

impl Context<'_> {
    /// The number of the next operation.
    #[inline(always)]
    pub(super) fn next_receive(&mut self) -> Result<CallId, ReceiveError> {
        self.state.operations.next_id().ok_or_else(too_many)
    }

    /// Posts a receive. A message that is here already goes to `deliver`: one that was deferred, if it is not longer than
    /// `in_place_bytes_max`, or one that was kept.
    ///
    /// Always inlined, so that what is wanted stays in registers.
    #[inline(always)]
    pub(super) fn ask(
        &mut self,
        id: CallId,
        wanted: Wanted,
        in_place_bytes_max: usize,
        mut deliver: impl FnMut(&mut dyn Outbox, &mut State, Label, Arrived<'_>),
    ) -> Asked {
        match self.post(id, wanted.from, wanted.tag, in_place_bytes_max, &mut deliver) {
            Posted::Waiting => Asked::Waiting(wanted.from.map_or(NO_SESSION, |peer| peer.session)),
            Posted::Delivered => Asked::Delivered,
            Posted::Down => self.ask_elsewhere(id, wanted, in_place_bytes_max, &mut deliver),
        }
    }

    /// Asks again by another session to the same endpoint, if there is one.
    #[cold]
    fn ask_elsewhere(
        &mut self,
        id: CallId,
        wanted: Wanted,
        in_place_bytes_max: usize,
        deliver: &mut impl FnMut(&mut dyn Outbox, &mut State, Label, Arrived<'_>),
    ) -> Asked {
        let other = wanted.from.and_then(|peer| self.state.sessions.find(peer.rank, peer.endpoint));
        let Some(other) = other else { return Asked::Down };
        match self.post(id, Some(other), wanted.tag, in_place_bytes_max, deliver) {
            Posted::Waiting => Asked::Waiting(other.session),
            Posted::Delivered => Asked::Delivered,
            Posted::Down => Asked::Down,
        }
    }

    #[inline(always)]
    fn post(
        &mut self,
        id: CallId,
        from: Option<Peer>,
        tag: Option<Tag>,
        in_place_bytes_max: usize,
        deliver: &mut impl FnMut(&mut dyn Outbox, &mut State, Label, Arrived<'_>),
    ) -> Posted {
        let Self { outbox, state } = self;
        let mut deliver = |outbox: &mut dyn Outbox, session: SessionId, tag: Tag, arrived: Arrived<'_>| {
            state.counters.received.increment();
            let label = Label::new(state.sessions.peer_of(session), tag);
            deliver(outbox, state, label, arrived);
        };
        outbox.post(MessageId(id.0), from.map(origin_of), tag, in_place_bytes_max, &mut deliver)
    }

    /// Why a receive can have no message.
    #[cold]
    pub(super) fn why_down(&self, wanted: Wanted) -> ReceiveError {
        let reason = wanted.from.and_then(|peer| self.state.sessions.reason_of(peer.session)).cloned();
        ReceiveError::PeerDown(reason.unwrap_or(DownReason::Closed))
    }

    /// Asks for a message for a future.
    #[inline(always)]
    pub(super) fn ask_for_future(&mut self, wanted: Wanted) -> Result<CallId, ReceiveError> {
        let (id, room) = (self.next_receive()?, wanted.room);
        let deliver = move |_: &mut dyn Outbox, state: &mut State, label, arrived: Arrived<'_>| match arrived
        {
            Arrived::InPlace(message) => _ = state.add_received(label, message),
            Arrived::Kept(_) => leave(state, room, outcome_of(label, room, arrived)),
        };
        match self.ask(id, wanted, room as usize, deliver) {
            Asked::Waiting(session) => self.wait_for_future(session, wanted.timeout, room),
            Asked::Delivered => {}
            Asked::Down => leave(self.state, room, Err(self.why_down(wanted))),
        }
        Ok(id)
    }

    #[inline(always)]
    fn wait_for_future(&mut self, session: SessionId, timeout: Option<Duration>, room: u32) {
        let added = self.state.operations.add_receive_future(session, timeout, room);
        debug_assert!(added.is_some(), "a number was free");
    }
}

/// Adds the receive of a future that has ended.
#[cold]
fn leave(state: &mut State, room: u32, outcome: Result<super::KeptMessage, ReceiveError>) {
    let id = state.operations.add_receive_future(NO_SESSION, None, room).expect("a number was free");
    state.operations.cancel(id);
    state.operations.leave_received(id, outcome);
}

#[cold]
fn too_many() -> ReceiveError {
    ReceiveError::TooMany { operations_max: OPERATIONS_MAX }
}

#[inline]
fn origin_of(peer: Peer) -> Origin {
    Origin { source: Source::new(peer.rank, peer.endpoint), session: peer.session }
}
