//! The handle by which an endpoint and its transport record what happens, and what one trace point leaves for
//! the next.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use farcall_base::Instant;
use farcall_driver::clock::Clock;
use farcall_driver::trace::{TraceRecord, Tracer};

use super::{event, session_bits, wire_number};
use crate::{RequestId, SessionId};

/// How many records a ring keeps: those of about 20,000 calls, or of 25,000 to 40,000 tagged messages.
pub const CALL_RECORDS: usize = 1 << 17;

/// A handle to the ring of an endpoint and its transport. Copies write to the same ring and stay on one
/// thread; switching and reading may happen on any.
#[derive(Clone, Debug)]
pub struct CallTracer {
    tracer: Tracer,
    clock: Clock,
    between: Arc<Between>,
}

/// What one trace point leaves for the next on the endpoint's thread. Switching forgets it, from any thread.
#[derive(Debug)]
struct Between {
    /// A reading for the next point, or [`NONE`].
    reading: AtomicU64,
    /// The request whose handler runs, as [`key`] packs it, or [`NONE`].
    handled: AtomicU64,
    /// The same request, once its answer was given.
    answered: AtomicU64,
}

/// Neither a reading nor a request: sessions have smaller numbers.
const NONE: u64 = u64::MAX;

impl Default for Between {
    fn default() -> Self {
        let none = || AtomicU64::new(NONE);
        Self { reading: none(), handled: none(), answered: none() }
    }
}

impl Default for CallTracer {
    /// One that nobody else has, for a transport without an endpoint.
    fn default() -> Self {
        Self {
            tracer: Tracer::new(1),
            clock: Clock::simulated(Default::default()),
            between: Default::default(),
        }
    }
}

impl CallTracer {
    /// A tracer, off, that reads the time from `clock`.
    pub fn new(clock: Clock) -> Self {
        Self { tracer: Tracer::new(CALL_RECORDS), clock, between: Default::default() }
    }

    /// Starts or stops recording. The first start takes the memory for the records.
    pub fn switch(&self, on: bool) {
        // What was left when it was last stopped is old by now.
        take(&self.between.reading);
        take(&self.between.answered);
        self.tracer.switch(on);
    }

    /// Forgets what was recorded so far.
    pub fn clear(&self) {
        self.tracer.clear();
    }

    /// The records kept, oldest first, with ticks of the clock in the place of times.
    pub fn records(&self) -> Vec<TraceRecord> {
        self.tracer.records()
    }

    /// Visits the newest of them, at most `count`, the newest first, until `visit` breaks.
    pub fn visit_newest(&self, count: usize, visit: impl FnMut(TraceRecord) -> ControlFlow<()>) {
        self.tracer.visit_newest(count, visit);
    }

    /// The time of a tick.
    pub fn time_of(&self, ticks: u64) -> Instant {
        self.clock.time_of(ticks)
    }

    /// How many records were lost because the ring was full.
    pub fn overwritten(&self) -> u64 {
        self.tracer.overwritten()
    }

    /// Whether records are kept now.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.tracer.is_on()
    }

    /// The ticks now, when recording is on.
    #[inline]
    pub fn begin(&self) -> Option<u64> {
        self.tracer.is_on().then(|| self.clock.ticks())
    }

    /// As [`CallTracer::begin`], of something that was just found in memory.
    #[inline]
    pub fn begin_found(&self) -> Option<u64> {
        self.tracer.is_on().then(|| self.clock.ticks_after_loads())
    }

    /// Records an event that happens now, when recording is on.
    #[inline]
    pub fn mark(&self, event: u16, call: u32, session: SessionId) {
        if self.tracer.is_on() {
            self.mark_at(self.clock.ticks(), event, call, session);
        }
    }

    /// Records an event of a time that [`CallTracer::begin`] gave, which says that recording is on.
    #[inline]
    pub fn mark_at(&self, ticks: u64, event: u16, call: u32, session: SessionId) {
        self.tracer.keep(Instant::from_nanos(ticks), event, call, session_bits(session));
    }

    /// As [`CallTracer::mark_at`], of a tagged message that was submitted while recording was on.
    #[inline]
    pub fn mark_submitted(&self, submitted: Option<u64>, message: u32, session: SessionId) {
        if let Some(submitted) = submitted {
            self.mark_at(submitted, event::MESSAGE_SUBMITTED, message, session);
        }
    }

    /// Marks a tagged message that was here before its receive: that has it at once.
    #[inline]
    pub fn mark_taken(&self, message: u32, session: SessionId) {
        if let Some(now) = self.begin() {
            self.mark_at(now, event::MESSAGE_MATCHED, message, session);
            self.mark_at(now, event::MESSAGE_COMPLETED, message, session);
        }
    }

    /// Lends a reading to the next [`CallTracer::mark_shared`], or takes it back. Nothing may run in between
    /// but a few instructions of ours. Simulated clocks are read again, because what is charged there takes
    /// no instructions.
    #[inline]
    pub fn share(&self, ticks: Option<u64>) {
        if !self.clock.is_simulated() {
            self.between.reading.store(ticks.unwrap_or(NONE), Ordering::Relaxed);
        }
    }

    /// As [`CallTracer::mark`], at the time of the reading that was lent, if there is one.
    #[inline]
    pub fn mark_shared(&self, event: u16, call: u32, session: SessionId) {
        if let Some(now) = self.begin_shared() {
            self.mark_at(now, event, call, session);
        }
    }

    /// As [`CallTracer::begin`], or the reading that was lent, if there is one.
    #[inline]
    pub fn begin_shared(&self) -> Option<u64> {
        let now = || take(&self.between.reading).unwrap_or_else(|| self.clock.ticks());
        self.tracer.is_on().then(now)
    }

    /// Marks that the handler of a request begins.
    #[inline]
    pub fn begin_handler(&self, request: RequestId) {
        if let Some(now) = self.begin_shared() {
            self.mark_at(now, event::HANDLER_BEGUN, wire_number(request.token), request.session);
            self.between.handled.store(key(request), Ordering::Relaxed);
            self.between.answered.store(NONE, Ordering::Relaxed);
        }
    }

    /// Marks that the handler of a request has returned, and the answer that waited for it, which leaves
    /// next.
    #[inline(always)]
    pub fn end_handler(&self, request: RequestId) {
        if self.tracer.is_on() {
            self.mark_end_of_handler(request);
        }
    }

    #[cold]
    fn mark_end_of_handler(&self, request: RequestId) {
        let now = self.clock.ticks();
        let any_leaves = self.mark_held_reply(now);
        self.mark_at(now, event::HANDLER_ENDED, wire_number(request.token), request.session);
        self.share(any_leaves.then_some(now));
        self.between.handled.store(NONE, Ordering::Relaxed);
    }

    /// Marks an answer that is in a record: now, or when its handler returns, before which it does not leave.
    #[inline]
    pub fn mark_reply(&self, request: RequestId) {
        if self.tracer.is_on() {
            if self.between.handled.load(Ordering::Relaxed) == key(request) {
                self.between.answered.store(key(request), Ordering::Relaxed);
            } else {
                self.mark_request(event::REPLIED, request);
            }
        }
    }

    /// Marks the answer that the handler which runs has given, because it leaves before that returns. Returns
    /// whether there is one.
    #[inline]
    pub fn mark_held_reply(&self, now: u64) -> bool {
        let held = take(&self.between.answered);
        if let Some(request) = held {
            self.mark_at(now, event::REPLIED, request as u32, SessionId((request >> 32) as u32));
        }
        held.is_some()
    }

    /// As [`CallTracer::mark`] for a request that is served here.
    #[inline]
    pub fn mark_request(&self, event: u16, request: RequestId) {
        self.mark(event, wire_number(request.token), request.session);
    }
}

/// What is there, once.
#[inline]
fn take(from: &AtomicU64) -> Option<u64> {
    let value = from.load(Ordering::Relaxed);
    from.store(NONE, Ordering::Relaxed);
    (value != NONE).then_some(value)
}

/// A request in one word.
#[inline]
const fn key(request: RequestId) -> u64 {
    (request.session.0 as u64) << 32 | wire_number(request.token) as u64
}
