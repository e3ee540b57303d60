//! What an endpoint does with what its transport reports during a turn of the poll loop.

use farcall_protocol::Identity;
use farcall_transport::trace::event;
use farcall_transport::{
    Burst, CallId, DownReason, Envelope, Incoming, MatchedBurst, MessageId, Outbox, Outgoing, RequestId,
    SendOutcome, Service, SessionId, ShortMessage, Sink, Status, Tag,
};

use super::context::Context;
use super::event::{Event, StoredEvent};
use super::messages::{Cancellation, SendError};
use super::operations::{Completion, Kind};
use super::outcome::{CallError, Outcome, outcome_of};
use super::request::{Reply, Request};
use super::state::State;

/// Serves the requests for services that have no handler.
pub type RequestSink<'a> = dyn FnMut(Request<'_>, Reply<'_>) + 'a;

/// Takes events as they happen.
pub type EventSink<'a> = dyn FnMut(&mut Context<'_>, Event<'_>) + 'a;

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
    fn received_burst<'a>(
        &mut self,
        session: SessionId,
        burst: &mut MatchedBurst<'a, '_>,
    ) -> Option<(MessageId, ShortMessage<'a>)> {
        let State { sessions, operations, counters, .. } = &mut *self.state;
        let peer = sessions.last_peer(session)?;
        let not_ended = burst.take_short_while(|receive, ShortMessage { tag, payload }| {
            operations.leave_short_of_burst(CallId(receive.0), peer, tag, payload)
        });
        let ended = burst.taken() - usize::from(not_ended.is_some());
        operations.receives_ended(ended);
        counters.received.add(ended as u64);
        not_ended
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
        self.state.reported += 1;
        self.end_part(outbox, CallId(send.0), outcome.map_err(SendError::PeerDown));
    }

    fn session_up(&mut self, _: &mut dyn Outbox, session: SessionId, peer: Identity) {
        self.state.sessions.up(session, peer);
        self.state.reported += 1;
    }

    fn session_down(&mut self, outbox: &mut dyn Outbox, session: SessionId, reason: &DownReason) {
        let peer = self.state.sessions.down(session, reason);
        self.state.counters.peers_lost.increment();
        self.state.reported += 1;
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
