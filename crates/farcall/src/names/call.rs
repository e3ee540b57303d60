//! A call to a name: to whichever server is there, and to another one when the first has certainly not run
//! it.

use core::time::Duration;
use std::sync::Arc;

use farcall_base::Instant;
use farcall_transport::{CallRefused, Service};

use super::connection::{Connection, NoServer};
use crate::endpoint::{CallError, Peer, Pending, Response};
use crate::spans::{BegunSpan, Followed, Trail};

/// A call that is about to be made to one of the servers of a name.
///
/// It is made again, to another server, only when its request certainly did not run: no session came up, or
/// the server is leaving. A call whose session ended after it was sent has perhaps run, and ends with that
/// error.
#[must_use = "a call is sent by `wait` or `begin`"]
pub struct NamedCall<'c, 'e, 'p> {
    connection: &'c Connection<'e>,
    service: Service,
    payload: &'p [u8],
    timeout: Option<Duration>,
    trail: Option<Arc<Trail>>,
}

/// Why a call to a name has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamedCallError {
    /// There was no server before the deadline; nothing ran.
    #[error(transparent)]
    NoServer(#[from] NoServer),
    /// A server was called.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl<'c, 'e, 'p> NamedCall<'c, 'e, 'p> {
    pub(super) fn new(connection: &'c Connection<'e>, service: Service, payload: &'p [u8]) -> Self {
        Self { connection, service, payload, timeout: None, trail: None }
    }

    /// Sets how long the answer may take, the search for a server included, instead of the endpoint's
    /// `call_timeout`.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Makes a span that of this call: it begins when the call is sent, and has stages, of which `queue` is
    /// the search for a server. It is still to be ended.
    pub fn in_span(mut self, span: &mut BegunSpan) -> Self {
        span.follow(|| Some(Followed::Client(Arc::clone(self.trail.get_or_insert_default()))));
        self
    }

    /// The call of a client that notes where it is.
    pub(crate) fn on(mut self, trail: Option<Arc<Trail>>) -> Self {
        self.trail = trail;
        self
    }

    /// Sends the call and polls the endpoint until it is complete.
    pub fn wait(self) -> Result<Response<'e>, NamedCallError> {
        let deadline = self.sent();
        loop {
            let attempt = match self.connection.choose() {
                Ok((peer, calls)) => {
                    let _counted = calls.begin();
                    let outcome = self.attempt(peer, deadline).and_then(Pending::wait);
                    self.judge(peer, outcome)
                }
                Err(why) => Attempt::NotRun(why.into()),
            };
            match attempt {
                Attempt::Over(outcome) => return self.ended(outcome),
                Attempt::NotRun(error) if self.now() >= deadline => return self.ended(Err(error)),
                Attempt::NotRun(_) => self.connection.wait_for_news(),
            }
        }
    }

    /// As [`NamedCall::wait`], for tasks: some task or thread must poll the endpoint for it to progress.
    pub async fn begin(self) -> Result<Response<'e>, NamedCallError> {
        let deadline = self.sent();
        loop {
            let attempt = match self.connection.choose() {
                Ok((peer, calls)) => {
                    let _counted = calls.begin();
                    let outcome = match self.attempt(peer, deadline) {
                        Ok(call) => call.await,
                        Err(error) => Err(error),
                    };
                    self.judge(peer, outcome)
                }
                Err(why) => Attempt::NotRun(why.into()),
            };
            match attempt {
                Attempt::Over(outcome) => return self.ended(outcome),
                Attempt::NotRun(error) if self.now() >= deadline => return self.ended(Err(error)),
                Attempt::NotRun(_) => let_others_run().await,
            }
        }
    }

    /// The call is sent now; gives its deadline.
    fn sent(&self) -> Instant {
        // A client's was sent by its caller.
        if let Some(trail) = self.trail.as_ref().filter(|trail| trail.sent_at().is_none()) {
            trail.sent();
        }
        self.deadline()
    }

    /// Calls one of the servers.
    fn attempt(&self, peer: Peer, deadline: Instant) -> Result<Pending<'e>, CallError> {
        let left = deadline - self.now();
        let call = self.connection.endpoint().call(peer, self.service, self.payload).within(left);
        let Some(trail) = &self.trail else { return call.start() };
        trail.begun();
        let pending = call.start()?;
        trail.traced(pending.traced());
        Ok(pending)
    }

    fn ended<T>(&self, outcome: T) -> T {
        if let Some(trail) = &self.trail {
            trail.ended();
        }
        outcome
    }

    fn now(&self) -> Instant {
        self.connection.endpoint().clock().now()
    }

    fn deadline(&self) -> Instant {
        let timeout = self.timeout.unwrap_or_else(|| self.connection.endpoint().call_timeout());
        self.now() + timeout
    }

    /// Whether the call is over, or certainly did not run and may go to another server.
    fn judge(&self, peer: Peer, outcome: Result<Response<'e>, CallError>) -> Attempt<'e> {
        let error = match outcome {
            Ok(response) => {
                self.connection.praise(peer);
                return Attempt::Over(Ok(response));
            }
            Err(error) => error,
        };
        if self.has_not_run(peer, &error) {
            self.connection.avoid(peer, &error);
            return Attempt::NotRun(error.into());
        }
        Attempt::Over(Err(error.into()))
    }

    /// Whether a call that ended so did certainly not run, and another server may do better.
    fn has_not_run(&self, peer: Peer, error: &CallError) -> bool {
        match error {
            CallError::PeerDown(_) => self.connection.endpoint().never_came_up(peer),
            CallError::Leaving | CallError::NotSent(CallRefused::Down) => true,
            _ => false,
        }
    }
}

/// What came of one attempt.
enum Attempt<'e> {
    Over(Result<Response<'e>, NamedCallError>),
    NotRun(NamedCallError),
}

/// Lets the executor go on once before the task does.
async fn let_others_run() {
    let mut has_waited = false;
    core::future::poll_fn(|task| {
        if core::mem::replace(&mut has_waited, true) {
            return core::task::Poll::Ready(());
        }
        task.waker().wake_by_ref();
        core::task::Poll::Pending
    })
    .await;
}
