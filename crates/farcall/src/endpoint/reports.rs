//! What a transport reports during a turn of the poll loop, and what becomes of it.

use farcall_base::Identity;
use farcall_transport::trace::event;
use farcall_transport::{
    CallId, DownReason, Envelope, Incoming, Matched, MatchedBurst, MessageBurst, MessageId, Outbox, Outgoing,
    RequestBurst, RequestId, ResponseBurst, SendOutcome, Service, SessionId, Short, ShortMessage, Sink,
    Status, Tag,
};

use super::context::Context;
use super::event::{Event, StoredEvent};
use super::messages::{Received, SendError};
use super::operations::Kind;
use super::outcome::{CallError, outcome_of};
use super::request::{Reply, Request};
use super::sessions::Peer;
use super::state::State;
use super::turn::Turn;

impl Sink for Turn<'_, '_> {
    #[inline]
    fn request(&mut self, outbox: &mut dyn Outbox, id: RequestId, service: Service, payload: &Incoming<'_>) {
        self.state.tracer.begin_handler(id);
        self.serve(outbox, id, service, payload);
        // Counted when the answer is on its way.
        self.state.counters.requests.increment();
        self.state.tracer.end_handler(id);
    }

    #[inline]
    fn requests(
        &mut self,
        outbox: &mut dyn Outbox,
        session: SessionId,
        service: Service,
        burst: &mut RequestBurst<'_>,
    ) {
        let peer = self.state.sessions.peer_of(session);
        if let Some(mut handler) = self.state.handler_slot(service).and_then(Option::take) {
            self.state.guard(|state| handler.requests(outbox, state, peer, service, burst));
            if let Some(slot) = self.state.handler_slot(service) {
                *slot = Some(handler);
            }
        } else if let Some(requests) = &mut self.sinks.requests {
            self.state.guard(|state| requests.requests(outbox, state, peer, service, burst));
        }
        self.state.counters.requests.add(burst.taken() as u64);
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
        self.state.tracer.mark_shared(event::COMPLETED, call.0, session);
        self.report(outbox, token, &outcome_of(status, payload));
        self.state.counters.answered.increment();
    }

    #[inline]
    fn responses(&mut self, outbox: &mut dyn Outbox, session: SessionId, burst: &mut ResponseBurst<'_, '_>) {
        loop {
            let before = burst.taken();
            let mut other = None;
            if !self.tell(|events, state| other = events.answers(outbox, state, session, burst)) {
                other = burst.take_while(|_, _| false);
            }
            let events = burst.taken() - before - usize::from(other.is_some());
            self.state.counters.answered.add(events as u64);
            let Some((call, payload)) = other else { return };
            self.response(outbox, session, call, Status::Ok, &Incoming::Borrowed(payload));
        }
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
        if payload.len() > Short::BYTES_MAX {
            return self.leave_long(CallId(receive.0), peer, tag, payload);
        }
        let is_left = self.state.operations.leave_short(CallId(receive.0), peer, tag, payload);
        self.state.counters.received.add(u64::from(is_left));
        is_left
    }

    #[inline]
    fn received_burst(&mut self, session: SessionId, burst: &mut MatchedBurst<'_, '_>) -> Option<MessageId> {
        let State { sessions, operations, counters, .. } = &mut *self.state;
        let peer = sessions.last_peer(session)?;
        let not_ended = burst.take_short_while(|receive, ShortMessage { tag, payload }| {
            operations.leave_short_of_burst(CallId(receive.0), peer, tag, payload)
        });
        operations.receives_ended(burst.taken());
        counters.received.add(burst.taken() as u64);
        not_ended
    }

    #[inline]
    fn received_together(
        &mut self,
        outbox: &mut dyn Outbox,
        session: SessionId,
        messages: &[Matched<'_>],
    ) -> bool {
        let (mut left, mut are_for_callbacks) = (messages, false);
        while !left.is_empty() {
            let ended = self.state.operations.end_receive_callbacks(left);
            let (now, later) = left.split_at(ended.max(1));
            left = later;
            are_for_callbacks = ended > 0;
            if are_for_callbacks {
                self.run_callbacks(outbox, session, now);
            } else {
                self.end_receive_of(outbox, session, &now[0]);
            }
        }
        are_for_callbacks
    }

    #[inline]
    fn messages(&mut self, outbox: &mut dyn Outbox, session: SessionId, burst: &mut MessageBurst<'_>) {
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
        let is_told = self.tell(|events, state| {
            events(&mut Context { outbox, state }, Event::PeerDown { peer, reason: reason.clone() });
        });
        if !is_told {
            self.state.stored_events.push_back(StoredEvent::PeerDown { peer, reason: reason.clone() });
        }
    }
}

impl Turn<'_, '_> {
    /// [`Sink::received_at_once`] of a message that has to be copied: a function by itself, or short ones would keep registers for it.
    #[inline(never)]
    fn leave_long(&mut self, receive: CallId, peer: Peer, tag: Tag, payload: &[u8]) -> bool {
        let is_left = self.state.leave_copy(receive, peer, tag, payload);
        self.state.counters.received.add(u64::from(is_left));
        is_left
    }

    fn end_receive_of(&mut self, outbox: &mut dyn Outbox, session: SessionId, message: &Matched<'_>) {
        let envelope = Envelope { session, tag: message.tag, bytes: message.payload_bytes() };
        let payload = Incoming::Borrowed(message.payload());
        self.end_receive(outbox, CallId(message.receive.0), envelope, &payload);
    }

    /// Runs the callbacks that have just become ready, which are for these messages.
    fn run_callbacks(&mut self, outbox: &mut dyn Outbox, session: SessionId, messages: &[Matched<'_>]) {
        self.state.counters.received.add(messages.len() as u64);
        let peer = self.state.sessions.peer_of(session);
        let mut ready = self.state.operations.take_ready();
        let mut left = ready.iter_mut().zip(messages);
        let went_well = self.state.guard_to_the_end(|state| {
            let mut context = Context { outbox, state };
            // Only what changes is written anew.
            let mut outcome = Ok(Received { peer, tag: Tag(0), payload: Incoming::Borrowed(&[]) });
            for (place, message) in &mut left {
                if let Ok(Received { tag, payload, .. }) = &mut outcome {
                    (*tag, *payload) = (message.tag, Incoming::Borrowed(message.payload()));
                }
                place.run(&mut context, &outcome);
            }
        });
        if !went_well {
            ready.iter_mut().for_each(|place| place.clear());
        }
        self.state.operations.give_ready_back(ready);
    }

    #[inline(always)]
    fn serve(&mut self, outbox: &mut dyn Outbox, id: RequestId, service: Service, payload: &Incoming<'_>) {
        let peer = self.state.sessions.peer_of(id.session);
        let request = Request::new(peer, service, payload);
        // The handler is taken out while it runs, so that it can have the rest of the state.
        let Some(mut handler) = self.state.handler_slot(service).and_then(Option::take) else {
            let Some(requests) = &mut self.sinks.requests else {
                return outbox.reply(id, Status::UnknownService, Outgoing::Slice(&[]));
            };
            self.state.guard(|state| requests(request, Reply::new(Context { outbox, state }, id)));
            return;
        };
        self.state.guard(|state| handler(request, Reply::new(Context { outbox, state }, id)));
        if let Some(slot) = self.state.handler_slot(service) {
            *slot = Some(handler);
        }
    }
}
