//! Calls: how one begins, inside the poll loop or outside of it, and how it ends.

use core::fmt;
use core::future::{Future, IntoFuture};
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};
use core::time::Duration;

use farcall_driver::probes;
use farcall_transport::trace::event;
use farcall_transport::{
    CallId, CallRefused, DownReason, Incoming, Kept, Outbox, Outgoing, Owned, Payload, Service, Status,
    Submission, Submitted,
};

use super::completion::{AsEvent, AsFuture, Callback, Completion, OfCall, Taker};
use super::context::{Context, Operation};
use super::future::{OrRefused, Unfetched};
use super::refusal::Reason;
use super::sessions::Peer;
use super::slab::OPERATIONS_MAX;
use super::state::State;
use super::{Endpoint, RESERVED};
use crate::spans::{BegunSpan, Followed, TracedOperation};

/// A call that is about to be made. Nothing is sent before one of `wait`, `start`, `then`, `post` or
/// `.await`.
#[must_use = "a call is sent by `wait`, `start`, `then`, `post` or `.await`"]
pub struct Call<'e, 'p> {
    pub(super) endpoint: &'e Endpoint,
    pub(super) peer: Peer,
    pub(super) service: Service,
    pub(super) payload: Outgoing<'p>,
    pub(super) timeout: Option<Duration>,
}

impl<'e> Call<'e, '_> {
    /// Sets how long the answer may take, instead of the endpoint's `call_timeout`.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the call and polls the endpoint until it is complete.
    #[inline]
    pub fn wait(self) -> Result<Response<'e>, CallError> {
        self.start()?.wait()
    }

    /// Sends the call now; the future that is returned completes with it.
    pub fn start(self) -> Result<Pending<'e>, CallError> {
        let endpoint = self.endpoint;
        let call = self.begin(AsFuture)?;
        Ok(Pending { call: Unfetched::new(endpoint, call) })
    }

    /// Sends the call; `callback` gets the outcome, once, during a later poll.
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, &Outcome<'_>) + Send + 'static,
    ) -> Result<Operation, CallError> {
        self.begin(Completion::Callback(Callback::<OfCall>::new(callback))).map(Operation)
    }

    /// Queues the call for the next poll; its end is an event with this token.
    pub fn post(self, token: u64) -> Result<Operation, CallError> {
        self.begin(AsEvent(token)).map(Operation)
    }

    #[inline]
    fn begin(self, taker: impl Taker<OfCall>) -> Result<CallId, CallError> {
        let core = &mut *self.endpoint.core();
        start(
            &mut *core.transport,
            &mut core.state,
            self.peer,
            self.service,
            self.payload,
            self.timeout,
            taker,
        )
    }
}

impl<'e> IntoFuture for Call<'e, '_> {
    type Output = Result<Response<'e>, CallError>;
    type IntoFuture = OrRefused<Pending<'e>, CallError>;

    /// Sends the call.
    fn into_future(self) -> Self::IntoFuture {
        OrRefused::new(self.start())
    }
}

/// A call in flight. Some task or thread must poll the endpoint for it to progress.
///
/// Dropping it cancels the call: a later answer is dropped.
#[must_use = "dropping it cancels the call"]
pub struct Pending<'e> {
    call: Unfetched<'e, OfCall>,
}

impl<'e> Pending<'e> {
    /// Whether the call is complete, so that `wait` will not block.
    pub fn is_complete(&self) -> bool {
        self.call.is_complete()
    }

    /// Polls the endpoint until the call is complete.
    #[inline]
    pub fn wait(mut self) -> Result<Response<'e>, CallError> {
        match self.call.wait_for_copy() {
            Some(copy) => Ok(Response { payload: Some(copy), endpoint: self.call.endpoint() }),
            None => self.wait_otherwise(),
        }
    }

    fn wait_otherwise(mut self) -> Result<Response<'e>, CallError> {
        let result = self.call.wait();
        self.response(result)
    }

    /// Gives a span of this call its stages, as far as the endpoint's [`tracer`](Endpoint::tracer) is on. The
    /// span is still to be ended.
    pub fn in_span(&self, span: &mut BegunSpan) {
        span.follow(|| self.traced().map(Followed::Call));
    }

    /// The call as the endpoint's trace names it, while that is on.
    pub(crate) fn traced(&self) -> Option<TracedOperation> {
        self.call.endpoint().traced(Operation(self.call.operation()?))
    }

    fn response(&self, result: Result<Kept, CallError>) -> Result<Response<'e>, CallError> {
        result.map(|payload| Response { payload: Some(payload), endpoint: self.call.endpoint() })
    }
}

impl<'e> Future for Pending<'e> {
    type Output = Result<Response<'e>, CallError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match self.call.fetch(Some(task.waker())) {
            Some(result) => Poll::Ready(self.response(result)),
            None => Poll::Pending,
        }
    }
}

/// The answer to a call, kept until it is dropped.
pub struct Response<'e> {
    /// `None` only while it is dropped or taken.
    payload: Option<Kept>,
    endpoint: &'e Endpoint,
}

impl Response<'_> {
    /// The answer as owned memory, independent of the endpoint.
    pub fn take(mut self) -> Payload {
        self.payload.take().expect("it is there until it is taken").into()
    }
}

impl Deref for Response<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.payload.as_deref().expect("it is there until it is taken")
    }
}

impl Drop for Response<'_> {
    fn drop(&mut self) {
        if let Some(Kept::Copy(copy)) = &mut self.payload {
            self.endpoint.recycle(core::mem::take(copy));
        }
    }
}

impl fmt::Debug for Response<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Response({} bytes)", self.len())
    }
}

/// Adds the operation and sends its request. Always inlined, because the parts of the call would otherwise be
/// moved through memory several times.
#[inline(always)]
pub fn start(
    outbox: &mut dyn Outbox,
    state: &mut State,
    peer: Peer,
    service: Service,
    payload: Outgoing<'_>,
    timeout: Option<Duration>,
    taker: impl Taker<OfCall>,
) -> Result<CallId, CallError> {
    match payload.into_slice() {
        Ok(bytes) => {
            let call = begin(state, peer, service, timeout, taker)?;
            match outbox.call(peer.session, call, service, bytes) {
                Submitted::Refused(refused) => Err(not_sent(state, peer, call, refused.of_call(bytes.len()))),
                Submitted::Sent | Submitted::Queued => Ok(call),
            }
        }
        Err(payload) => start_owned(outbox, state, peer, service, payload, timeout, taker),
    }
}

/// As [`start`], with a payload that is given away.
#[inline(never)]
fn start_owned(
    outbox: &mut dyn Outbox,
    state: &mut State,
    peer: Peer,
    service: Service,
    payload: Owned,
    timeout: Option<Duration>,
    taker: impl Taker<OfCall>,
) -> Result<CallId, CallError> {
    let (session, bytes) = (peer.session, payload.len());
    let call = begin(state, peer, service, timeout, taker)?;
    match outbox.submit_owned(Submission::Call { session, call, service }, payload) {
        Submitted::Refused(refused) => Err(not_sent(state, peer, call, refused.of_call(bytes))),
        Submitted::Sent | Submitted::Queued => Ok(call),
    }
}

/// Adds the operation.
#[inline(always)]
fn begin(
    state: &mut State,
    peer: Peer,
    service: Service,
    timeout: Option<Duration>,
    taker: impl Taker<OfCall>,
) -> Result<CallId, CallError> {
    if service >= RESERVED {
        return Err(CallError::UnknownService);
    }
    let begun = state.tracer.begin();
    let call = state
        .operations
        .add_call(peer.session, timeout, service, taker)
        .ok_or(CallError::TooManyCalls { calls_max: OPERATIONS_MAX })?;
    probes::call_begin(state.number, peer.session.0, call.0, service.0);
    if let Some(begun) = begun {
        state.tracer.mark_at(begun, event::SUBMITTED, call.0, peer.session);
    }
    Ok(call)
}

#[cold]
fn not_sent(state: &mut State, peer: Peer, call: CallId, refused: CallRefused) -> CallError {
    probes::call_end(state.number, peer.session.0, call.0, 2);
    state.operations.take_back::<OfCall>(call);
    match (refused, state.sessions.reason_of(peer.session)) {
        (CallRefused::Down, Some(reason)) => CallError::PeerDown(reason.clone()),
        (refused, _) => CallError::NotSent(refused),
    }
}

/// A call's end: an answer, or the one reason why there is none.
pub type Outcome<'a> = Result<Answer<'a>, CallError>;

/// The answer to a call, read where it lies: in the peer's memory, the driver's, or a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    pub(super) payload: &'a Incoming<'a>,
}

impl Answer<'_> {
    /// The response as an owned buffer: a large one that lies in the peer's memory is not copied.
    pub fn take(self) -> Payload {
        self.payload.take()
    }
}

impl Deref for Answer<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.payload.as_slice()
    }
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No answer came before the deadline. The request may have run, may still run, or may be lost.
    #[error("no answer came before the deadline")]
    TimedOut,
    /// The caller cancelled it. The request may have run or may still run.
    #[error("the call was cancelled")]
    Cancelled,
    /// The session to the peer ended. The request may have run, unless the [`DownReason`] says otherwise;
    /// connect again before calling again.
    #[error("the call has no answer: {0}")]
    PeerDown(DownReason),
    /// Nobody serves this service at the peer.
    #[error("the peer does not serve this service")]
    UnknownService,
    /// The server is about to stop and takes no more requests; call another one. Nothing ran.
    #[error("the server is leaving")]
    Leaving,
    /// The server's policy does not let this process call the service; nothing ran. Ask whoever keeps the
    /// policy.
    #[error("the server's policy does not allow the call{why}")]
    NotAllowed {
        /// What is not allowed, and who the server takes this process for.
        why: Reason,
    },
    /// The peer's handler dropped the request without an answer.
    #[error("the peer's handler gave no answer")]
    Abandoned,
    /// The peer's handler ran, but its answer was longer than the session carries.
    #[error("the peer's answer was longer than the session's limit")]
    AnswerTooLong,
    /// The peer's handler refused with a code of its own.
    #[error("the peer's handler refused with code {code}{why}")]
    Refused {
        /// The handler's code.
        code: u8,
        /// What the handler said about it; empty if it said nothing.
        why: Reason,
    },
    /// The call was not accepted for sending; nothing ran.
    #[error(transparent)]
    NotSent(#[from] CallRefused),
    /// The session or the endpoint has its maximum of calls in flight; complete some first. Nothing ran.
    #[error("{calls_max} calls are in flight, the limit of this session or endpoint; complete some first")]
    TooManyCalls {
        /// The limit.
        calls_max: usize,
    },
}

/// The outcome that a response means. Nearly all are answers, for which a jump through a table would take
/// longer than the rest.
#[inline]
pub(super) fn outcome_of<'a>(status: Status, payload: &'a Incoming<'a>) -> Outcome<'a> {
    if status == Status::Ok { Ok(Answer { payload }) } else { outcome_of_other(status, payload) }
}

#[cold]
fn outcome_of_other<'a>(status: Status, payload: &'a Incoming<'a>) -> Outcome<'a> {
    match status {
        Status::Ok => Ok(Answer { payload }),
        Status::UnknownService => Err(CallError::UnknownService),
        Status::Abandoned => Err(CallError::Abandoned),
        Status::AnswerTooLong => Err(CallError::AnswerTooLong),
        Status::Leaving => Err(CallError::Leaving),
        Status::NotAllowed => Err(CallError::NotAllowed { why: Reason::received(payload.as_slice()) }),
        Status::Refused(code) => Err(CallError::Refused { code, why: Reason::received(payload.as_slice()) }),
    }
}
