//! Hostile packets against sessions with keys, as a pure function of some bytes.
//!
//! Once the two sides have a cluster key alone, and once they prove who they are beside. The attacker sees
//! every packet and has no key; in the second case it has that of the cluster, and is not known. It sends
//! packets of its own, and those that it saw, altered, cut short, and again. None may end the session of the
//! two honest sides, none may pass as one of theirs, and an address that proves nothing is never sent more
//! than came from it.

use core::time::Duration;
use std::sync::Arc;

use farcall_base::{ClusterKey, Entropy, Identity, Instant, Principal, PrivateKey};

use crate::keys::{CODE_BYTES, Identities, Keyring, KnownPeer, public_half};
use crate::wire::{Flags, Head, Header, Protocol, WireSession, checksum_of, put_whole};

use super::{PeerAddress, SessionConfig, SessionEvent, SessionId, Sessions};

/// The most commands of one input; what follows is ignored.
const COMMANDS_MAX: usize = 256;

/// The most packets that the attacker remembers.
const SEEN_MAX: usize = 64;

/// An address that never proves that anybody reads what is sent there.
const STRANGER: u32 = 7;

struct Arena {
    has_identity: bool,
    sides: [Sessions; 2],
    /// The session as the opener numbers it.
    id: SessionId,
    /// What the attacker saw, and whether it was let through.
    seen: Vec<(usize, Vec<u8>)>,
    now: Instant,
    from_stranger: usize,
    to_stranger: usize,
}

fn private(number: u64) -> PrivateKey {
    PrivateKey::new([20 + number as u8; 32])
}

fn ring(number: u64, has_identity: bool) -> Keyring {
    let ring = Keyring::new(vec![ClusterKey::new([9; 32])]).expect("it is one key");
    if !has_identity {
        return ring;
    }
    let known = |other| KnownPeer { name: format!("{other}").into(), key: public_half(&private(other)) };
    let identities = Identities::new(private(number), [0, 1].map(known).into());
    ring.identified_by(Arc::new(identities.expect("they are keys")))
}

fn side(number: u64, has_identity: bool) -> Sessions {
    let identity = Identity { incarnation: number + 1, rank: number as u32, endpoint: 0 };
    let entropy = Entropy::repeatable(number);
    let made = Sessions::new(SessionConfig::default(), Protocol::Basic, identity, entropy);
    let mut sessions = made.expect("the default configuration is valid");
    sessions.set_keys(ring(number, has_identity), Entropy::repeatable(100 + number));
    sessions
}

impl Arena {
    fn new(has_identity: bool) -> Self {
        let now = Instant::from_nanos(1);
        let mut sides = [0, 1].map(|number| side(number, has_identity));
        let id = sides[0].connect(PeerAddress(1), now).expect("there is room");
        let mut arena =
            Self { has_identity, sides, id, seen: Vec::new(), now, from_stranger: 0, to_stranger: 0 };
        arena.settle();
        assert!(arena.sides[0].link(id).is_some(), "the honest sides meet");
        let principal = arena.sides[0].principal_of(id);
        assert_eq!(matches!(principal, Principal::Identity(_)), has_identity);
        arena
    }

    /// Lets the honest sides exchange what they have to say.
    fn settle(&mut self) {
        while self.sides.iter().any(Sessions::wants_transmit) {
            (0..2).for_each(|from| self.pass(from));
        }
    }

    fn pass(&mut self, from: usize) {
        let mut head = Head::new();
        while let Some(to) = self.sides[from].poll_transmit(&mut head) {
            let packet = head.as_bytes().to_vec();
            if to == PeerAddress(STRANGER) {
                self.to_stranger += packet.len();
                self.see(from, packet);
                continue;
            }
            self.see(from, packet.clone());
            self.deliver(1 - from, from as u32, &packet);
        }
    }

    fn see(&mut self, from: usize, packet: Vec<u8>) {
        if self.seen.len() < SEEN_MAX {
            self.seen.push((from, packet));
        }
    }

    /// Whether a packet was taken as one of the session's.
    fn deliver(&mut self, to: usize, from: u32, packet: &[u8]) -> bool {
        let (mut room, side) = (Vec::new(), &mut self.sides[to]);
        let Some(opened) = side.open(PeerAddress(from), packet, &mut room, self.now) else { return false };
        let Ok(header) = Header::parse(opened.bytes()) else { return false };
        if header.opcode.is_of_session() {
            side.handle(PeerAddress(from), || None, &header, opened.bytes(), self.now);
            return false;
        }
        side.admit(PeerAddress(from), &header, opened.bytes(), self.now).is_some()
    }

    /// One side sends a message, which the attacker sees and keeps from the other.
    fn send(&mut self, from: usize, payload: &[u8]) {
        let index = if from == 0 { self.id.index() as u16 } else { self.index_of_acceptor() };
        let remote = self.sides[from].slots[usize::from(index)].link.remote;
        let (mut head, mut sealed) = (Head::new(), Vec::new());
        put_whole(&mut head, Flags::FROM_CALLER, remote, crate::wire::CallKey::new(0, 1), 1);
        assert!(self.sides[from].seal(index, [head.as_bytes(), payload], &mut sealed));
        self.see(from, sealed);
    }

    fn index_of_acceptor(&self) -> u16 {
        let remote = self.sides[0].link(self.id).map_or(WireSession::NONE, |link| link.remote);
        remote.index()
    }

    /// A packet of the attacker's: it claims to be from where an honest side is, or not.
    fn attack(&mut self, to: usize, claims: bool, packet: &[u8]) {
        let is_of_side = |seen: &(usize, Vec<u8>)| seen.0 != to && seen.1 == packet;
        let is_seen = self.seen.iter().any(is_of_side);
        let from = if claims { 1 - to as u32 } else { STRANGER };
        if !claims {
            self.from_stranger += packet.len();
        }
        let taken = self.deliver(to, from, packet);
        assert!(!taken || is_seen, "a forged packet was taken");
    }

    fn check(&mut self) {
        self.settle();
        assert!(self.to_stranger <= self.from_stranger, "a stranger was sent more than came from it");
        for side in &mut self.sides {
            while let Some(event) = side.poll_event() {
                assert!(!matches!(event, SessionEvent::Down { .. }), "a forged packet ended a session");
            }
        }
        assert!(self.sides[0].link(self.id).is_some());
    }
}

/// The packet with the code of a member of the cluster at its end.
fn with_code(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if let Some((said, code)) = packet.split_last_chunk_mut::<CODE_BYTES>()
        && let Some(covered) = said.get(4..)
    {
        *code = ring(0, false).own().code(covered);
    }
    with_checksum(&packet)
}

/// The packet with its checksum put right.
fn with_checksum(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if let Some((sum, covered)) = packet.split_first_chunk_mut() {
        *sum = checksum_of(covered).to_le_bytes();
    }
    packet
}

/// Reads `bytes` as what an attacker does to a session with keys.
pub(crate) fn fuzz_keyed(bytes: &[u8]) {
    for has_identity in [false, true] {
        attack(Arena::new(has_identity), bytes);
    }
}

fn attack(mut arena: Arena, bytes: &[u8]) {
    let finish = if arena.has_identity { with_code } else { with_checksum };
    let mut rest = bytes;
    for _ in 0..COMMANDS_MAX {
        let Some((&[command, which, length], tail)) = rest.split_first_chunk::<3>() else { break };
        let (body, tail) = tail.split_at(tail.len().min(usize::from(length)));
        rest = tail;
        let (to, claims) = (usize::from(command >> 7), command & 64 == 0);
        let seen = arena.seen.get(usize::from(which) % arena.seen.len().max(1)).cloned();
        let (_, mut packet) = seen.unwrap_or_default();
        match command % 8 {
            0 => arena.now += Duration::from_micros(u64::from(length)),
            1 => arena.send(to, body),
            2 => arena.attack(to, claims, body),
            3 => arena.attack(to, claims, &finish(body)),
            4 => arena.attack(to, claims, &packet),
            5 => arena.attack(to, claims, &packet[..packet.len().min(usize::from(length))]),
            _ => {
                for (place, byte) in body.chunks_exact(2).map(|pair| (usize::from(pair[0]), pair[1])) {
                    let length = packet.len().max(1);
                    packet.get_mut(place % length).into_iter().for_each(|at| *at ^= byte);
                }
                let packet = if command % 8 == 6 { packet } else { finish(&packet) };
                arena.attack(to, claims, &packet);
            }
        }
        arena.check();
    }
    let number = arena.index_of_acceptor();
    arena.sides[1].ping(number, arena.now);
    arena.check();
}

#[cfg(test)]
mod tests {
    use farcall_base::Random;

    use super::*;

    #[test]
    fn nothing_that_an_attacker_without_a_key_does_ends_a_session_or_passes_as_a_packet_of_it() {
        // Agreements on keys take their time where nothing is optimised.
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let bytes: Vec<u8> =
                (0..2000).map(|_| (random.bits() >> 9) as u8 & random.bits() as u8).collect();
            attack(Arena::new(false), &bytes);
            if seed % 4 == 0 {
                attack(Arena::new(true), &bytes);
            }
        }
    }
}
