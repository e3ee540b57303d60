//! How a receive begins.

use core::time::Duration;

use farcall_transport::{
    CallId, Incoming, MessageId, Origin, Outbox, ReceiveProgress, SessionId, Short, Source, Tag,
};

use super::ends::outcome_of;
use super::outcome::{KeptMessage, ReceiveError, ReceiveOutcome, Received};
use super::wanted::{Exact, Wanted};
use crate::endpoint::callback::ReceiveCallback;
use crate::endpoint::context::Context;
use crate::endpoint::core::Core;
use crate::endpoint::label::Label;
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

impl Core {
    /// Asks for a message for a future, which may be there already, where nothing stands in the way and nothing has to grow for it:
    /// that is left to a way which may keep more registers. Always inlined: a function would keep registers for the one call that it
    /// makes, which costs more than it does.
    #[inline(always)]
    pub fn ask_at_once(&mut self, exact: Exact) -> Option<CallId> {
        if !self.state.operations.has_vacant() {
            return None;
        }
        if self.takes_left
            && let Some(id) = self.add_with_left(exact)
        {
            return Some(id);
        }
        let Exact { from, tag, room } = exact;
        let id = self.state.operations.add_receive_future(from.session, None, room)?;
        let is_posted = self.transport.receive_at_once(MessageId(id.0), from, tag, room as usize);
        (is_posted || self.not_posted(id, from.source, tag, room)).then_some(id)
    }

    /// Adds a receive that has its message already, which was left for it; `None` when there is no such message.
    #[inline(never)]
    fn add_with_left(&mut self, exact: Exact) -> Option<CallId> {
        let Self { transport, state, .. } = self;
        let (mut id, room) = (None, exact.room as usize);
        self.takes_left = transport.take_left(exact.from.source, exact.tag, room, &mut |session, message| {
            let label = Label::new(state.sessions.peer_of(session), exact.tag);
            id = Some(state.add_received(label, message));
            state.counters.received.increment();
        });
        id
    }

    /// Whether the receive has its message already, because that was left for it; otherwise there is none any more.
    #[inline(never)]
    fn not_posted(&mut self, id: CallId, from: Source, tag: Tag, room: u32) -> bool {
        let Self { transport, state, .. } = self;
        self.takes_left = transport.take_left(from, tag, room as usize, &mut |session, message| {
            let peer = state.sessions.peer_of(session);
            let is_left = state.operations.leave_short(id, peer, tag, message)
                || state.leave_copy(id, peer, tag, message);
            assert!(is_left, "a receive that was added takes what it has room for");
            state.counters.received.increment();
        });
        if !self.takes_left {
            self.state.operations.take_back(id, Kind::Receive);
        }
        self.takes_left
    }

    /// As [`Core::ask_at_once`] for a callback, which is given back where something stands in the way. It runs later.
    #[inline(always)]
    pub fn ask_with_callback(
        &mut self,
        exact: Exact,
        callback: impl FnOnce() -> ReceiveCallback,
    ) -> Result<CallId, ReceiveCallback> {
        let Some(id) = self.state.operations.vacant_id() else { return Err(callback()) };
        let take = |core: &mut Self| {
            core.take_short(exact, |state, label, message| {
                state.messages.ended.next_received().put(label, message);
            })
        };
        if !(self.takes_left && take(self)) {
            if self.is_posted_at_once(id, exact, exact.room_for_short()) {
                self.state.operations.add_receive_at_once(exact.from.session, exact.room, callback);
                return Ok(id);
            }
            if !take(self) {
                return Err(callback());
            }
        }
        self.state.operations.pass_receive();
        self.state.messages.ended.received(callback);
        Ok(id)
    }

    /// Whether the transport waits for the message of a receive that is about to be added; it does not if one of at most
    /// `left_bytes_max` bytes was left for it.
    #[inline(always)]
    pub fn is_posted_at_once(&mut self, id: CallId, exact: Exact, left_bytes_max: usize) -> bool {
        self.transport.receive_at_once(MessageId(id.0), exact.from, exact.tag, left_bytes_max)
    }

    /// Gives the message that was left for a receive to its callback, where it lies, or gives the callback back. The next message is
    /// asked for before a receive is posted only if this one was short.
    ///
    /// # Panics
    /// With what the callback panics with.
    #[inline(never)]
    pub fn give_left<F: FnOnce(&mut Context<'_>, &ReceiveOutcome<'_>)>(
        &mut self,
        exact: Exact,
        callback: F,
    ) -> Option<F> {
        let Self { transport, state, .. } = self;
        let (mut waiting, mut is_short) = (Some(callback), false);
        let (source, room) = (exact.from.source, exact.room as usize);
        transport.give_left(source, exact.tag, room, &mut |outbox, session, message| {
            let Some(callback) = waiting.take() else { return };
            is_short = message.len() <= Short::BYTES_MAX;
            state.counters.received.increment();
            let peer = state.sessions.peer_of(session);
            let outcome = &Ok(Received { peer, tag: exact.tag, payload: Incoming::Borrowed(message) });
            state.guard(|state| callback(&mut Context { outbox, state }, outcome));
        });
        self.takes_left = is_short;
        self.go_on_with_panic();
        waiting
    }

    /// Takes the message that was left for a receive, if it is short; `put` gets it. Says whether there was one.
    #[inline(never)]
    pub fn take_short(&mut self, exact: Exact, mut put: impl FnMut(&mut State, Label, &[u8])) -> bool {
        let Self { transport, state, .. } = self;
        let room = exact.room_for_short();
        self.takes_left = transport.take_left(exact.from.source, exact.tag, room, &mut |session, message| {
            let peer = state.sessions.peer_of(session);
            put(state, Label::new(peer, exact.tag), message);
            state.counters.received.increment();
        });
        self.takes_left
    }
}

impl Context<'_> {
    /// As that of the endpoint, but for a message that is not there.
    #[inline(always)]
    pub(super) fn ask_with_callback(
        &mut self,
        Exact { from, tag, room }: Exact,
        callback: impl FnOnce() -> ReceiveCallback,
    ) -> Result<CallId, ReceiveCallback> {
        let Self { outbox, state } = self;
        let Some(id) = state.operations.vacant_id() else { return Err(callback()) };
        if !outbox.receive_at_once(MessageId(id.0), from, tag) {
            return Err(callback());
        }
        state.operations.add_receive_at_once(from.session, room, callback);
        Ok(id)
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
