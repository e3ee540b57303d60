//! What an endpoint knows besides its transport.

use core::task::Waker;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use farcall_base::Instant;
use farcall_transport::trace::CallTracer;
use farcall_transport::{CallId, Copied, Incoming, Kept, Payload, Service, SessionId, Short, Spares};

use super::counters::EndpointCounters;
use super::event::StoredEvents;
use super::guard::Guard;
use super::handler::LateReplies;
use super::message::{Envelope, Messages};
use super::sessions::Sessions;
use super::sinks::RequestSink;
use super::slab::{Kind, Slab};
use super::waits::Waits;

/// Serves the requests of one service.
pub type Handler = Box<dyn RequestSink + Send>;

/// The endpoint's own state.
pub struct State {
    /// The endpoint's number within its process, by which probes tell its sessions from those of others.
    pub number: u32,
    pub operations: Slab,
    pub handlers: Vec<Option<Handler>>,
    pub sessions: Sessions,
    pub messages: Messages,
    pub counters: EndpointCounters,
    pub waits: Waits,
    /// Events that happened while nobody took them.
    pub stored_events: StoredEvents,
    /// Sessions that came up or ended and sends that ended in this turn: transports count what arrived, and
    /// not these.
    pub reported: usize,
    /// What a handler, a callback, a waker or who takes events has panicked with in this turn.
    pub panic: Option<Box<dyn Any + Send>>,
    /// What other threads reply, and requests whose duty was dropped.
    pub late_replies: Arc<LateReplies>,
    /// The clock as last read.
    pub now: Instant,
    pub tracer: CallTracer,
    /// Requests are not taken any more, because the endpoint is about to stop.
    pub is_leaving: bool,
    /// What peers may do; `None` without a policy, so that they may do everything.
    pub guard: Option<Box<Guard>>,
    spares: Spares<Copied>,
}

impl State {
    pub fn new(counters: EndpointCounters, operations: Slab, now: Instant, tracer: CallTracer) -> Self {
        static ENDPOINTS: AtomicU32 = AtomicU32::new(0);
        Self {
            number: ENDPOINTS.fetch_add(1, Ordering::Relaxed),
            operations,
            messages: Messages::default(),
            handlers: Vec::new(),
            sessions: Sessions::default(),
            counters,
            waits: Waits::none(),
            stored_events: StoredEvents::default(),
            reported: 0,
            panic: None,
            late_replies: Arc::default(),
            now,
            tracer,
            is_leaving: false,
            guard: None,
            spares: Spares::default(),
        }
    }

    /// Runs what is not ours; whether it did not panic. The first panic of a turn is kept until the transport
    /// has done its work.
    #[inline]
    pub fn guard(&mut self, run: impl FnOnce(&mut Self)) -> bool {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(self)));
        outcome.map_err(|panic| self.panic.get_or_insert(panic)).is_ok()
    }

    /// As [`State::guard`], until `run` comes to its end: it must get further each time. For callbacks whose
    /// operations have ended already: no other way leads to those behind one that panics.
    #[inline]
    pub fn guard_to_the_end(&mut self, mut run: impl FnMut(&mut Self)) -> bool {
        let mut went_well = true;
        while !self.guard(&mut run) {
            went_well = false;
        }
        went_well
    }

    /// Wakes who waits for the end of an operation, if somebody does.
    pub fn wake(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.guard(|_| waker.wake());
        }
    }

    /// Shows how many calls there were: the slab counts them anyway, and a counter for each would be felt.
    #[inline]
    pub fn count_calls(&self) {
        self.counters.calls.set(self.operations.added(Kind::Call));
    }

    /// A payload in memory that outlives the poll, a spare buffer where it must be copied.
    #[inline]
    pub fn keep(&mut self, payload: &Incoming<'_>) -> Kept {
        match payload {
            Incoming::Borrowed(bytes) => {
                Short::new(bytes).map_or_else(|| Kept::Copy(self.spares.copy(bytes)), Kept::Short)
            }
            Incoming::Owned(payload) => Kept::Shared(Payload::clone(payload)),
        }
    }

    /// Leaves a message for the future of a receive that was never polled, in a spare buffer. False when
    /// there is none, and then nothing has changed.
    #[inline]
    pub fn leave_copy(&mut self, receive: CallId, envelope: Envelope, message: &[u8]) -> bool {
        self.operations.leave_copy(receive, envelope, message, &mut self.spares)
    }

    /// Leaves an answer for the future of a call that was never polled. False when there is none, and then
    /// nothing has changed.
    #[inline]
    pub fn leave_answer(&mut self, call: CallId, session: SessionId, answer: &[u8]) -> bool {
        self.operations.leave_answer(call, session, answer, &mut self.spares)
    }

    /// Ends a receive of a future that was never polled with a message that it has room for.
    #[inline]
    pub fn leave_message(&mut self, receive: CallId, envelope: Envelope, message: &[u8]) {
        if self.operations.leave_short(receive, envelope, message) {
            self.operations.receives_ended(1);
        } else {
            let is_left = self.leave_copy(receive, envelope, message);
            debug_assert!(is_left, "there is room, and a future");
        }
    }

    /// Takes back the memory of a message or answer that is not read any more.
    #[inline]
    pub fn recycle(&mut self, copy: Copied) {
        self.spares.keep(copy);
    }

    pub fn handler_slot(&mut self, service: Service) -> Option<&mut Option<Handler>> {
        self.handlers.get_mut(usize::from(service.0))
    }
}
