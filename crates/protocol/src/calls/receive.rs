//! What the packets of messages do to calls: which call it is about, and which side of it we are. Messages of
//! one packet have a way of their own.

use crate::wire::{CallKey, Flags, Header, MessagePacket, Opcode, parse_whole};

use super::assembly::Assembly;
use super::channel::Channel;
use super::event::{Counters, Delivery};
use super::policy::Policy;
use super::ready::{Ready, Side, SlotRef};
use super::receive_piece::Arrival;
use super::receive_whole::Whole;
use super::spares::Spares;
use super::upkeep::Control;

/// A piece of a long message, and which one.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) tag: u16,
    pub(super) total: u32,
    pub(super) offset: u32,
    pub(super) payload: &'a [u8],
}

impl Piece<'_> {
    /// Its arrival, in a packet with `flags`.
    pub(super) fn arrival(&self, slot: SlotRef, flags: Flags) -> Arrival {
        let (bytes, repeated) = (self.payload.len() as u32, flags.has(Flags::RETRANSMISSION));
        Arrival { slot, offset: self.offset, bytes, repeated }
    }
}

impl<B: AsRef<[u8]>, P: Policy> Channel<B, P> {
    /// Takes in a packet that the session has admitted.
    #[inline(always)]
    pub(super) fn handle(
        &mut self,
        header: &Header,
        packet: &[u8],
        ready: &mut Ready,
        policy: &mut P,
        counters: &mut Counters,
        spares: &mut Spares,
    ) -> Option<Delivery> {
        if header.opcode != Opcode::Whole {
            return self.handle_other(header, packet, ready, policy, counters, spares);
        }
        let Ok((tag, payload)) = parse_whole(header, packet, P::PROTOCOL) else {
            counters.malformed += 1;
            return None;
        };
        let whole = Whole { key: header.call, flags: header.flags, tag, length: payload.len() };
        self.handle_whole(&whole, ready, policy, counters)
    }

    /// All but messages of one packet.
    #[inline(never)]
    fn handle_other(
        &mut self,
        header: &Header,
        packet: &[u8],
        ready: &mut Ready,
        policy: &mut P,
        counters: &mut Counters,
        spares: &mut Spares,
    ) -> Option<Delivery> {
        let Ok(packet) = MessagePacket::parse(header, packet, P::PROTOCOL) else {
            counters.malformed += 1;
            return None;
        };
        match packet {
            MessagePacket::Acknowledge { calls } => {
                calls.iter().for_each(|key| self.acknowledge(key, policy));
                return None;
            }
            MessagePacket::Cutoffs(cutoffs) => {
                P::learn_cutoffs(&mut self.peer, &cutoffs);
                return None;
            }
            _ => {}
        }
        let side = if header.flags.has(Flags::FROM_CALLER) { Side::Server } else { Side::Caller };
        self.heard_about(header.call, side, ready);
        let mut work = Work { channel: self, ready, policy, counters, key: header.call, flags: header.flags };
        match side {
            Side::Server => work.as_server(packet, spares),
            Side::Caller => work.as_caller(packet, spares),
        }
    }

    /// Tells the policy of a message that begins to arrive, from a sender that uses cutoffs of `version`.
    #[inline]
    pub(super) fn message_began(&mut self, length: u32, version: u8, ready: &mut Ready, policy: &mut P) {
        let tell = policy.began(&mut self.peer, length, version, &self.route.cut);
        if tell && !self.cutoffs_queued {
            self.cutoffs_queued = true;
            ready.queue_informing(self.id.index() as u16);
        }
    }

    /// The peer is done with a call, whether we have seen it or not.
    fn acknowledge(&mut self, key: CallKey, policy: &mut P) {
        let reference = self.reference(key.slot(), Side::Server);
        let Some(sequence) = self.servers.get(usize::from(key.slot())).map(|slot| slot.sequence) else {
            return;
        };
        if key.sequence() < sequence {
            return;
        }
        let request = self.release_server(key.slot(), |slot| {
            let superseded = if key.sequence() > sequence { slot.supersede(key.sequence()) } else { None };
            superseded.or(slot.forget())
        });
        if let Some(request) = request {
            self.message_over(reference, &request, policy);
        }
    }
}

/// One packet at work.
pub(super) struct Work<'w, B, P: Policy> {
    pub(super) channel: &'w mut Channel<B, P>,
    pub(super) ready: &'w mut Ready,
    pub(super) policy: &'w mut P,
    pub(super) counters: &'w mut Counters,
    pub(super) key: CallKey,
    pub(super) flags: Flags,
}

impl<B: AsRef<[u8]>, P: Policy> Work<'_, B, P> {
    /// Makes room for a long message, if it is a possible one and the peer may make us hold so much.
    pub(super) fn new_assembly(
        &mut self,
        piece: &Piece<'_>,
        side: Side,
        spares: &mut Spares,
    ) -> Option<Box<Assembly>> {
        let route = &self.channel.route;
        if piece.total <= route.cut.whole_bytes_max || piece.total > route.message_bytes_max {
            self.counters.malformed += 1;
            return None;
        }
        let cut = route.cut;
        let has_room = self.channel.has_room_for(piece.total as usize);
        let assembly = if has_room { Assembly::new(piece.tag, piece.total, &cut, spares) } else { None };
        if assembly.is_none() {
            self.counters.assembly_full += 1;
            let reference = self.channel.reference(self.key.slot(), side);
            let slot = usize::from(self.key.slot());
            let upkeep = match side {
                Side::Caller => &mut self.channel.callers[slot].upkeep,
                Side::Server => &mut self.channel.servers[slot].upkeep,
            };
            self.ready.add_control(reference, upkeep, Control::BUSY);
            return None;
        }
        self.channel.window.began();
        self.channel.message_began(piece.total, self.flags.argument(), self.ready, self.policy);
        assembly
    }

    #[cold]
    pub(super) fn stale(&mut self) -> Option<Delivery> {
        self.counters.stale += 1;
        None
    }

    #[cold]
    pub(super) fn malformed(&mut self) -> Option<Delivery> {
        self.counters.malformed += 1;
        None
    }
}
