//! A server: answers until every client has said that it has finished.

use core::time::Duration;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use farcall::{Clock, Context, Deferred, Endpoint, Event, Peer};

use super::counters::OwnCounters;
use super::instruments::{KernelAccount, work_for};
use super::payload::Receiver;
use super::report::Found;
use super::shard::ServedShard;
use super::{Buffers, ECHO, Exchange, FINISHED, Job, READY};

/// The clock is read once for this many polls.
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

/// Serves the exchange until all clients have finished or are gone; with a shard of a store, serves that.
pub(super) fn serve(
    endpoint: &Endpoint,
    job: &Job,
    mut shard: Option<ServedShard<'_>>,
    within: Duration,
) -> Result<Found, ServerError> {
    let exchange = &job.exchange;
    let failed = Arc::new(AtomicBool::new(false));
    let finished = Arc::new(AtomicUsize::new(0));
    if shard.is_none() {
        serve_echo(endpoint, exchange, Arc::clone(&failed), work_for(job.instruments.handler));
    }
    let begun = Arc::new(Mutex::new((OwnCounters::default(), None)));
    let at_begin = Arc::clone(&begun);
    serve_ready(endpoint, exchange.clients, move || {
        let mut begun = at_begin.lock().unwrap_or_else(PoisonError::into_inner);
        *begun = (OwnCounters::read(), KernelAccount::read());
    });
    let count = Arc::clone(&finished);
    endpoint.serve(FINISHED, move |_, reply| {
        count.fetch_add(1, Ordering::Relaxed);
        reply.send(b"");
    });
    let clock = Clock::new();
    let end = clock.now() + within;
    let mut polls = 0_u32;
    let mut gone: Vec<Peer> = Vec::new();
    while finished.load(Ordering::Relaxed) < exchange.clients {
        let on_event = |_: &mut Context<'_>, event: Event<'_>| {
            if let Event::PeerDown { peer, .. } = event {
                gone.push(peer);
            }
        };
        let done = match &mut shard {
            Some(shard) => endpoint.poll_requests(|request, reply| shard.handle(request, reply), on_event),
            None => endpoint.poll(on_event),
        };
        let answered = shard.as_mut().is_some_and(|shard| shard.turn(endpoint));
        for peer in gone.drain(..) {
            match &mut shard {
                Some(shard) if job.is_backup(peer) => shard.lost(peer),
                _ => _ = finished.fetch_add(1, Ordering::Relaxed),
            }
        }
        let waits = shard.as_ref().is_some_and(ServedShard::waits_for_disk);
        if (job.shares_cores || waits) && done == 0 && !answered {
            std::thread::yield_now();
        }
        polls = polls.wrapping_add(1);
        if polls.is_multiple_of(CLOCK_EVERY) && clock.now() > end {
            return Err(ServerError::TimedOut { within });
        }
    }
    if failed.load(Ordering::Relaxed) {
        return Err(ServerError::NotAnswered);
    }
    let begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = begun.1.as_ref().and_then(KernelAccount::waited_since);
    Ok(Found { server_counters: OwnCounters::read().since(&begun.0), waited, ..Found::default() })
}

/// Answers requests as the exchange asks for, each after its `work`.
pub(super) fn serve_echo(
    endpoint: &Endpoint,
    exchange: &Exchange,
    failed: Arc<AtomicBool>,
    work: impl Fn() + Send + 'static,
) {
    let response = vec![2; exchange.response_bytes];
    let mut receiver = Receiver::new(exchange.buffers, exchange.request_bytes);
    let (request_bytes, buffers) = (exchange.request_bytes, exchange.buffers);
    endpoint.serve(ECHO, move |request, mut reply| {
        if !receiver.look_at(request.payload(), request_bytes) {
            failed.store(true, Ordering::Relaxed);
            return reply.refuse(0);
        }
        work();
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

/// Lets the clients begin together: keeps their calls until the last one is there, when it does `at_begin`.
pub(super) fn serve_ready(endpoint: &Endpoint, clients: usize, mut at_begin: impl FnMut() + Send + 'static) {
    let mut waiting: Vec<Deferred> = Vec::with_capacity(clients);
    endpoint.serve(READY, move |_, reply| {
        let (deferred, mut context) = reply.defer();
        waiting.push(deferred);
        if waiting.len() == clients {
            at_begin();
            for deferred in waiting.drain(..) {
                context.reply(deferred, b"");
            }
        }
    });
}
