//! The bytes of requests and answers: noise, of which each message is a part of its own.
//!
//! A byte that is lost, doubled, moved or of another message shows when the whole is compared.

use std::sync::OnceLock;

use crate::draw::Draw;

/// The longest message of any scenario.
pub const MESSAGE_BYTES_MAX: usize = 300 * 1024 + 1;

/// Places at which messages can begin.
const BEGINNINGS: usize = 1 << 18;

/// Which of the two messages of a call, or a tagged message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Request,
    Answer,
    Message,
}

/// The bytes of one message of the call of that number.
pub fn bytes(call: usize, role: Role, length: usize) -> &'static [u8] {
    let beginning = (3 * call + role as usize).wrapping_mul(40_503) % BEGINNINGS;
    &noise()[beginning..beginning + length]
}

/// How received bytes differ from those that were sent; `None` when they do not.
pub fn difference(call: usize, role: Role, length: usize, received: &[u8]) -> Option<String> {
    let sent = bytes(call, role, length);
    if sent == received {
        return None;
    }
    if sent.len() != received.len() {
        return Some(format!("{} bytes arrived as {}", sent.len(), received.len()));
    }
    let wrong = sent.iter().zip(received).filter(|(sent, received)| sent != received).count();
    let first = sent.iter().zip(received).position(|(sent, received)| sent != received).unwrap_or_default();
    Some(format!("{wrong} of {length} bytes are wrong, the first of them byte {first}"))
}

fn noise() -> &'static [u8] {
    static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
    NOISE.get_or_init(|| {
        let mut draw = Draw::new(0, "noise");
        (0..BEGINNINGS + MESSAGE_BYTES_MAX).map(|_| draw.between(0, 255) as u8).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_damage_shows() {
        let good = bytes(7, Role::Request, 1000).to_vec();
        assert_eq!(difference(7, Role::Request, 1000, &good), None);
        assert_ne!(bytes(7, Role::Answer, 1000), good);
        assert_ne!(bytes(8, Role::Request, 1000), good);
        let mut flipped = good.clone();
        flipped[500] ^= 1;
        let found = difference(7, Role::Request, 1000, &flipped).expect("a bit is wrong");
        assert!(found.contains("1 of 1000") && found.contains("byte 500"), "{found}");
        let found = difference(7, Role::Request, 1000, &good[..999]).expect("a byte is missing");
        assert!(found.contains("arrived as 999"), "{found}");
    }
}
