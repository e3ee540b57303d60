//! Sends: how one begins, to one peer or to several, and how its end is waited for.

use core::cell::RefMut;
use core::future::{Future, IntoFuture};
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};
use core::time::Duration;

use farcall_transport::{
    CallId, MessageId, Outbox, Outgoing, Owned, Payload, Refused, SendRefused, SessionId, Submission,
    Submitted, Tag,
};

use super::outcome::SendError;
use crate::endpoint::Endpoint;
use crate::endpoint::completion::{Callback, Completion, OfSend};
use crate::endpoint::context::{Context, Operation};
use crate::endpoint::future::{OrRefused, Unfetched};
use crate::endpoint::poll::Core;
use crate::endpoint::sessions::Peer;
use crate::endpoint::slab::OPERATIONS_MAX;
use crate::endpoint::state::State;

/// A message that is about to be sent. Nothing is sent before one of `wait`, `start`, `then`, `now_or_then`,
/// `post` or `.await`.
///
/// A send is complete when its memory is free again and the message cannot be taken back: a slice was copied,
/// a loan was handed over, a shared payload is dropped. That the peer has received the message is not said
/// by it. The message leaves with the endpoint's next poll at the latest.
#[must_use = "a message is sent by `wait`, `start`, `then`, `now_or_then`, `post` or `.await`"]
pub struct SendMessage<'e, 'p> {
    pub(in crate::endpoint) endpoint: &'e Endpoint,
    pub(in crate::endpoint) to: Destinations<'p>,
    pub(in crate::endpoint) tag: Tag,
    pub(in crate::endpoint) payload: Outgoing<'p>,
    pub(in crate::endpoint) timeout: Option<Duration>,
}

impl<'e> SendMessage<'e, '_> {
    /// Sets how long it may take until there is room, instead of the endpoint's `message_timeout`.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the message and polls the endpoint until it has left.
    pub fn wait(self) -> Result<(), SendError> {
        let endpoint = self.endpoint;
        let sending = self.start()?;
        // It may be complete: there may be nothing to idle for.
        endpoint.poll_once();
        sending.wait()
    }

    /// Sends the message now; the future that is returned completes with it.
    #[inline(always)]
    pub fn start(self) -> Result<Sending<'e>, SendError> {
        let Self { endpoint, to, tag, payload, timeout } = self;
        let (mut core, begun) = begin_at(endpoint, to, tag, payload);
        match begun? {
            Begun::Done => Ok(Sending { send: Unfetched::nothing(endpoint) }),
            Begun::Pending(parts) => {
                let id = parts.follow(&mut core.state, timeout, Completion::Future(None));
                Ok(Sending { send: Unfetched::new(endpoint, id) })
            }
        }
    }

    /// Sends the message; `callback` gets the outcome, once, during a later poll or [`Endpoint::reap`]. There
    /// is an operation if it is still in flight.
    #[inline(always)]
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, Result<(), SendError>) + Send + 'static,
    ) -> Result<Option<Operation>, SendError> {
        let Self { endpoint, to, tag, payload, timeout } = self;
        let (mut core, begun) = begin_at(endpoint, to, tag, payload);
        then(&mut core.state, begun?, timeout, callback)
    }

    /// As [`SendMessage::then`], but if the message leaves at once, `callback` runs before this returns.
    ///
    /// Nothing is kept then, and nothing is to be reaped. But `callback` must not need what its caller holds,
    /// such as a lock, and it runs before those of sends that ended earlier and have yet to be reaped.
    ///
    /// # Panics
    /// With what `callback` panics with when it runs at once.
    #[inline(always)]
    pub fn now_or_then(
        self,
        callback: impl FnOnce(&mut Context<'_>, Result<(), SendError>) + Send + 'static,
    ) -> Result<Option<Operation>, SendError> {
        let Self { endpoint, to, tag, payload, timeout } = self;
        let (mut core, begun) = begin_at(endpoint, to, tag, payload);
        let context = &mut core.context();
        match begun? {
            Begun::Done => {
                callback(context, Ok(()));
                Ok(None)
            }
            Begun::Pending(parts) => {
                let completion = Completion::Callback(Callback::of_send(callback));
                Ok(Some(Operation(parts.follow(context.state, timeout, completion))))
            }
        }
    }

    /// Sends the message; its end is an event with this token, in a later poll or [`Endpoint::reap`]. There
    /// is an operation if it is still in flight.
    pub fn post(self, token: u64) -> Result<Option<Operation>, SendError> {
        post(&mut self.endpoint.core().context(), self.to, self.tag, self.payload, self.timeout, token)
    }
}

impl<'e> IntoFuture for SendMessage<'e, '_> {
    type Output = Result<(), SendError>;
    type IntoFuture = OrRefused<Sending<'e>, SendError>;

    /// Sends the message.
    fn into_future(self) -> Self::IntoFuture {
        OrRefused::new(self.start())
    }
}

/// A message that a handler or callback is about to send.
pub struct ContextSend<'c, 'a, 'p> {
    pub(in crate::endpoint) context: &'c mut Context<'a>,
    pub(in crate::endpoint) to: Destinations<'p>,
    pub(in crate::endpoint) tag: Tag,
    pub(in crate::endpoint) payload: Outgoing<'p>,
    pub(in crate::endpoint) timeout: Option<Duration>,
}

impl ContextSend<'_, '_, '_> {
    /// Sets how long it may take until there is room, instead of the endpoint's `message_timeout`.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the message; `callback` gets the outcome, once, during a later poll or [`Endpoint::reap`].
    #[inline(always)]
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, Result<(), SendError>) + Send + 'static,
    ) -> Result<Option<Operation>, SendError> {
        let Self { context, to, tag, payload, timeout } = self;
        let begun = begin(context, to, tag, payload)?;
        then(context.state, begun, timeout, callback)
    }

    /// Sends the message; its end is not reported.
    pub fn detach(self) -> Result<(), SendError> {
        let Self { context, to, tag, payload, timeout } = self;
        if let Begun::Pending(parts) = begin(context, to, tag, payload)? {
            parts.follow(context.state, timeout, Completion::Nobody);
        }
        Ok(())
    }

    /// Sends the message; its end is an event with this token, in a later poll.
    #[inline]
    pub fn post(self, token: u64) -> Result<Option<Operation>, SendError> {
        post(self.context, self.to, self.tag, self.payload, self.timeout, token)
    }
}

/// A send in flight. Some task or thread must poll the endpoint for it to progress.
///
/// Dropping it does not take the message back.
pub struct Sending<'e> {
    /// Nothing when it is complete and well.
    send: Unfetched<'e, OfSend>,
}

impl Sending<'_> {
    /// Whether the send is complete, so that `wait` will not block.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.send.is_complete()
    }

    /// Polls the endpoint until the send is complete.
    ///
    /// Always inlined, and what takes long is not: most sends are complete when they begin.
    #[inline(always)]
    pub fn wait(self) -> Result<(), SendError> {
        if self.send.operation().is_none() { Ok(()) } else { self.wait_for_end() }
    }

    #[inline(never)]
    fn wait_for_end(mut self) -> Result<(), SendError> {
        self.send.wait()
    }

    /// Takes the message back if it has not left: then this is [`SendError::Cancelled`]. Otherwise waits for
    /// its end.
    pub fn cancel(self) -> Result<(), SendError> {
        self.send.cancel();
        self.wait()
    }
}

impl Future for Sending<'_> {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if self.send.operation().is_none() {
            return Poll::Ready(Ok(()));
        }
        self.send.fetch(Some(task.waker())).map_or(Poll::Pending, Poll::Ready)
    }
}

/// Where a message goes.
#[derive(Clone, Copy)]
pub enum Destinations<'p> {
    One(Peer),
    Many(&'p [Peer]),
}

/// Says how a send completes that has begun.
#[inline(always)]
fn then(
    state: &mut State,
    begun: Begun,
    timeout: Option<Duration>,
    callback: impl FnOnce(&mut Context<'_>, Result<(), SendError>) + Send + 'static,
) -> Result<Option<Operation>, SendError> {
    Ok(match begun {
        Begun::Done => state.sent_at_once(|| Callback::of_send(callback)),
        Begun::Pending(parts) => {
            let completion = Completion::Callback(Callback::of_send(callback));
            Some(Operation(parts.follow(state, timeout, completion)))
        }
    })
}

#[inline(always)]
fn post(
    context: &mut Context<'_>,
    to: Destinations<'_>,
    tag: Tag,
    payload: Outgoing<'_>,
    timeout: Option<Duration>,
    token: u64,
) -> Result<Option<Operation>, SendError> {
    match begin(context, to, tag, payload)? {
        Begun::Done => {
            context.state.stored_events.sent_at_once.push_back(token);
            Ok(None)
        }
        Begun::Pending(parts) => {
            Ok(Some(Operation(parts.follow(context.state, timeout, Completion::Event(token)))))
        }
    }
}

/// How far a send came at once.
pub enum Begun {
    Done,
    Pending(Parts),
}

/// The parts of a send that have not ended, and the first failure of those that have.
pub struct Parts {
    pending: u32,
    failure: Option<SendError>,
}

impl Parts {
    /// Adds the operation under whose number the parts were sent.
    pub fn follow(
        self,
        state: &mut State,
        timeout: Option<Duration>,
        completion: Completion<OfSend>,
    ) -> CallId {
        let operations = &mut state.operations;
        let id = operations.add_send(timeout, self.pending, completion).expect("the number was free");
        if let Some(failure) = self.failure {
            state.messages.failed_parts.insert(id, failure);
        }
        id
    }
}

/// Hands a message to the transport, which most often is the end of it.
#[inline(always)]
pub fn begin(
    context: &mut Context<'_>,
    to: Destinations<'_>,
    tag: Tag,
    payload: Outgoing<'_>,
) -> Result<Begun, SendError> {
    match payload.into_slice() {
        Ok(bytes) => begin_slice(context, to, tag, bytes),
        Err(owned) => begin_owned(context, to, tag, owned),
    }
}

/// As [`begin`], for the caller that has yet to borrow the endpoint. By then nothing is left of a borrowed
/// payload that would have to be dropped, and thus be in memory.
#[inline(always)]
pub fn begin_at<'e>(
    endpoint: &'e Endpoint,
    to: Destinations<'_>,
    tag: Tag,
    payload: Outgoing<'_>,
) -> (RefMut<'e, Core>, Result<Begun, SendError>) {
    match payload.into_slice() {
        Ok(bytes) => {
            let mut core = endpoint.core();
            let begun = match (to, core.state.operations.next_id()) {
                // The outbox is borrowed for the send alone, and takes no register behind it.
                (Destinations::One(Peer { session, .. }), Some(id)) => {
                    let submitted = core.transport.send(session, MessageId(id.0), tag, bytes);
                    begun(&core.state, session, submitted, bytes.len())
                }
                (to, _) => begin_slice(&mut core.context(), to, tag, bytes),
            };
            (core, begun)
        }
        Err(owned) => {
            let mut core = endpoint.core();
            let begun = begin_owned(&mut core.context(), to, tag, owned);
            (core, begun)
        }
    }
}

#[inline(always)]
fn begin_slice(
    context: &mut Context<'_>,
    to: Destinations<'_>,
    tag: Tag,
    bytes: &[u8],
) -> Result<Begun, SendError> {
    let Context { outbox, state } = context;
    let Some(id) = state.operations.next_id() else { return Err(too_many()) };
    let id = MessageId(id.0);
    let Destinations::One(Peer { session, .. }) = to else {
        return begin_many(*outbox, state, to, id, tag, Outgoing::Slice(bytes));
    };
    let submitted = outbox.send(session, id, tag, bytes);
    begun(state, session, submitted, bytes.len())
}

#[inline(never)]
fn begin_owned(
    context: &mut Context<'_>,
    to: Destinations<'_>,
    tag: Tag,
    owned: Owned,
) -> Result<Begun, SendError> {
    let Context { outbox, state } = context;
    let Some(id) = state.operations.next_id() else { return Err(too_many()) };
    let id = MessageId(id.0);
    let Destinations::One(peer) = to else { return begin_many(*outbox, state, to, id, tag, owned.into()) };
    let (session, bytes) = (peer.session, owned.len());
    let submitted = outbox.submit_owned(Submission::Message { session, send: id, tag }, owned);
    begun(state, session, submitted, bytes)
}

/// How far a send of this many bytes came. Given the session alone: a peer would be in memory.
#[inline]
fn begun(state: &State, session: SessionId, submitted: Submitted, bytes: usize) -> Result<Begun, SendError> {
    if matches!(submitted, Submitted::Sent) {
        Ok(Begun::Done)
    } else {
        begun_otherwise(state, session, submitted, bytes)
    }
}

/// Out of line, so that what most sends come to is a single comparison.
#[cold]
fn begun_otherwise(
    state: &State,
    session: SessionId,
    submitted: Submitted,
    bytes: usize,
) -> Result<Begun, SendError> {
    match submitted {
        Submitted::Sent => Ok(Begun::Done),
        Submitted::Queued => {
            state.sessions.message_waits(session);
            Ok(Begun::Pending(Parts { pending: 1, failure: None }))
        }
        Submitted::Refused(refused) => Err(not_sent(state, session, refused, bytes)),
    }
}

fn too_many() -> SendError {
    SendError::TooMany { operations_max: OPERATIONS_MAX }
}

#[inline(never)]
fn begin_many(
    outbox: &mut dyn Outbox,
    state: &mut State,
    to: Destinations<'_>,
    id: MessageId,
    tag: Tag,
    payload: Outgoing<'_>,
) -> Result<Begun, SendError> {
    let peers = match &to {
        Destinations::One(peer) => core::slice::from_ref(peer),
        Destinations::Many(peers) => peers,
    };
    // Memory on loan can go to one peer only; the others would have to wait for it.
    let payload = match payload {
        Outgoing::Loan(loan) => Outgoing::Shared(Payload::from(loan.to_vec())),
        other => other,
    };
    let mut parts = Parts { pending: 0, failure: None };
    for &peer in peers {
        let (session, bytes) = (peer.session, payload.len());
        let submitted = match &payload {
            Outgoing::Shared(shared) => {
                let submission = Submission::Message { session, send: id, tag };
                outbox.submit_owned(submission, Owned::Shared(shared.clone()))
            }
            other => outbox.send(session, id, tag, other.as_slice()),
        };
        match submitted {
            Submitted::Sent => {}
            Submitted::Queued => {
                state.sessions.message_waits(session);
                parts.pending += 1;
            }
            Submitted::Refused(refused) => {
                _ = parts.failure.get_or_insert_with(|| not_sent(state, session, refused, bytes));
            }
        }
    }
    match parts {
        Parts { pending: 0, failure: None } => Ok(Begun::Done),
        Parts { pending: 0, failure: Some(error) } => Err(error),
        parts => Ok(Begun::Pending(parts)),
    }
}

fn not_sent(state: &State, session: SessionId, refused: Refused, bytes: usize) -> SendError {
    match (refused.of_message(bytes), state.sessions.reason_of(session)) {
        (SendRefused::Down, Some(reason)) => SendError::PeerDown(reason.clone()),
        (refused, _) => SendError::NotSent(refused),
    }
}
