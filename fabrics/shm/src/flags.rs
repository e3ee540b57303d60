//! The publication flags of a ring: how a record becomes visible with one store.
//!
//! The first word of each record is its own flag. It is zero until the record is published; the publishing
//! store writes the record's length into it. A reader that finds zero at the place of the next record knows
//! that there is none, so the word at the place of the *next* record must be zero before a record is
//! published. The writer clears it, and the lines up to it, right after the previous record, as far as it can
//! tell by the length of that where it will be: off the critical path, and with the welcome effect that the
//! lines of the next record are already in the writer's cache.
//!
//! The words are reached through [`Words`], so that the same algorithm runs in shared memory and in a model
//! checker.

use core::sync::atomic::Ordering;

use farcall_driver::{RECORD_ALIGN, RUNWAY_BYTES};

use crate::copy::progress::Progress;

/// Marks a flag as one of ours: a record published by a broken peer has hardly the same upper half.
pub const MARK: u64 = 0xfa2c_a11d;

/// The first words of the lines of a ring.
pub trait Words {
    /// Reads the word at a byte offset, which is a multiple of [`RECORD_ALIGN`].
    fn load(&self, offset: usize, order: Ordering) -> u64;
    /// Writes the word at a byte offset, which is a multiple of [`RECORD_ALIGN`].
    fn store(&self, offset: usize, value: u64, order: Ordering);
}

/// How long the runway is at least: enough for most records and the flag behind.
const SHORT_RUNWAY_BYTES: usize = 4 * RECORD_ALIGN;

/// What [`Runway::lengthen`] adds at most: no more lines than a core can have in flight at once, so that what
/// is published next does not wait for many.
const LENGTHEN_BYTES_MAX: usize = 16 * RECORD_ALIGN;

/// The writer's memory of which flags it has cleared: those from `start` on, `bytes` far, modulo the ring.
///
/// It reaches past the end of the next record, if that is no longer than the last and ends within
/// [`RUNWAY_BYTES`], or was expected in time: a flag that is only cleared when a record is published waits
/// for its line, and the record with it.
#[derive(Clone, Debug)]
pub struct Runway {
    ring_bytes: usize,
    start: usize,
    bytes: usize,
}

impl Runway {
    /// The runway of a ring of `ring_bytes` zero bytes (a power of two).
    pub fn new(ring_bytes: usize) -> Self {
        Self { ring_bytes, start: 0, bytes: RUNWAY_BYTES }
    }

    /// Publishes the record of `length` bytes at `offset`; the next one will start at `next_offset`.
    #[inline(always)]
    pub fn publish(&mut self, words: &impl Words, offset: usize, length: usize, next_offset: usize) {
        let passed = self.wrapped(next_offset.wrapping_sub(self.start));
        let mut clear = self.bytes.saturating_sub(passed);
        if clear == 0 {
            words.store(next_offset, 0, Ordering::Relaxed);
            clear = RECORD_ALIGN;
        }
        // Release: a reader that sees the flag also sees the record and the cleared flag after it.
        words.store(offset, MARK << 32 | length as u64, Ordering::Release);
        let wanted = wanted_bytes(length);
        while clear < wanted {
            words.store(self.wrapped(next_offset + clear), 0, Ordering::Relaxed);
            clear += RECORD_ALIGN;
        }
        (self.start, self.bytes) = (next_offset, clear);
    }

    /// Says at the flag of the next record how far the copy of a payload is that comes with it.
    pub fn tell(&self, words: &impl Words, progress: Progress) {
        // Release: what is said to be written is, for whoever sees this.
        words.store(self.start, progress.to_word(), Ordering::Release);
    }

    /// Makes the runway longer, if it does not reach as far as the flag behind a record of `length` bytes
    /// that comes next; returns whether it still does not. The stores also win back the lines of that record,
    /// which the peer has read in the last round; fetching them for writing does not.
    pub fn lengthen(&mut self, words: &impl Words, length: usize) -> bool {
        let wanted = length.next_multiple_of(RECORD_ALIGN) + RECORD_ALIGN;
        let end = wanted.min(self.bytes + LENGTHEN_BYTES_MAX);
        while self.bytes < end {
            words.store(self.wrapped(self.start + self.bytes), 0, Ordering::Relaxed);
            self.bytes += RECORD_ALIGN;
        }
        self.bytes < wanted
    }

    /// A position as an offset in the ring.
    #[inline]
    fn wrapped(&self, position: usize) -> usize {
        position & (self.ring_bytes - 1)
    }
}

/// How long the runway is to be behind a record of `length` bytes: as far as the flag behind another of that
/// length, where that is within reach. One that reaches farther makes round trips slower: most likely the
/// reader's processor fetches lines ahead, and the writer has to win them back.
#[inline]
fn wanted_bytes(length: usize) -> usize {
    match length.next_multiple_of(RECORD_ALIGN) + RECORD_ALIGN {
        bytes @ SHORT_RUNWAY_BYTES..=RUNWAY_BYTES => bytes,
        _ => SHORT_RUNWAY_BYTES,
    }
}

/// The length of the record at `offset`, if one has been published: `Err` when the flag is none of ours.
#[inline]
pub fn published(words: &impl Words, offset: usize) -> Result<Option<usize>, BadFlag> {
    match words.load(offset, Ordering::Acquire) {
        0 => Ok(None),
        flag if flag >> 32 == MARK => Ok(Some(flag as u32 as usize)),
        flag if Progress::from_word(flag).is_some() => Ok(None),
        _ => Err(BadFlag),
    }
}

/// A publication flag that no correct peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFlag;

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    struct Plain(Vec<Cell<u64>>);

    impl Words for Plain {
        fn load(&self, offset: usize, _: Ordering) -> u64 {
            self.0[offset / RECORD_ALIGN].get()
        }
        fn store(&self, offset: usize, value: u64, _: Ordering) {
            self.0[offset / RECORD_ALIGN].set(value);
        }
    }

    /// Records of all sizes, filled with what would be flags if a reader looked there.
    #[test]
    fn the_flag_after_the_last_record_is_always_clear() {
        let lines = 64;
        let ring_bytes = lines * RECORD_ALIGN;
        let words = Plain((0..lines).map(|_| Cell::new(0)).collect());
        let mut runway = Runway::new(ring_bytes);
        let mut offset = 0;
        for step in 0..10_000usize {
            let record_lines = 1 + step * 7 % 11;
            let next = if offset + record_lines * RECORD_ALIGN >= ring_bytes - 12 * RECORD_ALIGN {
                0
            } else {
                offset + record_lines * RECORD_ALIGN
            };
            for line in 0..record_lines {
                words.0[offset / RECORD_ALIGN + line].set(if line == 0 { 0 } else { u64::MAX });
            }
            runway.publish(&words, offset, record_lines * RECORD_ALIGN, next);
            assert_eq!(published(&words, offset), Ok(Some(record_lines * RECORD_ALIGN)));
            assert_eq!(published(&words, next), Ok(None), "step {step}");
            if step % 4 == 0 {
                runway.tell(&words, Progress::new(4096, 64));
                assert_eq!(published(&words, next), Ok(None), "step {step}: only told");
            }
            if step % 3 == 0 {
                while runway.lengthen(&words, step % 23 * RECORD_ALIGN) {}
            }
            offset = next;
        }
    }

    /// Remembers the stores.
    struct Noted(RefCell<Vec<(usize, u64)>>);

    impl Words for Noted {
        fn load(&self, _: usize, _: Ordering) -> u64 {
            0
        }
        fn store(&self, offset: usize, value: u64, _: Ordering) {
            self.0.borrow_mut().push((offset, value));
        }
    }

    #[test]
    fn nothing_is_cleared_before_a_record_that_is_no_longer_than_the_last_and_ends_within_the_runway() {
        for lines in 1..RUNWAY_BYTES / RECORD_ALIGN {
            let mut runway = Runway::new(1024 * RECORD_ALIGN);
            let bytes = lines * RECORD_ALIGN;
            runway.publish(&Noted(RefCell::default()), 0, bytes, bytes);
            for record in 1..20 {
                let words = Noted(RefCell::default());
                runway.publish(&words, record * bytes, bytes, (record + 1) * bytes);
                let (first, flag) = words.0.borrow()[0];
                assert_eq!(
                    (first, flag as u32 as usize),
                    (record * bytes, bytes),
                    "records of {lines} lines"
                );
            }
        }
    }

    #[test]
    fn nothing_is_cleared_before_a_record_that_was_expected() {
        for lines in 1..60 {
            let mut runway = Runway::new(1024 * RECORD_ALIGN);
            let length = lines * RECORD_ALIGN - 1;
            let mut times = 1;
            while runway.lengthen(&Noted(RefCell::default()), length) {
                times += 1;
            }
            assert!(
                times <= 1 + lines * RECORD_ALIGN / LENGTHEN_BYTES_MAX,
                "{times} times for {lines} lines"
            );
            let words = Noted(RefCell::default());
            runway.publish(&words, 0, length, lines * RECORD_ALIGN);
            assert_eq!(words.0.borrow()[0].0, 0, "a flag was cleared first: {lines} lines");
        }
    }

    #[test]
    fn a_foreign_flag_is_refused() {
        let words = Plain(vec![Cell::new(77)]);
        assert_eq!(published(&words, 0), Err(BadFlag));
    }
}
