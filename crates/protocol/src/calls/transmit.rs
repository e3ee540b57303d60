//! What goes out next.
//!
//! In this order: the packets of sessions, control packets, acknowledgements, cutoffs, messages of one
//! packet, one packet of each long message that begins, and of the others the one with the fewest bytes to
//! go. A policy may hold messages back, and may now and then let a packet of the oldest long message go
//! before all other messages.

use crate::session::PeerAddress;
use crate::wire::{
    CALLS_PER_ACK_MAX, CallKey, Flags, Head, put_acknowledge, put_cutoffs, put_fragment, put_whole,
};
use farcall_base::Instant;

use super::Calls;
use super::caller::CallerSlot;
use super::channel::Channel;
use super::event::{Counters, Transmit};
use super::policy::{Incoming, PRIORITY_CONTROL, Policy, priority_of};
use super::ready::{Side, SlotRef};
use super::sending::Sending;
use super::server::ServerSlot;
use super::upkeep::Upkeep;

/// What is still to be done to a packet before it leaves.
#[derive(Clone, Copy)]
enum Seal {
    /// Nothing: it is of a session itself.
    Done,
    /// It is of a message in the session at this index: it gets a checksum, if both sides want one, or is
    /// sealed, if sessions have keys.
    Message { session: u16, checksum: bool },
}

/// A packet whose head is written.
struct Planned {
    to: PeerAddress,
    priority: u8,
    seal: Seal,
    /// The message that the payload is a part of: offset and length.
    payload: Option<(SlotRef, u32, u32)>,
    /// Whether it was sent before.
    repeated: bool,
    is_piece: bool,
}

impl Planned {
    /// The length of the packet whose head was written into `head`.
    #[inline]
    fn bytes(&self, head: &Head) -> usize {
        head.as_bytes().len() + self.payload.map_or(0, |(_, _, length)| length as usize)
    }
}

impl<B: AsRef<[u8]>, P: Policy> Calls<B, P> {
    /// The next packet to send. `head` is memory for its first part; the second stays where it is.
    #[inline(always)]
    pub fn poll_transmit<'a>(&'a mut self, now: Instant, head: &'a mut Head) -> Option<Transmit<'a>> {
        let planned = self.plan(now, head)?;
        let Self { sessions, channels, sealed, .. } = self;
        let payload = match planned.payload {
            Some((slot, offset, length)) => {
                &message_of(channels, slot)?.bytes()[offset as usize..(offset + length) as usize]
            }
            None => &[],
        };
        let (to, priority, is_piece) = (planned.to, planned.priority, planned.is_piece);
        let session = planned.payload.map(|(slot, ..)| slot.session);
        let Seal::Message { session: index, checksum } = planned.seal else {
            return Some(Transmit {
                to,
                priority,
                head: head.as_bytes(),
                payload: sessions.payload(),
                session,
                is_piece,
            });
        };
        let is_sealed = sessions.has_keys();
        if is_sealed {
            let has_keys = sessions.seal(index, [head.as_bytes(), payload], sealed);
            debug_assert!(has_keys, "a session that is up has keys");
            if !has_keys {
                return None;
            }
        } else if checksum {
            head.seal(payload);
        }
        if planned.repeated || sessions.has_short_paths() {
            let packet = if is_sealed { [&sealed[..], &[]] } else { [head.as_bytes(), payload] };
            if sessions.fit_to_path(index, packet, planned.repeated, now) {
                let to = sessions.poll_transmit(head)?;
                let (head, payload) = (head.as_bytes(), sessions.payload());
                return Some(Transmit { to, priority, head, payload, session: None, is_piece });
            }
        }
        let (head, payload) = if is_sealed { (&sealed[..], &[][..]) } else { (head.as_bytes(), payload) };
        Some(Transmit { to, priority, head, payload, session, is_piece })
    }

    /// Whether [`Calls::poll_transmit`] may have something.
    #[inline]
    pub fn wants_transmit(&self) -> bool {
        let any = self.ready.has_any() && (self.held_until == Instant::ZERO || self.ready.has_control());
        any || self.policy.is_schedule_due() || self.sessions.wants_transmit()
    }

    #[inline(always)]
    fn plan(&mut self, now: Instant, head: &mut Head) -> Option<Planned> {
        if self.sessions.wants_transmit()
            && let Some(to) = self.sessions.poll_transmit(head)
        {
            let (priority, seal) = (PRIORITY_CONTROL, Seal::Done);
            return Some(Planned { to, priority, seal, payload: None, repeated: false, is_piece: false });
        }
        if self.policy.is_schedule_due() {
            let mut incoming = Incoming { channels: &mut self.channels, ready: &mut self.ready, now };
            self.policy.schedule(&mut incoming);
        }
        if !self.ready.has_any() {
            return None;
        }
        let planned = if self.ready.has_only_whole() {
            self.plan_whole_unless_held(now, head)?
        } else {
            self.plan_any(now, head)?
        };
        if self.tick_at == Instant::NEVER {
            self.tick_at = now + self.resend_interval;
        }
        Some(planned)
    }

    /// A message of one packet, where nothing else waits.
    #[inline(always)]
    fn plan_whole_unless_held(&mut self, now: Instant, head: &mut Head) -> Option<Planned> {
        if self.holds_messages(now) {
            return None;
        }
        let planned = self.plan_whole(head)?;
        self.policy.sent(now, planned.bytes(head));
        Some(planned)
    }

    /// Whatever comes first.
    #[inline(never)]
    fn plan_any(&mut self, now: Instant, head: &mut Head) -> Option<Planned> {
        let control = self
            .plan_control(now, head)
            .or_else(|| self.plan_acknowledge(head))
            .or_else(|| self.plan_cutoffs(head));
        if control.is_some() || !self.ready.has_messages() || self.holds_messages(now) {
            return control;
        }
        let any_long = self.ready.has_long();
        let oldest = if any_long && self.policy.serves_oldest() { self.plan_oldest(head) } else { None };
        let is_oldest = oldest.is_some();
        let planned = oldest.or_else(|| self.plan_whole(head)).or_else(|| self.plan_bulk(head))?;
        let bytes = planned.bytes(head);
        self.policy.sent(now, bytes);
        if any_long {
            self.policy.served(bytes, is_oldest);
        }
        Some(planned)
    }

    /// Whether messages have to wait now.
    #[inline]
    fn holds_messages(&mut self, now: Instant) -> bool {
        let until = self.policy.hold_until(now);
        self.held_until = until.unwrap_or(Instant::ZERO);
        until.is_some()
    }

    fn plan_control(&mut self, now: Instant, head: &mut Head) -> Option<Planned> {
        while let Some(slot) = self.ready.pop_control() {
            let Some(channel) = self.channels[usize::from(slot.session)].as_deref_mut() else { continue };
            channel.window.at(now);
            if channel.put_control(slot, head, &self.policy, &mut self.counters) {
                if channel.upkeep(slot).is_some_and(|upkeep| upkeep.control_queued) {
                    self.ready.queue_control(slot);
                }
                return Some(channel.planned(PRIORITY_CONTROL, None));
            }
        }
        None
    }

    fn plan_acknowledge(&mut self, head: &mut Head) -> Option<Planned> {
        while let Some(session) = self.ready.acknowledging() {
            let channel = self.channels[usize::from(session)].as_deref_mut();
            let Some(channel) = channel.filter(|channel| !channel.acknowledged.is_empty()) else {
                self.ready.pop_acknowledging();
                continue;
            };
            let count = channel.acknowledged.len().min(CALLS_PER_ACK_MAX);
            let flags = channel.route.flags(Side::Caller);
            put_acknowledge(head, flags, channel.route.remote, channel.acknowledged.drain(..count));
            self.counters.acknowledges_sent += 1;
            return Some(channel.planned(PRIORITY_CONTROL, None));
        }
        None
    }

    fn plan_cutoffs(&mut self, head: &mut Head) -> Option<Planned> {
        while let Some(session) = self.ready.pop_informing() {
            let Some(channel) = self.channels[usize::from(session)].as_deref_mut() else { continue };
            // The session that was queued may have ended, and another be in its place.
            if !core::mem::take(&mut channel.cutoffs_queued) {
                continue;
            }
            let Some(cutoffs) = self.policy.cutoffs(&mut channel.peer) else { continue };
            put_cutoffs(head, channel.route.flags(Side::Server), channel.route.remote, &cutoffs);
            self.counters.cutoffs_sent += 1;
            return Some(channel.planned(PRIORITY_CONTROL, None));
        }
        None
    }

    #[inline(always)]
    fn plan_whole(&mut self, head: &mut Head) -> Option<Planned> {
        while let Some(slot) = self.ready.pop_whole() {
            let Some(channel) = self.channels[usize::from(slot.session)].as_deref_mut() else { continue };
            let route = channel.route;
            let argument = P::cutoffs_version(&channel.peer);
            let Some((message, upkeep, key)) = channel.sending_mut(slot) else { continue };
            upkeep.whole_queued = false;
            if !core::mem::take(&mut message.whole_due) {
                continue;
            }
            let repeated = core::mem::replace(&mut message.whole_sent, true);
            self.counters.retransmissions += u64::from(repeated);
            let flags = route.flags(slot.side).with(Flags::RETRANSMISSION.when(repeated));
            put_whole(head, flags.with_argument(argument), route.remote, key, message.tag);
            let length = message.length();
            let priority = P::unscheduled_priority(&channel.peer, length);
            return Some(Planned { repeated, ..channel.planned(priority, Some((slot, 0, length))) });
        }
        None
    }

    fn plan_bulk(&mut self, head: &mut Head) -> Option<Planned> {
        while let Some(slot) = self.next_bulk() {
            let planned = self.plan_piece(slot, head);
            if planned.is_some() {
                return planned;
            }
        }
        None
    }

    /// The next piece of the message that waits longest.
    #[cold]
    fn plan_oldest(&mut self, head: &mut Head) -> Option<Planned> {
        self.interrupt_turn();
        while let Some(slot) = self.ready.start_oldest() {
            let planned = self.plan_piece(slot, head);
            if planned.is_some() {
                return planned;
            }
        }
        None
    }

    /// The next piece of the message that has its turn. When it has none for now, it leaves the queue.
    fn plan_piece(&mut self, slot: SlotRef, head: &mut Head) -> Option<Planned> {
        let channel = self.channels[usize::from(slot.session)].as_deref_mut();
        let planned = channel.and_then(|channel| channel.put_piece(slot, head, &mut self.counters));
        if planned.is_none() {
            self.ready.end_turn();
        }
        planned
    }

    /// The long message whose turn it is: one that begins, else the one with the fewest bytes to go when its
    /// turn began.
    fn next_bulk(&mut self) -> Option<SlotRef> {
        if !self.ready.any_begins()
            && let Some(slot) = self.ready.continue_turn()
        {
            return Some(slot);
        }
        self.interrupt_turn();
        if let Some(slot) = self.ready.start_beginning() {
            return Some(slot);
        }
        loop {
            let (bytes, age, slot) = self.ready.start_shortest()?;
            let remaining = self.message(slot).map_or(0, Sending::remaining);
            if remaining <= bytes {
                return Some(slot);
            }
            // It has grown since it was queued: more of it is to be sent once more.
            self.ready.end_turn();
            self.ready.wait(slot, remaining, age);
        }
    }

    /// Puts the message whose turn it was back among those that wait.
    fn interrupt_turn(&mut self) {
        if let Some(slot) = self.ready.end_turn() {
            let waiting = self.message(slot).map(|message| (message.remaining(), message.age));
            if let Some((remaining, age)) = waiting {
                self.ready.wait(slot, remaining, age);
            }
        }
    }

    #[inline]
    fn message(&self, slot: SlotRef) -> Option<&Sending<B>> {
        message_of(&self.channels, slot)
    }
}

#[inline]
fn message_of<B, P: Policy>(channels: &[Option<Box<Channel<B, P>>>], slot: SlotRef) -> Option<&Sending<B>> {
    let channel = channels.get(usize::from(slot.session))?.as_deref()?;
    match slot.side {
        Side::Caller => channel.callers.get(usize::from(slot.slot)).map(|caller| &caller.request),
        Side::Server => channel.servers.get(usize::from(slot.slot)).map(|server| &server.response),
    }
}

impl<B: AsRef<[u8]>, P: Policy> Channel<B, P> {
    #[inline]
    fn planned(&self, priority: u8, payload: Option<(SlotRef, u32, u32)>) -> Planned {
        let seal = Seal::Message { session: self.id.index() as u16, checksum: self.route.checksum };
        Planned { to: self.route.to, priority, seal, payload, repeated: false, is_piece: false }
    }

    #[inline]
    pub(super) fn sending_mut(&mut self, slot: SlotRef) -> Option<(&mut Sending<B>, &mut Upkeep, CallKey)> {
        Self::sending(&mut self.callers, &mut self.servers, slot)
    }

    /// A slot's outgoing message; `None` for a reference that outlived its session.
    #[inline]
    pub(super) fn sending<'s>(
        callers: &'s mut [CallerSlot<B>],
        servers: &'s mut [ServerSlot<B>],
        slot: SlotRef,
    ) -> Option<(&'s mut Sending<B>, &'s mut Upkeep, CallKey)> {
        let place = usize::from(slot.slot);
        match slot.side {
            Side::Caller => callers.get_mut(place).map(|caller| {
                let key = CallKey::new(slot.slot, caller.sequence);
                (&mut caller.request, &mut caller.upkeep, key)
            }),
            Side::Server => servers.get_mut(place).map(|server| {
                let key = CallKey::new(slot.slot, server.sequence);
                (&mut server.response, &mut server.upkeep, key)
            }),
        }
    }

    pub(super) fn upkeep(&mut self, slot: SlotRef) -> Option<&mut Upkeep> {
        self.sending_mut(slot).map(|(_, upkeep, _)| upkeep)
    }

    /// Writes the next piece of a long message; `None` when it has nothing to send for now.
    fn put_piece(&mut self, slot: SlotRef, head: &mut Head, counters: &mut Counters) -> Option<Planned> {
        let (route, argument) = (self.route, P::cutoffs_version(&self.peer));
        let (message, upkeep, key) = Self::sending(&mut self.callers, &mut self.servers, slot)?;
        let Some(piece) = message.next_piece(&route.cut) else {
            upkeep.bulk_queued = false;
            return None;
        };
        counters.retransmissions += u64::from(piece.repeated);
        let priority = priority_of::<B, P>(message, &self.peer, &route.cut, (piece.offset, piece.repeated));
        let flags = route.flags(slot.side).with(Flags::RETRANSMISSION.when(piece.repeated));
        let (flags, place) = (flags.with_argument(argument), (message.length(), piece.offset));
        put_fragment(head, flags, route.remote, key, message.tag, place);
        let repeated = piece.repeated || message.is_restarted;
        let planned = self.planned(priority, Some((slot, piece.offset, piece.length)));
        Some(Planned { repeated, is_piece: true, ..planned })
    }
}
