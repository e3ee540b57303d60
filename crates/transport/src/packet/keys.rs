//! Packets that are sealed with the keys of their sessions.
//!
//! The protocol seals and opens; what is done here is to give each packet a place where it is opened, because
//! its own is only lent, and to look whether the cluster keys have changed when sessions begin.

use core::mem;

use farcall_base::Instant;
use farcall_driver::Datagram;
use farcall_protocol::calls::Policy;
use farcall_protocol::keys::Keyring;
use farcall_protocol::session::PeerAddress;
use farcall_protocol::wire::{Header, Opcode};

use super::PacketTransport;
use crate::Sink;

/// Where an endpoint has its cluster keys from.
pub trait KeySource: Send {
    /// The keys as they are.
    fn keys(&mut self) -> Keyring;

    /// The keys, if they have changed since this was last asked. Asked whenever a session begins: it should
    /// cost little, and must not block for long.
    fn changed(&mut self) -> Option<Keyring>;
}

impl<D: Datagram, P: Policy> PacketTransport<D, P> {
    /// Takes a packet in that has to prove where it is from.
    pub(super) fn take_in_sealed(
        &mut self,
        from: PeerAddress,
        packet: &[u8],
        now: Instant,
        sink: &mut dyn Sink,
    ) {
        if Header::parse(packet).is_ok_and(|header| header.opcode == Opcode::Open) {
            self.renew_keys();
        }
        let mut room = mem::take(&mut self.room);
        if let Some(opened) = self.calls.sessions_mut().open(from, packet, &mut room, now) {
            self.take_in_opened(from, opened, now, sink);
        }
        self.room = room;
    }

    /// Takes the cluster keys over that have changed: sessions that are there keep what they agreed on.
    pub(super) fn renew_keys(&mut self) {
        if let Some(ring) = self.keys.as_mut().and_then(|source| source.changed()) {
            self.calls.sessions_mut().exchange_keys(ring);
        }
    }
}
