//! The ring that a host reads: written by the fabric when a record arrives, read in place.
//!
//! The first word of a record is its flag, as in every lane: zero until the record is there. A record that
//! arrives clears the flag of the place where the next one will be. The fabric writes in whole atomic words,
//! so that nothing that the users of a lane do wrong is a data race of writers; that nobody writes what is
//! being read is the rule of the seam.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use farcall_driver::{LaneFault, RECORD_ALIGN, RECORD_HEADER_BYTES, Record};

/// Marks a flag as that of a record.
const PRESENT: u64 = 1 << 63;
/// Nobody has looked at the record yet.
const FRESH: u64 = 1 << 62;

/// Memory of one direction of a lane.
#[derive(Debug)]
pub struct Ring {
    words: Box<[AtomicU64]>,
}

impl Ring {
    /// A ring of `bytes` bytes, a power of two, all zero. Only what is written to costs memory.
    pub fn new(bytes: usize) -> Self {
        let words = Box::into_raw(vec![0_u64; bytes / 8].into_boxed_slice());
        // SAFETY: the box was just given up, and atomics have the size, alignment and values of their
        // integers. Made this way the memory is that of an allocation of zeros, whose pages come into being
        // when they are written.
        #[expect(unsafe_code, reason = "there is no safe way to an allocation of zeroed atomics")]
        let words = unsafe { Box::from_raw(words as *mut [AtomicU64]) };
        Self { words }
    }

    /// Bytes in the ring.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Whether a record of `length` bytes, the lane's header included, may lie at `offset`.
    pub fn has_place(&self, offset: usize, length: usize) -> bool {
        let bytes = self.bytes();
        offset.is_multiple_of(RECORD_ALIGN)
            && length >= RECORD_HEADER_BYTES
            && offset < bytes
            && length <= bytes - offset
    }

    /// A record has arrived: what follows its header is `payload`. Both offsets were checked by its writer.
    pub fn deliver(&self, offset: usize, next_offset: usize, payload: &[u8]) {
        self.words[next_offset / 8].store(0, Ordering::Relaxed);
        let first = offset / 8 + 1;
        let (whole, rest) = payload.as_chunks::<8>();
        for (word, bytes) in self.words[first..].iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.words[first + whole.len()].store(u64::from_ne_bytes(last), Ordering::Relaxed);
        }
        // Release: a reader that sees the flag also sees the record and the cleared flag after it.
        self.words[offset / 8].store(PRESENT | FRESH | payload.len() as u64, Ordering::Release);
    }

    /// Clears the lines behind the first `used_bytes` in which nothing is `kept`, which goes on at the start
    /// where its end is not behind its start: nobody reads there.
    pub fn clear_all_but(&self, used_bytes: usize, kept: &Range<usize>) {
        let is_kept = |line: usize| match kept.start < kept.end {
            true => line + RECORD_ALIGN > kept.start && line < kept.end,
            false => line + RECORD_ALIGN > kept.start || line < kept.end,
        };
        for line in (used_bytes..self.bytes()).step_by(RECORD_ALIGN).filter(|line| !is_kept(*line)) {
            for word in &self.words[line / 8..(line + RECORD_ALIGN) / 8] {
                // What was never written to costs no memory.
                if word.load(Ordering::Relaxed) != 0 {
                    word.store(0, Ordering::Relaxed);
                }
            }
        }
    }

    /// The record at `offset`, if there is one, and whether it is looked at for the first time.
    pub fn peek(&self, offset: usize) -> Result<Option<(Record<'_>, bool)>, LaneFault> {
        let misplaced = LaneFault::Corrupt { what: "a record begins outside the ring" };
        if !offset.is_multiple_of(RECORD_ALIGN) || offset >= self.bytes() {
            return Err(misplaced);
        }
        let flag = self.words[offset / 8].load(Ordering::Acquire);
        if flag & PRESENT == 0 {
            return Ok(None);
        }
        if flag & FRESH != 0 {
            self.words[offset / 8].store(flag & !FRESH, Ordering::Relaxed);
        }
        let length = (flag & !(PRESENT | FRESH)) as usize;
        let payload = &self.words[offset / 8 + 1..][..length.div_ceil(8)];
        // SAFETY: the words are initialised and inside the ring, and `length` is within them. They are not
        // written while the record is unread: its sender writes there again when the reader has said that the
        // place is free.
        #[expect(unsafe_code, reason = "a view of words as bytes")]
        let bytes = unsafe { core::slice::from_raw_parts(payload.as_ptr().cast::<u8>(), length) };
        Ok(Some((Record::new(bytes), flag & FRESH != 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(ring: &Ring, offset: usize) -> Option<(Vec<u8>, bool)> {
        let (record, fresh) = ring.peek(offset).expect("a place in the ring")?;
        Some((record.slice(0, record.len()).expect("all of it").to_vec(), fresh))
    }

    #[test]
    fn records_are_there_when_they_have_arrived_and_fresh_once() {
        let ring = Ring::new(4096);
        assert_eq!(contents(&ring, 0), None);
        for length in 0..100 {
            let payload: Vec<u8> = (0..length).collect();
            ring.deliver(0, 128, &payload);
            assert_eq!(contents(&ring, 0), Some((payload.clone(), true)));
            assert_eq!(contents(&ring, 0), Some((payload, false)));
        }
    }

    #[test]
    fn a_record_clears_the_flag_of_the_next() {
        let ring = Ring::new(4096);
        ring.deliver(64, 128, b"of the lap before");
        ring.deliver(0, 64, b"new");
        assert_eq!(contents(&ring, 64), None);
    }

    #[test]
    fn what_is_outside_is_a_fault() {
        let ring = Ring::new(4096);
        for offset in [1, 32, 4096, usize::MAX - 63] {
            assert!(ring.peek(offset).is_err(), "{offset}");
        }
        assert!(ring.has_place(4032, 64) && !ring.has_place(4032, 65) && !ring.has_place(0, 7));
    }
}
