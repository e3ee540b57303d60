//! What packets do to sessions.

use crate::keys::TAG_BYTES;
use crate::wire::{
    Flags, Header, IDENTIFIED_VERSION, KEYED_VERSION, Opcode, RefuseReason, SessionPacket, WireSession,
    checksum_matches, life_code,
};
use farcall_base::Instant;
use farcall_base::canary::{self, Rule};

use super::hosts::Host;
use super::slot::State;
use super::{EndReason, PeerAddress, Sessions};

impl Sessions {
    /// Finds the session that a packet of a message belongs to, and takes the packet as a sign of life.
    ///
    /// `None` when the packet is to be dropped: it was altered, its session is over, or is elsewhere.
    #[inline(always)]
    pub fn admit(
        &mut self,
        from: PeerAddress,
        header: &Header,
        packet: &[u8],
        now: Instant,
    ) -> Option<usize> {
        let knows_sources = self.knows_sources();
        let index = usize::from(header.session.index());
        let known = match self.slots.get_mut(index) {
            Some(slot) if slot.local == header.session => slot,
            _ => return self.unknown(from, header, packet, now),
        };
        // Without the flag there is no checksum: only right where both sides agreed to have none.
        if header.flags.has(Flags::CHECKSUM) {
            if !checksum_matches(packet) && !canary::leaves_out(Rule::Checksums) {
                self.counters.checksum_errors += 1;
                return None;
            }
        } else if known.link.agreed.checksum {
            self.counters.malformed += 1;
            return None;
        }
        if knows_sources && known.link.to != from {
            self.note_elsewhere(index as u16, from, header, now);
            return None;
        }
        match known.state {
            State::Up => known.heard_at = now,
            State::HalfOpen { .. } => return self.confirm(index as u16, now).then_some(index),
            // Our number, but nobody can have learnt it as that of a working session yet.
            State::Opening(_) | State::Vacant => return None,
        }
        Some(index)
    }

    /// Handles a packet whose opcode is one of a session. `host` numbers the host that it came from, if that
    /// is known; it is of interest for OPEN only.
    pub fn handle(
        &mut self,
        from: PeerAddress,
        host: impl FnOnce() -> Option<u64>,
        header: &Header,
        packet: &[u8],
        now: Instant,
    ) {
        let host = Host::new(from, if header.opcode == Opcode::Open { host() } else { None });
        if self.has_keys() {
            return self.handle_keyed(from, host, header, packet, now);
        }
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
        self.act(from, host, header, packet, parsed, now);
    }

    /// Does what a packet says that is as its sender made it.
    pub(super) fn act(
        &mut self,
        from: PeerAddress,
        host: Host,
        header: &Header,
        packet: &[u8],
        parsed: SessionPacket,
        now: Instant,
    ) {
        match parsed {
            SessionPacket::Open(open, cookie) => self.on_open(from, host, &open, cookie, None, now),
            SessionPacket::OpenOfVersion { version: KEYED_VERSION | IDENTIFIED_VERSION, reply_session } => {
                self.refuse_in_clear(from, reply_session, RefuseReason::Keyless);
            }
            SessionPacket::OpenOfVersion { reply_session, .. } => self.refuse_version(from, reply_session),
            SessionPacket::Retry(cookie) => self.on_retry(from, header.session, cookie),
            SessionPacket::Accept(accept) => self.on_accept(from, header, &accept, now),
            SessionPacket::Refuse(reason) => self.on_refuse(from, header.session, reason),
            SessionPacket::Close { incarnation } => self.on_close(from, header.session, incarnation),
            SessionPacket::Reset { life_code } => self.on_reset(from, header.session, life_code),
            SessionPacket::Ping { number } => {
                if let Some(index) = self.admit(from, header, packet, now) {
                    let link = self.slots[index].link;
                    self.queue_in(index as u16, link.to, SessionPacket::Pong { number });
                }
            }
            SessionPacket::Pong { number } => {
                if let Some(index) = self.admit(from, header, packet, now) {
                    self.measure(index, number, now);
                }
            }
            SessionPacket::Probe { number } => {
                if let Some(index) = self.admit(from, header, packet, now) {
                    let link = self.slots[index].link;
                    let sealed = if self.has_keys() { TAG_BYTES } else { 0 };
                    let bytes = (packet.len() + sealed) as u32;
                    self.queue_in(index as u16, link.to, SessionPacket::Probed { number, bytes });
                }
            }
            SessionPacket::Probed { number, bytes } => {
                if let Some(index) = self.admit(from, header, packet, now) {
                    self.on_probed(index as u16, number, bytes, now);
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
        if session != WireSession::NONE && self.resets.take(from, session, now) {
            self.counters.resets_sent += 1;
            let life_code = life_code(self.identity.incarnation, session);
            self.queue(from, session, SessionPacket::Reset { life_code });
        }
    }

    fn on_close(&mut self, from: PeerAddress, session: WireSession, incarnation: u64) {
        let Some(index) = self.index_of(session) else {
            self.counters.unknown_sessions += 1;
            return;
        };
        if !self.is_from_peer(index, from) {
            self.counters.from_elsewhere += 1;
        } else if self.slots[usize::from(index)].link.peer.incarnation == incarnation {
            self.end(index, EndReason::Closed);
        }
    }

    /// The peer does not know the session that it once numbered `session`. The same life of it must have
    /// closed it.
    pub(super) fn on_reset(&mut self, from: PeerAddress, session: WireSession, code: u64) {
        let Some(index) = self.with_remote(session).find(|index| self.is_from_peer(*index, from)) else {
            self.counters.unknown_sessions += 1;
            return;
        };
        let life = self.slots[usize::from(index)].link.peer.incarnation;
        let same_life = life_code(life, session) == code;
        self.end(index, if same_life { EndReason::Closed } else { EndReason::Restarted });
    }

    /// Where the session that packets to this side name `session` is kept.
    pub(super) fn index_of(&self, session: WireSession) -> Option<u16> {
        let slot = self.slots.get(usize::from(session.index()))?;
        (slot.local == session && session != WireSession::NONE).then_some(session.index())
    }

    /// Where the sessions are kept that packets to the peer name `session`. Two peers may draw the same
    /// number.
    pub(super) fn with_remote(&self, session: WireSession) -> impl Iterator<Item = u16> {
        self.by_remote.range((session.0, 0)..=(session.0, u16::MAX)).map(|(_, index)| *index)
    }

    /// Whether packets from there can be the session's.
    pub(super) fn is_from_peer(&self, index: u16, from: PeerAddress) -> bool {
        !self.knows_sources() || self.slots[usize::from(index)].link.to == from
    }
}
