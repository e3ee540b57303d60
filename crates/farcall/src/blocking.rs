//! Slow handlers: threads that run them, so that the endpoint's own is free for everything else.
//!
//! A handler runs inside the poll, and whatever it takes, all other services, calls and messages of that
//! endpoint wait for. One that computes for long or blocks belongs here: the request is taken out of the
//! poll, a thread of a pool runs the handler, and the answer goes back through the endpoint's queue of late
//! replies.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use farcall_base::Principal;
use farcall_transport::{Payload, Service};

use crate::endpoint::{Deferred, Endpoint, Peer};
use crate::spans::{BegunSpan, Followed, TracedOperation};

/// Requests that wait for a thread of one service at most, whoever sent them; later ones are not run.
///
/// A peer has at most as many as the calls that its session allows, this is for all peers together.
pub const BLOCKING_REQUESTS_MAX: usize = 65_536;

/// Bytes of the requests that wait for a thread of one service, of one peer and of all together, if it is
/// more than one request; what comes on top is not run.
const BLOCKING_BYTES_OF_PEER_MAX: usize = 64 << 20;
/// See [`BLOCKING_BYTES_OF_PEER_MAX`].
const BLOCKING_BYTES_MAX: usize = 256 << 20;

/// A request in memory that its holder keeps.
#[derive(Debug)]
pub struct TakenRequest {
    peer: Peer,
    principal: Principal,
    service: Service,
    payload: Payload,
    traced: Option<TracedOperation>,
}

impl TakenRequest {
    /// The caller.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Who the caller is, as far as the transport of its session proves it.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The service that was called.
    pub fn service(&self) -> Service {
        self.service
    }

    /// The request's bytes.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Gives a span of this request, which its handler began, the stages before it: as
    /// [`Reply::in_span`](crate::Reply::in_span), with the time for which it waited for a thread.
    pub fn in_span(&self, span: &mut BegunSpan) {
        span.follow(|| Some(Followed::Request { request: self.traced.clone()?, taken: None }));
        span.taken();
    }

    /// The bytes as owned memory.
    pub fn take(self) -> Payload {
        self.payload
    }
}

/// What waits of one peer: at least one request, the oldest first.
struct OfPeer<T> {
    requests: VecDeque<(usize, T)>,
    bytes: usize,
}

/// What waits for a thread. Peers take turns, so that a peer that asks for much does not hold up the others.
struct Line<T> {
    peers: HashMap<Peer, OfPeer<T>>,
    /// The peer whose turn is next comes first.
    turns: VecDeque<Peer>,
    requests: usize,
    bytes: usize,
}

impl<T> Line<T> {
    fn new() -> Self {
        Self { peers: HashMap::new(), turns: VecDeque::new(), requests: 0, bytes: 0 }
    }

    /// Puts a request of `bytes` bytes at the end of its peer's; gives back what finds no room.
    fn push(&mut self, peer: Peer, bytes: usize, request: T) -> Result<(), T> {
        let of_peer = self.peers.get(&peer).map_or(0, |of_peer| of_peer.bytes);
        let fits = |others: usize, most: usize| others == 0 || others + bytes <= most;
        let has_room = fits(of_peer, BLOCKING_BYTES_OF_PEER_MAX) && fits(self.bytes, BLOCKING_BYTES_MAX);
        if !has_room || self.requests >= BLOCKING_REQUESTS_MAX {
            return Err(request);
        }
        let of_peer = self.peers.entry(peer).or_insert_with(|| {
            self.turns.push_back(peer);
            OfPeer { requests: VecDeque::new(), bytes: 0 }
        });
        of_peer.requests.push_back((bytes, request));
        of_peer.bytes += bytes;
        self.requests += 1;
        self.bytes += bytes;
        Ok(())
    }

    fn pop(&mut self) -> Option<T> {
        let peer = self.turns.pop_front()?;
        let of_peer = self.peers.get_mut(&peer)?;
        let (bytes, request) = of_peer.requests.pop_front()?;
        of_peer.bytes -= bytes;
        if of_peer.requests.is_empty() {
            self.peers.remove(&peer);
        } else {
            self.turns.push_back(peer);
        }
        self.requests -= 1;
        self.bytes -= bytes;
        Some(request)
    }
}

struct Waiting {
    line: Line<(TakenRequest, Deferred)>,
    /// The service is not served any more.
    is_closed: bool,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { line: Line::new(), is_closed: false }
    }
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
        let (peer, bytes) = (request.peer, request.payload.len());
        let pushed = self.waiting().line.push(peer, bytes, (request, reply));
        if pushed.is_ok() {
            self.arrived.notify_one();
        }
    }

    /// The next request; `None` when the service is over.
    fn next(&self) -> Option<(TakenRequest, Deferred)> {
        let mut waiting = self.waiting();
        while !waiting.is_closed {
            if let Some(request) = waiting.line.pop() {
                return Some(request);
            }
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn close(&self) {
        let mut waiting = self.waiting();
        waiting.is_closed = true;
        let requests = core::mem::replace(&mut waiting.line, Line::new());
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
            let (principal, traced) = (reply.principal(), reply.traced());
            let request = TakenRequest { peer, principal, service, payload: request.take(), traced };
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

#[cfg(test)]
mod tests {
    use farcall_transport::SessionId;

    use super::*;

    fn peer(number: u32) -> Peer {
        Peer { session: SessionId(number), rank: 0, endpoint: 0 }
    }

    #[test]
    fn peers_take_turns_whatever_waits_of_one() {
        let mut line = Line::new();
        (0..100).for_each(|number| line.push(peer(1), 10, number).expect("room"));
        line.push(peer(2), 10, 1000).expect("room");
        line.push(peer(2), 10, 1001).expect("room");
        let order: Vec<u32> = core::iter::from_fn(|| line.pop()).collect();
        assert_eq!(order[..5], [0, 1000, 1, 1001, 2]);
        assert_eq!((order.len(), line.requests, line.bytes, line.peers.len()), (102, 0, 0, 0));
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_for_a_peer_and_for_all() {
        const LONG: usize = 8 << 20;
        let mut line = Line::new();
        let fits = |line: &mut Line<()>, number| line.push(peer(number), LONG, ()).is_ok();
        assert_eq!((0..100).filter(|_| fits(&mut line, 1)).count(), BLOCKING_BYTES_OF_PEER_MAX / LONG);
        let others = (2..100).filter(|number| fits(&mut line, *number)).count();
        assert_eq!(others, (BLOCKING_BYTES_MAX - BLOCKING_BYTES_OF_PEER_MAX) / LONG);
        line.pop().expect("one waits");
        assert!(fits(&mut line, 1), "there is room again");
        let mut line = Line::new();
        assert!(line.push(peer(1), 2 * BLOCKING_BYTES_MAX, ()).is_ok(), "one request of whatever length");
    }
}
