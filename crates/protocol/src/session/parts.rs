//! Packets that travel in parts, because their path does not carry them whole ([`super::path_mtu`]).
//!
//! A packet of which a part is lost is lost, and its message asks for it as always. Nobody is answered
//! because of a part, and packets that are not whole yet take a bounded amount of memory, of all sessions
//! together.

use std::collections::VecDeque;

use crate::wire::{Header, Malformed, PART_HEADER_BYTES, PARTS_MAX, Part, WireSession, malformed};
use farcall_base::Instant;

use super::slot::State;
use super::{Outgoing, PeerAddress, Sessions};

/// The most packets that wait for parts; beyond, the oldest makes room. Parts of one packet follow each
/// other, so that one or two wait for each peer that sends some.
const WAITING_MAX: usize = 64;

/// The most of one session: a peer that begins packets and does not end them displaces its own.
const WAITING_PER_SESSION_MAX: usize = 8;

/// A packet of which parts are missing.
#[derive(Debug)]
struct Waiting {
    session: WireSession,
    number: u64,
    count: u16,
    /// One bit a part that is here.
    here: u128,
    bytes: Vec<u8>,
}

impl Waiting {
    fn new(session: WireSession, part: &Part<'_>) -> Self {
        let bytes = vec![0; part.total as usize];
        Self { session, number: part.number, count: part.count, here: 0, bytes }
    }

    /// Whether a part is of this packet, or says so.
    fn is_of(&self, session: WireSession, part: &Part<'_>) -> bool {
        self.session == session && self.number == part.number
    }

    /// Puts a part where it belongs. False when it cannot be of this packet.
    fn add(&mut self, part: &Part<'_>) -> bool {
        if self.count != part.count || self.bytes.len() != part.total as usize {
            return false;
        }
        self.here |= 1 << part.index;
        self.bytes[part.offset()..][..part.bytes.len()].copy_from_slice(part.bytes);
        true
    }

    fn is_whole(&self) -> bool {
        self.here.count_ones() == u32::from(self.count)
    }
}

impl Sessions {
    /// Sends a packet, made of two pieces, in parts. False when it would be too many.
    pub(super) fn send_in_parts(&mut self, index: u16, packet: [&[u8]; 2], limit: u32) -> bool {
        let slot = &self.slots[usize::from(index)];
        let (to, remote) = (slot.link.to, slot.link.remote);
        let total: usize = packet.iter().map(|piece| piece.len()).sum();
        let count = total.div_ceil(limit as usize - PART_HEADER_BYTES);
        if count > usize::from(PARTS_MAX) {
            return false;
        }
        let packet = packet.concat();
        self.parts_numbered += 1;
        let number = self.parts_numbered;
        for (part, index) in packet.chunks(total.div_ceil(count)).zip(0..) {
            self.counters.parts_sent += 1;
            let (total, count) = (total as u32, count as u16);
            let bytes = part.to_vec();
            self.push_outgoing(to, Outgoing::Part { remote, number, total, count, index, bytes });
        }
        true
    }

    /// Takes in a part. The packet that it makes whole is returned.
    pub(crate) fn join(
        &mut self,
        from: PeerAddress,
        header: &Header,
        packet: &[u8],
        now: Instant,
    ) -> Option<Vec<u8>> {
        let Some(index) = self.index_of(header.session) else {
            return self.unknown(from, header, packet, now).and(None);
        };
        if !self.is_from_peer(index, from) {
            self.note_elsewhere(index, from, header, now);
            return None;
        }
        let part = match Part::parse(header, packet) {
            Ok(part) if part.total <= self.full_length(index) => part,
            Ok(_) | Err(Malformed { .. }) => {
                self.counters.malformed += 1;
                return None;
            }
        };
        if self.slots[usize::from(index)].state != State::Up {
            return None;
        }
        self.counters.parts_received += 1;
        let joined = self.waiting_for_parts.add(header.session, &part);
        joined.unwrap_or_else(|Malformed { .. }| {
            self.counters.malformed += 1;
            None
        })
    }
}

/// Packets that wait for parts, the oldest first.
#[derive(Debug, Default)]
pub(super) struct WaitingForParts(VecDeque<Waiting>);

impl WaitingForParts {
    /// Adds a part of a session's packet; the packet, if that makes it whole.
    fn add(&mut self, session: WireSession, part: &Part<'_>) -> Result<Option<Vec<u8>>, Malformed> {
        let place = self.0.iter().position(|waiting| waiting.is_of(session, part));
        let place = place.unwrap_or_else(|| {
            self.make_room(session);
            self.0.push_back(Waiting::new(session, part));
            self.0.len() - 1
        });
        let waiting = &mut self.0[place];
        if !waiting.add(part) {
            return malformed("a part of another packet");
        }
        if !waiting.is_whole() {
            return Ok(None);
        }
        Ok(self.0.remove(place).map(|whole| whole.bytes))
    }

    /// Makes room for another packet of a session.
    fn make_room(&mut self, session: WireSession) {
        let mut own = self.0.iter().enumerate().filter(|(_, waiting)| waiting.session == session);
        let oldest = own.next().map(|(place, _)| place);
        if let Some(oldest) = oldest.filter(|_| own.count() + 1 >= WAITING_PER_SESSION_MAX) {
            self.0.remove(oldest);
        } else if self.0.len() == WAITING_MAX {
            self.0.pop_front();
        }
    }
}

const _: () = assert!(PARTS_MAX as u32 <= u128::BITS);

#[cfg(test)]
mod tests {
    use super::*;

    /// One of the two parts of a packet of two bytes.
    fn part(number: u64, index: u16) -> Part<'static> {
        Part { number, total: 2, count: 2, index, bytes: &[7] }
    }

    #[test]
    fn a_peer_that_ends_no_packet_displaces_its_own() {
        let (honest, hostile) = (WireSession(1), WireSession(2));
        let mut waiting = WaitingForParts::default();
        assert_eq!(waiting.add(honest, &part(1, 0)), Ok(None));
        for number in 0..1000 {
            assert_eq!(waiting.add(hostile, &part(number, 0)), Ok(None));
        }
        assert_eq!(waiting.0.len(), 1 + WAITING_PER_SESSION_MAX);
        assert_eq!(waiting.add(honest, &part(1, 1)), Ok(Some(vec![7, 7])));
    }

    #[test]
    fn packets_of_all_sessions_together_are_bounded() {
        let mut waiting = WaitingForParts::default();
        for session in 0..1000 {
            assert_eq!(waiting.add(WireSession(session), &part(1, 0)), Ok(None));
        }
        assert_eq!(waiting.0.len(), WAITING_MAX);
        assert_eq!(waiting.add(WireSession(999), &part(1, 1)), Ok(Some(vec![7, 7])));
        // This one made room.
        assert_eq!(waiting.add(WireSession(0), &part(1, 1)), Ok(None));
    }
}
