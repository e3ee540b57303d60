//! What the packets of messages do to calls.

use crate::wire::{CallKey, Flags, Header, MessagePacket, RangeList, WHOLE_HEADER_BYTES};

use super::assembly::{ASSEMBLY_BYTES_MAX, Added, Assembly};
use super::caller::{CallerState, Relation};
use super::channel::{Channel, continue_sending};
use super::event::{Counters, Delivery, Received};
use super::ready::{Ready, Side};
use super::server::ServerState;
use super::upkeep::Owed;

/// A piece of a long message, and which one.
#[derive(Clone, Copy)]
struct Piece<'a> {
    tag: u16,
    total: u32,
    offset: u32,
    payload: &'a [u8],
}

impl<B: AsRef<[u8]>> Channel<B> {
    /// Takes in a packet that the session has admitted.
    #[inline]
    pub(super) fn handle(
        &mut self,
        header: &Header,
        packet: &[u8],
        ready: &mut Ready,
        counters: &mut Counters,
    ) -> Option<Delivery> {
        let Ok(parsed) = MessagePacket::parse(header, packet) else {
            counters.malformed += 1;
            return None;
        };
        self.awake = true;
        if let MessagePacket::Acknowledge { calls } = parsed {
            calls.iter().for_each(|key| self.acknowledge(key));
            return None;
        }
        let mut work = Work { channel: self, ready, counters, key: header.call, flags: header.flags };
        if header.flags.has(Flags::FROM_CALLER) {
            work.as_server(parsed, packet.len())
        } else {
            work.as_caller(parsed, packet.len())
        }
    }

    /// The peer is done with a call, whether we have seen it or not.
    fn acknowledge(&mut self, key: CallKey) {
        let Some(slot) = self.servers.get_mut(usize::from(key.slot())) else { return };
        if key.sequence() > slot.sequence {
            slot.supersede(key.sequence());
        }
        if key.sequence() == slot.sequence {
            slot.forget();
        }
    }
}

/// One packet at work.
struct Work<'w, B> {
    channel: &'w mut Channel<B>,
    ready: &'w mut Ready,
    counters: &'w mut Counters,
    key: CallKey,
    flags: Flags,
}

impl<B: AsRef<[u8]>> Work<'_, B> {
    /// A packet about a call to us.
    #[inline]
    fn as_server(&mut self, packet: MessagePacket<'_>, packet_bytes: usize) -> Option<Delivery> {
        let slot = usize::from(self.key.slot());
        if self.key.slot() >= self.channel.route.calls_max {
            return self.malformed();
        }
        if slot >= self.channel.servers.len() {
            self.channel.servers.resize_with(slot + 1, Default::default);
        }
        let sequence = self.key.sequence();
        let server = &mut self.channel.servers[slot];
        if sequence < server.sequence {
            return self.stale();
        }
        let opens = matches!(
            packet,
            MessagePacket::Whole { .. } | MessagePacket::Fragment { .. } | MessagePacket::Resend { .. }
        );
        if sequence > server.sequence {
            if !opens {
                return self.stale();
            }
            server.supersede(sequence);
        }
        match packet {
            MessagePacket::Whole { tag, .. } => self.whole_request(tag, packet_bytes),
            MessagePacket::Fragment { tag, total, offset, payload } => {
                self.request_piece(Piece { tag, total, offset, payload })
            }
            MessagePacket::Grant { offset } => self.response_granted(offset),
            MessagePacket::Resend { ranges } => self.response_wanted(ranges),
            MessagePacket::Busy => self.requester_busy(),
            MessagePacket::Acknowledge { .. } => None,
        }
    }

    #[inline]
    fn whole_request(&mut self, service: u16, packet_bytes: usize) -> Option<Delivery> {
        let server = &mut self.channel.servers[usize::from(self.key.slot())];
        if !matches!(server.state, ServerState::Expected) {
            return self.request_again();
        }
        server.run();
        Some(Delivery::Request {
            session: self.channel.id,
            request: self.key,
            service,
            payload: Received::InPlace(WHOLE_HEADER_BYTES..packet_bytes),
        })
    }

    /// A request that is here already came again. What its caller really misses is the answer.
    #[cold]
    fn request_again(&mut self) -> Option<Delivery> {
        self.counters.stale += 1;
        if !self.flags.has(Flags::RETRANSMISSION) {
            return None;
        }
        let reference = self.channel.reference(self.key.slot(), Side::Server);
        let server = &mut self.channel.servers[usize::from(self.key.slot())];
        match server.state {
            ServerState::Running => self.ready.owe(reference, &mut server.upkeep, Owed::BUSY),
            ServerState::Answered => {
                let cut = &self.channel.route.cut;
                server.response.repeat(0, cut.unscheduled_bytes, cut);
                continue_sending(reference, &mut server.response, &mut server.upkeep, cut, self.ready);
            }
            ServerState::Forgotten | ServerState::Expected | ServerState::Receiving(_) => {}
        }
        None
    }

    fn request_piece(&mut self, piece: Piece<'_>) -> Option<Delivery> {
        let slot = usize::from(self.key.slot());
        match self.channel.servers[slot].state {
            ServerState::Expected => {
                let request = self.new_assembly(&piece, Side::Server)?;
                self.channel.servers[slot].receive(request);
            }
            ServerState::Receiving(_) => {}
            ServerState::Forgotten | ServerState::Running | ServerState::Answered => {
                return self.request_again();
            }
        }
        let reference = self.channel.reference(self.key.slot(), Side::Server);
        let server = &mut self.channel.servers[slot];
        let ServerState::Receiving(request) = &mut server.state else { return None };
        match request.add(piece.tag, piece.total, piece.offset, piece.payload) {
            Added::New => {
                server.upkeep.heard();
                if request.raise_grant(&self.channel.route.cut) {
                    self.ready.owe(reference, &mut server.upkeep, Owed::GRANT);
                }
                None
            }
            Added::Complete => {
                let payload = Received::Assembled(server.run()?.into_bytes());
                let (session, request) = (self.channel.id, self.key);
                Some(Delivery::Request { session, request, service: piece.tag, payload })
            }
            Added::Twice => self.stale(),
            Added::Misfit => self.malformed(),
        }
    }

    fn response_granted(&mut self, offset: u32) -> Option<Delivery> {
        let reference = self.channel.reference(self.key.slot(), Side::Server);
        let server = &mut self.channel.servers[usize::from(self.key.slot())];
        if !matches!(server.state, ServerState::Answered) {
            return self.stale();
        }
        server.upkeep.heard();
        if !server.response.grant(offset, &self.channel.route.cut) {
            return self.malformed();
        }
        if server.response.has_pieces() {
            self.ready.queue_bulk(reference, &mut server.upkeep);
        }
        None
    }

    /// The caller misses the response, or a part of it.
    fn response_wanted(&mut self, ranges: RangeList<'_>) -> Option<Delivery> {
        let reference = self.channel.reference(self.key.slot(), Side::Server);
        let server = &mut self.channel.servers[usize::from(self.key.slot())];
        match server.state {
            ServerState::Forgotten => return self.stale(),
            ServerState::Expected => self.ready.owe(reference, &mut server.upkeep, Owed::RESTART),
            ServerState::Receiving(_) => self.ready.owe(reference, &mut server.upkeep, Owed::RESEND),
            ServerState::Running => self.ready.owe(reference, &mut server.upkeep, Owed::BUSY),
            ServerState::Answered => {
                let cut = &self.channel.route.cut;
                server.upkeep.heard();
                let queued = server.upkeep.data_queued();
                for (offset, length) in ranges.iter() {
                    server.response.repeat(offset, length, cut);
                }
                continue_sending(reference, &mut server.response, &mut server.upkeep, cut, self.ready);
                if queued {
                    // What is wanted waits behind other messages: say that it is on its way.
                    self.ready.owe(reference, &mut server.upkeep, Owed::BUSY);
                }
            }
        }
        None
    }

    fn requester_busy(&mut self) -> Option<Delivery> {
        self.channel.servers[usize::from(self.key.slot())].upkeep.heard_busy();
        None
    }

    /// A packet about a call of ours.
    #[inline]
    fn as_caller(&mut self, packet: MessagePacket<'_>, packet_bytes: usize) -> Option<Delivery> {
        let Some(caller) = self.channel.callers.get_mut(usize::from(self.key.slot())) else {
            return self.malformed();
        };
        match caller.relation(self.key) {
            Relation::Present => {}
            Relation::Over => return self.response_too_late(),
            Relation::Former => return self.stale(),
            Relation::Never => return self.malformed(),
        }
        match packet {
            MessagePacket::Whole { tag, .. } => self.whole_response(tag, packet_bytes),
            MessagePacket::Fragment { tag, total, offset, payload } => {
                self.response_piece(Piece { tag, total, offset, payload })
            }
            MessagePacket::Grant { offset } => self.request_granted(offset),
            MessagePacket::Resend { ranges } => self.request_wanted(ranges),
            MessagePacket::Busy => {
                caller.upkeep.heard_busy();
                None
            }
            MessagePacket::Acknowledge { .. } => None,
        }
    }

    #[inline]
    fn whole_response(&mut self, status: u16, packet_bytes: usize) -> Option<Delivery> {
        let caller = &mut self.channel.callers[usize::from(self.key.slot())];
        if matches!(caller.state, CallerState::Receiving(_)) {
            return self.malformed();
        }
        let call = caller.call;
        caller.finish();
        self.channel.release(self.key.slot(), self.ready);
        let payload = Received::InPlace(WHOLE_HEADER_BYTES..packet_bytes);
        Some(Delivery::Response { session: self.channel.id, call, status, payload })
    }

    /// The server still holds the result of a call that is over: let it go.
    #[cold]
    fn response_too_late(&mut self) -> Option<Delivery> {
        self.counters.stale += 1;
        self.channel.owe_acknowledge(self.key, self.ready);
        None
    }

    fn response_piece(&mut self, piece: Piece<'_>) -> Option<Delivery> {
        let slot = usize::from(self.key.slot());
        if matches!(self.channel.callers[slot].state, CallerState::Requesting) {
            let response = self.new_assembly(&piece, Side::Caller)?;
            self.channel.callers[slot].receive(response);
        }
        let reference = self.channel.reference(self.key.slot(), Side::Caller);
        let caller = &mut self.channel.callers[slot];
        let CallerState::Receiving(response) = &mut caller.state else { return None };
        match response.add(piece.tag, piece.total, piece.offset, piece.payload) {
            Added::New => {
                caller.upkeep.heard();
                if response.raise_grant(&self.channel.route.cut) {
                    self.ready.owe(reference, &mut caller.upkeep, Owed::GRANT);
                }
                None
            }
            Added::Complete => {
                let (session, call, status) = (self.channel.id, caller.call, response.tag());
                let payload = Received::Assembled(caller.finish()?.into_bytes());
                self.channel.release(self.key.slot(), self.ready);
                Some(Delivery::Response { session, call, status, payload })
            }
            Added::Twice => self.stale(),
            Added::Misfit => self.malformed(),
        }
    }

    fn request_granted(&mut self, offset: u32) -> Option<Delivery> {
        let reference = self.channel.reference(self.key.slot(), Side::Caller);
        let caller = &mut self.channel.callers[usize::from(self.key.slot())];
        if !matches!(caller.state, CallerState::Requesting) {
            return self.stale();
        }
        caller.upkeep.heard();
        if !caller.request.grant(offset, &self.channel.route.cut) {
            return self.malformed();
        }
        if caller.request.has_pieces() {
            self.ready.queue_bulk(reference, &mut caller.upkeep);
        }
        None
    }

    /// The server misses the request, or a part of it.
    fn request_wanted(&mut self, ranges: RangeList<'_>) -> Option<Delivery> {
        let reference = self.channel.reference(self.key.slot(), Side::Caller);
        let caller = &mut self.channel.callers[usize::from(self.key.slot())];
        if !matches!(caller.state, CallerState::Requesting) {
            return self.stale();
        }
        let cut = &self.channel.route.cut;
        caller.upkeep.heard();
        let queued = caller.upkeep.data_queued();
        if self.flags.has(Flags::RESTART) {
            caller.request.start(cut);
        } else {
            for (offset, length) in ranges.iter() {
                caller.request.repeat(offset, length, cut);
            }
        }
        continue_sending(reference, &mut caller.request, &mut caller.upkeep, cut, self.ready);
        if queued {
            self.ready.owe(reference, &mut caller.upkeep, Owed::BUSY);
        }
        None
    }

    /// Makes room for a long message, if it is a possible one and the session has room.
    fn new_assembly(&mut self, piece: &Piece<'_>, side: Side) -> Option<Assembly> {
        let route = &self.channel.route;
        if piece.total <= route.cut.whole_bytes_max || piece.total > route.message_bytes_max {
            self.counters.malformed += 1;
            return None;
        }
        let assembling = self.channel.assembling_bytes();
        if assembling > 0 && assembling + piece.total as usize > ASSEMBLY_BYTES_MAX {
            self.counters.assembly_full += 1;
            let reference = self.channel.reference(self.key.slot(), side);
            let slot = usize::from(self.key.slot());
            let upkeep = match side {
                Side::Caller => &mut self.channel.callers[slot].upkeep,
                Side::Server => &mut self.channel.servers[slot].upkeep,
            };
            self.ready.owe(reference, upkeep, Owed::BUSY);
            return None;
        }
        Some(Assembly::new(piece.tag, piece.total, &route.cut))
    }

    #[cold]
    fn stale(&mut self) -> Option<Delivery> {
        self.counters.stale += 1;
        None
    }

    #[cold]
    fn malformed(&mut self) -> Option<Delivery> {
        self.counters.malformed += 1;
        None
    }
}
