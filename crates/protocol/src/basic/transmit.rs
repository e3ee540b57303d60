//! What goes out next.
//!
//! In this order: the packets of sessions, control packets, acknowledgements, messages of one packet, and of the long
//! messages the one with the fewest bytes to go.

use crate::Instant;
use crate::session::PeerAddress;
use crate::wire::{
    CALLS_PER_ACK_MAX, CallKey, Flags, Head, Opcode, put_acknowledge, put_bare, put_fragment, put_grant,
    put_resend, put_whole,
};

use super::Basic;
use super::caller::CallerState;
use super::channel::Channel;
use super::event::{Counters, Transmit};
use super::ready::{Side, SlotRef};
use super::sending::Sending;
use super::server::ServerState;
use super::upkeep::{Owed, Upkeep};

/// A packet whose head is written.
struct Planned {
    to: PeerAddress,
    urgent: bool,
    seal: bool,
    /// The message that the payload is a part of: offset and length.
    payload: Option<(SlotRef, u32, u32)>,
}

impl<B: AsRef<[u8]>> Basic<B> {
    /// The next packet to send. `head` is memory for its first part; the second stays where it is.
    #[inline]
    pub fn poll_transmit<'a>(&'a mut self, now: Instant, head: &'a mut Head) -> Option<Transmit<'a>> {
        let planned = self.plan(now, head)?;
        let payload = match planned.payload {
            Some((slot, offset, length)) => {
                &self.message(slot)?.bytes()[offset as usize..(offset + length) as usize]
            }
            None => &[],
        };
        if planned.seal {
            head.seal(payload);
        }
        Some(Transmit { to: planned.to, urgent: planned.urgent, head: head.as_bytes(), payload })
    }

    /// Whether [`Basic::poll_transmit`] may have something.
    #[inline]
    pub fn wants_transmit(&self) -> bool {
        !self.ready.is_empty() || self.sessions.wants_transmit()
    }

    #[inline]
    fn plan(&mut self, now: Instant, head: &mut Head) -> Option<Planned> {
        if let Some(to) = self.sessions.poll_transmit(head) {
            return Some(Planned { to, urgent: true, seal: false, payload: None });
        }
        let planned = self
            .plan_control(head)
            .or_else(|| self.plan_acknowledge(head))
            .or_else(|| self.plan_whole(head))
            .or_else(|| self.plan_bulk(head))?;
        if self.tick_at == Instant::NEVER {
            self.tick_at = now + self.resend_interval;
        }
        Some(planned)
    }

    fn plan_control(&mut self, head: &mut Head) -> Option<Planned> {
        while let Some(slot) = self.ready.control.pop_front() {
            let Some(channel) = self.channels[usize::from(slot.session)].as_deref_mut() else { continue };
            if channel.put_control(slot, head, &mut self.counters) {
                if channel.upkeep(slot).is_some_and(|upkeep| upkeep.control_queued) {
                    self.ready.control.push_back(slot);
                }
                return Some(channel.planned(true, None));
            }
        }
        None
    }

    fn plan_acknowledge(&mut self, head: &mut Head) -> Option<Planned> {
        while let Some(&session) = self.ready.acknowledging.front() {
            let channel = self.channels[usize::from(session)].as_deref_mut();
            let Some(channel) = channel.filter(|channel| !channel.acknowledged.is_empty()) else {
                self.ready.acknowledging.pop_front();
                continue;
            };
            let count = channel.acknowledged.len().min(CALLS_PER_ACK_MAX);
            let flags = channel.route.flags(Side::Caller);
            put_acknowledge(head, flags, channel.route.remote, channel.acknowledged.drain(..count));
            self.counters.acknowledges_sent += 1;
            return Some(channel.planned(true, None));
        }
        None
    }

    #[inline]
    fn plan_whole(&mut self, head: &mut Head) -> Option<Planned> {
        while let Some(slot) = self.ready.whole.pop_front() {
            let Some(channel) = self.channels[usize::from(slot.session)].as_deref_mut() else { continue };
            let route = channel.route;
            let Some((message, upkeep, key)) = channel.sending(slot) else { continue };
            upkeep.whole_queued = false;
            if !core::mem::take(&mut message.whole_due) {
                continue;
            }
            let repeated = core::mem::replace(&mut message.whole_sent, true);
            self.counters.retransmissions += u64::from(repeated);
            let flags = route.flags(slot.side).with(Flags::RETRANSMISSION.when(repeated));
            put_whole(head, flags, route.remote, key, message.tag);
            let length = message.length();
            return Some(channel.planned(false, Some((slot, 0, length))));
        }
        None
    }

    fn plan_bulk(&mut self, head: &mut Head) -> Option<Planned> {
        while !self.ready.bulk.is_empty() {
            let place = self.ready.continue_turn().unwrap_or_else(|| self.shortest_bulk());
            let slot = self.ready.bulk[place];
            let channel = self.channels[usize::from(slot.session)].as_deref_mut();
            let planned = channel.and_then(|channel| channel.put_piece(slot, head, &mut self.counters));
            if planned.is_some() {
                return planned;
            }
            self.ready.remove_bulk(place);
        }
        None
    }

    /// Finds the long message with the fewest bytes to go, and gives it its turn. There is one at least.
    fn shortest_bulk(&mut self) -> usize {
        let remaining = |slot: &SlotRef| self.message(*slot).map_or(0, Sending::remaining);
        let places = self.ready.bulk.iter().map(remaining).enumerate();
        let place = places.min_by_key(|&(_, bytes)| bytes).map_or(0, |(place, _)| place);
        self.ready.start_turn(place);
        place
    }

    #[inline]
    fn message(&self, slot: SlotRef) -> Option<&Sending<B>> {
        let channel = self.channels.get(usize::from(slot.session))?.as_deref()?;
        match slot.side {
            Side::Caller => channel.callers.get(usize::from(slot.slot)).map(|caller| &caller.request),
            Side::Server => channel.servers.get(usize::from(slot.slot)).map(|server| &server.response),
        }
    }
}

impl<B: AsRef<[u8]>> Channel<B> {
    #[inline]
    fn planned(&self, urgent: bool, payload: Option<(SlotRef, u32, u32)>) -> Planned {
        Planned { to: self.route.to, urgent, seal: self.route.checksum, payload }
    }

    /// A slot's outgoing message; `None` for a reference that outlived its session.
    #[inline]
    fn sending(&mut self, slot: SlotRef) -> Option<(&mut Sending<B>, &mut Upkeep, CallKey)> {
        let place = usize::from(slot.slot);
        match slot.side {
            Side::Caller => self.callers.get_mut(place).map(|caller| {
                let key = CallKey::new(slot.slot, caller.sequence);
                (&mut caller.request, &mut caller.upkeep, key)
            }),
            Side::Server => self.servers.get_mut(place).map(|server| {
                let key = CallKey::new(slot.slot, server.sequence);
                (&mut server.response, &mut server.upkeep, key)
            }),
        }
    }

    fn upkeep(&mut self, slot: SlotRef) -> Option<&mut Upkeep> {
        self.sending(slot).map(|(_, upkeep, _)| upkeep)
    }

    /// Writes the next piece of a long message; `None` when it has nothing to send for now.
    fn put_piece(&mut self, slot: SlotRef, head: &mut Head, counters: &mut Counters) -> Option<Planned> {
        let route = self.route;
        let (message, upkeep, key) = self.sending(slot)?;
        let Some(piece) = message.next_piece(&route.cut) else {
            upkeep.bulk_queued = false;
            return None;
        };
        counters.retransmissions += u64::from(piece.repeated);
        let flags = route.flags(slot.side).with(Flags::RETRANSMISSION.when(piece.repeated));
        put_fragment(head, flags, route.remote, key, message.tag, (message.length(), piece.offset));
        Some(self.planned(false, Some((slot, piece.offset, piece.length))))
    }

    /// Writes one of the control packets that a slot owes. False when it owes none any more. The slot's mark of being
    /// queued stays when there is more to write.
    fn put_control(&mut self, slot: SlotRef, head: &mut Head, counters: &mut Counters) -> bool {
        let Some((_, upkeep, key)) = self.sending(slot) else { return false };
        let mut owed = core::mem::take(&mut upkeep.owed);
        let mut written = false;
        while !written && let Some(one) = owed.take_first() {
            written = self.put_owed(one, slot, key, head, counters);
        }
        if let Some(upkeep) = self.upkeep(slot) {
            upkeep.owed = owed;
            upkeep.control_queued = written && !owed.is_empty();
        }
        written
    }

    /// Writes a control packet of the given kind, unless the call has moved on and does not need it any more.
    fn put_owed(
        &self,
        one: Owed,
        slot: SlotRef,
        key: CallKey,
        head: &mut Head,
        counters: &mut Counters,
    ) -> bool {
        let (flags, remote) = (self.route.flags(slot.side), self.route.remote);
        match one {
            Owed::GRANT => {
                let Some(offset) = self.granted(slot) else { return false };
                counters.grants_sent += 1;
                put_grant(head, flags, remote, key, offset);
            }
            Owed::RESEND => {
                counters.resends_sent += 1;
                return self.put_missing(slot, key, head);
            }
            Owed::RESTART => {
                counters.restarts_sent += 1;
                let everything = [(0, self.route.cut.unscheduled_bytes)];
                put_resend(head, flags.with(Flags::RESTART), remote, key, everything);
            }
            _ => {
                counters.busy_sent += 1;
                put_bare(head, Opcode::Busy, flags, remote, key);
            }
        }
        true
    }

    /// Up to where the message that a slot receives was permitted.
    fn granted(&self, slot: SlotRef) -> Option<u32> {
        let place = usize::from(slot.slot);
        match slot.side {
            Side::Caller => match &self.callers[place].state {
                CallerState::Receiving(response) => Some(response.granted()),
                _ => None,
            },
            Side::Server => match &self.servers[place].state {
                ServerState::Receiving(request) => Some(request.granted()),
                _ => None,
            },
        }
    }

    /// Asks for what is missing of the message that a slot receives; of one that has not begun, for its start.
    fn put_missing(&self, slot: SlotRef, key: CallKey, head: &mut Head) -> bool {
        let (flags, remote) = (self.route.flags(slot.side), self.route.remote);
        let place = usize::from(slot.slot);
        match slot.side {
            Side::Caller => match &self.callers[place].state {
                CallerState::Receiving(response) => put_resend(head, flags, remote, key, response.missing()),
                CallerState::Requesting => {
                    put_resend(head, flags, remote, key, [(0, self.route.cut.unscheduled_bytes)]);
                }
                CallerState::Idle | CallerState::Waiting | CallerState::Done => return false,
            },
            Side::Server => match &self.servers[place].state {
                ServerState::Receiving(request) => put_resend(head, flags, remote, key, request.missing()),
                _ => return false,
            },
        }
        true
    }
}
