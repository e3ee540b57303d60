//! Hashes under a key (SipHash, Aumasson and Bernstein 2012), of a few words each.
//!
//! Without the key nobody can say which inputs have one hash, or what the hash of an input is. Two
//! compression and four finalization rounds make a code that authenticates; one and three make the hash of
//! a table that strangers fill: of a word, or of bytes behind a word that is absorbed beforehand, once for
//! all of its byte strings ([`SipPrefix`]).

use core::fmt;

/// A secret key of 128 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SipKey(pub [u64; 2]);

/// Shows nothing of the key.
impl fmt::Debug for SipKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SipKey")
    }
}

impl SipKey {
    /// SipHash-2-4 of the words, as little-endian bytes: proves that who made it has the key.
    pub fn authenticate(&self, words: &[u64]) -> u64 {
        self.hash_words::<2, 4>(words)
    }

    /// SipHash-1-3 of a word: for places in tables.
    #[inline]
    pub fn hash(&self, word: u64) -> u64 {
        self.hash_words::<1, 3>(&[word])
    }

    /// What the hashes of byte strings behind this word have in common.
    #[inline]
    pub fn prefix(&self, word: u64) -> SipPrefix {
        let mut state = self.initial();
        absorb(&mut state, word);
        SipPrefix(state)
    }

    #[inline]
    fn initial(&self) -> [u64; 4] {
        let [k0, k1] = self.0;
        [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ]
    }

    #[inline]
    fn hash_words<const COMPRESSION: usize, const FINALIZATION: usize>(&self, words: &[u64]) -> u64 {
        let mut state = self.initial();
        let length = (8 * words.len() as u64) << 56;
        for word in words.iter().copied().chain([length]) {
            state[3] ^= word;
            (0..COMPRESSION).for_each(|_| round(&mut state));
            state[0] ^= word;
        }
        state[2] ^= 0xff;
        (0..FINALIZATION).for_each(|_| round(&mut state));
        state[0] ^ state[1] ^ state[2] ^ state[3]
    }
}

/// The state of a hash that has absorbed its first word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SipPrefix([u64; 4]);

/// Shows nothing of the state.
impl fmt::Debug for SipPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SipPrefix")
    }
}

impl SipPrefix {
    /// SipHash-1-3 of the prefix's word, as little-endian bytes, and these bytes behind it.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut state = self.0;
        let (words, tail) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| absorb(&mut state, u64::from_le_bytes(*word)));
        let length = (size_of::<u64>() + bytes.len()) as u64;
        absorb(&mut state, length << 56 | tail_word(tail));
        state[2] ^= 0xff;
        (0..3).for_each(|_| round(&mut state));
        state[0] ^ state[1] ^ state[2] ^ state[3]
    }
}

/// Up to seven bytes as a little-endian number, read by few loads, which overlap.
#[inline]
fn tail_word(tail: &[u8]) -> u64 {
    let byte = |at: usize| u64::from(tail[at]);
    let half =
        |at: usize| u64::from(u32::from_le_bytes([tail[at], tail[at + 1], tail[at + 2], tail[at + 3]]));
    match tail.len() {
        0 => 0,
        length @ 1..=3 => {
            byte(0) | byte(length / 2) << (8 * (length / 2)) | byte(length - 1) << (8 * (length - 1))
        }
        length => half(0) | half(length - 4) << (8 * (length - 4)),
    }
}

#[inline]
fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

#[inline(always)]
fn round(state: &mut [u64; 4]) {
    let [v0, v1, v2, v3] = state;
    *v0 = v0.wrapping_add(*v1);
    *v2 = v2.wrapping_add(*v3);
    *v1 = v1.rotate_left(13) ^ *v0;
    *v3 = v3.rotate_left(16) ^ *v2;
    *v0 = v0.rotate_left(32);
    *v2 = v2.wrapping_add(*v1);
    *v0 = v0.wrapping_add(*v3);
    *v1 = v1.rotate_left(17) ^ *v2;
    *v3 = v3.rotate_left(21) ^ *v0;
    *v2 = v2.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{DefaultHasher, Hasher};

    #[test]
    fn hashes_are_those_of_the_published_algorithm() {
        let key = SipKey([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        // The reference's vectors of no byte and of the bytes 0 to 7.
        assert_eq!(key.authenticate(&[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(key.authenticate(&[0x0706_0504_0302_0100]), 0x93f5_f579_9a93_2462);
    }

    #[test]
    fn the_hash_of_a_table_is_that_of_the_standard_library() {
        for word in [0, 1, 0x1234_5678_9abc_def0, u64::MAX] {
            let mut reference = DefaultHasher::new();
            reference.write(&word.to_le_bytes());
            assert_eq!(SipKey([0, 0]).hash(word), reference.finish());
        }
    }

    #[test]
    fn bytes_behind_a_word_are_hashed_like_one_string() {
        let bytes: Vec<u8> = (0..300_u32).map(|number| (number * 7) as u8).collect();
        for (word, length) in
            (0..bytes.len()).map(|length| ((length as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15), length))
        {
            let mut reference = DefaultHasher::new();
            reference.write(&word.to_le_bytes());
            reference.write(&bytes[..length]);
            let hash = SipKey([0, 0]).prefix(word).hash(&bytes[..length]);
            assert_eq!(hash, reference.finish(), "{length} bytes");
        }
    }
}
