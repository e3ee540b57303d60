//! What packets do to calls of the peer's: requests, and what steers our responses.

use crate::wire::{Flags, MessagePacket, RangeList, WHOLE_HEADER_BYTES};

use super::assembly::Added;
use super::channel::continue_sending;
use super::event::{Delivery, Received};
use super::ready::Side;
use super::receive::{Piece, Work};
use super::server::ServerState;
use super::upkeep::Owed;

impl<B: AsRef<[u8]>> Work<'_, B> {
    /// A packet about a call to us.
    #[inline]
    pub(super) fn as_server(&mut self, packet: MessagePacket<'_>, packet_bytes: usize) -> Option<Delivery> {
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
}
