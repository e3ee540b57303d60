//! Everything that sending needs: the library, the sessions, and the verbs that the seam promises.

use farcall_driver::{Destination, Loan, LoanError};
use farcall_protocol::session::{Link, SessionId};
use farcall_protocol::wire::{CallKey, Flags, put_whole};

use super::LibraryTransport;
use super::channel::{Channel, Waiting};
use super::seam::{Arrival, Backlog, Library};
use super::tagged::Rest;
use crate::trace::event;
use crate::{
    CallId, Deliver, Holdings, MessageId, Origin, Outbox, Outgoing, Owned, Posted, Refused, RequestId,
    Service, Sink, Status, Submission, Submitted, Tag,
};

/// A message of the library of which a part waits for the next poll.
pub struct Held<A> {
    pub arrival: A,
    pub rest: Rest,
}

impl<L: Library> LibraryTransport<L> {
    /// The channel of a session that is not over.
    #[inline]
    pub(super) fn channel(&mut self, id: SessionId) -> Option<&mut Channel> {
        live(&mut self.channels, id)
    }

    /// The session at an index, which the protocol has just found.
    #[inline]
    pub(super) fn channel_at(&mut self, index: usize) -> Option<&mut Channel> {
        self.channels.get_mut(index)?.as_mut()
    }

    /// What is in flight in all sessions.
    pub(super) fn in_flight(&self) -> Holdings {
        let mut held = Holdings::default();
        for channel in self.channels.iter().flatten() {
            held.calls += channel.unanswered_calls;
            held.requests += channel.unanswered_requests;
            held.backlog += channel.waiting.len();
        }
        held
    }

    /// Reads what was left of a message.
    pub(super) fn go_on(&mut self, mut held: Box<Held<L::Arrival>>, sink: &mut dyn Sink) {
        self.deferred.forget();
        match self.deliver(held.rest, &held.arrival.payload(), sink) {
            Some(rest) => {
                held.rest = rest;
                self.held = Some(held);
            }
            None => self.library.release(held.arrival),
        }
    }

    /// Gives a message back to the library, unless something is left of it.
    #[inline]
    pub(super) fn hold_or_release(&mut self, arrival: L::Arrival, rest: Option<Rest>) {
        match rest {
            Some(rest) => self.held = Some(Box::new(Held { arrival, rest })),
            None => self.library.release(arrival),
        }
    }

    /// Gives what is held back to the library, whatever is left of it.
    pub(super) fn release_held(&mut self) {
        if let Some(held) = self.held.take() {
            self.library.release(held.arrival);
        }
    }

    #[inline]
    fn submit_call(
        &mut self,
        session: crate::SessionId,
        call: CallId,
        service: Service,
        payload: Outgoing<'_>,
    ) -> Submitted {
        let Some(channel) = live(&mut self.channels, to_protocol(session)) else { return Submitted::DOWN };
        let (bytes_max, calls_max) = (channel.message_bytes_max(), channel.calls_max());
        if payload.len() > bytes_max {
            return Submitted::Refused(Refused::TooLong { bytes_max });
        }
        if channel.unanswered_calls >= calls_max {
            return Submitted::Refused(Refused::TooManyCalls { calls_max });
        }
        channel.unanswered_calls += 1;
        let id = channel.id;
        let Some(link) = channel.link else {
            channel.waiting.push_back(Waiting { call, service, payload: payload.into() });
            self.counters.calls_sent.increment();
            self.counters.waited_for_session.increment();
            return Submitted::Queued;
        };
        self.counters.calls_sent.increment();
        if !channel.waiting.is_empty() || self.library.backlog(Destination(link.to.0)) == Backlog::Full {
            channel.waiting.push_back(Waiting { call, service, payload: payload.into() });
            self.counters.held_up.increment();
            self.note_held_up(id);
            return Submitted::Queued;
        }
        self.transmit(id, &link, Flags::FROM_CALLER, call.0, service.0, payload);
        Submitted::Sent
    }

    /// Calls of a session wait for room.
    pub(super) fn note_held_up(&mut self, id: SessionId) {
        if !self.held_up.contains(&id) {
            self.held_up.push(id);
        }
    }

    /// Sends calls that waited, oldest first, as far as there is room.
    #[inline]
    pub(super) fn send_waiting_calls(&mut self) {
        if !self.held_up.is_empty() {
            let mut held_up = core::mem::take(&mut self.held_up);
            held_up.retain(|&id| self.is_held_up(id));
            self.held_up = held_up;
        }
    }

    /// Sends calls of a session that waited; says whether some still do.
    fn is_held_up(&mut self, id: SessionId) -> bool {
        while let Some(channel) = live(&mut self.channels, id) {
            let Some(link) = channel.link else { return false };
            if channel.waiting.is_empty() {
                return false;
            }
            if self.library.backlog(Destination(link.to.0)) == Backlog::Full {
                return true;
            }
            let Some(Waiting { call, service, payload }) = channel.waiting.pop_front() else { return false };
            self.transmit(id, &link, Flags::FROM_CALLER, call.0, service.0, payload.into());
        }
        false
    }

    #[inline]
    fn submit_reply(&mut self, request: RequestId, status: Status, payload: Outgoing<'_>) {
        self.tracer.mark_request(event::REPLIED, request);
        let id = to_protocol(request.session);
        let Some(channel) = self.channel(id) else { return };
        let Some(link) = channel.link else { return };
        channel.unanswered_requests = channel.unanswered_requests.saturating_sub(1);
        let too_long = payload.len() > channel.message_bytes_max();
        let (status, payload) =
            if too_long { (status.without_payload(), Outgoing::Slice(&[])) } else { (status, payload) };
        self.transmit(id, &link, Flags::NONE, request.token as u32, status.to_wire(), payload);
    }

    #[inline]
    pub(super) fn transmit(
        &mut self,
        id: SessionId,
        link: &Link,
        flags: Flags,
        call: u32,
        tag: u16,
        payload: Outgoing<'_>,
    ) {
        let from_caller = flags.has(Flags::FROM_CALLER);
        let event = if from_caller { event::REQUEST_TRANSMITTED } else { event::RESPONSE_TRANSMITTED };
        self.tracer.mark(event, call, crate::SessionId(id.0));
        put_whole(&mut self.head, flags, link.remote, CallKey::from_wire(u64::from(call)), tag);
        self.library.send(Destination(link.to.0), self.head.as_bytes(), payload);
    }
}

impl<L: Library> Outbox for LibraryTransport<L> {
    #[inline]
    fn call(
        &mut self,
        session: crate::SessionId,
        call: CallId,
        service: Service,
        payload: &[u8],
    ) -> Submitted {
        self.submit_call(session, call, service, Outgoing::Slice(payload))
    }

    #[inline]
    fn reply(&mut self, request: RequestId, status: Status, payload: &[u8]) {
        self.submit_reply(request, status, Outgoing::Slice(payload));
    }

    #[inline]
    fn send(&mut self, session: crate::SessionId, send: MessageId, tag: Tag, payload: &[u8]) -> Submitted {
        if self.send_short(session, tag, payload) {
            return Submitted::Sent;
        }
        self.send_message(session, send, tag, Outgoing::Slice(payload))
    }

    fn submit_owned(&mut self, submission: Submission, payload: Owned) -> Submitted {
        let payload = payload.into();
        match submission {
            Submission::Call { session, call, service } => self.submit_call(session, call, service, payload),
            Submission::Message { session, send, tag } => self.send_message(session, send, tag, payload),
            Submission::Reply { request, status } => {
                self.submit_reply(request, status, payload);
                Submitted::Sent
            }
        }
    }

    /// A request that the library has cannot be called back; one that waits for its session can.
    fn cancel(&mut self, session: crate::SessionId, call: CallId) {
        let Some(channel) = self.channel(to_protocol(session)) else { return };
        let before = channel.waiting.len();
        channel.waiting.retain(|waiting| waiting.call != call);
        channel.unanswered_calls -= before - channel.waiting.len();
    }

    /// What the library has been given is its own business.
    fn is_transmitted(&self, session: crate::SessionId, call: CallId) -> bool {
        let id = to_protocol(session);
        let channel = self.channels.get(id.index()).and_then(Option::as_ref);
        !channel.is_some_and(|channel| {
            channel.id == id && channel.waiting.iter().any(|waiting| waiting.call == call)
        })
    }

    fn cancel_send(&mut self, send: MessageId) -> usize {
        self.channels.iter_mut().flatten().map(|channel| channel.tagged.sends.cancel(send)).sum()
    }

    #[inline]
    fn post(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
        in_place_bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> Posted {
        self.post_receive(receive, from, tag, in_place_bytes_max, deliver)
    }

    fn cancel_receive(&mut self, receive: MessageId) -> bool {
        self.matcher.withdraw(receive)
    }

    fn hand_on_unexpected(&mut self, hand_on: bool) {
        self.matcher.hands_on = hand_on;
    }

    fn let_send(&mut self, session: crate::SessionId, may_send: bool) {
        if let Some(channel) = self.channel(to_protocol(session)) {
            channel.tagged.matching.is_refused = !may_send;
        }
    }

    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.loans.loan(bytes)
    }
}

/// The channel of a session that is not over, for the caller that uses other parts of the transport beside
/// it.
#[inline]
pub(super) fn live(channels: &mut [Option<Channel>], id: SessionId) -> Option<&mut Channel> {
    channels.get_mut(id.index())?.as_mut().filter(|channel| channel.id == id)
}

/// Both number their sessions alike, and never use a number again.
#[inline]
pub const fn to_protocol(session: crate::SessionId) -> SessionId {
    SessionId(session.0)
}
