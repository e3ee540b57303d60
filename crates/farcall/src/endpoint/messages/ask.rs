//! How a receive begins.

use core::time::Duration;

use farcall_transport::{CallId, Copied, MessageId, Origin, Outbox, ReceiveProgress, SessionId, Source, Tag};

use super::ends::outcome_of;
use super::outcome::{KeptMessage, ReceiveError};
use super::wanted::{Exact, Wanted};
use crate::endpoint::callback::ReceiveCallback;
use crate::endpoint::context::Context;
use crate::endpoint::core::Core;
use crate::endpoint::label::Label;
use crate::endpoint::operations::{Kind, NO_SESSION, OPERATIONS_MAX, Operations};
use crate::endpoint::sessions::Peer;
use crate::endpoint::state::State;

/// How a receive with a callback begins where nothing stands in the way.
pub enum Begun<T> {
    /// It waits for its message.
    Posted,
    /// With its message, which had been left for it.
    WithMessage(T),
    /// Not so: the long way is left.
    Not,
}

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
        let begun = self.begin_at_once(id, exact, exact.room_for_short(), |core| {
            core.take_short(exact, |state, label, message| {
                state.messages.ended.next_received().put(label, message);
            })
        });
        match begun {
            Begun::Posted => {
                self.state.operations.add_receive_at_once(exact.from.session, exact.room, callback);
            }
            Begun::WithMessage(()) => {
                self.state.operations.pass_receive();
                self.state.messages.ended.received(callback);
            }
            Begun::Not => return Err(callback()),
        }
        Ok(id)
    }

    /// Asks the transport for a receive that is about to be added with a callback, unless a message of at most `left_bytes_max` bytes
    /// was left for it, which `take` takes if it is short.
    #[inline(always)]
    pub fn begin_at_once<T>(
        &mut self,
        id: CallId,
        exact: Exact,
        left_bytes_max: usize,
        take: impl Fn(&mut Self) -> Option<T>,
    ) -> Begun<T> {
        if self.takes_left
            && let Some(message) = take(self)
        {
            return Begun::WithMessage(message);
        }
        if self.transport.receive_at_once(MessageId(id.0), exact.from, exact.tag, left_bytes_max) {
            return Begun::Posted;
        }
        take(self).map_or(Begun::Not, Begun::WithMessage)
    }

    /// A copy of the message that was left for a receive, if it is not longer than [`Exact::room_for_copy`].
    #[inline(never)]
    pub fn take_copy(&mut self, exact: Exact) -> Option<(Label, Copied)> {
        let Self { transport, state, .. } = self;
        let mut copied = None;
        transport.take_left(exact.from.source, exact.tag, exact.room_for_copy(), &mut |session, message| {
            let peer = state.sessions.peer_of(session);
            copied = Some((Label::new(peer, exact.tag), state.copy(message)));
            state.counters.received.increment();
        });
        copied
    }

    /// Takes the message that was left for a receive, if it is short; `put` gets it.
    #[inline(never)]
    pub fn take_short(&mut self, exact: Exact, mut put: impl FnMut(&mut State, Label, &[u8])) -> Option<()> {
        let Self { transport, state, .. } = self;
        let room = exact.room_for_short();
        self.takes_left = transport.take_left(exact.from.source, exact.tag, room, &mut |session, message| {
            let peer = state.sessions.peer_of(session);
            put(state, Label::new(peer, exact.tag), message);
            state.counters.received.increment();
        });
        self.takes_left.then_some(())
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
