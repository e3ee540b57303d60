//! Calls from outside the poll loop: waited for, awaited, with a callback, or posted.

use core::future::{Future, IntoFuture};
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};
use core::time::Duration;

use core::fmt;
use core::ops::Deref;

use farcall_transport::{CallId, Kept, Outgoing, Payload, Service};

use super::Endpoint;
use super::callback::CallCallback;
use super::context::{Context, Operation};
use super::ending::{AsEvent, Ending};
use super::outcome::{CallError, Outcome};
use super::sessions::Peer;
use super::slab::{Completion, FETCHED_ONCE, OpHandle};
use super::start::start;

/// A call that is about to be made. Nothing is sent before one of `wait`, `start`, `then`, `post` or `.await`.
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
    pub fn wait(self) -> Result<Response<'e>, CallError> {
        self.start()?.wait()
    }

    /// Sends the call now; the future that is returned completes with it.
    pub fn start(self) -> Result<Pending<'e>, CallError> {
        let endpoint = self.endpoint;
        let call = self.begin(Completion::Future(None))?;
        Ok(Pending { endpoint, handle: OpHandle::of(call) })
    }

    /// Sends the call; `callback` gets the outcome, once, during a later poll.
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, &Outcome<'_>) + Send + 'static,
    ) -> Result<Operation, CallError> {
        let callback = CallCallback::new(callback);
        self.begin(Completion::Callback(callback)).map(Operation)
    }

    /// Queues the call for the next poll; its end is an event with this token.
    pub fn post(self, token: u64) -> Result<Operation, CallError> {
        self.begin(AsEvent(token)).map(Operation)
    }

    #[inline]
    fn begin(self, ending: impl Ending) -> Result<CallId, CallError> {
        let core = &mut *self.endpoint.core();
        start(
            &mut *core.transport,
            &mut core.state,
            self.peer,
            self.service,
            self.payload,
            self.timeout,
            ending,
        )
    }
}

impl<'e> IntoFuture for Call<'e, '_> {
    type Output = Result<Response<'e>, CallError>;
    type IntoFuture = Answering<'e>;

    /// Sends the call.
    fn into_future(self) -> Answering<'e> {
        Answering(self.start().map_err(Some))
    }
}

/// The future of a call that may have been refused at once.
pub struct Answering<'e>(Result<Pending<'e>, Option<CallError>>);

impl<'e> Future for Answering<'e> {
    type Output = Result<Response<'e>, CallError>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            Ok(pending) => Pin::new(pending).poll(task),
            Err(refusal) => Poll::Ready(Err(refusal.take().expect("a future is not polled after its end"))),
        }
    }
}

/// A call in flight. Some task or thread must poll the endpoint for it to progress.
///
/// Dropping it cancels the call: a later answer is dropped.
#[must_use = "dropping it cancels the call"]
pub struct Pending<'e> {
    endpoint: &'e Endpoint,
    handle: OpHandle,
}

impl<'e> Pending<'e> {
    /// Whether the call is complete, so that `wait` will not block.
    pub fn is_complete(&self) -> bool {
        self.handle.operation().is_none_or(|call| self.endpoint.done.has(call))
    }

    /// Polls the endpoint until the call is complete.
    pub fn wait(mut self) -> Result<Response<'e>, CallError> {
        let call = self.handle.operation().expect(FETCHED_ONCE);
        self.endpoint.poll_until(|state| state.operations.is_done(call));
        self.fetch(None).expect("the operation is done")
    }

    fn fetch(&mut self, waker: Option<&core::task::Waker>) -> Option<Result<Response<'e>, CallError>> {
        let call = self.handle.operation().expect(FETCHED_ONCE);
        let result = self.endpoint.core().state.operations.fetch_result(call, waker)?;
        self.handle = OpHandle::NONE;
        Some(result.map(|payload| Response { payload: Some(payload), endpoint: self.endpoint }))
    }
}

impl<'e> Future for Pending<'e> {
    type Output = Result<Response<'e>, CallError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.fetch(Some(task.waker())).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.handle.operation() {
            self.endpoint.abandon(call);
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
    /// The answer as memory of one's own, independent of the endpoint.
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
