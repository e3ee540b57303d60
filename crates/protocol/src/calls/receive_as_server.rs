//! What packets do to calls of the peer's: requests, and what steers our responses.

use crate::wire::{CallKey, Flags, MessagePacket, RangeList};

use farcall_base::canary::{self, Rule};

use super::assembly::Added;
use super::channel::{Channel, grow};
use super::event::{Counters, Delivery, Received};
use super::policy::Policy;
use super::ready::{Side, continue_sending};
use super::receive::{Piece, Work};
use super::server::{ServerSlot, ServerState};
use super::spares::Spares;
use super::upkeep::Control;

/// How many slots a request may be ahead of those that are known. Beyond, it has to come again, when those in
/// between have come.
const SLOTS_AHEAD_MAX: usize = 256;

impl<B: AsRef<[u8]>, P: Policy> Channel<B, P> {
    /// Admits a packet about a call to us: to its slot, which an opening packet of a newer call takes over.
    /// `None` when the packet is to be dropped, and is counted.
    #[inline(always)]
    pub(super) fn admit_request(
        &mut self,
        key: CallKey,
        opens: bool,
        policy: &mut P,
        counters: &mut Counters,
    ) -> Option<()> {
        if key.slot() >= self.route.calls_max {
            counters.malformed += 1;
            return None;
        }
        let slot = usize::from(key.slot());
        if slot >= self.servers.len() {
            // Callers take slots in order; only as many may be missing as packets overtake each other.
            if !opens || slot > self.servers.len() + SLOTS_AHEAD_MAX {
                counters.stale += 1;
                return None;
            }
            if !self.add_servers(slot + 1) {
                counters.requests_refused += 1;
                return None;
            }
        }
        if canary::leaves_out(Rule::AtMostOnce) && opens && key.sequence() == self.servers[slot].sequence {
            self.servers[slot].run_again();
        }
        let sequence = self.servers[slot].sequence;
        if key.sequence() > sequence && opens {
            if let Some(request) = self.release_server(key.slot(), |server| server.supersede(key.sequence()))
            {
                self.message_over(self.reference(key.slot(), Side::Server), &request, policy);
            }
        } else if key.sequence() != sequence {
            counters.stale += 1;
            return None;
        }
        Some(())
    }

    /// Makes slots until there are `count`; false where the peer makes us hold too much already.
    fn add_servers(&mut self, count: usize) -> bool {
        let more = count - self.servers.len();
        let bytes = more * size_of::<ServerSlot<B>>();
        let is_possible = self.has_room_for(bytes) && grow(&mut self.servers, more).is_ok();
        if is_possible {
            self.servers.resize_with(count, Default::default);
            self.held_bytes += bytes;
        }
        is_possible
    }
}

impl<B: AsRef<[u8]>, P: Policy> Work<'_, B, P> {
    /// A packet about a call to us.
    pub(super) fn as_server(&mut self, packet: MessagePacket<'_>, spares: &mut Spares) -> Option<Delivery> {
        let opens = matches!(packet, MessagePacket::Fragment { .. } | MessagePacket::Resend { .. });
        self.channel.admit_request(self.key, opens, self.policy, self.counters)?;
        match packet {
            MessagePacket::Fragment { tag, total, offset, payload } => {
                self.request_piece(Piece { tag, total, offset, payload }, spares)
            }
            MessagePacket::Grant { offset, priority } => self.response_granted(offset, priority),
            MessagePacket::Resend { ranges, priority } => self.response_wanted(ranges, priority),
            MessagePacket::Busy => self.requester_busy(),
            MessagePacket::NeedAcknowledge => self.malformed(),
            MessagePacket::Whole { .. } | MessagePacket::Acknowledge { .. } | MessagePacket::Cutoffs(_) => {
                None
            }
        }
    }

    /// A question was the first to bring its request. Unless that is answered before the next packet leaves,
    /// the caller is told that it runs: others of its requests may wait for their turn to be asked about.
    #[cold]
    pub(super) fn question_brought_request(&mut self) {
        let reference = self.channel.reference(self.key.slot(), Side::Server);
        let server = &mut self.channel.servers[usize::from(self.key.slot())];
        self.ready.add_control(reference, &mut server.upkeep, Control::BUSY);
    }

    /// A request that is here already came again. What its caller really misses is the answer.
    #[cold]
    pub(super) fn request_again(&mut self) -> Option<Delivery> {
        self.counters.stale += 1;
        if !self.flags.has(Flags::RETRANSMISSION) {
            return None;
        }
        let reference = self.channel.reference(self.key.slot(), Side::Server);
        let server = &mut self.channel.servers[usize::from(self.key.slot())];
        match server.state {
            ServerState::Running => self.ready.add_control(reference, &mut server.upkeep, Control::BUSY),
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

    fn request_piece(&mut self, piece: Piece<'_>, spares: &mut Spares) -> Option<Delivery> {
        let slot = usize::from(self.key.slot());
        match self.channel.servers[slot].state {
            ServerState::Expected => {
                let request = self.new_assembly(&piece, Side::Server, spares)?;
                self.channel.change_server(self.key.slot(), |server| server.receive(request));
                let reference = self.channel.reference(self.key.slot(), Side::Server);
                self.channel.wake(reference, self.ready);
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
                let (peer, cut) = (&self.channel.peer, &self.channel.route.cut);
                let arrival = piece.arrival(reference, self.flags);
                let steps = request.follow(&arrival, peer, cut, &mut self.channel.window, self.policy);
                self.ready.add_control(reference, &mut server.upkeep, steps);
                self.ready.note_pace(reference.session, &self.channel.window);
                None
            }
            Added::Complete => {
                let request = self.channel.change_server(self.key.slot(), ServerSlot::run)?;
                self.channel.message_over(reference, &request, self.policy);
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
            ServerState::Expected => self.ready.add_control(reference, &mut server.upkeep, Control::RESTART),
            ServerState::Receiving(ref request) => {
                let answer = if request.is_withheld() { Control::BUSY } else { Control::RESEND };
                if request.is_withheld() {
                    server.upkeep.heard_patient();
                }
                self.ready.add_control(reference, &mut server.upkeep, answer);
            }
            ServerState::Running => self.ready.add_control(reference, &mut server.upkeep, Control::BUSY),
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
                    self.ready.add_control(reference, &mut server.upkeep, Control::BUSY);
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
