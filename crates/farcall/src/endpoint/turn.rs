//! One turn of the poll loop: what the transport reports in it, and how operations end.

use farcall_base::{Identity, Principal};
use farcall_driver::probes;
use farcall_transport::trace::event;
use farcall_transport::{
    CallId, DownReason, Incoming, Matched, MatchedBatch, MessageBatch, MessageId, Outbox, RequestBatch,
    Response, ResponseBatch, SendOutcome, SessionId, Sink, Status, Tag,
};

use super::call::{CallError, outcome_of};
use super::completion::OfCall;
use super::context::Context;
use super::event::{Event, StoredEvent};
use super::message::{Cancellation, Envelope, Received, SendError};
use super::refusal;
use super::sessions::Peer;
use super::sinks::{EventSink, Sinks};
use super::slab::Kind;
use super::state::State;

/// One turn of the poll loop: the state, and whoever takes what happens meanwhile.
pub struct Turn<'a, 'e> {
    pub state: &'a mut State,
    pub sinks: Sinks<'a, 'e>,
}

impl<'e> Turn<'_, 'e> {
    /// Gives something to the taker of events; false when there is none. One that panics is not asked again
    /// in this turn: what else happens in it is kept.
    #[inline]
    pub fn tell(&mut self, give: impl FnOnce(&mut (dyn EventSink + 'e), &mut State)) -> bool {
        let Some(events) = &mut self.sinks.events else { return false };
        if !self.state.guard(|state| give(*events, state)) {
            self.sinks.events = None;
        }
        true
    }

    /// Ends the call that a response is to.
    #[inline]
    pub fn end_call(&mut self, outbox: &mut dyn Outbox, session: SessionId, response: &Response<'_>) {
        let &Response { call, status, payload } = response;
        if let (Status::Ok, Incoming::Borrowed(answer)) = (status, payload)
            && self.state.leave_answer(call, session, answer)
        {
            return self.call_ended(session, call, status);
        }
        self.end_call_otherwise(outbox, session, response);
    }

    /// As [`Turn::end_call`], but for an answer that is copied for a future.
    fn end_call_otherwise(&mut self, outbox: &mut dyn Outbox, session: SessionId, response: &Response<'_>) {
        let &Response { call, status, payload } = response;
        let Some(completion) = self.state.operations.end_call(call, session) else {
            return self.state.counters.late_answers.increment();
        };
        self.call_ended(session, call, status);
        self.complete::<OfCall>(outbox, call, completion, &outcome_of(status, &payload));
    }

    /// Notes that the response to a call came.
    #[inline]
    fn call_ended(&mut self, session: SessionId, call: CallId, status: Status) {
        self.state.tracer.mark_shared(event::COMPLETED, call.0, session);
        probes::call_end(self.state.number, session.0, call.0, u8::from(status != Status::Ok));
        self.state.counters.answered.increment();
    }

    pub fn fail_call(&mut self, outbox: &mut dyn Outbox, call: CallId, error: CallError) {
        if let Some((session, completion)) = self.state.operations.end(call) {
            probes::call_end(self.state.number, session.0, call.0, 2);
            if error == CallError::TimedOut {
                self.state.counters.timed_out.increment();
                outbox.cancel(session, call);
            }
            self.complete::<OfCall>(outbox, call, completion, &Err(error));
        }
    }

    /// Cancels a call in flight.
    pub fn cancel_call(&mut self, outbox: &mut dyn Outbox, call: CallId) -> Cancellation {
        let Some((session, completion)) = self.state.operations.end(call) else {
            return Cancellation::Over;
        };
        probes::call_end(self.state.number, session.0, call.0, 2);
        self.state.counters.cancelled.increment();
        outbox.cancel(session, call);
        self.complete::<OfCall>(outbox, call, completion, &Err(CallError::Cancelled));
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
    fn requests(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        let traced = requests.single_request();
        if let Some(id) = traced {
            self.state.tracer.begin_handler(id);
        }
        let (session, service) = (requests.session().0, requests.service().0);
        probes::handler_begin(self.state.number, session, service);
        self.serve(outbox, requests);
        probes::handler_end(self.state.number, session, service, requests.taken());
        // Counted when the answers are on their way.
        self.state.counters.requests.add(requests.taken() as u64);
        if let Some(id) = traced {
            self.state.tracer.end_handler(id);
        }
    }

    #[inline]
    fn responses(&mut self, outbox: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>) {
        let session = responses.session();
        // Those of one kind are ended together otherwise.
        let is_traced = self.state.tracer.is_on() || probes::ARE_BUILT;
        loop {
            let before = responses.taken();
            let mut other = None;
            if is_traced || !self.tell(|events, state| other = events.answers(outbox, state, responses)) {
                other = responses.take();
            }
            let events = responses.taken() - before - usize::from(other.is_some());
            self.state.counters.answered.add(events as u64);
            let Some(response) = other else { return };
            self.end_call(outbox, session, &response);
        }
    }

    #[inline]
    fn received(&mut self, messages: &mut MatchedBatch<'_, '_>) {
        let peer = self.state.sessions.peer_of(messages.session());
        loop {
            let before = messages.taken();
            let operations = &mut self.state.operations;
            let other = messages.take_while(|&Matched { receive, tag, payload }| {
                operations.leave_short(CallId(receive.0), Envelope::new(peer, tag), payload.as_slice())
            });
            let for_futures = messages.taken() - before - usize::from(other.is_some());
            operations.receives_ended(for_futures);
            self.state.counters.received.add(for_futures as u64);
            let Some(other) = other else { return };
            if self.state.operations.has_callback(CallId(other.receive.0)) {
                let together = messages.take_behind(other);
                self.end_together(messages.outbox(), peer, &together);
            } else {
                self.end_receive(messages.outbox(), peer, &other);
            }
        }
    }

    #[inline]
    fn messages(&mut self, outbox: &mut dyn Outbox, messages: &mut MessageBatch<'_>) {
        self.hand_on(outbox, messages);
    }

    fn sent(&mut self, outbox: &mut dyn Outbox, send: MessageId, outcome: SendOutcome) {
        self.state.reported += 1;
        let id = CallId(send.0);
        let outcome = outcome.map_err(|reason| {
            let session = self.state.operations.session_of(id);
            let meaning = session.map(|session| self.state.sessions.meaning_of(session, reason.clone()));
            SendError::PeerDown(meaning.unwrap_or(reason))
        });
        self.end_part(outbox, id, outcome);
    }

    fn session_up(
        &mut self,
        outbox: &mut dyn Outbox,
        session: SessionId,
        peer: Identity,
        principal: &Principal,
    ) {
        if let Some(guard) = &mut self.state.guard {
            outbox.let_send(session, guard.admit(session, principal));
        }
        probes::session_up(self.state.number, session.0);
        self.state.sessions.up(session, peer, principal.clone());
        self.state.counters.sessions.set(self.state.sessions.count());
        self.state.reported += 1;
    }

    fn session_down(&mut self, outbox: &mut dyn Outbox, session: SessionId, reason: &DownReason) {
        self.forget_permit(session, reason);
        let reason = &self.state.sessions.meaning_of(session, reason.clone());
        probes::session_down(self.state.number, session.0, *reason != DownReason::Closed);
        let peer = self.state.sessions.down(session, reason);
        self.state.counters.peers_lost.increment();
        self.state.counters.sessions.set(self.state.sessions.count());
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
        let is_told = self.tell(|events, state| {
            events(&mut Context { outbox, state }, Event::PeerDown { peer, reason: reason.clone() });
        });
        if !is_told {
            self.state.stored_events.push_back(StoredEvent::PeerDown { peer, reason: reason.clone() });
        }
    }

    /// Calls in flight are over: nobody knows whether they ran. Receives wait for messages of the same peer.
    fn session_moved(&mut self, outbox: &mut dyn Outbox, session: SessionId) {
        self.state.reported += 1;
        for id in self.state.operations.of_session(session) {
            if self.state.operations.kind_of(id) == Some(Kind::Call) {
                self.fail_call(outbox, id, CallError::PeerDown(DownReason::Moved));
            }
        }
    }
}

impl Turn<'_, '_> {
    /// Ends the receives of messages that most likely are for callbacks.
    fn end_together(&mut self, outbox: &mut dyn Outbox, peer: Peer, messages: &[Matched<'_>]) {
        let mut rest = messages;
        while let Some((first, others)) = rest.split_first() {
            let ended = self.state.operations.end_receive_callbacks(rest);
            if ended > 0 {
                let (now, later) = rest.split_at(ended);
                self.run_callbacks(outbox, peer, now);
                rest = later;
            } else {
                self.end_receive(outbox, peer, first);
                rest = others;
            }
        }
    }

    /// Runs the callbacks that have just become ready, which are for these messages.
    fn run_callbacks(&mut self, outbox: &mut dyn Outbox, peer: Peer, messages: &[Matched<'_>]) {
        self.state.counters.received.add(messages.len() as u64);
        let mut ready = self.state.operations.take_ready();
        let mut left = ready.iter_mut().zip(messages);
        let went_well = self.state.guard_to_the_end(|state| {
            let mut context = Context { outbox, state };
            // Only what changes is written again.
            let mut outcome = Ok(Received { peer, tag: Tag(0), payload: Incoming::Borrowed(&[]) });
            for (place, message) in &mut left {
                if let Ok(Received { tag, payload, .. }) = &mut outcome {
                    (*tag, *payload) = (message.tag, message.payload);
                }
                place.run(&mut context, &outcome);
            }
        });
        if !went_well {
            ready.iter_mut().for_each(|place| place.clear());
        }
        self.state.operations.give_ready_back(ready);
    }

    /// A session ends: the guard has nothing more to do with it.
    fn forget_permit(&mut self, session: SessionId, reason: &DownReason) {
        let Some(guard) = &mut self.state.guard else { return };
        if *reason == DownReason::NotAllowed {
            self.state.counters.not_allowed.increment();
            guard.message_refused(self.state.sessions.principal_of(session));
        }
        guard.forget(session);
    }

    /// Refuses requests that the policy does not allow.
    fn refuse_calls(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        let Some(guard) = &mut self.state.guard else { return };
        let why = guard.refuse_calls(requests.session(), requests.service());
        let before = requests.taken();
        requests.for_each(|id, _| outbox.reply(id, Status::NotAllowed, refusal::sent(&why)));
        self.state.counters.not_allowed.add((requests.taken() - before) as u64);
    }

    #[inline]
    fn serve(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        let service = requests.service();
        if let Some(guard) = &mut self.state.guard
            && !guard.allows(requests.session(), service)
        {
            return self.refuse_calls(outbox, requests);
        }
        let peer = self.state.sessions.peer_of(requests.session());
        // The handler is taken out while it runs, so that it can have the rest of the state.
        if let Some(mut handler) = self.state.handler_slot(service).and_then(Option::take) {
            self.state.counters.handler.set(u64::from(service.0) + 1);
            self.state.guard(|state| handler.requests(outbox, state, peer, requests));
            self.state.counters.handler.set(0);
            if let Some(slot) = self.state.handler_slot(service) {
                *slot = Some(handler);
            }
        } else if let Some(sink) = &mut self.sinks.requests {
            self.state.guard(|state| sink.requests(outbox, state, peer, requests));
        } else {
            let status = if self.state.is_leaving { Status::Leaving } else { Status::UnknownService };
            requests.for_each(|id, _| outbox.reply(id, status, &[]));
        }
    }
}
