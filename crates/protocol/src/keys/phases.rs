//! The keys of one session, one after the other, and what is done with them.
//!
//! A packet's number says which key it is sealed with: the first 2²² packets of a direction have the first
//! key, and so on. A key and the secret of the next are derived from one secret, which is wiped then, so that
//! who finds the present secret can read nothing that was sent before the last change. The receiver has the
//! key before, the present and the next one: packets are reordered, and none that is forged makes it derive
//! another.

use std::sync::Arc;

use farcall_base::{KeyName, Principal};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use super::TAG_BYTES;
use super::cluster::{KeyId, Secret, derive};
use super::stream::{StreamOpening, StreamSealing};
use super::window::Window;
use crate::wire::HEADER_BYTES;

/// Packets for each key. AES-GCM is safe for twice as many of the longest packets (RFC 9001, 6.6: 2²³).
pub(super) const PHASE_PACKETS: u64 = 1 << 22;

/// The lower half of a packet's number.
const NUMBER_BYTES: usize = 4;

/// The keys of one phase and direction.
struct Phase {
    key: LessSafeKey,
    iv: Zeroizing<[u8; NONCE_LEN]>,
}

impl Phase {
    /// The keys that a secret gives, and the secret of the phase behind.
    fn derive(secret: &Secret) -> (Self, Secret) {
        let key = derive::<16>(secret, b"farcall packet key");
        let key = UnboundKey::new(&AES_128_GCM, &*key).expect("the key has the cipher's length");
        let iv = derive(secret, b"farcall packet iv");
        (Self { key: LessSafeKey::new(key), iv }, derive(secret, b"farcall next"))
    }

    /// Each number is used once with a key, and so each nonce (RFC 9001, 5.3).
    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = *self.iv;
        for (byte, of_number) in nonce[NONCE_LEN - 8..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= of_number;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Seals the packets of one direction.
pub(super) struct Sealing {
    present: Phase,
    next: Secret,
    /// Of the next packet.
    number: u64,
    /// The first number of the phase behind.
    ends_at: u64,
    phase_packets: u64,
}

impl Sealing {
    fn new(secret: &Secret, phase_packets: u64) -> Self {
        let (present, next) = Phase::derive(secret);
        Self { present, next, number: 0, ends_at: phase_packets, phase_packets }
    }

    /// Seals a packet in place: a header, whose first four bytes are written here, and a body.
    #[inline]
    pub(super) fn seal(&mut self, packet: &mut Vec<u8>) {
        if self.number == self.ends_at {
            self.change();
        }
        packet[..NUMBER_BYTES].copy_from_slice(&(self.number as u32).to_le_bytes());
        let nonce = self.present.nonce(self.number);
        self.number += 1;
        let (header, body) = packet.split_at_mut(HEADER_BYTES);
        let tag = self.present.key.seal_in_place_separate_tag(nonce, Aad::from(&*header), body);
        packet.extend_from_slice(tag.expect("no packet is too long for the cipher").as_ref());
    }

    fn change(&mut self) {
        (self.present, self.next) = Phase::derive(&self.next);
        self.ends_at += self.phase_packets;
    }
}

/// Why a packet was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsealed {
    /// It was not sealed by the peer, or was altered.
    Forged,
    /// It came before, or is so late that nobody can tell.
    Replayed,
}

/// Opens those of the other one.
pub(super) struct Opening {
    before: Option<Phase>,
    present: Phase,
    next: Phase,
    /// Of the phase behind the next.
    behind: Secret,
    /// Which phase is the present one, from 0.
    phase: u64,
    window: Window,
    phase_packets: u64,
}

impl Opening {
    fn new(secret: &Secret, phase_packets: u64) -> Self {
        let (present, secret) = Phase::derive(secret);
        let (next, behind) = Phase::derive(&secret);
        Self { before: None, present, next, behind, phase: 0, window: Window::default(), phase_packets }
    }

    /// Opens a packet in place. It is as it was sealed, tag and number apart, when this succeeds, and of no
    /// use otherwise.
    #[inline]
    pub(super) fn open(&mut self, packet: &mut Vec<u8>) -> Result<(), Unsealed> {
        let Some(end) = packet.len().checked_sub(TAG_BYTES).filter(|end| *end >= HEADER_BYTES) else {
            return Err(Unsealed::Forged);
        };
        let Some(low) = packet.first_chunk::<NUMBER_BYTES>() else { return Err(Unsealed::Forged) };
        let number = full_number(u32::from_le_bytes(*low), self.window.next());
        if !self.window.is_new(number) {
            return Err(Unsealed::Replayed);
        }
        let phase = number / self.phase_packets;
        let keys = match phase.wrapping_sub(self.phase) {
            0 => Some(&self.present),
            1 => Some(&self.next),
            u64::MAX => self.before.as_ref(),
            _ => None,
        };
        let Some(keys) = keys else { return Err(Unsealed::Forged) };
        let (header, body) = packet.split_at_mut(HEADER_BYTES);
        let opened = keys.key.open_in_place(keys.nonce(number), Aad::from(&*header), body);
        opened.map_err(|_| Unsealed::Forged)?;
        packet.truncate(end);
        self.window.mark(number);
        if phase > self.phase {
            self.change();
        }
        Ok(())
    }

    /// The number that comes next if nothing is lost.
    pub(super) fn next(&self) -> u64 {
        self.window.next()
    }

    /// A packet of the next phase has come, which becomes the present one.
    fn change(&mut self) {
        let (behind, secret) = Phase::derive(&self.behind);
        let present = core::mem::replace(&mut self.next, behind);
        self.before = Some(core::mem::replace(&mut self.present, present));
        self.behind = secret;
        self.phase += 1;
    }
}

/// The number of which the lower half is `low`, nearest to the one that is expected (RFC 9000, A.3).
fn full_number(low: u32, expected: u64) -> u64 {
    const HALF: u64 = 1 << 31;
    const WHOLE: u64 = 1 << 32;
    let near = expected & !(WHOLE - 1) | u64::from(low);
    if near + HALF <= expected {
        near.saturating_add(WHOLE)
    } else if near > expected + HALF && near >= WHOLE {
        near - WHOLE
    } else {
        near
    }
}

/// What both sides of a session agreed on.
pub(crate) struct SessionKeys {
    cluster: KeyId,
    /// What the peer is called, where it has proved who it is.
    peer: Option<Arc<str>>,
    sealing: Sealing,
    opening: Opening,
}

impl SessionKeys {
    /// From one secret for each direction, which were agreed on by that cluster key.
    pub(super) fn new(cluster: KeyId, sealing: &Secret, opening: &Secret, phase_packets: u64) -> Self {
        Self {
            cluster,
            peer: None,
            sealing: Sealing::new(sealing, phase_packets),
            opening: Opening::new(opening, phase_packets),
        }
    }

    /// The same, with a peer that has proved to be the one that is called so.
    pub(super) fn of_peer(self, peer: Option<Arc<str>>) -> Self {
        Self { peer, ..self }
    }

    /// Who the peer has proved to be: one that is known by name, or one of those that have the cluster key.
    pub(crate) fn principal(&self) -> Principal {
        match &self.peer {
            Some(name) => Principal::Identity(Arc::clone(name)),
            None => Principal::Key(KeyName(self.cluster.0)),
        }
    }

    /// Each direction by itself, for a connection.
    pub(super) fn split(self) -> (StreamSealing, StreamOpening) {
        (StreamSealing(self.sealing), StreamOpening(self.opening))
    }

    /// Seals a packet in place: a header and a body. It is [`TAG_BYTES`] longer then.
    #[inline]
    pub(crate) fn seal(&mut self, packet: &mut Vec<u8>) {
        self.sealing.seal(packet);
    }

    /// Opens a packet of the peer in place.
    #[inline]
    pub(crate) fn open(&mut self, packet: &mut Vec<u8>) -> Result<(), Unsealed> {
        self.opening.open(packet)
    }
}

/// Shows nothing of the keys.
impl core::fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SessionKeys")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_half_of_a_number_is_the_one_that_brings_it_nearest() {
        for expected in [0, 5, 1 << 31, (1 << 32) - 2, 1 << 32, (1 << 32) + 7, 7 << 32, (7 << 32) + 12_345] {
            for distance in [-70_000_i64, -4096, -1, 0, 1, 4096, 1 << 30] {
                let Some(number) = u64::checked_add_signed(expected, distance) else { continue };
                assert_eq!(full_number(number as u32, expected), number, "{number} near {expected}");
            }
        }
    }
}
