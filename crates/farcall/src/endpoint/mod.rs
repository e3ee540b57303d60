//! Endpoints: where one thread makes calls and serves them.
//!
//! An [`Endpoint`] belongs to one thread at a time: it can be moved to another and cannot be shared, which
//! the compiler checks. Everything happens inside [`Endpoint::poll`], which runs to completion: receive,
//! handlers, transmit. Futures, callbacks and events are three faces of the same slab of operations, in
//! `slab`.

mod call;
mod clock_pace;
mod completion;
mod context;
mod counters;
mod doorbell;
mod event;
mod future;
mod guard;
mod handler;
mod idle;
mod message;
mod peers;
mod poll;
mod refusal;
mod serving;
mod sessions;
mod sinks;
mod slab;
mod state;
mod turn;
mod wait_set;
mod waits;

use core::time::Duration;
use std::cell::{RefCell, RefMut};
use std::fmt;
use std::sync::Arc;

use farcall_base::Principal;
use farcall_driver::clock::Clock;
use farcall_driver::{Loan, LoanError};
use farcall_transport::trace::CallTracer;
use farcall_transport::{CallId, Copied, Holdings, Outgoing, Service, Transport, TransportLimits};

pub use call::{Answer, Call, CallError, Outcome, Pending, Response};
use clock_pace::ClockPace;
pub use context::{Context, ContextCall, Operation};
pub use counters::{EndpointCounters, EndpointTrace, TracedPeer};
pub(crate) use doorbell::Doorbell;
pub use event::Event;
pub use future::OrRefused;
use future::{Done, OnDrop};
pub(crate) use guard::Guard;
pub use handler::{Deferred, Reply, Request};
pub(crate) use idle::{Idler, SLEEP_MAX, Step};
pub use message::{
    AnySource, AnyTag, Cancellation, ContextReceive, ContextSend, Message, ReceiveError, ReceiveMessage,
    ReceiveOutcome, Received, Receiving, SendError, SendMessage, Sending, SourceChoice, TagChoice,
};
use poll::Core;
pub use refusal::{REASON_BYTES_MAX, Reason};
pub use sessions::Peer;
pub use slab::OPERATIONS_MAX;
use slab::{Kind, Slab, Timeouts};
use state::State;
pub use wait_set::WaitSet;

use crate::connect::Directions;
use crate::spans::{BegunSpan, Followed, TracedOperation};

/// One thread's door to its peers.
///
/// Handlers, callbacks and the closures given to [`Endpoint::poll`] must use the [`Context`] that they get;
/// the endpoint's own methods panic there.
pub struct Endpoint {
    core: RefCell<Core>,
    /// The core's.
    done: Done,
    directions: Arc<Directions>,
    call_timeout: Duration,
    /// Operations whose futures were dropped inside a poll, to be cancelled or detached at the next.
    dropped: RefCell<Vec<(CallId, OnDrop)>>,
}

/// The first service that no peer serves: the last two are reserved.
const RESERVED: Service = Service(u16::MAX - 1);

impl Endpoint {
    pub(crate) fn new(
        mut transport: Box<dyn Transport>,
        call_timeout: Duration,
        message_timeout: Duration,
        clock: Clock,
        idler: Idler,
        counters: EndpointCounters,
        directions: Arc<Directions>,
    ) -> Self {
        let tracer = CallTracer::new(clock.clone());
        transport.trace_to(tracer.clone());
        let done = Done::new();
        let timeouts = Timeouts { call: call_timeout, message: message_timeout };
        let polls_per_clock_reading = transport.limits().polls_per_clock_reading;
        let operations = Slab::new(done.clone(), timeouts);
        let state = State::new(counters, operations, clock.now(), tracer);
        if !directions.is_simulated() {
            state.late_replies.bell().open();
        }
        let core = Core {
            clock_pace: ClockPace::new(polls_per_clock_reading),
            transport,
            state,
            clock,
            idler,
            directions: Arc::clone(&directions),
            wakers: Vec::new(),
            stays_awake: false,
            sleep_max: SLEEP_MAX,
        };
        Self { core: RefCell::new(core), done, directions, call_timeout, dropped: RefCell::default() }
    }

    /// With a policy that says what peers may do.
    pub(crate) fn guarded_by(self, guard: Option<Guard>) -> Self {
        self.core().state.guard = guard.map(Box::new);
        self
    }

    #[inline]
    fn core(&self) -> RefMut<'_, Core> {
        self.core
            .try_borrow_mut()
            .expect("inside a handler, callback or event use the context, not the endpoint")
    }

    /// The core, without the operations whose futures are gone.
    #[inline]
    fn core_for_turn(&self) -> RefMut<'_, Core> {
        let mut core = self.core();
        if !self.dropped.borrow().is_empty() {
            self.end_all_dropped(&mut core);
        }
        core
    }

    #[cold]
    fn end_all_dropped(&self, core: &mut Core) {
        for (id, on_drop) in self.dropped.take() {
            core.end_dropped(id, on_drop);
        }
    }

    /// Serves a service: `handler` gets every request for it, during polls. A later handler replaces an
    /// earlier one.
    ///
    /// # Panics
    /// For services 65534 and 65535, which carry messages over some transports.
    pub fn serve(&self, service: Service, handler: impl FnMut(Request<'_>, Reply<'_>) + Send + 'static) {
        assert!(service < RESERVED, "services 65534 and 65535 carry messages");
        let handlers = &mut self.core().state.handlers;
        let index = usize::from(service.0);
        if handlers.len() <= index {
            handlers.resize_with(index + 1, || None);
        }
        handlers[index] = Some(Box::new(handler));
    }

    /// Prepares a call; see [`Call`] for the ways to make it.
    pub fn call<'p>(&self, peer: Peer, service: Service, payload: impl Into<Outgoing<'p>>) -> Call<'_, 'p> {
        Call { endpoint: self, peer, service, payload: payload.into(), timeout: None }
    }

    /// Who the peer of a session is, as far as its transport proves it.
    pub fn principal(&self, peer: Peer) -> Principal {
        self.core().state.sessions.principal_of(peer.session).clone()
    }

    /// From now on the endpoint's policy, if it has one, is not asked about requests: for a server that asks
    /// one itself about what lies within its services, as a store does about tables. Messages stay under it.
    pub fn leave_requests_to_caller(&self) {
        if let Some(guard) = &mut self.core().state.guard {
            guard.leave_requests();
        }
    }

    /// Answers a request that its handler deferred.
    pub fn reply<'p>(&self, deferred: Deferred, payload: impl Into<Outgoing<'p>>) {
        self.core().context().reply(deferred, payload);
    }

    /// Refuses a request that its handler deferred, with a code of the server's own.
    pub fn refuse(&self, deferred: Deferred, code: u8) {
        self.core().context().refuse(deferred, code);
    }

    /// As [`Endpoint::refuse`], and says why; see [`Reply::refuse_because`].
    pub fn refuse_because(&self, deferred: Deferred, code: u8, why: &str) {
        self.core().context().refuse_because(deferred, code, why);
    }

    /// Cancels a call, send or receive that was posted or has a callback. If it can be cancelled it completes
    /// now, as cancelled.
    pub fn cancel(&self, operation: Operation) -> Cancellation {
        self.core().cancel(operation.0)
    }

    /// As [`Context::is_transmitted`].
    pub fn is_transmitted(&self, operation: Operation) -> bool {
        self.core().context().is_transmitted(operation)
    }

    /// Memory that can be written in place and sent without a copy, where a copy would take longer. What is
    /// in it is left over from earlier loans.
    pub fn loan(&self, bytes: usize) -> Result<Loan, LoanError> {
        self.core().transport.loan(bytes)
    }

    /// The clock that the endpoint's deadlines are on: that of the machine, or of the simulated host.
    pub fn clock(&self) -> Clock {
        self.core().clock.clone()
    }

    /// The switch of the endpoint's trace, and what it has recorded; for any thread.
    pub fn tracer(&self) -> CallTracer {
        self.core().state.tracer.clone()
    }

    /// What was traced so far, with the peers that it was exchanged with.
    pub fn trace(&self) -> EndpointTrace {
        let state = &self.core().state;
        EndpointTrace::of(&state.tracer, state.sessions.live())
    }

    /// As [`Pending::in_span`], of a call that was posted or has a callback.
    pub fn in_span(&self, call: Operation, span: &mut BegunSpan) {
        span.follow(|| self.traced(call).map(Followed::Call));
    }

    /// A call in flight as the trace names it, while that is on.
    pub(crate) fn traced(&self, call: Operation) -> Option<TracedOperation> {
        let core = self.core();
        let (tracer, session) = (&core.state.tracer, core.state.operations.session_of(call.0));
        let session = session.filter(|_| tracer.is_on())?;
        Some(TracedOperation { tracer: tracer.clone(), session, operation: call.number() })
    }

    /// What the transport can carry.
    pub fn limits(&self) -> TransportLimits {
        self.core().transport.limits()
    }

    /// What the transport keeps at this moment, beside its sessions.
    pub fn holdings(&self) -> Holdings {
        self.core().transport.holdings()
    }

    /// Calls that have not completed.
    pub fn calls_in_flight(&self) -> usize {
        self.core().state.operations.in_flight(Kind::Call)
    }

    /// A future was dropped before its result was fetched.
    fn end_dropped(&self, id: CallId, on_drop: OnDrop) {
        match self.core.try_borrow_mut() {
            Ok(mut core) => core.end_dropped(id, on_drop),
            Err(_) => self.dropped.borrow_mut().push((id, on_drop)),
        }
    }

    /// Takes the memory of an answer back.
    fn recycle(&self, copy: Copied) {
        // Inside a poll it is simply dropped.
        if let Ok(mut core) = self.core.try_borrow_mut() {
            core.state.recycle(copy);
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Endpoint")
    }
}
