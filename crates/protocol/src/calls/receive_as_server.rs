//! What packets do to calls of the peer's: requests, and what steers our responses.

use crate::wire::{Flags, MessagePacket, RangeList, WHOLE_HEADER_BYTES};

use super::assembly::Added;
use super::event::{Delivery, Received};
use super::policy::Policy;
use super::ready::{Side, continue_sending};
use super::receive::{Piece, Work};
use super::server::ServerState;
use super::upkeep::Owed;

impl<B: AsRef<[u8]>, P: Policy> Work<'_, B, P> {
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
            if let Some(request) = server.supersede(sequence) {
                let reference = self.channel.reference(self.key.slot(), Side::Server);
                self.policy.over(reference, &request);
            }
        }
        match packet {
            MessagePacket::Whole { tag, payload } => self.whole_request(tag, payload.len(), packet_bytes),
            MessagePacket::Fragment { tag, total, offset, payload } => {
                self.request_piece(Piece { tag, total, offset, payload })
            }
            MessagePacket::Grant { offset, priority } => self.response_granted(offset, priority),
            MessagePacket::Resend { ranges, priority } => self.response_wanted(ranges, priority),
            MessagePacket::Busy => self.requester_busy(),
            MessagePacket::NeedAcknowledge => self.malformed(),
            MessagePacket::Acknowledge { .. } | MessagePacket::Cutoffs(_) => None,
        }
    }

    #[inline]
    fn whole_request(&mut self, service: u16, length: usize, packet_bytes: usize) -> Option<Delivery> {
        let server = &mut self.channel.servers[usize::from(self.key.slot())];
        if !matches!(server.state, ServerState::Expected) {
            return self.request_again();
        }
        let pieces = server.run();
        debug_assert!(pieces.is_none(), "only an expected request gets here");
        self.message_began(length as u32);
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
                server.response.repeat(0, cut.unscheduled_bytes, self.policy.resend_priority(), cut);
                continue_sending::<B, P>(
                    reference,
                    &mut server.response,
                    &mut server.upkeep,
                    cut,
                    self.ready,
                );
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
                if self.policy.arrived(reference, &self.channel.peer, request, &self.channel.route.cut) {
                    self.ready.owe(reference, &mut server.upkeep, Owed::GRANT);
                }
                None
            }
            Added::Complete => {
                let request = server.run()?;
                self.policy.over(reference, &request);
                let payload = Received::Assembled(request.into_bytes());
                let (session, request) = (self.channel.id, self.key);
                Some(Delivery::Request { session, request, service: piece.tag, payload })
            }
            Added::Twice => self.stale(),
            Added::Misfit => self.malformed(),
        }
    }

    fn response_granted(&mut self, offset: u32, priority: u8) -> Option<Delivery> {
        let reference = self.channel.reference(self.key.slot(), Side::Server);
        let server = &mut self.channel.servers[usize::from(self.key.slot())];
        if !matches!(server.state, ServerState::Answered) {
            return self.stale();
        }
        server.upkeep.heard();
        if !server.response.grant(offset, priority, &self.channel.route.cut) {
            return self.malformed();
        }
        if server.response.has_pieces() {
            self.ready.queue_bulk(reference, &mut server.upkeep, &server.response);
        }
        None
    }

    /// The caller misses the response, or a part of it.
    fn response_wanted(&mut self, ranges: RangeList<'_>, priority: u8) -> Option<Delivery> {
        let reference = self.channel.reference(self.key.slot(), Side::Server);
        let server = &mut self.channel.servers[usize::from(self.key.slot())];
        match server.state {
            ServerState::Forgotten => return self.stale(),
            ServerState::Expected => self.ready.owe(reference, &mut server.upkeep, Owed::RESTART),
            ServerState::Receiving(ref request) => {
                let answer = if request.is_withheld() { Owed::BUSY } else { Owed::RESEND };
                self.ready.owe(reference, &mut server.upkeep, answer);
            }
            ServerState::Running => self.ready.owe(reference, &mut server.upkeep, Owed::BUSY),
            ServerState::Answered => {
                let cut = &self.channel.route.cut;
                server.upkeep.heard();
                let queued = server.response.is_due();
                for (offset, length) in ranges.iter() {
                    server.response.repeat(offset, length, priority, cut);
                }
                continue_sending::<B, P>(
                    reference,
                    &mut server.response,
                    &mut server.upkeep,
                    cut,
                    self.ready,
                );
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
