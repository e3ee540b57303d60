//! Packets that travel in parts, because their path does not carry them whole ([`super::path_mtu`]).
//!
//! A packet of which a part is lost is lost, and its message asks for it as always. Nobody is answered
//! because of a part, and packets that are not whole yet take a bounded amount of memory, of all sessions
//! together.

use std::collections::VecDeque;

use crate::wire::{Header, Malformed, PART_HEADER_BYTES, PARTS_MAX, Part, WireSession};
use farcall_base::Instant;

use super::slot::State;
use super::{Outgoing, PeerAddress, Sessions};

/// The most packets that wait for parts; beyond, the oldest makes room. Parts of one packet follow each
/// other, so that one or two wait for each peer that sends some.
const WAITING_MAX: usize = 64;

/// A packet of which parts are missing.
#[derive(Debug)]
pub(super) struct Waiting {
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
        self.add_part(header.session, &part)
    }

    fn add_part(&mut self, session: WireSession, part: &Part<'_>) -> Option<Vec<u8>> {
        let place = self.waiting_for_parts.iter().position(|waiting| waiting.is_of(session, part));
        let place = place.unwrap_or_else(|| {
            if self.waiting_for_parts.len() == WAITING_MAX {
                self.waiting_for_parts.pop_front();
            }
            self.waiting_for_parts.push_back(Waiting::new(session, part));
            self.waiting_for_parts.len() - 1
        });
        let waiting = &mut self.waiting_for_parts[place];
        if !waiting.add(part) {
            self.counters.malformed += 1;
            return None;
        }
        if !waiting.is_whole() {
            return None;
        }
        self.waiting_for_parts.remove(place).map(|whole| whole.bytes)
    }
}

/// Packets that wait for parts.
pub(super) type WaitingForParts = VecDeque<Waiting>;

const _: () = assert!(PARTS_MAX as u32 <= u128::BITS);
