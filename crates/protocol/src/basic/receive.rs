//! What the packets of messages do to calls: which call it is about, and which side of it we are.

use crate::wire::{CallKey, Flags, Header, MessagePacket};

use super::assembly::{ASSEMBLY_BYTES_MAX, Assembly};
use super::channel::Channel;
use super::event::{Counters, Delivery};
use super::ready::{Ready, Side};
use super::upkeep::Owed;

/// A piece of a long message, and which one.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) tag: u16,
    pub(super) total: u32,
    pub(super) offset: u32,
    pub(super) payload: &'a [u8],
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
pub(super) struct Work<'w, B> {
    pub(super) channel: &'w mut Channel<B>,
    pub(super) ready: &'w mut Ready,
    pub(super) counters: &'w mut Counters,
    pub(super) key: CallKey,
    pub(super) flags: Flags,
}

impl<B: AsRef<[u8]>> Work<'_, B> {
    /// Makes room for a long message, if it is a possible one and the session has room.
    pub(super) fn new_assembly(&mut self, piece: &Piece<'_>, side: Side) -> Option<Assembly> {
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
