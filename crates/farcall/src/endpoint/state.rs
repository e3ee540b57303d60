//! What an endpoint knows besides its transport, and what it does with what the transport reports.

use std::sync::Arc;

use core::time::Duration;

use farcall_protocol::{Identity, Instant};
use farcall_transport::trace::{CallTracer, event};
use farcall_transport::{
    Burst, CallId, DownReason, Envelope, Incoming, Kept, MessageId, Outbox, Outgoing, RequestId, SendOutcome,
    Service, SessionId, Short, Sink, Status, Tag,
};

use super::context::Context;
use super::counters::EndpointCounters;
use super::deferred::DroppedRequests;
use super::event::{Event, StoredEvent, StoredEvents};
use super::messages::{Cancellation, Messages, SendError};
use super::operations::{Completion, Kind, Operations};
use super::outcome::{CallError, Outcome, outcome_of};
use super::request::{Reply, Request};
use super::sessions::Sessions;

/// Serves the requests of one service.
pub type Handler = Box<dyn FnMut(Request<'_>, Reply<'_>) + Send>;

/// Serves the requests for services that have no handler.
pub type RequestSink<'a> = dyn FnMut(Request<'_>, Reply<'_>) + 'a;

/// Takes events as they happen.
pub type EventSink<'a> = dyn FnMut(&mut Context<'_>, Event<'_>) + 'a;

/// Buffers kept for the next answers to futures.
const SPARE_BUFFERS_MAX: usize = 64;

/// The endpoint's own state.
pub struct State {
    pub operations: Operations,
    pub handlers: Vec<Option<Handler>>,
    pub sessions: Sessions,
    pub messages: Messages,
    pub counters: EndpointCounters,
    /// Events that happened while nobody took them.
    pub stored_events: StoredEvents,
    /// Sessions that came up or ended in this turn: transports count what arrived, and not these.
    pub sessions_changed: usize,
    pub dropped_requests: Arc<DroppedRequests>,
    /// The clock as last read.
    pub now: Instant,
    pub call_timeout: Duration,
    pub tracer: CallTracer,
    spare_buffers: Vec<Vec<u8>>,
}

impl State {
    pub fn new(
        counters: EndpointCounters,
        now: Instant,
        call_timeout: Duration,
        message_timeout: Duration,
        tracer: CallTracer,
    ) -> Self {
        Self {
            operations: Operations::new(),
            messages: Messages::new(message_timeout),
            handlers: Vec::new(),
            sessions: Sessions::default(),
            counters,
            stored_events: StoredEvents::default(),
            sessions_changed: 0,
            dropped_requests: Arc::default(),
            now,
            call_timeout,
            tracer,
            spare_buffers: Vec::new(),
        }
    }

    /// A payload in memory that outlives the poll, a spare buffer where it must be copied.
    #[inline]
    pub fn keep(&mut self, payload: &Incoming<'_>) -> Kept {
        match payload {
            Incoming::Borrowed(bytes) => {
                if let Some(short) = Short::new(bytes) {
                    return Kept::Short(short);
                }
                let mut buffer = self.spare_buffers.pop().unwrap_or_default();
                buffer.extend_from_slice(bytes);
                Kept::Copy(buffer)
            }
            Incoming::Owned(payload) => Kept::Shared(payload.clone()),
        }
    }

    fn keep_outcome(&mut self, outcome: &Outcome<'_>) -> Result<Kept, CallError> {
        match outcome {
            Ok(answer) => Ok(self.keep(answer.payload)),
            Err(error) => Err(error.clone()),
        }
    }

    /// Takes back the memory of an answer that is not read any more.
    pub fn recycle(&mut self, answer: Kept) {
        if let Kept::Copy(mut buffer) = answer
            && self.spare_buffers.len() < SPARE_BUFFERS_MAX
        {
            buffer.clear();
            self.spare_buffers.push(buffer);
        }
    }

    fn handler_slot(&mut self, service: Service) -> Option<&mut Option<Handler>> {
        self.handlers.get_mut(usize::from(service.0))
    }
}

/// Who takes what happens during a turn.
#[derive(Default)]
pub struct Sinks<'a, 'e> {
    pub events: Option<&'a mut EventSink<'e>>,
    pub requests: Option<&'a mut RequestSink<'e>>,
}

/// One turn of the poll loop: the state, and whoever takes what happens meanwhile.
pub struct Turn<'a, 'e> {
    pub state: &'a mut State,
    pub sinks: Sinks<'a, 'e>,
}

impl Turn<'_, '_> {
    /// Completes an operation that has ended.
    #[inline]
    pub fn complete(
        &mut self,
        outbox: &mut dyn Outbox,
        call: CallId,
        how: Completion,
        outcome: &Outcome<'_>,
    ) {
        match how {
            Completion::Event(token) => self.report(outbox, token, outcome),
            Completion::Callback(callback) => {
                callback.run(&mut Context { outbox, state: self.state }, outcome)
            }
            Completion::Nobody => {}
            Completion::Sent(_) | Completion::Received(_) => unreachable!("a call has a call's callback"),
            Completion::Future(waker) => {
                let result = self.state.keep_outcome(outcome);
                self.state.operations.leave_result(call, result);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    #[inline]
    fn report(&mut self, outbox: &mut dyn Outbox, token: u64, outcome: &Outcome<'_>) {
        if let Some(events) = &mut self.sinks.events {
            return events(&mut Context { outbox, state: self.state }, Event::Completed { token, outcome });
        }
        let outcome = self.state.keep_outcome(outcome);
        self.state.stored_events.push_back(StoredEvent::Completed { token, outcome });
    }

    #[inline]
    fn note_answer(&mut self, call: CallId, session: SessionId) {
        self.state.counters.answered.increment();
        self.state.tracer.mark_shared(event::COMPLETED, call.0, session);
    }

    /// Ends a call that does not become an event.
    fn end_otherwise(
        &mut self,
        outbox: &mut dyn Outbox,
        session: SessionId,
        call: CallId,
        status: Status,
        payload: &Incoming<'_>,
    ) {
        match self.state.operations.end(call, session) {
            Some(how) => {
                self.note_answer(call, session);
                self.complete(outbox, call, how, &outcome_of(status, payload));
            }
            None => self.state.counters.late_answers.increment(),
        }
    }

    fn fail_call(&mut self, outbox: &mut dyn Outbox, call: CallId, error: CallError) {
        if let Some((session, how)) = self.state.operations.cancel(call) {
            if error == CallError::TimedOut {
                self.state.counters.timed_out.increment();
                outbox.cancel(session, call);
            }
            self.complete(outbox, call, how, &Err(error));
        }
    }

    /// Cancels a call under way.
    pub fn cancel_call(&mut self, outbox: &mut dyn Outbox, call: CallId) -> Cancellation {
        let Some((session, how)) = self.state.operations.cancel(call) else { return Cancellation::Over };
        self.state.counters.cancelled.increment();
        outbox.cancel(session, call);
        self.complete(outbox, call, how, &Err(CallError::Cancelled));
        Cancellation::Cancelled
    }

    /// Ends the operations whose deadline has passed; says how many there were.
    pub fn expire(&mut self, outbox: &mut dyn Outbox) -> usize {
        let expired = self.state.operations.expired(self.state.now);
        for &id in &expired {
            match self.state.operations.kind_of(id) {
                Some(Kind::Call) => self.fail_call(outbox, id, CallError::TimedOut),
                Some(Kind::Send) => self.expire_send(outbox, id),
                Some(Kind::Receive) => self.expire_receive(outbox, id),
                None => {}
            }
        }
        expired.len()
    }
}

impl Sink for Turn<'_, '_> {
    #[inline]
    fn request(&mut self, outbox: &mut dyn Outbox, id: RequestId, service: Service, payload: &Incoming<'_>) {
        self.state.counters.requests.increment();
        self.state.tracer.begin_handler(id);
        let peer = self.state.sessions.peer_of(id.session);
        let request = Request::new(peer, service, payload);
        // The handler is taken out while it runs, so that it can have the rest of the state.
        let Some(mut handler) = self.state.handler_slot(service).and_then(Option::take) else {
            let Some(requests) = &mut self.sinks.requests else {
                return outbox.reply(id, Status::UnknownService, Outgoing::Slice(&[]));
            };
            requests(request, Reply::new(Context { outbox, state: self.state }, id));
            return self.state.tracer.end_handler(id);
        };
        handler(request, Reply::new(Context { outbox, state: self.state }, id));
        self.state.tracer.end_handler(id);
        if let Some(slot) = self.state.handler_slot(service) {
            *slot = Some(handler);
        }
    }

    #[inline]
    fn response(
        &mut self,
        outbox: &mut dyn Outbox,
        session: SessionId,
        call: CallId,
        status: Status,
        payload: &Incoming<'_>,
    ) {
        let Some(token) = self.state.operations.end_posted_call(call, session) else {
            return self.end_otherwise(outbox, session, call, status, payload);
        };
        self.note_answer(call, session);
        self.report(outbox, token, &outcome_of(status, payload));
    }

    #[inline]
    fn received(
        &mut self,
        outbox: &mut dyn Outbox,
        receive: MessageId,
        envelope: Envelope,
        payload: &Incoming<'_>,
    ) {
        self.end_receive(outbox, CallId(receive.0), envelope, payload);
    }

    #[inline]
    fn received_at_once(&mut self, receive: MessageId, session: SessionId, tag: Tag, payload: &[u8]) -> bool {
        // No search for the peer: with nothing to come back to, no register has to be kept.
        let Some(peer) = self.state.sessions.last_peer(session) else { return false };
        let is_left = self.state.operations.leave_short(CallId(receive.0), peer, tag, payload);
        self.state.counters.received.add(u64::from(is_left));
        is_left
    }

    #[inline]
    fn messages(&mut self, outbox: &mut dyn Outbox, session: SessionId, burst: &mut Burst<'_>) {
        self.hand_on_burst(outbox, session, burst);
    }

    #[inline]
    fn message(&mut self, outbox: &mut dyn Outbox, envelope: Envelope, payload: &Incoming<'_>) {
        self.hand_on(outbox, envelope, payload);
    }

    fn sent(&mut self, outbox: &mut dyn Outbox, send: MessageId, outcome: SendOutcome) {
        self.end_part(outbox, CallId(send.0), outcome.map_err(SendError::PeerDown));
    }

    fn session_up(&mut self, _: &mut dyn Outbox, session: SessionId, peer: Identity) {
        self.state.sessions.up(session, peer);
        self.state.sessions_changed += 1;
    }

    fn session_down(&mut self, outbox: &mut dyn Outbox, session: SessionId, reason: &DownReason) {
        let peer = self.state.sessions.down(session, reason);
        self.state.counters.peers_lost.increment();
        self.state.sessions_changed += 1;
        for id in self.state.operations.of_session(session) {
            match self.state.operations.kind_of(id) {
                Some(Kind::Call) => self.fail_call(outbox, id, CallError::PeerDown(reason.clone())),
                // Messages of the same endpoint come through any session to it.
                Some(Kind::Receive) => match self.state.sessions.find(peer.rank, peer.endpoint) {
                    Some(other) => self.state.operations.set_session(id, other.session),
                    None => self.fail_receive(outbox, id, reason),
                },
                // The transport reports the ends of sends.
                Some(Kind::Send) | None => {}
            }
        }
        let reason = reason.clone();
        match &mut self.sinks.events {
            Some(events) => {
                let mut context = Context { outbox, state: self.state };
                events(&mut context, Event::PeerDown { peer, reason });
            }
            None => self.state.stored_events.push_back(StoredEvent::PeerDown { peer, reason }),
        }
    }
}
