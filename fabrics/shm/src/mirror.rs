//! Private copies of what a peer that is not trusted writes.
//!
//! A record is copied before anything of it is looked at, so that it cannot change while it is read. The copy
//! lies at the record's own place in a mirror of the ring, and stays as long as the record would: until the
//! ring's next round. A correct peer does not publish over the record that is being read; one that does is
//! refused, so a copy never changes under its reader either.

use core::cell::{Cell, UnsafeCell};
use core::ops::Range;
use core::sync::atomic::Ordering;

use farcall_driver::{LaneFault, RECORD_HEADER_BYTES};

use crate::flags::Words;
use crate::ring_memory::RingMemory;

const WORD_BYTES: usize = size_of::<u64>();

/// A private ring.
#[derive(Debug)]
pub struct Mirror {
    words: Box<[UnsafeCell<u64>]>,
    /// Where the last record is that was copied: the one that is being read. Empty when there is none.
    last: Cell<(usize, usize)>,
}

impl Mirror {
    /// A mirror of a ring of that many bytes. Only what is used of it takes memory.
    pub fn new(ring_bytes: usize) -> Self {
        let words = vec![0u64; ring_bytes / WORD_BYTES].into_boxed_slice();
        // SAFETY: a cell of a number has the layout of the number (`UnsafeCell` is transparent).
        let words = unsafe { Box::from_raw(Box::into_raw(words) as *mut [UnsafeCell<u64>]) };
        Self { words, last: Cell::new((0, 0)) }
    }

    /// The copy of the record at `offset`, if that is being read.
    pub fn reading(&self, offset: usize) -> Option<&[u8]> {
        let (begin, length) = self.last.get();
        (begin == offset && length > 0).then(|| self.bytes(begin, length))
    }

    /// No record is being read.
    pub fn forget(&self) {
        self.last.set((0, 0));
    }

    /// Copies the record of `length` bytes at `offset`, which is inside the ring, and gives what is behind
    /// its flag.
    pub fn copy(&self, ring: &RingMemory, offset: usize, length: usize) -> Result<&[u8], LaneFault> {
        let (begin, last_length) = self.last.get();
        if overlap(&(begin..begin + last_length), &(offset..offset + length)) {
            return Err(LaneFault::Corrupt { what: "a record over the one that is being read" });
        }
        for at in (offset + RECORD_HEADER_BYTES..offset + length).step_by(WORD_BYTES) {
            let word = ring.load(at, Ordering::Relaxed);
            // SAFETY: the record is inside the ring, which has as many words. Nobody has a reference to this
            // one: those to the last record's do not reach here, and those to earlier ones have ended, as the
            // readers of a ring read one record at a time.
            unsafe { *self.words[at / WORD_BYTES].get() = word };
        }
        self.last.set((offset, length));
        Ok(self.bytes(offset, length))
    }

    fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        let record = &self.words[offset / WORD_BYTES..(offset + length).div_ceil(WORD_BYTES)];
        // SAFETY: the words of the record, initialised; nothing writes to them while it is being read (see
        // `copy`). Numbers may be read as bytes.
        let bytes =
            unsafe { core::slice::from_raw_parts(record.as_ptr().cast::<u8>(), record.len() * WORD_BYTES) };
        &bytes[RECORD_HEADER_BYTES..length]
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ring_memory::CONTROL_BYTES;
    use crate::segment::{PeerAccess, Segment};

    const RING_BYTES: usize = 4096;

    #[test]
    fn a_copy_stays_what_it_was_and_no_record_is_put_over_it() {
        let (_segment, mapping) =
            Segment::create("farcall-test", CONTROL_BYTES + RING_BYTES, PeerAccess::Write).expect("memfd");
        let ring = RingMemory::new(Arc::new(mapping));
        let mirror = Mirror::new(RING_BYTES);
        ring.store(64 + 8, 7, Ordering::Relaxed);
        let copy = mirror.copy(&ring, 64, 21).expect("nothing is being read");
        assert_eq!(copy, [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        ring.store(64 + 8, 8, Ordering::Relaxed);
        assert_eq!(mirror.reading(64).map(|copy| copy[0]), Some(7), "the peer has written since");
        for (offset, length) in [(0, 128), (64, 64), (0, RING_BYTES)] {
            assert!(matches!(mirror.copy(&ring, offset, length), Err(LaneFault::Corrupt { .. })));
        }
        assert!(mirror.copy(&ring, 128, 64).is_ok() && mirror.reading(64).is_none());
        assert_eq!(mirror.copy(&ring, 64, 21).expect("its next round")[0], 8);
        mirror.forget();
        assert!(mirror.reading(64).is_none());
    }
}
