//! Stamped words: one store that says both that something is there and what.
//!
//! A stamp is a word with the number of a packet and sixteen bits about it. A packet's flag is the stamp of its number
//! and length; a post is the stamp of a packet's number and the slot in which it is to be written. Whoever waits for a
//! number recognises its stamp among those of all earlier numbers, so that words need never be cleared.
//!
//! The words are reached through [`Words`], so that the same algorithm runs in shared memory and in a model checker.

use core::sync::atomic::Ordering;

use crate::flags::{BadFlag, Words};

/// Bits of a stamp that say something about the packet.
const VALUE_BITS: u32 = 16;

/// Stamps the word at `at` for packet `sequence`. Everything written before is visible to whoever reads the stamp.
#[inline]
pub fn stamp(words: &impl Words, at: usize, sequence: u64, value: u16) {
    words.store(at, stamp_of(sequence) | u64::from(value), Ordering::Release);
}

/// What the stamp for packet `sequence` at `at` says; `None` while it is that of an earlier packet, an error when it is
/// that of a later one, which no correct peer writes.
#[inline]
pub fn stamped(words: &impl Words, at: usize, sequence: u64) -> Result<Option<u16>, BadFlag> {
    let word = words.load(at, Ordering::Acquire);
    let value = word as u16;
    // The numbers are in the upper bits, so that their difference has the sign of the words' difference, also when
    // they have wrapped around.
    match ((word ^ u64::from(value)).wrapping_sub(stamp_of(sequence)) as i64).cmp(&0) {
        core::cmp::Ordering::Equal => Ok(Some(value)),
        core::cmp::Ordering::Less => Ok(None),
        core::cmp::Ordering::Greater => Err(BadFlag),
    }
}

/// Fresh memory is zero, so the first packet's number is one there.
#[inline]
fn stamp_of(sequence: u64) -> u64 {
    sequence.wrapping_add(1) << VALUE_BITS
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct One(Cell<u64>);

    impl Words for One {
        fn load(&self, _: usize, _: Ordering) -> u64 {
            self.0.get()
        }
        fn store(&self, _: usize, value: u64, _: Ordering) {
            self.0.set(value);
        }
    }

    #[test]
    fn a_stamp_is_read_by_its_own_number_only() {
        let word = One(Cell::new(0));
        assert_eq!(stamped(&word, 0, 0), Ok(None), "fresh memory");
        for (sequence, value) in [(0, 0), (1, u16::MAX), (9, 7), (1 << 20, 1)] {
            stamp(&word, 0, sequence, value);
            assert_eq!(stamped(&word, 0, sequence), Ok(Some(value)));
            assert_eq!(stamped(&word, 0, sequence + 1), Ok(None), "an earlier packet's");
            assert_eq!(stamped(&word, 0, sequence + (1 << 30)), Ok(None), "a much earlier packet's");
        }
        assert_eq!(stamped(&word, 0, 1), Err(BadFlag), "a later packet's");
    }

    #[test]
    fn numbers_wrap_around() {
        let word = One(Cell::new(0));
        let last = (1 << 48) - 2;
        stamp(&word, 0, last, 3);
        assert_eq!((stamped(&word, 0, last), stamped(&word, 0, last + 1)), (Ok(Some(3)), Ok(None)));
        stamp(&word, 0, last + 1, 4);
        assert_eq!((stamped(&word, 0, last + 1), stamped(&word, 0, last + 2)), (Ok(Some(4)), Ok(None)));
    }
}
