//! All of a packet transport but its driver: what a handler needs to send while it reads a packet.

use core::time::Duration;

use farcall_base::{Identity, Instant};
use farcall_driver::{DatagramLimits, HeapLoans, Loan, LoanError, Packet};
use farcall_protocol::calls::{CallError, Calls, Delivery, Payload, Policy, Received, ReplyTooLong};
use farcall_protocol::session::{self, ConfigError, EndReason, PeerAddress, SessionEvent};
use farcall_protocol::wire::{CallKey, Flags, Header, Offer, Opcode};

use super::PacketConfig;
use super::mailbox::Mailbox;
use super::messages::{MESSAGES, TAKEN};
use crate::trace::{CallTracer, event, wire_number};
use crate::{
    CallId, CallRefused, Incoming, MessageId, Origin, Outbox, Outgoing, ReceiveProgress, RequestId,
    SendProgress, SendRefused, Service, SessionId, Sink, Status, Tag, TransportLimits, down_reason,
};

/// Memory that the protocol keeps until the peer has its bytes.
pub enum Lent {
    Loan(Loan),
    Shared(crate::Payload),
    /// A tagged message with its trailer.
    Message(Vec<u8>),
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Loan(loan) => loan,
            Self::Shared(payload) => payload,
            Self::Message(bytes) => bytes,
        }
    }
}

/// The protocol, the messages and the memory to lend.
pub struct Outbound<P: Policy> {
    pub calls: Calls<Lent, P>,
    pub(super) mail: Mailbox,
    loans: HeapLoans,
    pub tracer: CallTracer,
}

impl<P: Policy> Outbound<P> {
    pub fn new(
        policy: P,
        config: &PacketConfig,
        driver: DatagramLimits,
        identity: Identity,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        let session = config.session(driver);
        let calls = Calls::with_policy(policy, session, config.resend_interval, identity, seed)?;
        let mail = Mailbox::new(seed, config.unexpected_bytes);
        let loans = HeapLoans::new(config.loan_bytes_max);
        Ok(Self { calls, mail, loans, tracer: CallTracer::default() })
    }

    pub fn limits(&self) -> TransportLimits {
        let offer = &self.calls.sessions().config().offer;
        TransportLimits {
            message_bytes_max: offer.message_bytes_max as usize,
            calls_max: usize::from(offer.calls_max),
        }
    }

    pub fn agreed(&self, session: SessionId) -> Option<Offer> {
        self.calls.link(to_protocol(session)).map(|link| link.agreed)
    }

    pub fn round_trip(&self, session: SessionId) -> Duration {
        self.calls.round_trip(to_protocol(session))
    }

    pub fn close(&mut self, session: SessionId) {
        self.calls.close(to_protocol(session));
    }

    /// Takes a packet in and hands to the sink what it completes.
    #[inline]
    pub fn take_in(&mut self, from: PeerAddress, packet: &[u8], now: Instant, sink: &mut dyn Sink) {
        let delivery = self.calls.handle(from, packet, now);
        self.report_sessions(sink);
        match delivery {
            None => {}
            Some(Delivery::Request { session, request, service: MESSAGES, payload }) => {
                self.message_came(from_protocol(session), request, payload, packet, sink);
            }
            Some(Delivery::Response { session, call, status: TAKEN, .. }) => {
                self.message_taken(from_protocol(session), MessageId(call), sink);
            }
            Some(Delivery::Request { session, request, service, payload }) => {
                let request = RequestId { session: from_protocol(session), token: request.to_wire() };
                self.tracer.mark_request(event::DISPATCHED, request);
                sink.request(self, request, Service(service), &incoming(payload, packet, &mut None));
            }
            Some(Delivery::Response { session, call, status, payload }) => match Status::from_wire(status) {
                Some(status) => {
                    let mut assembled = None;
                    let payload = incoming(payload, packet, &mut assembled);
                    sink.response(self, from_protocol(session), CallId(call), status, &payload);
                }
                None => {
                    let what = "a response has a status that does not exist";
                    self.calls.end_because(session, EndReason::Violation { what });
                    self.report_sessions(sink);
                }
            },
        }
    }

    /// Marks the messages that the packets of a burst are of. Packets say which session they are for by its index, which
    /// the low bits of its number are.
    pub fn mark_received(&self, burst: &[Packet], found: u64) {
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
    pub fn report_sessions(&mut self, sink: &mut dyn Sink) {
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
                    sink.session_up(self, from_protocol(id), peer);
                }
                SessionEvent::Down { id, reason } => {
                    let (session, reason) = (from_protocol(id), down_reason(reason));
                    self.fail_messages(session, &reason, sink);
                    sink.session_down(self, session, &reason);
                }
            }
        }
    }
}

impl<P: Policy> Outbox for Outbound<P> {
    #[inline]
    fn call(
        &mut self,
        session: SessionId,
        call: CallId,
        service: Service,
        payload: Outgoing<'_>,
    ) -> Result<(), CallRefused> {
        let made = self.calls.call(to_protocol(session), call.0, service.0, to_payload(payload));
        if self.tracer.is_on() {
            self.mark_named(session, call);
        }
        made.map_err(|error| match error {
            CallError::TooLong { bytes, bytes_max } => CallRefused::TooLong { bytes, bytes_max },
            CallError::TooMany { calls_max } => CallRefused::TooManyCalls { calls_max },
            CallError::Down => CallRefused::Down,
        })
    }

    #[inline]
    fn call_at_once(&mut self, to: SessionId, call: CallId, service: Service, payload: &[u8]) -> bool {
        let made = self.calls.call(to_protocol(to), call.0, service.0, Payload::Slice(payload));
        if self.tracer.is_on() && made.is_ok() {
            self.mark_named(to, call);
        }
        made.is_ok()
    }

    #[inline]
    fn reply(&mut self, request: RequestId, status: Status, payload: Outgoing<'_>) {
        self.tracer.mark_request(event::REPLIED, request);
        let (session, key) = (to_protocol(request.session), CallKey::from_wire(request.token));
        let replied = self.calls.reply(session, key, status.to_wire(), to_payload(payload));
        if let Err(ReplyTooLong { .. }) = replied {
            let (status, nothing) = (Status::AnswerTooLong.to_wire(), Payload::Slice(&[]));
            // Cannot be too long: it is empty.
            let _ = self.calls.reply(session, key, status, nothing);
        }
    }

    fn cancel(&mut self, session: SessionId, call: CallId) {
        self.calls.cancel(to_protocol(session), call.0);
    }

    fn is_transmitted(&self, session: SessionId, call: CallId) -> bool {
        self.calls.is_transmitted(to_protocol(session), call.0)
    }

    fn send(
        &mut self,
        session: SessionId,
        send: MessageId,
        tag: Tag,
        payload: Outgoing<'_>,
    ) -> Result<SendProgress, SendRefused> {
        self.send_message(session, send, tag, payload)
    }

    fn cancel_send(&mut self, send: MessageId) -> usize {
        self.mail.cancel_send(send)
    }

    fn receive(&mut self, receive: MessageId, from: Option<Origin>, tag: Option<Tag>) -> ReceiveProgress {
        self.post_receive(receive, from, tag)
    }

    fn cancel_receive(&mut self, receive: MessageId) -> bool {
        self.mail.cancel_receive(receive)
    }

    fn hand_on_unexpected(&mut self, hand_on: bool) {
        self.mail.hands_on = hand_on;
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
) -> Incoming<'a> {
    match payload {
        Received::InPlace(range) => Incoming::Borrowed(&packet[range]),
        Received::Assembled(bytes) => Incoming::Owned(assembled.insert(bytes.into())),
    }
}

#[inline]
fn to_payload(payload: Outgoing<'_>) -> Payload<'_, Lent> {
    match payload {
        Outgoing::Slice(bytes) => Payload::Slice(bytes),
        Outgoing::Loan(loan) => Payload::Owned(Lent::Loan(loan)),
        Outgoing::Shared(payload) => Payload::Owned(Lent::Shared(payload)),
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
