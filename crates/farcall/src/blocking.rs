//! Slow handlers: threads that run them, so that the endpoint's own is free for everything else.
//!
//! A handler runs inside the poll, and whatever it takes, all other services, calls and messages of that
//! endpoint wait for. One that computes for long or blocks belongs here: the request is taken out of the
//! poll, a thread of a pool runs the handler, and the answer goes back through the endpoint's queue of late
//! replies.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use farcall_transport::{Payload, Service};

use crate::endpoint::{Deferred, Endpoint, Peer};

/// Requests that wait for a thread of one service at most, whoever sent them; later ones are not run.
///
/// A peer has at most as many as the calls that its session allows, this is for all peers together.
pub const BLOCKING_REQUESTS_MAX: usize = 65_536;

/// A request in memory that its holder keeps.
#[derive(Debug)]
pub struct TakenRequest {
    peer: Peer,
    service: Service,
    payload: Payload,
}

impl TakenRequest {
    /// The caller.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// The service that was called.
    pub fn service(&self) -> Service {
        self.service
    }

    /// The request's bytes.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The bytes as owned memory.
    pub fn take(self) -> Payload {
        self.payload
    }
}

/// What waits for a thread.
#[derive(Default)]
struct Waiting {
    requests: VecDeque<(TakenRequest, Deferred)>,
    /// The service is not served any more.
    is_closed: bool,
}

/// The queue of one service.
#[derive(Default)]
struct Pool {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

impl Pool {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // No handler runs while it is locked.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Dropping the duty tells the caller that there is no answer.
    fn push(&self, request: TakenRequest, reply: Deferred) {
        let mut waiting = self.waiting();
        if waiting.requests.len() < BLOCKING_REQUESTS_MAX {
            waiting.requests.push_back((request, reply));
            drop(waiting);
            self.arrived.notify_one();
        }
    }

    /// The next request; `None` when the service is over.
    fn next(&self) -> Option<(TakenRequest, Deferred)> {
        let mut waiting = self.waiting();
        while !waiting.is_closed {
            if let Some(request) = waiting.requests.pop_front() {
                return Some(request);
            }
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn close(&self) {
        let mut waiting = self.waiting();
        waiting.is_closed = true;
        let requests = core::mem::take(&mut waiting.requests);
        drop(waiting);
        drop(requests);
        self.arrived.notify_all();
    }
}

/// The endpoint's side of a pool: with its handler the service ends.
struct Entrance(Arc<Pool>);

impl Drop for Entrance {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Endpoint {
    /// As [`Endpoint::serve`], for handlers that block or take long: `threads` threads run them, several at a
    /// time, and the endpoint goes on polling. A handler answers with [`Deferred::send`], there or from yet
    /// another thread.
    ///
    /// ```no_run
    /// # fn program(endpoint: &farcall::Endpoint) -> std::io::Result<()> {
    /// use farcall::Service;
    ///
    /// endpoint.serve_blocking(Service(7), 4, |request, reply| {
    ///     let path = String::from_utf8_lossy(request.payload()).into_owned();
    ///     match std::fs::read(path) {
    ///         Ok(page) => reply.send(page),
    ///         Err(_) => reply.refuse(1),
    ///     }
    /// })
    /// # }
    /// ```
    ///
    /// A call costs two hand-overs between threads more than with a handler in the poll. Requests that nobody
    /// has begun when the handler is replaced or the endpoint ends are not run; those that run are not waited
    /// for. A handler that panics gives no answer, and its thread goes on.
    ///
    /// # Errors
    /// The system has not as many threads to give; the service is as it was.
    pub fn serve_blocking(
        &self,
        service: Service,
        threads: usize,
        handler: impl Fn(TakenRequest, Deferred) + Send + Sync + 'static,
    ) -> io::Result<()> {
        let entrance = Entrance(Arc::default());
        let handler = Arc::new(handler);
        for _ in 0..threads.max(1) {
            let (pool, handler) = (Arc::clone(&entrance.0), Arc::clone(&handler));
            let name = format!("farcall-{}", service.0);
            std::thread::Builder::new().name(name).spawn(move || work(&pool, &*handler))?;
        }
        self.serve(service, move |request, reply| {
            let (peer, service) = (request.peer(), request.service());
            let request = TakenRequest { peer, service, payload: request.take() };
            entrance.0.push(request, reply.defer().0);
        });
        Ok(())
    }
}

fn work(pool: &Pool, handler: &(impl Fn(TakenRequest, Deferred) + ?Sized)) {
    while let Some((request, reply)) = pool.next() {
        // The panic was reported by the hook, and the dropped duty tells the caller.
        let _ = catch_unwind(AssertUnwindSafe(|| handler(request, reply)));
    }
}
