//! What packets do to calls of ours: responses, and what steers our requests.

use crate::wire::{Flags, MessagePacket, RangeList};

use super::assembly::Added;
use super::caller::{CallerState, Relation};
use super::event::{Delivery, Received};
use super::policy::Policy;
use super::ready::{Side, continue_sending};
use super::receive::{Piece, Work};
use super::spares::Spares;
use super::upkeep::Control;

impl<B: AsRef<[u8]>, P: Policy> Work<'_, B, P> {
    /// A packet about a call of ours.
    pub(super) fn as_caller(&mut self, packet: MessagePacket<'_>, spares: &mut Spares) -> Option<Delivery> {
        let Some(caller) = self.channel.callers.get_mut(usize::from(self.key.slot())) else {
            return self.malformed();
        };
        match caller.relation(self.key) {
            Relation::Present => {}
            Relation::Over => return self.call_is_over(packet != MessagePacket::NeedAcknowledge),
            Relation::Former => return self.stale(),
            Relation::Never => return self.malformed(),
        }
        match packet {
            MessagePacket::Fragment { tag, total, offset, payload } => {
                self.response_piece(Piece { tag, total, offset, payload }, spares)
            }
            MessagePacket::Grant { offset, priority } => self.request_granted(offset, priority),
            MessagePacket::Resend { ranges, priority } => self.request_wanted(ranges, priority),
            MessagePacket::Busy => {
                caller.upkeep.heard_busy();
                None
            }
            MessagePacket::NeedAcknowledge => self.result_is_kept(),
            MessagePacket::Whole { .. } | MessagePacket::Acknowledge { .. } | MessagePacket::Cutoffs(_) => {
                None
            }
        }
    }

    /// The server still holds the result of a call that is over: let it go.
    #[cold]
    pub(super) fn call_is_over(&mut self, is_stale: bool) -> Option<Delivery> {
        self.counters.stale += u64::from(is_stale);
        self.channel.queue_acknowledge(self.key, self.ready);
        None
    }

    fn response_piece(&mut self, piece: Piece<'_>, spares: &mut Spares) -> Option<Delivery> {
        let slot = usize::from(self.key.slot());
        if matches!(self.channel.callers[slot].state, CallerState::Requesting) {
            let response = self.new_assembly(&piece, Side::Caller, spares)?;
            self.channel.held_bytes += response.total() as usize;
            self.channel.callers[slot].receive(response);
        }
        let reference = self.channel.reference(self.key.slot(), Side::Caller);
        let caller = &mut self.channel.callers[slot];
        let CallerState::Receiving(response) = &mut caller.state else { return None };
        match response.add(piece.tag, piece.total, piece.offset, piece.payload) {
            Added::New => {
                caller.upkeep.heard();
                let (peer, cut) = (&self.channel.peer, &self.channel.route.cut);
                let arrival = piece.arrival(reference, self.flags);
                let steps = response.follow(&arrival, peer, cut, &mut self.channel.window, self.policy);
                self.ready.add_control(reference, &mut caller.upkeep, steps);
                self.ready.note_pace(reference.session, &self.channel.window);
                None
            }
            Added::Complete => {
                let (session, call, status) = (self.channel.id, caller.call, response.tag());
                let response = caller.finish()?;
                self.channel.held_bytes -= response.total() as usize;
                self.channel.message_over(reference, &response, self.policy);
                let payload = Received::Assembled(response.into_bytes());
                self.channel.release(self.key.slot(), self.ready);
                Some(Delivery::Response { session, call, status, payload })
            }
            Added::Twice => self.stale(),
            Added::Misfit => self.malformed(),
        }
    }

    /// The server keeps the result of a call that is not over: what is missing of it should come.
    fn result_is_kept(&mut self) -> Option<Delivery> {
        let reference = self.channel.reference(self.key.slot(), Side::Caller);
        let caller = &mut self.channel.callers[usize::from(self.key.slot())];
        caller.upkeep.heard_busy();
        match &caller.state {
            CallerState::Requesting => self.ready.add_control(reference, &mut caller.upkeep, Control::RESEND),
            CallerState::Receiving(response) => {
                let answer = if response.is_withheld() { Control::BUSY } else { Control::RESEND };
                self.ready.add_control(reference, &mut caller.upkeep, answer);
            }
            CallerState::Idle | CallerState::Waiting | CallerState::Done => {}
        }
        None
    }

    fn request_granted(&mut self, offset: u32, priority: u8) -> Option<Delivery> {
        let reference = self.channel.reference(self.key.slot(), Side::Caller);
        let caller = &mut self.channel.callers[usize::from(self.key.slot())];
        if !matches!(caller.state, CallerState::Requesting) {
            return self.stale();
        }
        caller.upkeep.heard();
        if !caller.request.grant(offset, priority, &self.channel.route.cut) {
            return self.malformed();
        }
        if caller.request.has_pieces() {
            self.ready.queue_bulk(reference, &mut caller.upkeep, &caller.request);
        }
        None
    }

    /// The server misses the request, or a part of it.
    fn request_wanted(&mut self, ranges: RangeList<'_>, priority: u8) -> Option<Delivery> {
        let reference = self.channel.reference(self.key.slot(), Side::Caller);
        let caller = &mut self.channel.callers[usize::from(self.key.slot())];
        if !matches!(caller.state, CallerState::Requesting) {
            return self.stale();
        }
        let cut = &self.channel.route.cut;
        caller.upkeep.heard();
        let queued = caller.request.is_due();
        if self.flags.has(Flags::RESTART) && caller.request.length() > cut.whole_bytes_max {
            caller.request.restart(cut);
        } else {
            for (offset, length) in ranges.iter() {
                caller.request.repeat(offset, length, priority, cut);
            }
        }
        continue_sending::<B, P>(reference, &mut caller.request, &mut caller.upkeep, cut, self.ready);
        if queued {
            self.ready.add_control(reference, &mut caller.upkeep, Control::BUSY);
        }
        None
    }
}
