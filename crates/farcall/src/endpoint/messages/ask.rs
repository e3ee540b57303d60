//! How a receive begins: it is posted, and has its message at once if that is here already.

use farcall_transport::{
    Arrived, CallId, DownReason, MessageId, Origin, Outbox, Posted, SessionId, Source, Tag,
};

use super::ends::outcome_of;
use super::outcome::{KeptMessage, ReceiveError};
use super::wanted::Wanted;
use crate::endpoint::context::Context;
use crate::endpoint::core::Core;
use crate::endpoint::label::Label;
use crate::endpoint::sessions::Peer;
use crate::endpoint::slab::OPERATIONS_MAX;
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
        let Wanted { from, tag, .. } = wanted;
        match (self.post(id, from, tag, in_place_bytes_max, &mut deliver), from) {
            (Posted::Waiting, _) => Asked::Waiting(wanted.session()),
            (Posted::Delivered, _) => Asked::Delivered,
            (Posted::Down, Some(Peer { rank, endpoint, .. })) => {
                self.ask_elsewhere(id, (rank, endpoint), tag, in_place_bytes_max, &mut deliver)
            }
            (Posted::Down, None) => Asked::Down,
        }
    }

    /// Asks again by another session to the same endpoint, if there is one.
    #[cold]
    fn ask_elsewhere(
        &mut self,
        id: CallId,
        (rank, endpoint): (u32, u32),
        tag: Option<Tag>,
        in_place_bytes_max: usize,
        deliver: &mut impl FnMut(&mut dyn Outbox, &mut State, Label, Arrived<'_>),
    ) -> Asked {
        let Some(other) = self.state.sessions.find(rank, endpoint) else { return Asked::Down };
        match self.post(id, Some(other), tag, in_place_bytes_max, deliver) {
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

    /// Why a receive can have no message that asks for one of this session.
    #[cold]
    pub(super) fn why_down(&self, session: SessionId) -> ReceiveError {
        let reason = self.state.sessions.reason_of(session).cloned();
        ReceiveError::PeerDown(reason.unwrap_or(DownReason::Closed))
    }
}

impl Core {
    /// Asks for a message for a future. The operation is there before the receive is posted, so that nothing
    /// has to be kept for what comes behind that, and what is wanted is never in memory.
    #[inline(always)]
    pub(super) fn ask_for_future(&mut self, wanted: Wanted) -> Result<CallId, ReceiveError> {
        let (session, Wanted { from, tag, room, timeout }) = (wanted.session(), wanted);
        let id = self.state.operations.add_receive_future(session, timeout, room).ok_or_else(too_many)?;
        let posted = self.context().post(id, from, tag, room as usize, &mut to_future(id, room));
        if posted == Posted::Down
            && let Some(Peer { rank, endpoint, .. }) = from
        {
            self.ask_elsewhere_for_future(id, session, (rank, endpoint), tag, room);
        }
        Ok(id)
    }

    #[cold]
    fn ask_elsewhere_for_future(
        &mut self,
        id: CallId,
        session: SessionId,
        endpoint: (u32, u32),
        tag: Option<Tag>,
        room: u32,
    ) {
        let mut context = self.context();
        match context.ask_elsewhere(id, endpoint, tag, room as usize, &mut to_future(id, room)) {
            Asked::Waiting(other) => self.state.operations.set_session(id, other),
            Asked::Delivered => {}
            Asked::Down => {
                let error = context.why_down(session);
                end_future(&mut self.state, id, Err(error));
            }
        }
    }
}

/// Ends the receive of a future, which is being posted, with a message that is here already.
#[inline(always)]
fn to_future(id: CallId, room: u32) -> impl FnMut(&mut dyn Outbox, &mut State, Label, Arrived<'_>) {
    move |_, state, label, arrived| match arrived {
        Arrived::InPlace(message) => state.leave_message(id, label, message),
        Arrived::Kept(_) => end_future(state, id, outcome_of(label, room, arrived)),
    }
}

/// Ends the receive of a future that was never polled.
#[cold]
fn end_future(state: &mut State, id: CallId, outcome: Result<KeptMessage, ReceiveError>) {
    state.operations.cancel(id);
    state.operations.leave_received(id, outcome);
}

#[cold]
fn too_many() -> ReceiveError {
    ReceiveError::TooMany { operations_max: OPERATIONS_MAX }
}

#[inline]
fn origin_of(peer: Peer) -> Origin {
    Origin::new(Source::new(peer.rank, peer.endpoint, peer.session.0), peer.session)
}
