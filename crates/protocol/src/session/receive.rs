//! What packets do to sessions.

use crate::wire::{Flags, Header, SessionPacket, WireSession, checksum_matches};
use farcall_base::Instant;

use super::{EndReason, PeerAddress, Sessions, State};

impl Sessions {
    /// Finds the session that a packet of a message belongs to, and takes the packet as a sign of life.
    ///
    /// `None` when the packet is to be dropped: it was altered, or its session is over.
    #[inline(always)]
    pub fn admit(
        &mut self,
        from: PeerAddress,
        header: &Header,
        packet: &[u8],
        now: Instant,
    ) -> Option<usize> {
        let index = usize::from(header.session.index());
        let known = match self.slots.get_mut(index) {
            Some(slot) if slot.local == header.session => slot,
            _ => return self.unknown(from, header, packet, now),
        };
        // Without the flag there is no checksum: only right where both sides agreed to have none.
        if header.flags.has(Flags::CHECKSUM) {
            if !checksum_matches(packet) {
                self.counters.checksum_errors += 1;
                return None;
            }
        } else if known.link.agreed.checksum {
            self.counters.malformed += 1;
            return None;
        }
        match known.state {
            State::Up => known.heard_at = now,
            State::HalfOpen(_) => self.confirm(index as u16, now),
            // Our number, but nobody can have learnt it as that of a working session yet.
            State::Opening(_) | State::Vacant => return None,
        }
        Some(index)
    }

    /// Handles a packet whose opcode is one of a session.
    pub fn handle(&mut self, from: PeerAddress, header: &Header, packet: &[u8], now: Instant) {
        if !checksum_matches(packet) {
            self.counters.checksum_errors += 1;
            return;
        }
        let parsed = match SessionPacket::parse(header, packet) {
            Ok(parsed) => parsed,
            Err(_) => {
                self.counters.malformed += 1;
                return;
            }
        };
        match parsed {
            SessionPacket::Open(open) => self.on_open(from, &open, now),
            SessionPacket::OpenOfVersion { reply_session, .. } => self.refuse_version(from, reply_session),
            SessionPacket::Accept(accept) => self.on_accept(from, header, &accept, now),
            SessionPacket::Refuse(reason) => self.on_refuse(header.session, reason),
            SessionPacket::Close { incarnation } => self.on_close(header.session, incarnation),
            SessionPacket::Reset { incarnation } => self.on_reset(header.session, incarnation),
            SessionPacket::Ping { .. } => self.on_ping(from, header, packet, now),
            SessionPacket::Pong { sent_at_nanos } => {
                if let Some(index) = self.admit(from, header, packet, now) {
                    self.measure(index, sent_at_nanos, now);
                }
            }
        }
    }

    /// Counts a packet of a session that is not known, and tells its sender so, as often as the budget
    /// allows.
    #[cold]
    pub(super) fn unknown(
        &mut self,
        from: PeerAddress,
        header: &Header,
        packet: &[u8],
        now: Instant,
    ) -> Option<usize> {
        if header.flags.has(Flags::CHECKSUM) && !checksum_matches(packet) {
            self.counters.checksum_errors += 1;
            return None;
        }
        self.answer_unknown(from, header.session, now);
        None
    }

    pub(super) fn answer_unknown(&mut self, from: PeerAddress, session: WireSession, now: Instant) {
        self.counters.unknown_sessions += 1;
        if session != WireSession::NONE && self.resets.take(now) {
            self.counters.resets_sent += 1;
            self.queue(from, session, SessionPacket::Reset { incarnation: self.identity.incarnation });
        }
    }

    fn on_ping(&mut self, from: PeerAddress, header: &Header, packet: &[u8], now: Instant) {
        if let Some(index) = self.admit(from, header, packet, now) {
            let link = self.slots[index].link;
            let sent_at_nanos = header.call.to_wire();
            self.queue(link.to, link.remote, SessionPacket::Pong { sent_at_nanos });
        }
    }

    fn on_close(&mut self, session: WireSession, incarnation: u64) {
        let Some(index) = self.index_of(session) else {
            self.counters.unknown_sessions += 1;
            return;
        };
        if self.slots[usize::from(index)].link.peer.incarnation == incarnation {
            self.end(index, EndReason::Closed);
        }
    }

    /// The peer does not know the session that it once numbered `session`. The same life of it must have
    /// closed it.
    fn on_reset(&mut self, session: WireSession, incarnation: u64) {
        let of_it = |slot: &super::Slot| slot.link.remote == session && session != WireSession::NONE;
        let Some(index) = self.slots.iter().position(of_it) else {
            self.counters.unknown_sessions += 1;
            return;
        };
        let same_life = self.slots[index].link.peer.incarnation == incarnation;
        self.end(index as u16, if same_life { EndReason::Closed } else { EndReason::Restarted });
    }

    /// Where the session that packets to this side name `session` is kept.
    pub(super) fn index_of(&self, session: WireSession) -> Option<u16> {
        let slot = self.slots.get(usize::from(session.index()))?;
        (slot.local == session && session != WireSession::NONE).then_some(session.index())
    }
}
