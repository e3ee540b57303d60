//! Sends: waited for, awaited, with a callback, or posted.

use core::future::{Future, IntoFuture};
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};
use core::time::Duration;

use farcall_transport::{CallId, MessageId, Outbox, Outgoing, Payload, SendProgress, SendRefused, Tag};

use super::outcome::SendError;
use crate::endpoint::Endpoint;
use crate::endpoint::callback::SendCallback;
use crate::endpoint::context::{Context, Operation};
use crate::endpoint::core::Core;
use crate::endpoint::operations::{Completion, OPERATIONS_MAX};
use crate::endpoint::sessions::Peer;
use crate::endpoint::state::State;

/// Where a message goes.
#[derive(Clone, Copy)]
pub enum Destinations<'p> {
    One(Peer),
    Many(&'p [Peer]),
}

/// A message that is about to be sent. Nothing is sent before one of `wait`, `start`, `then`, `post` or `.await`.
///
/// A send is complete when its memory is free again and the message cannot be taken back: a slice was copied, a loan was
/// handed over, a shared payload is let go of. That the peer has received the message is not said by it. The message
/// leaves with the endpoint's next poll at the latest.
#[must_use = "a message is sent by `wait`, `start`, `then`, `post` or `.await`"]
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
        endpoint.turn();
        sending.wait()
    }

    /// Sends the message now; the future that is returned completes with it.
    #[inline(always)]
    pub fn start(self) -> Result<Sending<'e>, SendError> {
        let Self { endpoint, to, tag, payload, timeout } = self;
        match at_once(to, payload, |peer, bytes| endpoint.core().send_at_once(peer, tag, bytes)) {
            None => Ok(Sending { endpoint, pending: None }),
            // Put together again, so that what leaves at once is never in memory.
            Some(payload) => Self { endpoint, to, tag, payload, timeout }.start_slowly(),
        }
    }

    #[inline(never)]
    fn start_slowly(self) -> Result<Sending<'e>, SendError> {
        let Self { endpoint, to, tag, payload, timeout } = self;
        let core = &mut *endpoint.core();
        let pending = match begin_slowly(core.transport.outbox(), &mut core.state, to, tag, payload)? {
            Begun::Done => None,
            Begun::Pending(parts) => Some(parts.follow(&mut core.state, timeout, Completion::Future(None))),
        };
        Ok(Sending { endpoint, pending })
    }

    /// Sends the message; `callback` gets the outcome, once, during a later poll.
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, Result<(), SendError>) + Send + 'static,
    ) -> Result<Option<Operation>, SendError> {
        let core = &mut *self.endpoint.core();
        let mut context = Context { outbox: core.transport.outbox(), state: &mut core.state };
        then(&mut context, self.to, self.tag, self.payload, self.timeout, SendCallback::new(callback))
    }

    /// Sends the message; its end is an event with this token, in a later poll.
    pub fn post(self, token: u64) -> Result<Option<Operation>, SendError> {
        let core = &mut *self.endpoint.core();
        let mut context = Context { outbox: core.transport.outbox(), state: &mut core.state };
        post(&mut context, self.to, self.tag, self.payload, self.timeout, token)
    }
}

impl<'e> IntoFuture for SendMessage<'e, '_> {
    type Output = Result<(), SendError>;
    type IntoFuture = SendingOrRefused<'e>;

    /// Sends the message.
    fn into_future(self) -> SendingOrRefused<'e> {
        SendingOrRefused(self.start().map_err(Some))
    }
}

/// The future of a send that may have been refused at once.
pub struct SendingOrRefused<'e>(Result<Sending<'e>, Option<SendError>>);

impl Future for SendingOrRefused<'_> {
    type Output = Result<(), SendError>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            Ok(sending) => Pin::new(sending).poll(task),
            Err(refusal) => Poll::Ready(Err(refusal.take().expect("a future is not polled after its end"))),
        }
    }
}

/// A send under way. Some task or thread must poll the endpoint for it to progress.
///
/// Dropping it does not take the message back.
pub struct Sending<'e> {
    endpoint: &'e Endpoint,
    /// `None` when it is complete and well.
    pending: Option<CallId>,
}

impl Sending<'_> {
    /// Whether the send is complete, so that `wait` will not block.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.pending.is_none_or(|id| self.endpoint.core().state.operations.is_done(id))
    }

    /// Polls the endpoint until the send is complete.
    pub fn wait(mut self) -> Result<(), SendError> {
        let Some(id) = self.pending else { return Ok(()) };
        self.endpoint.poll_until(|state| state.operations.is_done(id));
        self.fetch(None).expect("the operation is done")
    }

    /// Takes the message back if it has not left: then this is [`SendError::Cancelled`]. Otherwise waits for its end.
    pub fn cancel(self) -> Result<(), SendError> {
        if let Some(id) = self.pending {
            self.endpoint.cancel(Operation(id));
        }
        self.wait()
    }

    fn fetch(&mut self, waker: Option<&core::task::Waker>) -> Option<Result<(), SendError>> {
        let Some(id) = self.pending else { return Some(Ok(())) };
        let result = self.endpoint.core().state.operations.fetch_sent(id, waker)?;
        self.pending = None;
        Some(result)
    }
}

impl Future for Sending<'_> {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.fetch(Some(task.waker())).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Sending<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(id) = self.pending {
            self.endpoint.let_go(id);
        }
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

    /// Sends the message; `callback` gets the outcome, once, during a later poll.
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, Result<(), SendError>) + Send + 'static,
    ) -> Result<Option<Operation>, SendError> {
        then(self.context, self.to, self.tag, self.payload, self.timeout, SendCallback::new(callback))
    }

    /// Sends the message; nobody is told of its end.
    pub fn detach(self) -> Result<(), SendError> {
        let Self { context, to, tag, payload, timeout } = self;
        if let Begun::Pending(parts) = begin(context.outbox, context.state, to, tag, payload)? {
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

fn then(
    context: &mut Context<'_>,
    to: Destinations<'_>,
    tag: Tag,
    payload: Outgoing<'_>,
    timeout: Option<Duration>,
    callback: SendCallback,
) -> Result<Option<Operation>, SendError> {
    match begin(context.outbox, context.state, to, tag, payload)? {
        Begun::Done => {
            context.state.messages.ended.sent.push_back(callback);
            Ok(None)
        }
        Begun::Pending(parts) => {
            Ok(Some(Operation(parts.follow(context.state, timeout, Completion::Sent(callback)))))
        }
    }
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
    match begin(context.outbox, context.state, to, tag, payload)? {
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
enum Begun {
    Done,
    Pending(Parts),
}

/// The parts of a send that have not ended, and the first failure of those that have.
struct Parts {
    pending: u32,
    failure: Option<SendError>,
}

impl Parts {
    /// Adds the operation under whose number the parts were sent.
    fn follow(self, state: &mut State, timeout: Option<Duration>, completion: Completion) -> CallId {
        let deadline = state.messages.deadline(state.now, timeout);
        let operations = &mut state.operations;
        let id = operations.add_send(deadline, self.pending, completion).expect("the number was free");
        if let Some(failure) = self.failure {
            state.messages.failed_parts.insert(id, failure);
        }
        id
    }
}

/// Hands a message to the transport, which most often is the end of it.
#[inline(always)]
fn begin(
    outbox: &mut dyn Outbox,
    state: &mut State,
    to: Destinations<'_>,
    tag: Tag,
    payload: Outgoing<'_>,
) -> Result<Begun, SendError> {
    let leaves = |peer: Peer, bytes: &[u8]| {
        let has_left = outbox.send_at_once(peer.session, tag, bytes);
        state.counters.messages.add(u64::from(has_left));
        has_left
    };
    match at_once(to, payload, leaves) {
        None => Ok(Begun::Done),
        Some(payload) => begin_slowly(outbox, state, to, tag, payload),
    }
}

impl Core {
    /// Sends a message to one peer if that is its end; otherwise nothing has happened.
    #[inline(always)]
    fn send_at_once(&mut self, to: Peer, tag: Tag, payload: &[u8]) -> bool {
        let has_left = self.transport.send_at_once(to.session, tag, payload);
        self.state.counters.messages.add(u64::from(has_left));
        has_left
    }
}

/// Gives the payload back unless it is borrowed bytes for one peer that `leaves` has sent. Borrowed bytes are taken out of
/// their enum, so that nothing is left that would have to be dropped.
#[inline(always)]
fn at_once<'p>(
    to: Destinations<'_>,
    payload: Outgoing<'p>,
    leaves: impl FnOnce(Peer, &[u8]) -> bool,
) -> Option<Outgoing<'p>> {
    match (to, payload) {
        (Destinations::One(peer), Outgoing::Slice(bytes)) => {
            (!leaves(peer, bytes)).then_some(Outgoing::Slice(bytes))
        }
        (_, payload) => Some(payload),
    }
}

fn begin_slowly(
    outbox: &mut dyn Outbox,
    state: &mut State,
    to: Destinations<'_>,
    tag: Tag,
    payload: Outgoing<'_>,
) -> Result<Begun, SendError> {
    let id = state.operations.next_id().ok_or(SendError::TooMany { operations_max: OPERATIONS_MAX })?;
    match to {
        Destinations::One(peer) => match outbox.send(peer.session, MessageId(id.0), tag, payload) {
            Ok(progress) => {
                state.counters.messages.increment();
                Ok(match progress {
                    SendProgress::Done => Begun::Done,
                    SendProgress::Pending => Begun::Pending(Parts { pending: 1, failure: None }),
                })
            }
            Err(refused) => Err(not_sent(state, peer, refused)),
        },
        Destinations::Many(peers) => begin_many(outbox, state, peers, MessageId(id.0), tag, payload),
    }
}

fn begin_many(
    outbox: &mut dyn Outbox,
    state: &mut State,
    peers: &[Peer],
    id: MessageId,
    tag: Tag,
    payload: Outgoing<'_>,
) -> Result<Begun, SendError> {
    // Memory on loan can go to one peer only; the others would have to wait for it.
    let payload = match payload {
        Outgoing::Loan(loan) => Outgoing::Shared(Payload::from(loan.to_vec())),
        other => other,
    };
    let mut parts = Parts { pending: 0, failure: None };
    for &peer in peers {
        let payload = match &payload {
            Outgoing::Shared(shared) => Outgoing::Shared(shared.clone()),
            other => Outgoing::Slice(other.as_slice()),
        };
        match outbox.send(peer.session, id, tag, payload) {
            Ok(progress) => {
                state.counters.messages.increment();
                parts.pending += u32::from(progress == SendProgress::Pending);
            }
            Err(refused) => _ = parts.failure.get_or_insert_with(|| not_sent(state, peer, refused)),
        }
    }
    match parts {
        Parts { pending: 0, failure: None } => Ok(Begun::Done),
        Parts { pending: 0, failure: Some(error) } => Err(error),
        parts => Ok(Begun::Pending(parts)),
    }
}

#[cold]
fn not_sent(state: &State, peer: Peer, refused: SendRefused) -> SendError {
    match (refused, state.sessions.reason_of(peer.session)) {
        (SendRefused::Down, Some(reason)) => SendError::PeerDown(reason.clone()),
        (refused, _) => SendError::NotSent(refused),
    }
}
