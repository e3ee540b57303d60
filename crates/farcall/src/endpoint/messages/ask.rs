//! How a receive begins.

use core::time::Duration;

use farcall_transport::{CallId, MessageId, Origin, Outbox, ReceiveProgress, SessionId, Short, Source, Tag};

use super::ends::outcome_of;
use super::outcome::{KeptMessage, ReceiveError};
use super::wanted::Wanted;
use crate::endpoint::context::Context;
use crate::endpoint::core::Core;
use crate::endpoint::operations::{Kind, NO_SESSION, OPERATIONS_MAX, Operations};
use crate::endpoint::sessions::Peer;
use crate::endpoint::state::State;

/// Adds the operation and asks the transport; gives the message too if it was there already.
#[inline(always)]
pub fn begin(
    outbox: &mut dyn Outbox,
    state: &mut State,
    wanted: &Wanted,
    add: impl FnOnce(&mut Operations, SessionId, Option<Duration>, u32) -> Option<CallId>,
) -> Result<(CallId, Option<Result<KeptMessage, ReceiveError>>), ReceiveError> {
    let &Wanted { from, tag, room, timeout } = wanted;
    let session = from.map(|peer| peer.session);
    let id = add(&mut state.operations, session.unwrap_or(NO_SESSION), timeout, room)
        .ok_or(ReceiveError::TooMany { operations_max: OPERATIONS_MAX })?;
    if let (Some(peer), Some(tag)) = (from, tag)
        && outbox.receive_at_once(MessageId(id.0), origin_of(peer), tag)
    {
        return Ok((id, None));
    }
    let mut progress = outbox.receive(MessageId(id.0), from.map(origin_of), tag);
    if matches!(progress, ReceiveProgress::Down) {
        progress = receive_elsewhere(outbox, state, id, from, tag);
    }
    Ok((id, outcome_of(state, from, room, progress)))
}

/// A receive of a future, or one that is about to be given to a callback.
pub enum Asked {
    /// It waits for its message.
    Posted(CallId),
    /// Its message was there, and is left with it.
    Ended(CallId),
}

impl Core {
    /// Asks for a message, which may be there already, where nothing stands in the way and nothing has to grow for it: that is left
    /// to a way which may keep more registers. Always inlined: a function would keep registers for the one call that it makes, which
    /// costs more than it does.
    #[inline(always)]
    pub fn ask_at_once(&mut self, session: SessionId, source: Source, tag: Tag, room: u32) -> Option<Asked> {
        if !self.state.operations.has_vacant() {
            return None;
        }
        let id = self.state.operations.add_receive_future(session, None, room)?;
        if self.transport.receive_at_once(MessageId(id.0), Origin { source, session }, tag) {
            return Some(Asked::Posted(id));
        }
        if self.not_posted(id, source, tag, room) { Some(Asked::Ended(id)) } else { None }
    }

    /// The receive has its message already, or else there is none.
    #[inline(never)]
    fn not_posted(&mut self, id: CallId, from: Source, tag: Tag, room: u32) -> bool {
        let has_message = self.take_left(id, from, tag, room);
        if !has_message {
            self.state.operations.take_back(id, Kind::Receive);
        }
        has_message
    }

    /// Takes the message that was left for the receive; false when there is none.
    fn take_left(&mut self, id: CallId, from: Source, tag: Tag, room: u32) -> bool {
        let Self { transport, state, .. } = self;
        if (room as usize) < Short::BYTES_MAX {
            return false;
        }
        let Some((session, message)) = transport.take_left(from, tag) else { return false };
        let peer = state.sessions.peer_of(session);
        let is_left = state.operations.leave_short(id, peer, tag, &message);
        state.counters.received.add(u64::from(is_left));
        is_left
    }
}

impl Context<'_> {
    /// As that of the endpoint, but for a message that is not there, and not inlined: it would be in every callback that asks again.
    #[inline(never)]
    pub(super) fn ask_at_once(
        &mut self,
        session: SessionId,
        source: Source,
        tag: Tag,
        room: u32,
    ) -> Option<CallId> {
        let Self { outbox, state } = self;
        if !state.operations.has_vacant() {
            return None;
        }
        let id = state.operations.add_receive_future(session, None, room)?;
        let is_posted = outbox.receive_at_once(MessageId(id.0), Origin { source, session }, tag);
        if !is_posted {
            state.operations.take_back(id, Kind::Receive);
        }
        is_posted.then_some(id)
    }
}

#[inline]
fn origin_of(peer: Peer) -> Origin {
    Origin { source: Source::new(peer.rank, peer.endpoint), session: peer.session }
}

/// Asks again by another session to the same endpoint, if there is one.
#[cold]
fn receive_elsewhere(
    outbox: &mut dyn Outbox,
    state: &mut State,
    id: CallId,
    from: Option<Peer>,
    tag: Option<Tag>,
) -> ReceiveProgress {
    match from.and_then(|peer| state.sessions.find(peer.rank, peer.endpoint)) {
        Some(other) => {
            state.operations.set_session(id, other.session);
            outbox.receive(MessageId(id.0), Some(origin_of(other)), tag)
        }
        None => ReceiveProgress::Down,
    }
}
