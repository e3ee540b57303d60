//! The endpoint's side of a client: begins what was queued, on the thread that owns the endpoint.

use core::fmt;
use core::future::Future;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;

use farcall_base::Instant;
use farcall_transport::{Owned, Payload, Service};

use super::CallResult;
use super::connections::Connections;
use super::error::ClientError;
use super::queue::{Request, Shared, Taken};
use super::slot::{Beginning, Completer};
use crate::endpoint::{CallError, Endpoint, Peer, SLEEP_MAX};
use crate::executor::TaskSet;
use crate::names::Connection;
use crate::spans::Trail;

/// Payloads up to this many bytes are copied into the ring or packet at once; the memory of longer ones is
/// given away.
const COPIED_MAX: usize = 4096;

/// Begins what the handles of a [`Client`](super::Client) ask for, for a program that polls its endpoint
/// itself:
///
/// ```no_run
/// # fn program(endpoint: farcall::Endpoint) {
/// let (client, mut port) = farcall::Client::over(&endpoint, farcall::CLIENT_CALLS_MAX);
/// std::thread::spawn(move || { /* calls with `client` */ });
/// while !port.is_stopping() {
///     port.turn();
/// }
/// # }
/// ```
///
/// When it is dropped, what was not begun ends as [`ClientError::Stopped`]; calls in flight end when the
/// endpoint is polled, or with it.
pub struct ClientPort<'e> {
    endpoint: &'e Endpoint,
    shared: Arc<Shared>,
    /// What is more than one call: jobs, and calls to names, which choose a server and may choose again.
    tasks: TaskSet<'e>,
    connections: Connections<Connection<'e>>,
    /// The earliest deadline of those that wait for a permit.
    next_deadline: Option<Instant>,
}

impl<'e> ClientPort<'e> {
    pub(super) fn new(endpoint: &'e Endpoint, shared: Arc<Shared>) -> Self {
        Self {
            endpoint,
            shared,
            tasks: TaskSet::woken_by(endpoint.doorbell()),
            connections: Connections::new(),
            next_deadline: None,
        }
    }

    /// Begins what was queued and runs its tasks; returns how much there was to do. It neither polls the
    /// endpoint nor blocks: a poll must follow.
    pub fn poll(&mut self) -> usize {
        let mut done = 0;
        if self.shared.has_news() || self.is_deadline_past() {
            done = self.begin_queued();
        } else if !self.connections.is_empty() {
            self.connections.drop_idle(self.shared.now());
        }
        done + usize::from(self.tasks.round())
    }

    /// Begins what was queued and lets the endpoint take a turn, with events kept as by
    /// [`Endpoint::turn`]. Blocks for 100 ms at most, and wakes for whatever is queued.
    pub fn turn(&mut self) {
        if self.poll() > 0 {
            self.endpoint.turn_with_news();
            return;
        }
        if let Some(deadline) = self.next_deadline {
            self.endpoint.sleep_at_most(deadline - self.shared.now());
        }
        self.endpoint.turn();
    }

    /// Whether no handle of the client is left, or [`Client::stop`](super::Client::stop) was called.
    pub fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    fn is_deadline_past(&self) -> bool {
        self.next_deadline.is_some_and(|deadline| deadline <= self.shared.now())
    }

    fn begin_queued(&mut self) -> usize {
        let Taken { requests, cancelled, refused, next_deadline } = self.shared.take(self.shared.now());
        if next_deadline.is_none() && self.next_deadline.is_some() {
            self.endpoint.sleep_at_most(SLEEP_MAX);
        }
        self.next_deadline = next_deadline;
        let done = requests.len() + cancelled.len() + refused;
        let now = self.shared.now();
        self.connections.drop_idle(now);
        for request in requests {
            self.begin(request, now);
        }
        for operation in cancelled {
            if let Some(operation) = operation.to_cancel() {
                self.endpoint.cancel(operation);
            }
        }
        done
    }

    fn begin(&mut self, request: Request, now: Instant) {
        match request {
            Request::Call { peer, service, payload, deadline, trail, completer } => {
                self.call((peer, service), payload, deadline - now, trail, completer);
            }
            Request::Named { name, service, payload, deadline, trail, completer } => {
                self.call_name((name, service), payload, deadline - now, trail, completer);
            }
            Request::Job(job) => self.tasks.spawn(job(self.endpoint)),
        }
    }

    fn call(
        &self,
        (peer, service): (Peer, Service),
        payload: Owned,
        timeout: Duration,
        trail: Option<Arc<Trail>>,
        completer: Completer<CallResult>,
    ) {
        if timeout.is_zero() {
            return completer.complete(Err(CallError::TimedOut.into()));
        }
        let Some(beginning) = Beginning::of(completer.slot()) else { return };
        if let Some(trail) = &trail {
            trail.begun();
        }
        let call = match &payload {
            Owned::Shared(bytes) if bytes.len() <= COPIED_MAX => {
                self.endpoint.call(peer, service, &bytes[..])
            }
            _ => self.endpoint.call(peer, service, payload),
        };
        let trail_of_end = trail.clone();
        let begun = call.within(timeout).then(move |_, outcome| {
            if let Some(trail) = trail_of_end {
                trail.ended();
            }
            completer
                .complete(outcome.as_ref().map(|answer| answer.take()).map_err(|error| error.clone().into()));
        });
        match begun {
            Ok(operation) => {
                if let Some(trail) = trail {
                    trail.traced(self.endpoint.traced(operation));
                }
                if let Some(unwanted) = beginning.begun(operation) {
                    self.endpoint.cancel(unwanted);
                }
            }
            Err(error) => beginning.refused(Err(error.into())),
        }
    }

    fn call_name(
        &mut self,
        (name, service): (Arc<str>, Service),
        payload: Payload,
        timeout: Duration,
        trail: Option<Arc<Trail>>,
        completer: Completer<CallResult>,
    ) {
        let connection = match self.connection(name) {
            Ok(connection) => connection,
            Err(error) => return completer.complete(Err(error)),
        };
        self.tasks.spawn(async move {
            let slot = Arc::clone(completer.slot());
            let call = async {
                let answer = connection.call(service, &payload).within(timeout).on(trail).begin().await;
                answer.map(|answer| answer.take()).map_err(ClientError::from)
            };
            if let Some(end) = unless_unwanted(call, |task| slot.poll_unwanted(task)).await {
                completer.complete(end);
            }
        });
    }

    fn connection(&mut self, name: Arc<str>) -> Result<Rc<Connection<'e>>, ClientError> {
        let endpoint = self.endpoint;
        Ok(self.connections.get(name, self.shared.now(), |name| endpoint.connect(name))?)
    }
}

/// Runs a future to its end, or until its end is unwanted, which cancels it.
pub(super) async fn unless_unwanted<F: Future>(
    future: F,
    is_unwanted: impl Fn(&core::task::Context<'_>) -> bool,
) -> Option<F::Output> {
    let mut future = pin!(future);
    core::future::poll_fn(|task| {
        if is_unwanted(task) {
            return Poll::Ready(None);
        }
        future.as_mut().poll(task).map(Some)
    })
    .await
}

impl Drop for ClientPort<'_> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl fmt::Debug for ClientPort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientPort")
    }
}
