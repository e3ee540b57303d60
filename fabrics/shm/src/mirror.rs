//! Private copies of what a peer that is not trusted writes.
//!
//! A record is copied before anything of it is looked at, so that it cannot change while it is read. There is
//! room for one record, the one that is being read: a process with many peers keeps a copy of one record of
//! each, and none of their rings. A correct peer does not publish over the record that is being read; one
//! that does is refused.

use core::cell::{Cell, UnsafeCell};
use core::ops::Range;
use core::sync::atomic::Ordering;

use farcall_driver::{LaneFault, RECORD_HEADER_BYTES};

use crate::flags::Words;
use crate::ring_memory::RingMemory;

const WORD_BYTES: usize = size_of::<u64>();

/// The most that is kept of a peer whose records are short: as long as the longest that a correct peer writes
/// into a ring of the usual length.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The least that is taken.
const BYTES_MIN: usize = 1 << 10;

/// The copy of the record that is being read.
#[derive(Debug)]
pub struct Mirror {
    words: UnsafeCell<Box<[u64]>>,
    /// Where the last record is that was copied: the one that is being read. Empty when there is none.
    last: Cell<(usize, usize)>,
}

impl Mirror {
    /// No record is being read, and nothing is kept.
    pub fn new() -> Self {
        Self { words: UnsafeCell::default(), last: Cell::new((0, 0)) }
    }

    /// The copy of the record at `offset`, if that is being read.
    pub fn reading(&self, offset: usize) -> Option<&[u8]> {
        let (begin, length) = self.last.get();
        (begin == offset && length > 0).then(|| self.bytes(length))
    }

    /// No record is being read.
    pub fn forget(&self) {
        self.last.set((0, 0));
        // SAFETY: the readers of a ring read one record at a time, and there is none: nobody has a reference.
        let words = unsafe { &mut *self.words.get() };
        if size_of_val(&**words) > KEPT_BYTES_MAX {
            *words = Box::default();
        }
    }

    /// Copies the record of `length` bytes at `offset`, which is inside the ring, and gives what is behind
    /// its flag.
    pub fn copy(&self, ring: &RingMemory, offset: usize, length: usize) -> Result<&[u8], LaneFault> {
        let (begin, last_length) = self.last.get();
        if overlap(&(begin..begin + last_length), &(offset..offset + length)) {
            return Err(LaneFault::Corrupt { what: "a record over the one that is being read" });
        }
        // SAFETY: the readers of a ring read one record at a time, and this is another one: nobody has a
        // reference to the last.
        let words = unsafe { &mut *self.words.get() };
        make_room(words, length - RECORD_HEADER_BYTES);
        let places = (offset + RECORD_HEADER_BYTES..offset + length).step_by(WORD_BYTES);
        words.iter_mut().zip(places).for_each(|(word, at)| *word = ring.load(at, Ordering::Relaxed));
        self.last.set((offset, length));
        Ok(self.bytes(length))
    }

    /// What is behind the flag of the record that is being read, which has as many bytes.
    fn bytes(&self, length: usize) -> &[u8] {
        // SAFETY: initialised words; nothing writes to them while the record is being read (see `copy` and
        // `forget`). Numbers may be read as bytes.
        let bytes = unsafe {
            let words = &**self.words.get();
            core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words))
        };
        &bytes[..length - RECORD_HEADER_BYTES]
    }
}

/// Makes room for a record; of much more than is kept it is returned.
fn make_room(words: &mut Box<[u64]>, bytes: usize) {
    let has = size_of_val(&**words);
    if bytes > has || (has > KEPT_BYTES_MAX && bytes <= KEPT_BYTES_MAX) {
        let room = bytes.next_power_of_two().max(BYTES_MIN);
        *words = vec![0; room / WORD_BYTES].into();
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
        let mirror = Mirror::new();
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

    #[test]
    fn no_more_is_kept_than_a_record_takes_and_of_long_ones_nothing() {
        const LONG_RING_BYTES: usize = 4 << 20;
        let (_segment, mapping) =
            Segment::create("farcall-test", CONTROL_BYTES + LONG_RING_BYTES, PeerAccess::Write)
                .expect("memfd");
        let ring = RingMemory::new(Arc::new(mapping));
        let mirror = Mirror::new();
        // SAFETY: nothing else uses it.
        let kept = || size_of_val(unsafe { &**mirror.words.get() });
        let read_all = |record_bytes: usize| {
            for offset in (0..LONG_RING_BYTES).step_by(record_bytes) {
                let copy = mirror.copy(&ring, offset, record_bytes).expect("the one before was read");
                assert_eq!(copy.len(), record_bytes - RECORD_HEADER_BYTES);
            }
        };
        assert_eq!(kept(), 0);
        read_all(1 << 10);
        assert_eq!(kept(), BYTES_MIN, "a stream through the whole ring");
        read_all(64 << 10);
        assert_eq!(kept(), KEPT_BYTES_MAX);
        read_all(1 << 20);
        assert_eq!(kept(), 1 << 20);
        mirror.copy(&ring, 0, 128).expect("the one before was read");
        assert_eq!(kept(), BYTES_MIN, "it was given back");
        mirror.forget();
        assert_eq!(kept(), BYTES_MIN, "so little stays");
        read_all(1 << 20);
        mirror.forget();
        assert_eq!(kept(), 0, "nothing is being read");
    }
}
