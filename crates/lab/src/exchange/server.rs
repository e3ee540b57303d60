//! A server: answers until every client has said that it has finished.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use farcall::{Clock, Deferred, Endpoint, Event};

use super::payload::Receiver;
use super::{Buffers, ECHO, Exchange, FINISHED, Job, READY};

/// The clock is read once for so many polls.
const CLOCK_EVERY: u32 = 65_536;

/// Why a server could not answer to the end.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServerError {
    /// A request was not what it should be, or there was no memory to lend for its response.
    #[error("a request could not be answered: it has the wrong length, or no memory to lend is left")]
    NotAnswered,
    /// The clients did not finish in time.
    #[error("the clients did not finish within {within:?}")]
    TimedOut {
        /// The time that they had.
        within: Duration,
    },
}

/// Serves the exchange until all clients have finished or are gone.
pub(super) fn serve(endpoint: &Endpoint, job: &Job, within: Duration) -> Result<(), ServerError> {
    let exchange = &job.exchange;
    let failed = Arc::new(AtomicBool::new(false));
    let finished = Arc::new(AtomicUsize::new(0));
    serve_echo(endpoint, exchange, Arc::clone(&failed));
    serve_ready(endpoint, exchange.clients);
    let count = Arc::clone(&finished);
    endpoint.serve(FINISHED, move |_, reply| {
        count.fetch_add(1, Ordering::Relaxed);
        reply.send(b"");
    });
    let clock = Clock::new();
    let end = clock.now() + within;
    let mut polls = 0_u32;
    while finished.load(Ordering::Relaxed) < exchange.clients {
        let done = endpoint.poll(|_, event| {
            if let Event::PeerDown { .. } = event {
                finished.fetch_add(1, Ordering::Relaxed);
            }
        });
        if job.shares_cores && done == 0 {
            std::thread::yield_now();
        }
        polls = polls.wrapping_add(1);
        if polls.is_multiple_of(CLOCK_EVERY) && clock.now() > end {
            return Err(ServerError::TimedOut { within });
        }
    }
    if failed.load(Ordering::Relaxed) { Err(ServerError::NotAnswered) } else { Ok(()) }
}

/// Answers requests as the exchange asks for.
pub(super) fn serve_echo(endpoint: &Endpoint, exchange: &Exchange, failed: Arc<AtomicBool>) {
    let response = vec![2; exchange.response_bytes];
    let mut receiver = Receiver::new(exchange.buffers, exchange.request_bytes);
    let (request_bytes, buffers) = (exchange.request_bytes, exchange.buffers);
    endpoint.serve(ECHO, move |request, mut reply| {
        if !receiver.look_at(request.payload(), request_bytes) {
            failed.store(true, Ordering::Relaxed);
            return reply.refuse(0);
        }
        if buffers != Buffers::Loaned {
            return reply.send(&response);
        }
        match reply.context().loan(response.len()) {
            Ok(loan) => reply.send(loan),
            Err(_) => {
                failed.store(true, Ordering::Relaxed);
                reply.refuse(0);
            }
        }
    });
}

/// Lets the clients begin together: keeps their calls until the last one is there.
pub(super) fn serve_ready(endpoint: &Endpoint, clients: usize) {
    let mut waiting: Vec<Deferred> = Vec::with_capacity(clients);
    endpoint.serve(READY, move |_, reply| {
        let (deferred, mut context) = reply.defer();
        waiting.push(deferred);
        if waiting.len() == clients {
            for deferred in waiting.drain(..) {
                context.reply(deferred, b"");
            }
        }
    });
}
