//! Endpoints: where one thread makes calls and serves them.
//!
//! An [`Endpoint`] belongs to one thread at a time: it can be moved to another and cannot be shared, which the
//! compiler checks. Everything happens inside [`Endpoint::poll`], which runs to completion: receive, handlers,
//! transmit. Futures, callbacks and events are three faces of the same slab of operations, in `operations.rs`.

mod call;
mod context;
mod core;
mod counters;
mod deferred;
mod event;
mod idle;
mod messages;
mod operations;
mod outcome;
mod request;
mod sessions;
mod state;
mod trace;

use ::core::time::Duration;
use std::cell::{RefCell, RefMut};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use farcall_driver::clock::Clock;
use farcall_driver::{Loan, LoanError};
use farcall_protocol::Instant;
use farcall_transport::trace::CallTracer;
use farcall_transport::{CallId, Holdings, Kept, Outgoing, Service, Status, Tag, Transport, TransportLimits};

use self::core::Core;
pub use call::{Answering, Call, Pending, Response};
pub use context::{Context, ContextCall, Operation};
pub use counters::EndpointCounters;
pub use deferred::Deferred;
pub use event::Event;
pub(crate) use idle::Idler;
pub use messages::{
    AnySource, AnyTag, Cancellation, ContextReceive, ContextSend, Message, ReceiveError, ReceiveMessage,
    ReceiveOutcome, Received, Receiving, SendError, SendMessage, Sending, SourceChoice, TagChoice,
};
use messages::{Destinations, Wanted};
use operations::Kind;
pub use operations::OPERATIONS_MAX;
pub use outcome::{Answer, CallError, Outcome};
pub use request::{Reply, Request};
pub use sessions::Peer;
use sessions::SessionState;
use state::{EventSink, RequestSink, Sinks, State};
pub use trace::{EndpointTrace, TracedPeer};

use crate::connect::{ConnectError, Directions};

/// One thread's door to its peers.
///
/// Handlers, callbacks and the closures given to [`Endpoint::poll`] must use the [`Context`] that they get; the
/// endpoint's own methods panic there.
pub struct Endpoint {
    core: RefCell<Core>,
    /// Operations whose futures were dropped inside a poll, to be cancelled or let go of at the next.
    dropped: RefCell<Vec<(CallId, OnDrop)>>,
}

/// Reserved: no peer serves it.
const MESSAGES: Service = Service(u16::MAX);

/// What becomes of an operation when its future is dropped.
#[derive(Clone, Copy)]
enum OnDrop {
    GiveUp,
    LetGo,
}

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
        let state = State::new(counters, clock.now(), call_timeout, message_timeout, tracer);
        let core = Core {
            polls_per_clock_reading: transport.polls_per_clock_reading(),
            transport,
            state,
            clock,
            idler,
            directions,
            polls_until_clock: 0,
            wakers: Vec::new(),
            stays_awake: false,
        };
        Self { core: RefCell::new(core), dropped: RefCell::default() }
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

    /// Serves a service: `handler` gets every request for it, during polls. A later handler replaces an earlier one.
    ///
    /// # Panics
    /// For service 65535, which carries messages over some transports.
    pub fn serve(&self, service: Service, handler: impl FnMut(Request<'_>, Reply<'_>) + Send + 'static) {
        assert_ne!(service, MESSAGES, "service 65535 carries messages");
        let handlers = &mut self.core().state.handlers;
        let index = usize::from(service.0);
        if handlers.len() <= index {
            handlers.resize_with(index + 1, || None);
        }
        handlers[index] = Some(Box::new(handler));
    }

    /// The endpoint of the same transport and number 0 in the process of that rank.
    ///
    /// Looks the peer up and starts a session unless there is one. Waits until the peer has published its endpoint,
    /// at most `endpoint.resolve_timeout`; the session itself comes up during later polls, and calls may be made at once.
    pub fn peer(&self, rank: u32) -> Result<Peer, ConnectError> {
        self.peer_endpoint(rank, 0)
    }

    /// As [`Endpoint::peer`], for the endpoint of the given number.
    pub fn peer_endpoint(&self, rank: u32, endpoint: u32) -> Result<Peer, ConnectError> {
        let within = self.core().directions.within();
        self.find_peer(rank, endpoint, within)
    }

    /// As [`Endpoint::peer`], for a peer that has most likely published its endpoint, or is not there: waits for it at
    /// most `within`.
    pub fn peer_within(&self, rank: u32, within: Duration) -> Result<Peer, ConnectError> {
        self.find_peer(rank, 0, within)
    }

    fn find_peer(&self, rank: u32, endpoint: u32, within: Duration) -> Result<Peer, ConnectError> {
        let core = &mut *self.core();
        if let Some(peer) = core.state.sessions.find(rank, endpoint) {
            return Ok(peer);
        }
        let address = core.directions.find(rank, endpoint, within)?;
        let session = core.transport.connect(&address, core.clock.now())?;
        let peer = Peer { session, rank, endpoint };
        core.state.sessions.opening(peer);
        Ok(peer)
    }

    /// The endpoint of number 0 in the process of that rank, if a session with it is up, whoever opened it.
    pub fn session_with(&self, rank: u32) -> Option<Peer> {
        let sessions = &self.core().state.sessions;
        let peer = sessions.find(rank, 0)?;
        (sessions.state_of(peer.session) == Some(&SessionState::Up)).then_some(peer)
    }

    /// Polls until the session to `peer` is up.
    pub fn wait_for(&self, peer: Peer) -> Result<(), CallError> {
        self.poll_until(|state| state.sessions.state_of(peer.session) != Some(&SessionState::Opening));
        let state = &self.core().state;
        match state.sessions.state_of(peer.session) {
            Some(_) => Ok(()),
            None => Err(state
                .sessions
                .reason_of(peer.session)
                .map_or(CallError::NotSent(farcall_transport::CallRefused::Down), |reason| {
                    CallError::PeerDown(reason.clone())
                })),
        }
    }

    /// Ends the session to a peer. Its calls complete with [`CallError::PeerDown`].
    pub fn close(&self, peer: Peer) {
        let core = &mut *self.core();
        core.transport.close(peer.session, core.state.now);
    }

    /// Prepares a call; see [`Call`] for the ways to make it.
    pub fn call<'p>(&self, peer: Peer, service: Service, payload: impl Into<Outgoing<'p>>) -> Call<'_, 'p> {
        let timeout = self.core().state.call_timeout;
        Call { endpoint: self, peer, service, payload: payload.into(), timeout }
    }

    /// Answers a request that its handler deferred.
    pub fn reply<'p>(&self, deferred: Deferred, payload: impl Into<Outgoing<'p>>) {
        self.core().transport.outbox().reply(deferred.fulfil(), Status::Ok, payload.into());
    }

    /// Refuses a request that its handler deferred, with a code of the server's own.
    pub fn refuse(&self, deferred: Deferred, code: u8) {
        let (request, status) = (deferred.fulfil(), Status::Refused(code));
        self.core().transport.outbox().reply(request, status, Outgoing::Slice(&[]));
    }

    /// Prepares a message; see [`SendMessage`] for the ways to send it.
    #[inline]
    pub fn send<'p>(&self, peer: Peer, tag: Tag, payload: impl Into<Outgoing<'p>>) -> SendMessage<'_, 'p> {
        let (to, payload) = (Destinations::One(peer), payload.into());
        SendMessage { endpoint: self, to, tag, payload, timeout: None }
    }

    /// Prepares a message to several peers, which ends when it has ended for all. If it fails for some, its outcome is
    /// that of the first of them.
    pub fn send_multi<'p>(
        &self,
        peers: &'p [Peer],
        tag: Tag,
        payload: impl Into<Outgoing<'p>>,
    ) -> SendMessage<'_, 'p> {
        let (to, payload) = (Destinations::Many(peers), payload.into());
        SendMessage { endpoint: self, to, tag, payload, timeout: None }
    }

    /// Prepares a receive; see [`ReceiveMessage`] for the ways to make it. The oldest receive that wants a message gets it, and
    /// a receive gets the oldest message that it wants: those from one peer with one tag in the order in which they were
    /// sent. Messages that nobody has asked for yet wait, in bounded memory: then senders wait.
    #[inline]
    pub fn receive(&self, from: impl Into<SourceChoice>, tag: impl Into<TagChoice>) -> ReceiveMessage<'_> {
        ReceiveMessage { endpoint: self, wanted: Wanted::new(from.into(), tag.into()) }
    }

    /// Gives messages that no receive waits for to `handler`, during polls, instead of letting them wait.
    pub fn on_message(&self, handler: impl FnMut(&mut Context<'_>, Received<'_>) + Send + 'static) {
        let core = &mut *self.core();
        core.state.messages.handler = Some(Box::new(handler));
        core.transport.outbox().hand_on_unexpected(true);
    }

    /// Polls until no send and no receive is under way.
    pub fn wait_all(&self) {
        let is_over = |state: &State| {
            let under_way = |kind| state.operations.under_way(kind) > 0;
            !under_way(Kind::Send) && !under_way(Kind::Receive) && state.messages.ended.is_empty()
        };
        self.turn();
        self.poll_until(is_over);
    }

    /// Sends that have not completed.
    pub fn sends_under_way(&self) -> usize {
        self.core().state.operations.under_way(Kind::Send)
    }

    /// Receives that have not completed.
    pub fn receives_under_way(&self) -> usize {
        self.core().state.operations.under_way(Kind::Receive)
    }

    /// Cancels a call, send or receive that was posted or has a callback. If it can be cancelled it completes now, as
    /// cancelled.
    pub fn cancel(&self, operation: Operation) -> Cancellation {
        self.core().cancel(operation.0)
    }

    /// As [`Context::is_transmitted`].
    pub fn is_transmitted(&self, operation: Operation) -> bool {
        let core = &mut *self.core();
        Context { outbox: core.transport.outbox(), state: &mut core.state }.is_transmitted(operation)
    }

    /// Memory that can be written in place and sent without a copy.
    pub fn loan(&self, bytes: usize) -> Result<Loan, LoanError> {
        self.core().transport.outbox().loan(bytes)
    }

    /// The clock that the endpoint's deadlines are on: that of the machine, or of the simulated host.
    pub fn clock(&self) -> Clock {
        self.core().clock.clone()
    }

    /// When a poll must come at the latest although nothing arrives; a time that is past asks for one at once.
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.core().state.stored_events.is_empty() {
            return Some(Instant::ZERO);
        }
        self.next_deadline_of_turns()
    }

    /// As [`Endpoint::next_deadline`], for who takes no events: those that are kept are no reason to poll.
    pub(crate) fn next_deadline_of_turns(&self) -> Option<Instant> {
        let deadline = self.core().next_deadline();
        (deadline != Instant::NEVER).then_some(deadline)
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

    /// What the transport can carry.
    pub fn limits(&self) -> TransportLimits {
        self.core().transport.limits()
    }

    /// What the transport keeps at this moment, beside its sessions.
    pub fn holdings(&self) -> Holdings {
        self.core().transport.holdings()
    }

    /// Calls that have not completed.
    pub fn calls_under_way(&self) -> usize {
        self.core().state.operations.under_way(Kind::Call)
    }

    /// Transmits what is queued, where the transport can do so apart from a poll; says whether there was anything. A poll
    /// does it as well: this is for those who measure what it takes.
    pub fn flush(&self) -> bool {
        self.core().transport.flush()
    }

    /// One turn: transmits what is queued, receives, runs handlers and callbacks, and gives `on_event` what was posted.
    ///
    /// Never blocks. Returns the number of packets, records and events dealt with.
    pub fn poll(&self, mut on_event: impl FnMut(&mut Context<'_>, Event<'_>)) -> usize {
        self.poll_with(&mut on_event, None)
    }

    /// As [`Endpoint::poll`], and gives `on_request` the requests for services that have no handler. It may borrow
    /// what its caller owns, which a handler cannot.
    ///
    /// Such requests are refused in every other kind of poll, so that an endpoint that serves in this way should be
    /// polled in this way only, or by [`Endpoint::poll_requests_idle`].
    pub fn poll_requests(
        &self,
        mut on_request: impl FnMut(Request<'_>, Reply<'_>),
        mut on_event: impl FnMut(&mut Context<'_>, Event<'_>),
    ) -> usize {
        self.poll_with(&mut on_event, Some(&mut on_request))
    }

    /// As [`Endpoint::poll_requests`], followed by what the idle policy says if nothing happened. Events that happen
    /// while it idles are kept for the next poll.
    pub fn poll_requests_idle(
        &self,
        mut on_request: impl FnMut(Request<'_>, Reply<'_>),
        mut on_event: impl FnMut(&mut Context<'_>, Event<'_>),
    ) -> usize {
        let done = self.poll_with(&mut on_event, Some(&mut on_request));
        let core = &mut *self.core();
        if done == 0 {
            core.idle(Sinks { events: None, requests: Some(&mut on_request) }, true);
        } else {
            core.idler.busy();
        }
        done
    }

    #[inline]
    fn poll_with<'e>(&self, on_event: &mut EventSink<'e>, on_request: Option<&mut RequestSink<'e>>) -> usize {
        let core = &mut *self.core_for_turn();
        let stored =
            if core.state.stored_events.is_empty() { 0 } else { core.deliver_stored_events(on_event) };
        stored + core.turn(Sinks { events: Some(on_event), requests: on_request })
    }

    /// From now on the endpoint, when it sleeps, also wakes when there is something to read from `descriptor`. Whose it
    /// is must read it, or the endpoint does not sleep again.
    pub fn wake_for(&self, descriptor: OwnedFd) {
        self.core().wakers.push(descriptor);
    }

    /// Whether the endpoint only yields where its idle policy says that it may sleep: for a thread that also looks at
    /// memory whose writers wake nobody.
    pub fn stay_awake(&self, awake: bool) {
        self.core().stays_awake = awake;
    }

    /// One turn without interest in events, followed by what the idle policy says if nothing happened.
    ///
    /// Blocks for 100 ms at most, so that a caller can look at conditions of its own.
    pub fn turn(&self) {
        self.core_for_turn().turn_and_idle();
    }

    /// As [`Endpoint::poll`], followed by what the idle policy says if nothing happened.
    pub fn poll_idle(&self, mut on_event: impl FnMut(&mut Context<'_>, Event<'_>)) -> usize {
        let done = self.poll(&mut on_event);
        let core = &mut *self.core();
        if done == 0 {
            core.idle(Sinks::default(), true);
        } else {
            core.idler.busy();
        }
        done
    }

    /// Polls and idles for as long as `condition` holds; looks at it at least every 100 ms.
    pub fn run_while(&self, mut condition: impl FnMut() -> bool) {
        while condition() {
            self.turn();
        }
    }

    /// Polls and idles until `condition` holds.
    fn poll_until(&self, condition: impl Fn(&State) -> bool) {
        let core = &mut *self.core();
        while !condition(&core.state) {
            core.turn_and_idle();
        }
    }

    /// One turn without interest in events and without idling; returns how much there was to do.
    pub(crate) fn poll_once(&self) -> usize {
        self.core_for_turn().turn(Sinks::default())
    }

    /// Gives up on the operation of a future that is dropped.
    fn abandon(&self, id: CallId) {
        self.end_dropped(id, OnDrop::GiveUp);
    }

    /// Lets go of an operation whose future is dropped, and which goes on.
    fn let_go(&self, id: CallId) {
        self.end_dropped(id, OnDrop::LetGo);
    }

    fn end_dropped(&self, id: CallId, on_drop: OnDrop) {
        match self.core.try_borrow_mut() {
            Ok(mut core) => core.end_dropped(id, on_drop),
            Err(_) => self.dropped.borrow_mut().push((id, on_drop)),
        }
    }

    /// Takes the memory of an answer back.
    fn recycle(&self, payload: Kept) {
        // Inside a poll it is simply dropped.
        if let Ok(mut core) = self.core.try_borrow_mut() {
            core.state.recycle(payload);
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Endpoint")
    }
}
