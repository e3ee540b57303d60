//! What the seam promises of packets: the verbs, and packets to the sink.

use std::sync::Arc;

use farcall_base::Instant;
use farcall_driver::{Datagram, Destination, Loan, LoanError, Packet};
use farcall_protocol::calls::{
    CallError, Delivery, Payload, Policy, RECYCLED_BUFFER_BYTES_MAX, Received, ReplyTooLong,
};
use farcall_protocol::session::{self, EndReason, Opened, PeerAddress, SessionEvent};
use farcall_protocol::wire::{CallKey, Flags, Header, Opcode};

use super::PacketTransport;
use super::messages::{MESSAGES, NOTICE_CALL, NOTICES, TAKEN};
use crate::home::Home;
use crate::trace::{event, wire_number};
use crate::{
    CallId, Deliver, Incoming, MessageId, Origin, Outbox, Outgoing, Owned, Posted, Refused, RequestBatch,
    RequestId, Response, ResponseBatch, Service, SessionId, Sink, Status, Submission, Submitted, Tag,
    down_reason,
};

/// Memory that the protocol keeps until the peer has its bytes.
pub enum Lent {
    Loan(Loan),
    Shared(crate::Payload),
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Loan(loan) => loan,
            Self::Shared(payload) => payload,
        }
    }
}

/// The status of a peer that does not know notices.
const NOT_SERVED: u16 = Status::UnknownService.to_wire();

impl<D: Datagram, P: Policy> PacketTransport<D, P> {
    /// Takes a packet in and hands to the sink what it completes.
    #[inline]
    pub(super) fn take_in(&mut self, from: PeerAddress, packet: &[u8], now: Instant, sink: &mut dyn Sink) {
        if self.keys.is_some() {
            return self.take_in_sealed(from, packet, now, sink);
        }
        let mut unused = Vec::new();
        if let Some(packet) = self.calls.sessions_mut().open(from, packet, &mut unused, now) {
            self.take_in_opened(from, packet, now, sink);
        }
    }

    /// Takes an opened packet in.
    #[inline]
    pub(super) fn take_in_opened(
        &mut self,
        from: PeerAddress,
        packet: Opened<'_>,
        now: Instant,
        sink: &mut dyn Sink,
    ) {
        let driver = &self.driver;
        let host = || driver.host_of(Destination(from.0));
        let delivery = self.calls.handle_from(from, host, packet, now);
        let reaches_user = delivery.is_some() || self.calls.has_events();
        if reaches_user && self.calls.sessions().wants_transmit() {
            self.answer_at_once(now);
        }
        let packet = packet.bytes();
        self.report_sessions(sink);
        match delivery {
            None => {}
            Some(Delivery::Request {
                session,
                request,
                service: service @ (MESSAGES | NOTICES),
                payload,
            }) => {
                let is_notice = service == NOTICES;
                self.message_came(from_protocol(session), request, is_notice, payload, packet, sink);
            }
            Some(Delivery::Response { session, call, status: TAKEN, .. }) => {
                self.message_taken(from_protocol(session), MessageId(call), sink);
            }
            Some(Delivery::Response { session, call: NOTICE_CALL, status: NOT_SERVED, .. })
                if self.mail.has_notices_in_flight(from_protocol(session)) =>
            {
                self.notice_ended(from_protocol(session), false);
            }
            Some(Delivery::Request { session, request, service, payload }) => {
                let request = RequestId { session: from_protocol(session), token: request.to_wire() };
                self.tracer.mark_request(event::DISPATCHED, request);
                let mut assembled = None;
                let payload = incoming(payload, packet, &mut assembled, &self.home);
                sink.requests(self, &mut RequestBatch::single(request, Service(service), payload));
            }
            Some(Delivery::Response { session, call, status, payload }) => match Status::from_wire(status) {
                Some(status) => {
                    let mut assembled = None;
                    let payload = incoming(payload, packet, &mut assembled, &self.home);
                    let response = Response { call: CallId(call), status, payload };
                    sink.responses(self, &mut ResponseBatch::single(from_protocol(session), response));
                }
                None => {
                    let what = "a response has a status that does not exist";
                    self.calls.end_because(session, EndReason::Violation { what });
                    self.report_sessions(sink);
                }
            },
        }
    }

    /// Sends what sessions have to say before a handler that may take long: a peer must know where this
    /// process answers meanwhile.
    fn answer_at_once(&mut self, now: Instant) {
        self.transmitter.transmit_of_sessions(&mut self.calls, &mut self.driver, now);
    }

    /// Marks the messages that the packets of a burst are of. Packets say which session they are for by its
    /// index, which the low bits of its number are.
    pub(super) fn mark_received(&self, burst: &[Packet], found: u64) {
        for packet in burst {
            let Ok(header) = Header::parse(packet) else { continue };
            if matches!(header.opcode, Opcode::Whole | Opcode::Fragment) {
                let from_caller = header.flags.has(Flags::FROM_CALLER);
                let event = if from_caller { event::REQUEST_RECEIVED } else { event::RESPONSE_RECEIVED };
                let session = SessionId(u32::from(header.session.index()));
                self.tracer.mark_at(found, event, wire_number(header.call.to_wire()), session);
            }
        }
    }

    /// Connects the caller's number of a call with the transport's.
    #[cold]
    fn mark_named(&self, session: SessionId, call: CallId) {
        if let Some(key) = self.calls.key_of(to_protocol(session), call.0) {
            self.tracer.mark_at(u64::from(call.0), event::NAMED, wire_number(key.to_wire()), session);
        }
    }

    /// Connects the number of a tagged message with that of the call which carries it.
    pub(super) fn mark_message_named(&self, event: u16, session: SessionId, call: CallKey, message: u32) {
        self.tracer.mark_at(u64::from(message), event, wire_number(call.to_wire()), session);
    }

    /// Tells the sink which sessions came up and which ended.
    #[inline]
    pub(super) fn report_sessions(&mut self, sink: &mut dyn Sink) {
        if self.calls.has_events() {
            self.report_changed_sessions(sink);
        }
    }

    #[cold]
    fn report_changed_sessions(&mut self, sink: &mut dyn Sink) {
        while let Some(event) = self.calls.poll_event() {
            match event {
                SessionEvent::Up { id, peer } => {
                    self.mail.session_up(from_protocol(id), peer);
                    self.send_waiting(from_protocol(id));
                    let principal = self.calls.sessions().principal_of(id);
                    sink.session_up(self, from_protocol(id), peer, &principal);
                }
                SessionEvent::Moved { .. } => {}
                SessionEvent::Down { id, reason } => {
                    let (session, reason) = (from_protocol(id), down_reason(reason));
                    self.fail_messages(session, &reason, sink);
                    sink.session_down(self, session, &reason);
                }
            }
        }
    }
}

impl<D: Datagram, P: Policy> PacketTransport<D, P> {
    #[inline]
    fn submit_call(
        &mut self,
        session: SessionId,
        call: CallId,
        service: Service,
        payload: Payload<'_, Lent>,
    ) -> Submitted {
        let made = self.calls.call(to_protocol(session), call.0, service.0, payload);
        if self.tracer.is_on() {
            self.mark_named(session, call);
        }
        match made {
            Ok(()) => Submitted::Sent,
            Err(CallError::TooLong { bytes_max, .. }) => Submitted::Refused(Refused::TooLong { bytes_max }),
            Err(CallError::TooMany { calls_max }) => Submitted::Refused(Refused::TooManyCalls { calls_max }),
            Err(CallError::Down) => Submitted::DOWN,
        }
    }

    /// What is too long for the buffer that a slot keeps is copied into memory that was used before; what is
    /// too long for any session will be refused as it is.
    #[inline]
    fn copied_if_long<'p>(&mut self, payload: &'p [u8]) -> Payload<'p, Lent> {
        let bytes_max = self.calls.sessions().config().offer.message_bytes_max as usize;
        if payload.len() <= RECYCLED_BUFFER_BYTES_MAX || payload.len() > bytes_max {
            return Payload::Slice(payload);
        }
        let mut buffer = self.calls.take_buffer(payload.len());
        buffer.extend_from_slice(payload);
        Payload::Owned(Lent::Shared(crate::Payload::with_home(&self.home, buffer)))
    }

    #[inline]
    fn submit_reply(&mut self, request: RequestId, status: Status, payload: Payload<'_, Lent>) {
        self.tracer.mark_request(event::REPLIED, request);
        let (session, key) = (to_protocol(request.session), CallKey::from_wire(request.token));
        let replied = self.calls.reply(session, key, status.to_wire(), payload);
        if let Err(ReplyTooLong { .. }) = replied {
            let (status, nothing) = (status.without_payload().to_wire(), Payload::Slice(&[]));
            // Cannot be too long: it is empty.
            let _ = self.calls.reply(session, key, status, nothing);
        }
    }
}

impl<D: Datagram, P: Policy> Outbox for PacketTransport<D, P> {
    #[inline]
    fn call(&mut self, session: SessionId, call: CallId, service: Service, payload: &[u8]) -> Submitted {
        let payload = self.copied_if_long(payload);
        self.submit_call(session, call, service, payload)
    }

    #[inline]
    fn reply(&mut self, request: RequestId, status: Status, payload: &[u8]) {
        let payload = self.copied_if_long(payload);
        self.submit_reply(request, status, payload);
    }

    fn send(&mut self, session: SessionId, send: MessageId, tag: Tag, payload: &[u8]) -> Submitted {
        self.send_message(session, send, tag, Outgoing::Slice(payload))
    }

    fn submit_owned(&mut self, submission: Submission, payload: Owned) -> Submitted {
        let lent = |payload| match payload {
            Owned::Loan(loan) => Payload::Owned(Lent::Loan(loan)),
            Owned::Shared(payload) => Payload::Owned(Lent::Shared(payload)),
        };
        match submission {
            Submission::Call { session, call, service } => {
                self.submit_call(session, call, service, lent(payload))
            }
            Submission::Message { session, send, tag } => {
                self.send_message(session, send, tag, payload.into())
            }
            Submission::Reply { request, status } => {
                self.submit_reply(request, status, lent(payload));
                Submitted::Sent
            }
        }
    }

    fn cancel(&mut self, session: SessionId, call: CallId) {
        self.calls.cancel(to_protocol(session), call.0);
    }

    fn is_transmitted(&self, session: SessionId, call: CallId) -> bool {
        self.calls.is_transmitted(to_protocol(session), call.0)
    }

    fn cancel_send(&mut self, send: MessageId) -> usize {
        self.mail.cancel_send(send)
    }

    fn post(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
        _in_place_bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> Posted {
        self.post_receive(receive, from, tag, deliver)
    }

    fn cancel_receive(&mut self, receive: MessageId) -> bool {
        self.mail.cancel_receive(receive)
    }

    fn hand_on_unexpected(&mut self, hand_on: bool) {
        self.mail.hands_on = hand_on;
    }

    fn let_send(&mut self, session: SessionId, may_send: bool) {
        let Self { mail, calls, .. } = self;
        if !may_send {
            mail.channels.of(session, || calls.peer(to_protocol(session))).is_refused = true;
        } else if let Some(channel) = mail.channels.get_mut(session) {
            channel.is_refused = false;
        }
    }

    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.loans.loan(bytes)
    }
}

/// What came in a packet, or in several, of which `assembled` is the place.
#[inline]
fn incoming<'a>(
    payload: Received,
    packet: &'a [u8],
    assembled: &'a mut Option<crate::Payload>,
    home: &Arc<Home>,
) -> Incoming<'a> {
    match payload {
        Received::InPlace(range) => Incoming::Borrowed(&packet[range]),
        Received::Assembled(bytes) => {
            Incoming::Owned(assembled.insert(crate::Payload::with_home(home, bytes)))
        }
    }
}

/// Both number their sessions alike, and never use a number again.
#[inline]
pub(super) const fn to_protocol(session: SessionId) -> session::SessionId {
    session::SessionId(session.0)
}

#[inline]
const fn from_protocol(session: session::SessionId) -> SessionId {
    SessionId(session.0)
}
