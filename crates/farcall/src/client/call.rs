//! A call of a client: how it is made, and the future that completes with it.

use core::future::{Future, IntoFuture};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::fmt;
use std::sync::Arc;
use std::task::Wake;
use std::thread::Thread;

use farcall_base::Instant;
use farcall_transport::{Owned, Payload, Service};

use super::error::ClientError;
use super::queue::{NotQueued, Permit, Request, Ticket};
use super::slot::{Completer, Left, Slot};
use super::{CallResult, Handle};
use crate::endpoint::Peer;
use crate::spans::{BegunSpan, Followed, Trail};

/// A call that is about to be made, by any thread. Nothing is sent before `wait`, `start` or `.await`.
#[must_use = "a call is sent by `wait`, `start` or `.await`"]
pub struct ClientCall {
    handle: Arc<Handle>,
    target: Target,
    service: Service,
    payload: Owned,
    timeout: Option<Duration>,
    trail: Option<Arc<Trail>>,
}

/// Where a call goes.
enum Target {
    Peer(Peer),
    Name(Arc<str>),
}

/// A call without its permit.
pub struct Unsent {
    target: Target,
    service: Service,
    payload: Owned,
    pub deadline: Instant,
    trail: Option<Arc<Trail>>,
    pub slot: Arc<Slot<CallResult>>,
}

impl Unsent {
    /// The request that it becomes.
    pub fn permitted(self, permit: Permit) -> Request {
        let Self { target, service, payload, deadline, trail, slot } = self;
        let completer = Completer::new(slot, permit);
        match target {
            Target::Peer(peer) => Request::Call { peer, service, payload, deadline, trail, completer },
            Target::Name(name) => {
                let payload = match payload {
                    Owned::Shared(payload) => payload,
                    // It may be sent more than once.
                    Owned::Loan(loan) => Payload::from(loan.to_vec()),
                };
                Request::Named { name, service, payload, deadline, trail, completer }
            }
        }
    }
}

impl ClientCall {
    pub(super) fn to_peer(handle: Arc<Handle>, peer: Peer, service: Service, payload: Owned) -> Self {
        Self { handle, target: Target::Peer(peer), service, payload, timeout: None, trail: None }
    }

    pub(super) fn to_name(handle: Arc<Handle>, name: Arc<str>, service: Service, payload: Owned) -> Self {
        Self { handle, target: Target::Name(name), service, payload, timeout: None, trail: None }
    }

    /// Sets how long the answer may take, a wait for room and the time in the queue included, instead of the
    /// endpoint's `call_timeout`.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Makes a span that of this call: it begins when the call is sent, and has stages. It is still to be
    /// ended; of a call that is never sent there is none.
    ///
    /// ```no_run
    /// # use farcall::{Client, ClientError, Peer};
    /// # fn call(client: &Client, peer: Peer, order: &[u8]) -> Result<(), ClientError> {
    /// use farcall::Service;
    /// use farcall::spans::{TraceContext, begin_call};
    ///
    /// let mut span = begin_call("orders", Service(7));
    /// let mut request = Vec::new();
    /// TraceContext::put(span.context(), &mut request); // the server takes it off
    /// request.extend_from_slice(order);
    /// let answer = client.call(peer, Service(7), request).in_span(&mut span).wait();
    /// span.end(answer.as_ref().err().map(ToString::to_string).as_deref());
    /// # answer.map(drop)
    /// # }
    /// ```
    pub fn in_span(mut self, span: &mut BegunSpan) -> Self {
        span.follow(|| {
            let trail = Arc::default();
            self.trail = Some(Arc::clone(&trail));
            Some(Followed::Client(trail))
        });
        self
    }

    /// Sends the call now, or says that the client has its maximum in flight.
    ///
    /// # Errors
    /// [`ClientError::Full`] and [`ClientError::Stopped`]; nothing ran.
    pub fn start(self) -> Result<ClientPending, ClientError> {
        let (handle, unsent) = self.unsent();
        let slot = Arc::clone(&unsent.slot);
        match handle.shared().submit(unsent, |permit, unsent| unsent.permitted(permit)) {
            Ok(()) => Ok(ClientPending { handle, stage: Stage::Sent(slot), is_watching: false }),
            Err(NotQueued::Full(_)) => Err(ClientError::Full { calls_max: handle.shared().calls_max() }),
            Err(NotQueued::Closed) => Err(ClientError::Stopped),
        }
    }

    /// Sends the call, after a wait for room where there is none, and blocks this thread until it is
    /// complete.
    ///
    /// Not for the thread that owns the endpoint, which would wait for itself.
    pub fn wait(self) -> Result<Payload, ClientError> {
        self.into_future().wait()
    }

    fn unsent(self) -> (Arc<Handle>, Unsent) {
        let Self { handle, target, service, payload, timeout, trail } = self;
        if let Some(trail) = &trail {
            trail.sent();
        }
        let deadline = handle.shared().deadline(timeout);
        (handle, Unsent { target, service, payload, deadline, trail, slot: Slot::new() })
    }
}

impl IntoFuture for ClientCall {
    type Output = CallResult;
    type IntoFuture = ClientPending;

    /// Sends the call, or lets it wait for room; its deadline counts from now.
    fn into_future(self) -> ClientPending {
        let (handle, unsent) = self.unsent();
        let slot = Arc::clone(&unsent.slot);
        let stage = match handle.shared().submit(unsent, |permit, unsent| unsent.permitted(permit)) {
            Ok(()) => Stage::Sent(slot),
            Err(NotQueued::Full(unsent)) => match handle.shared().wait_for_room(unsent) {
                Ok(ticket) => Stage::Waiting { ticket, slot },
                Err(error) => Stage::Failed(error),
            },
            Err(NotQueued::Closed) => Stage::Failed(ClientError::Stopped),
        };
        ClientPending { handle, stage, is_watching: false }
    }
}

/// A call of a client: it waits for room or is in flight. Its future is `Send`, completes whoever polls what,
/// and at its deadline at the latest.
///
/// Dropping it cancels the call: a later answer is dropped.
#[must_use = "dropping it cancels the call"]
pub struct ClientPending {
    handle: Arc<Handle>,
    stage: Stage,
    /// Somebody waits for it.
    is_watching: bool,
}

enum Stage {
    /// No permit was free when it began; it may have got one meanwhile.
    Waiting { ticket: Ticket, slot: Arc<Slot<CallResult>> },
    /// In the queue or in flight.
    Sent(Arc<Slot<CallResult>>),
    /// It ended before it was sent.
    Failed(ClientError),
    /// The end was fetched.
    Over,
}

impl ClientPending {
    /// Whether the call is complete, so that `wait` will not block.
    pub fn is_complete(&self) -> bool {
        match &self.stage {
            Stage::Waiting { slot, .. } | Stage::Sent(slot) => slot.is_ended(),
            Stage::Failed(_) | Stage::Over => true,
        }
    }

    /// Blocks this thread until the call is complete.
    ///
    /// Not for the thread that owns the endpoint, which would wait for itself.
    pub fn wait(mut self) -> CallResult {
        let waker = Waker::from(Arc::new(Parked(std::thread::current())));
        let mut task = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut task) {
                Poll::Ready(end) => return end,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    /// Has the task polled again at once, after other threads of this core, while that is how callers wait.
    fn watch(&mut self, task: &Context<'_>) {
        let shared = self.handle.shared();
        if !self.is_watching {
            self.is_watching = true;
            shared.watch.begin();
        }
        if shared.watch.goes_on(|| shared.now()) {
            std::thread::yield_now();
            task.waker().wake_by_ref();
        }
    }

    fn end_watch(&mut self) {
        if core::mem::take(&mut self.is_watching) {
            let shared = self.handle.shared();
            shared.watch.end(|| shared.now());
        }
    }

    /// Lets the call go on to its end, which nobody waits for. While no other handle of the client is left,
    /// the client stops all the same.
    pub fn detach(mut self) {
        self.stage = Stage::Over;
    }
}

/// Wakes a thread that is blocked in `wait`.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

impl Future for ClientPending {
    type Output = CallResult;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<CallResult> {
        let this = self.get_mut();
        let end = match &this.stage {
            Stage::Waiting { slot, .. } | Stage::Sent(slot) => match slot.poll(task) {
                Poll::Ready(end) => end,
                Poll::Pending => {
                    this.watch(task);
                    return Poll::Pending;
                }
            },
            Stage::Failed(error) => Err(error.clone()),
            Stage::Over => panic!("a future is not polled after its end"),
        };
        this.stage = Stage::Over;
        this.end_watch();
        Poll::Ready(end)
    }
}

impl Drop for ClientPending {
    fn drop(&mut self) {
        self.end_watch();
        let shared = self.handle.shared();
        let slot = match core::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Waiting { ticket, .. } if shared.leave_room(ticket) => return,
            Stage::Waiting { slot, .. } | Stage::Sent(slot) => slot,
            Stage::Failed(_) | Stage::Over => return,
        };
        if matches!(slot.leave(), Left::Running { must_cancel: true }) {
            shared.cancel(slot);
        }
    }
}

impl fmt::Debug for ClientPending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientPending")
    }
}
