//! In: each message of the library to the session, the call or the tagged messages that it is about.

use farcall_base::Instant;
use farcall_base::{Address, AddressError};
use farcall_driver::Destination;
use farcall_protocol::session::PeerAddress;
use farcall_protocol::wire::{
    BriefHead, Flags, HEADER_BYTES, Header, MessagePacket, OFFER_PACKET_BYTES, Opcode, Protocol,
    TaggedPacket, VERSION, WHOLE_HEADER_BYTES,
};

use super::LibraryTransport;
use super::NOBODY;
use super::seam::{Arrival, Library};
use super::tagged::Rest;
use crate::trace::{event, wire_number};
use crate::{CallId, RequestBatch, RequestId, Response, ResponseBatch, Service, SessionId, Sink, Status};

impl<L: Library> LibraryTransport<L> {
    /// Reads a message of the library; gives what is left of it for the next poll.
    pub(super) fn take_in(
        &mut self,
        arrival: &L::Arrival,
        now: Instant,
        sink: &mut dyn Sink,
    ) -> Option<Rest> {
        let found = self.tracer.begin();
        if let Some(brief) = BriefHead::parse(arrival.head()) {
            let index = self.admit(&brief.header(), arrival, now, sink)?;
            let packet = TaggedPacket::One { number: brief.number, tag: brief.tag };
            return self.take_tagged(index, packet, &arrival.payload(), found, sink);
        }
        let Ok(header) = Header::parse(arrival.head()) else {
            self.counters.malformed.increment();
            return None;
        };
        match TaggedPacket::parse(&header, arrival.head()) {
            Ok(None) => self.take_other(&header, arrival, now, found, sink),
            Ok(Some(packet)) => {
                let index = self.admit(&header, arrival, now, sink)?;
                return self.take_tagged(index, packet, &arrival.payload(), found, sink);
            }
            Err(_) => self.counters.malformed.increment(),
        }
        None
    }

    /// Reads a message that is not about tagged ones.
    fn take_other(
        &mut self,
        header: &Header,
        arrival: &L::Arrival,
        now: Instant,
        found: Option<u64>,
        sink: &mut dyn Sink,
    ) {
        if header.opcode.is_of_session() {
            return self.take_session_packet(header, arrival, now, sink);
        }
        let parsed = MessagePacket::parse(header, arrival.head(), Protocol::Library);
        let (Ok(MessagePacket::Whole { tag, .. }), WHOLE_HEADER_BYTES) = (parsed, arrival.head().len())
        else {
            return self.counters.malformed.increment();
        };
        let Some(index) = self.admit(header, arrival, now, sink) else { return };
        let from_caller = header.flags.has(Flags::FROM_CALLER);
        if let Some(found) = found {
            let event = if from_caller { event::REQUEST_RECEIVED } else { event::RESPONSE_RECEIVED };
            let session = SessionId(index as u32);
            self.tracer.mark_at(found, event, wire_number(header.call.to_wire()), session);
        }
        if from_caller {
            self.take_request(index, header, tag, arrival, sink);
        } else {
            self.take_response(index, header, tag, arrival, sink);
        }
    }

    /// The session of a message. The first message that names it brings a session up.
    #[inline]
    fn admit(
        &mut self,
        header: &Header,
        arrival: &L::Arrival,
        now: Instant,
        sink: &mut dyn Sink,
    ) -> Option<usize> {
        let index = self.sessions.admit(NOBODY, header, arrival.head(), now);
        if index.is_none() {
            self.counters.unknown_sessions.increment();
        } else if self.sessions.has_events() {
            self.report_sessions(sink);
        }
        index
    }

    fn take_session_packet(
        &mut self,
        header: &Header,
        arrival: &L::Arrival,
        now: Instant,
        sink: &mut dyn Sink,
    ) {
        let payload = arrival.payload();
        let Some((packet, behind)) = session_packet(header, arrival.head(), payload.as_slice()) else {
            return self.counters.malformed.increment();
        };
        let from = if header.opcode == Opcode::Open {
            match self.opener(header, &packet, behind, arrival) {
                Ok(from) => PeerAddress(from.0),
                Err(_) => return self.counters.malformed.increment(),
            }
        } else {
            NOBODY
        };
        let library = &self.library;
        self.sessions.handle(from, || library.host_of(Destination(from.0)), header, &packet, now);
        // What led to the opener is forgotten where it was refused.
        self.any_ended |= from != NOBODY && !self.sessions.any_to(from);
        // Before a handler that takes long: a peer must know where this process answers meanwhile.
        self.transmit_session_packets();
        self.report_sessions(sink);
    }

    /// Where the sender of an OPEN is reached.
    fn opener(
        &mut self,
        header: &Header,
        packet: &[u8],
        address: &[u8],
        arrival: &L::Arrival,
    ) -> Result<Destination, AddressError> {
        let address = Address::new(address)?;
        let mut from = self.library.answer_to(arrival, &address, false)?;
        if self.sessions.replaces_session(PeerAddress(from.0), header, packet) {
            from = self.library.answer_to(arrival, &address, true)?;
        }
        self.note_destination(from);
        Ok(from)
    }

    #[inline]
    fn take_request(
        &mut self,
        index: usize,
        header: &Header,
        tag: u16,
        arrival: &L::Arrival,
        sink: &mut dyn Sink,
    ) {
        let payload = arrival.payload();
        let Some(channel) = self.channel_at(index) else { return };
        let id = channel.id;
        if payload.as_slice().len() > channel.message_bytes_max() {
            return self.violated(id, "a message over the agreed limit");
        }
        if channel.unanswered_requests >= channel.calls_max() {
            return self.violated(id, "more calls than agreed");
        }
        channel.unanswered_requests += 1;
        let request = RequestId { session: SessionId(id.0), token: header.call.to_wire() };
        self.tracer.mark_request(event::DISPATCHED, request);
        sink.requests(self, &mut RequestBatch::single(request, Service(tag), payload));
    }

    #[inline]
    fn take_response(
        &mut self,
        index: usize,
        header: &Header,
        tag: u16,
        arrival: &L::Arrival,
        sink: &mut dyn Sink,
    ) {
        let payload = arrival.payload();
        let Some(channel) = self.channel_at(index) else { return };
        let id = channel.id;
        if payload.as_slice().len() > channel.message_bytes_max() {
            return self.violated(id, "a message over the agreed limit");
        }
        if channel.unanswered_calls == 0 {
            return self.violated(id, "a response without a call");
        }
        let Some(status) = Status::from_wire(tag) else {
            return self.violated(id, "a response has a status that does not exist");
        };
        channel.unanswered_calls -= 1;
        let call = CallId(header.call.to_wire() as u32);
        let response = Response { call, status, payload };
        sink.responses(self, &mut ResponseBatch::single(SessionId(id.0), response));
    }
}

/// A packet of a session in one piece, and the payload behind it; `None` when it ends too soon. Of another
/// version nothing but what stays in its place is known: the whole payload is the address to refuse it at.
fn session_packet<'p>(header: &Header, head: &[u8], payload: &'p [u8]) -> Option<(Vec<u8>, &'p [u8])> {
    let is_offer = matches!(header.opcode, Opcode::Open | Opcode::Accept);
    let packet_bytes =
        if is_offer && head.get(HEADER_BYTES) == Some(&VERSION) { OFFER_PACKET_BYTES } else { 0 };
    let (rest, behind) = payload.split_at_checked(packet_bytes.saturating_sub(head.len()))?;
    Some(([head, rest].concat(), behind))
}
