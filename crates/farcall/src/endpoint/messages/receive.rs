//! Receives: waited for, awaited, with a callback, or posted.

use core::future::{Future, IntoFuture};
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;

use farcall_protocol::Instant;
use farcall_transport::{CallId, MessageId, Origin, Outbox, ReceiveProgress, SessionId, Source, Tag};

use super::ends::outcome_of;
use super::outcome::{KeptMessage, Message, ReceiveError, ReceiveOutcome};
use super::wanted::Wanted;
use crate::endpoint::Endpoint;
use crate::endpoint::callback::ReceiveCallback;
use crate::endpoint::context::{Context, Operation};
use crate::endpoint::core::Core;
use crate::endpoint::event::StoredEvent;
use crate::endpoint::operations::{Completion, NO_SESSION, OPERATIONS_MAX, Operations};
use crate::endpoint::sessions::Peer;
use crate::endpoint::state::State;

/// A receive that is about to be made. It asks for nothing before one of `wait`, `start`, `then`, `post` or `.await`.
#[must_use = "a message is asked for by `wait`, `start`, `then`, `post` or `.await`"]
pub struct ReceiveMessage<'e> {
    pub(in crate::endpoint) endpoint: &'e Endpoint,
    pub(in crate::endpoint) wanted: Wanted,
}

impl<'e> ReceiveMessage<'e> {
    /// Sets how long the message may take to come, instead of the endpoint's `message_timeout`.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.wanted.timeout = Some(timeout);
        self
    }

    /// Sets how long the message may be; a longer one ends the receive with [`ReceiveError::Truncated`].
    pub fn at_most(mut self, bytes: usize) -> Self {
        self.wanted.room = u32::try_from(bytes).unwrap_or(u32::MAX);
        self
    }

    /// Polls the endpoint until there is a message.
    pub fn wait(self) -> Result<Message<'e>, ReceiveError> {
        self.start()?.wait()
    }

    /// Polls the endpoint until there is a message and copies it to the beginning of `buffer`, which it must not be
    /// longer than; gives its length.
    pub fn wait_into(self, buffer: &mut [u8]) -> Result<usize, ReceiveError> {
        let message = self.at_most(buffer.len()).wait()?;
        buffer[..message.len()].copy_from_slice(&message);
        Ok(message.len())
    }

    /// Asks for the message now; the future that is returned completes with it.
    ///
    /// Always inlined: a receive that is given back through memory would be read there before it is whole.
    #[inline(always)]
    pub fn start(self) -> Result<Receiving<'e>, ReceiveError> {
        let Self { endpoint, wanted: Wanted { from, tag, room, timeout } } = self;
        if let (Some(Peer { session, rank, endpoint: number }), Some(tag), None) = (from, tag, timeout)
            && let Some(id) = endpoint.core().ask_at_once(session, Source::new(rank, number), tag, room)
        {
            return Ok(Receiving { endpoint, pending: Some(id) });
        }
        // Put together again, so that what is asked for at once is never in memory.
        match (Self { endpoint, wanted: Wanted { from, tag, room, timeout } }).ask() {
            Ok(id) => Ok(Receiving { endpoint, pending: Some(id) }),
            Err(error) => Err(*error),
        }
    }

    #[inline(never)]
    fn ask(&self) -> Result<CallId, Box<ReceiveError>> {
        let core = &mut *self.endpoint.core();
        let (id, message) =
            begin(core.transport.outbox(), &mut core.state, &self.wanted, Operations::add_receive_future)?;
        if let Some(message) = message {
            core.state.operations.cancel(id);
            core.state.operations.leave_received(id, message);
        }
        Ok(id)
    }

    /// Asks for the message; `callback` gets it, once, during a later poll.
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, &ReceiveOutcome<'_>) + Send + 'static,
    ) -> Result<Operation, ReceiveError> {
        let core = &mut *self.endpoint.core();
        let mut context = Context { outbox: core.transport.outbox(), state: &mut core.state };
        then(&mut context, &self.wanted, ReceiveCallback::new(callback))
    }

    /// Asks for the message; it becomes an event with this token, in a later poll.
    #[inline]
    pub fn post(self, token: u64) -> Result<Operation, ReceiveError> {
        let core = &mut *self.endpoint.core();
        let mut context = Context { outbox: core.transport.outbox(), state: &mut core.state };
        post(&mut context, &self.wanted, token)
    }
}

impl<'e> IntoFuture for ReceiveMessage<'e> {
    type Output = Result<Message<'e>, ReceiveError>;
    type IntoFuture = ReceivingOrRefused<'e>;

    /// Asks for the message.
    fn into_future(self) -> ReceivingOrRefused<'e> {
        ReceivingOrRefused(self.start().map_err(Some))
    }
}

/// The future of a receive that may have been refused at once.
pub struct ReceivingOrRefused<'e>(Result<Receiving<'e>, Option<ReceiveError>>);

impl<'e> Future for ReceivingOrRefused<'e> {
    type Output = Result<Message<'e>, ReceiveError>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            Ok(receiving) => Pin::new(receiving).poll(task),
            Err(refusal) => Poll::Ready(Err(refusal.take().expect("a future is not polled after its end"))),
        }
    }
}

const FETCHED_ONCE: &str = "a future fetches its result once";

/// A receive under way. Some task or thread must poll the endpoint for it to progress.
///
/// Dropping it gives the receive up; if it has its message already, that is lost.
#[must_use = "dropping it gives up the receive"]
pub struct Receiving<'e> {
    endpoint: &'e Endpoint,
    /// `None` once its end was fetched.
    pending: Option<CallId>,
}

impl<'e> Receiving<'e> {
    /// Whether the message is there, so that `wait` will not block.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.pending.is_none_or(|id| self.endpoint.core().state.operations.is_done(id))
    }

    /// The message if it is there, or else the receive again.
    #[inline]
    pub fn ready(mut self) -> Result<Result<Message<'e>, ReceiveError>, Self> {
        if let Some(message) = self.fetch_short() {
            return Ok(Ok(message));
        }
        match self.fetch(None) {
            Some(result) => Ok(result),
            None => Err(self),
        }
    }

    /// Polls the endpoint until the message is there.
    #[inline(always)]
    pub fn wait(mut self) -> Result<Message<'e>, ReceiveError> {
        match self.fetch_short() {
            Some(message) => Ok(message),
            None => self.wait_for_any().map(|message| Message::new(message, self.endpoint)),
        }
    }

    #[inline(never)]
    fn wait_for_any(&mut self) -> Result<KeptMessage, ReceiveError> {
        let id = self.pending.expect(FETCHED_ONCE);
        self.endpoint.poll_until(|state| state.operations.is_done(id));
        self.fetch_kept(None).expect("the operation is done")
    }

    /// Gives the receive up: [`ReceiveError::Cancelled`], unless it has its message already.
    pub fn cancel(self) -> Result<Message<'e>, ReceiveError> {
        if let Some(id) = self.pending {
            self.endpoint.cancel(Operation(id));
        }
        self.wait()
    }

    #[inline(always)]
    fn fetch_short(&mut self) -> Option<Message<'e>> {
        let (peer, tag, short) = self.endpoint.core().state.operations.fetch_short(self.pending?)?;
        self.pending = None;
        Some(Message::short(peer, tag, short, self.endpoint))
    }

    fn fetch(&mut self, waker: Option<&Waker>) -> Option<Result<Message<'e>, ReceiveError>> {
        let result = self.fetch_kept(waker)?;
        Some(result.map(|message| Message::new(message, self.endpoint)))
    }

    fn fetch_kept(&mut self, waker: Option<&Waker>) -> Option<Result<KeptMessage, ReceiveError>> {
        let id = self.pending.expect(FETCHED_ONCE);
        let result = self.endpoint.core().state.operations.fetch_received(id, waker)?;
        self.pending = None;
        Some(result)
    }
}

impl<'e> Future for Receiving<'e> {
    type Output = Result<Message<'e>, ReceiveError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.fetch(Some(task.waker())).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Receiving<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(id) = self.pending {
            self.endpoint.abandon(id);
        }
    }
}

/// A receive that a handler or callback is about to make.
pub struct ContextReceive<'c, 'a> {
    pub(in crate::endpoint) context: &'c mut Context<'a>,
    pub(in crate::endpoint) wanted: Wanted,
}

impl ContextReceive<'_, '_> {
    /// Sets how long the message may take to come, instead of the endpoint's `message_timeout`.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.wanted.timeout = Some(timeout);
        self
    }

    /// Sets how long the message may be; a longer one ends the receive with [`ReceiveError::Truncated`].
    pub fn at_most(mut self, bytes: usize) -> Self {
        self.wanted.room = u32::try_from(bytes).unwrap_or(u32::MAX);
        self
    }

    /// Asks for the message; `callback` gets it, once, during a later poll or later in this one.
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, &ReceiveOutcome<'_>) + Send + 'static,
    ) -> Result<Operation, ReceiveError> {
        then(self.context, &self.wanted, ReceiveCallback::new(callback))
    }

    /// Asks for the message; it becomes an event with this token, in a later poll or later in this one.
    #[inline]
    pub fn post(self, token: u64) -> Result<Operation, ReceiveError> {
        post(self.context, &self.wanted, token)
    }
}

fn then(
    context: &mut Context<'_>,
    wanted: &Wanted,
    callback: ReceiveCallback,
) -> Result<Operation, ReceiveError> {
    let (id, message) =
        begin(context.outbox, context.state, wanted, |operations, session, deadline, bytes_max| {
            operations.add_receive_callback(session, deadline, bytes_max, callback)
        })?;
    if let Some(message) = message {
        let Some((_, Completion::Received(callback))) = context.state.operations.cancel(id) else {
            unreachable!("it was added with its callback")
        };
        context.state.messages.ended.received.push_back((callback, message));
    }
    Ok(Operation(id))
}

#[inline]
fn post(context: &mut Context<'_>, wanted: &Wanted, token: u64) -> Result<Operation, ReceiveError> {
    let (id, message) =
        begin(context.outbox, context.state, wanted, |operations, session, deadline, bytes_max| {
            operations.add_receive_event(session, deadline, bytes_max, token)
        })?;
    if let Some(outcome) = message {
        context.state.operations.cancel(id);
        context.state.stored_events.push_back(StoredEvent::Received { token, outcome });
    }
    Ok(Operation(id))
}

/// Adds the operation and asks the transport; gives the message too if it was there already.
#[inline(always)]
fn begin(
    outbox: &mut dyn Outbox,
    state: &mut State,
    wanted: &Wanted,
    add: impl FnOnce(&mut Operations, SessionId, Instant, u32) -> Option<CallId>,
) -> Result<(CallId, Option<Result<KeptMessage, ReceiveError>>), ReceiveError> {
    let &Wanted { from, tag, room, timeout } = wanted;
    let deadline = state.messages.deadline(state.now, timeout);
    let session = from.map(|peer| peer.session);
    let id = add(&mut state.operations, session.unwrap_or(NO_SESSION), deadline, room)
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
    /// Asks for a message for a future, where nothing stands in the way; its arguments travel in registers.
    #[inline(never)]
    fn ask_at_once(&mut self, session: SessionId, source: Source, tag: Tag, room: u32) -> Option<CallId> {
        let deadline = self.state.messages.deadline(self.state.now, None);
        let id = self.state.operations.add_receive_future(session, deadline, room)?;
        let is_posted = self.transport.receive_at_once(MessageId(id.0), Origin { source, session }, tag);
        if !is_posted {
            self.state.operations.take_back(id);
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
