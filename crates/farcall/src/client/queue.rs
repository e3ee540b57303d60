//! What many threads share with the one that owns the endpoint: requests on their way to it, permits, and the
//! requests that wait for one.
//!
//! A request holds a permit from before it is queued until its operation has ended, so that one number bounds
//! the queue, the operations in flight and the cancellations on their way. A call that finds no permit waits
//! here in order of arrival: until one is free, when it is begun whether its future is polled or not, or
//! until its deadline has passed.

use core::time::Duration;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall_base::Instant;
use farcall_driver::clock::Clock;
use farcall_transport::{Owned, Payload, Service};

use super::CallResult;
use super::call::Unsent;
use super::error::ClientError;
use super::slot::{Completer, Slot};
use super::watch::Watch;
use crate::endpoint::{Doorbell, Endpoint, Operation, Peer};
use crate::spans::Trail;

/// A request on its way to the endpoint.
pub enum Request {
    /// A call over a session.
    Call {
        peer: Peer,
        service: Service,
        payload: Owned,
        deadline: Instant,
        /// Of a call that is a span.
        trail: Option<Arc<Trail>>,
        /// Where its end goes.
        completer: Completer<CallResult>,
    },
    /// A call to one of the servers of a name.
    Named {
        name: Arc<str>,
        service: Service,
        payload: Payload,
        deadline: Instant,
        trail: Option<Arc<Trail>>,
        completer: Completer<CallResult>,
    },
    /// Work on the endpoint's thread.
    Job(Job),
}

/// A future of the endpoint's thread, before it begins. It completes what it was asked for by itself.
pub type Job = Box<dyn for<'e> FnOnce(&'e Endpoint) -> Pin<Box<dyn Future<Output = ()> + 'e>> + Send>;

/// The permission to have one operation in flight.
pub struct Permit(Arc<Shared>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.freed.fetch_add(1, Ordering::Relaxed);
    }
}

/// A wait for a permit, by its number in the order of arrival.
pub type Ticket = u64;

/// Looked up by the operations whose futures were dropped.
pub trait Cancellable: Send + Sync {
    /// The operation to be cancelled, unless it has ended.
    fn to_cancel(&self) -> Option<Operation>;
}

impl<T: Send> Cancellable for Slot<T> {
    fn to_cancel(&self) -> Option<Operation> {
        Slot::to_cancel(self)
    }
}

#[derive(Default)]
struct Queue {
    requests: Vec<Request>,
    cancelled: Vec<Arc<dyn Cancellable>>,
    waiting: BTreeMap<Ticket, Unsent>,
    next_ticket: Ticket,
    /// No deadline of those that wait is before this one.
    earliest: Option<Instant>,
    /// Permits that are held, and those given back that were not counted yet.
    held: usize,
    is_closed: bool,
}

/// What a poll of the port takes out of the queue.
#[derive(Default)]
pub struct Taken {
    pub requests: Vec<Request>,
    pub cancelled: Vec<Arc<dyn Cancellable>>,
    /// How many waits for a permit have ended without one.
    pub refused: usize,
    /// No deadline of those that wait for a permit is before this one.
    pub next_deadline: Option<Instant>,
}

/// The part of a client that its threads share.
pub struct Shared {
    queue: Mutex<Queue>,
    /// Whether something was queued since the owner looked last.
    pending: AtomicBool,
    /// Permits given back since that was counted last.
    freed: AtomicUsize,
    /// No handle is left, or somebody asked the thread to end.
    is_stopping: AtomicBool,
    bell: Arc<Doorbell>,
    clock: Clock,
    call_timeout: Duration,
    calls_max: usize,
    /// How callers wait.
    pub watch: Watch,
}

/// Why a request was not queued.
pub enum NotQueued<R> {
    /// All permits are held; the request comes back.
    Full(R),
    /// The endpoint is gone.
    Closed,
}

impl Shared {
    pub fn new(endpoint: &Endpoint, calls_max: usize) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            pending: AtomicBool::new(false),
            freed: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
            bell: endpoint.doorbell(),
            clock: endpoint.clock(),
            call_timeout: endpoint.call_timeout(),
            calls_max: calls_max.max(1),
            watch: Watch::new(endpoint.idler_of_callers()),
        })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No code of others runs while it is locked.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn calls_max(&self) -> usize {
        self.calls_max
    }

    /// When an operation that begins now and says no time of its own ends at the latest.
    pub fn deadline(&self, timeout: Option<Duration>) -> Instant {
        self.clock.now() + timeout.unwrap_or(self.call_timeout)
    }

    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Queues what `make` makes of a permit and `parts`, if a permit is free and none waits for it.
    pub fn submit<P>(
        self: &Arc<Self>,
        parts: P,
        make: impl FnOnce(Permit, P) -> Request,
    ) -> Result<(), NotQueued<P>> {
        let mut queue = self.queue();
        if queue.is_closed {
            return Err(NotQueued::Closed);
        }
        // What was given back is for those that wait: the owner must see it then.
        if queue.waiting.is_empty() {
            queue.held -= self.freed.swap(0, Ordering::Relaxed);
        }
        if queue.held >= self.calls_max || !queue.waiting.is_empty() {
            return Err(NotQueued::Full(parts));
        }
        queue.held += 1;
        queue.requests.push(make(Permit(Arc::clone(self)), parts));
        drop(queue);
        self.notify();
        Ok(())
    }

    /// Lets a call wait for a permit.
    pub fn wait_for_room(&self, unsent: Unsent) -> Result<Ticket, ClientError> {
        let mut queue = self.queue();
        if queue.is_closed {
            return Err(ClientError::Stopped);
        }
        let (ticket, deadline) = (queue.next_ticket, unsent.deadline);
        queue.next_ticket += 1;
        queue.earliest = Some(queue.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
        queue.waiting.insert(ticket, unsent);
        drop(queue);
        // Its deadline may be the next one.
        self.notify();
        Ok(ticket)
    }

    /// The future of a call that waits was dropped. False if it waits no more.
    pub fn leave_room(&self, ticket: Ticket) -> bool {
        let unsent = self.queue().waiting.remove(&ticket);
        unsent.is_some()
    }

    /// The future of an operation that has begun was dropped.
    pub fn cancel(&self, operation: Arc<dyn Cancellable>) {
        self.queue().cancelled.push(operation);
        self.notify();
    }

    fn notify(&self) {
        self.pending.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// No handle is left, or somebody wants the end.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.bell.ring();
    }

    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Whether [`Shared::take`] may find something; two loads.
    pub fn has_news(&self) -> bool {
        self.pending.load(Ordering::Relaxed) || self.freed.load(Ordering::Relaxed) > 0
    }

    /// What was queued, for the owner; permits that were given back go to those that wait for them.
    pub fn take(self: &Arc<Self>, now: Instant) -> Taken {
        self.pending.swap(false, Ordering::Acquire);
        let mut queue = self.queue();
        queue.held -= self.freed.swap(0, Ordering::Relaxed);
        let late = queue.take_late(now);
        queue.admit(self);
        let taken = Taken {
            requests: core::mem::take(&mut queue.requests),
            cancelled: core::mem::take(&mut queue.cancelled),
            refused: late.len(),
            next_deadline: queue.earliest,
        };
        drop(queue);
        for unsent in late {
            unsent.slot.complete(Err(ClientError::Full { calls_max: self.calls_max }));
        }
        taken
    }

    /// The endpoint is gone: whatever was not begun, or waits, ends as stopped.
    pub fn close(&self) {
        let mut queue = self.queue();
        queue.is_closed = true;
        let requests = core::mem::take(&mut queue.requests);
        let waiting = core::mem::take(&mut queue.waiting);
        queue.cancelled.clear();
        drop(queue);
        drop(requests);
        for unsent in waiting.into_values() {
            unsent.slot.complete(Err(ClientError::Stopped));
        }
    }
}

impl Queue {
    /// Those whose deadline has passed.
    fn take_late(&mut self, now: Instant) -> Vec<Unsent> {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return Vec::new();
        }
        let is_late = |unsent: &Unsent| unsent.deadline <= now;
        let late: Vec<Ticket> =
            self.waiting.iter().filter(|(_, unsent)| is_late(unsent)).map(|(&ticket, _)| ticket).collect();
        let late = late.into_iter().filter_map(|ticket| self.waiting.remove(&ticket)).collect();
        self.earliest = self.waiting.values().map(|unsent| unsent.deadline).min();
        late
    }

    /// Gives free permits to those that wait, in the order of arrival.
    fn admit(&mut self, shared: &Arc<Shared>) {
        while self.held < shared.calls_max
            && let Some((_, unsent)) = self.waiting.pop_first()
        {
            self.held += 1;
            self.requests.push(unsent.permitted(Permit(Arc::clone(shared))));
        }
        if self.waiting.is_empty() {
            self.earliest = None;
        }
    }
}
