//! The memory of a ring, and how records are written to it.
//!
//! The peer keeps looking at the first line of the next record. So that line is written last, with little
//! time between its parts and the flag: each part that came by itself would have to win the line back from
//! the peer's cache.

use core::ops::Range;
use core::ptr::NonNull;
use core::slice::from_raw_parts_mut;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use farcall_driver::{RECORD_ALIGN, RECORD_HEADER_BYTES};

use crate::copy::PayloadCopier;
use crate::flags::Words;
use crate::segment::Mapping;

/// Bytes before the ring in its segment: a page, so that the ring is page-aligned.
pub const CONTROL_BYTES: usize = 4096;

/// Bytes of a record in its first line.
pub const FIRST_LINE_BYTES: usize = RECORD_ALIGN - RECORD_HEADER_BYTES;

/// Records up to this are copied through the caches in any case.
const SHORT_RECORD_BYTES: usize = 512;

/// So many bytes of a ring get their pages when it is made: those through which writers of little walk. The
/// rest takes no memory before it is used.
const POPULATED_BYTES: usize = 16 << 10;

/// Behind what is used of a ring, bytes in which flags are cleared ahead.
const AHEAD_BYTES: usize = 4096;

/// Gives a ring's segment the pages of its first `bytes`.
pub fn populate_ring(mapping: &Mapping, bytes: usize) {
    mapping.populate(CONTROL_BYTES + bytes + AHEAD_BYTES);
}

/// Gives a ring's segment the pages with which it begins.
pub fn populate_first(mapping: &Mapping) {
    populate_ring(mapping, POPULATED_BYTES);
}

/// The ring inside its segment.
#[derive(Clone, Debug)]
pub struct RingMemory {
    /// The first byte of the ring, at hand for each look at it.
    start: NonNull<u8>,
    bytes: usize,
    mapping: Arc<Mapping>,
}

// SAFETY: `start` points into `mapping`, which may go to and be used by any thread, and which lives as long.
unsafe impl Send for RingMemory {}
// SAFETY: as above; what a shared reference reaches is only read, or written through atomics.
unsafe impl Sync for RingMemory {}

impl RingMemory {
    pub fn new(mapping: Arc<Mapping>) -> Self {
        let bytes = mapping.len() - CONTROL_BYTES;
        assert!(bytes.is_power_of_two(), "rings have a power of two of bytes");
        populate_first(&mapping);
        Self { start: mapping.at(CONTROL_BYTES, bytes), bytes, mapping }
    }

    /// Bytes in the ring; a power of two.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The byte at an offset modulo the ring.
    #[inline(always)]
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(offset & (self.bytes - 1))
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset < self.bytes && offset.is_multiple_of(size_of::<u64>()));
        // SAFETY: `bytes` is a power of two of whole lines, so the masked offset is inside the ring, and
        // aligned if it was; flag words are only ever accessed as atomics while the other side may access
        // them.
        unsafe { self.start.add(offset & (self.bytes - 1)).cast().as_ref() }
    }

    #[inline(always)]
    fn check_record(&self, offset: usize, length: usize) {
        assert!(
            offset.is_multiple_of(RECORD_ALIGN)
                && length >= RECORD_HEADER_BYTES
                && offset < self.bytes
                && length <= self.bytes - offset,
            "a record outside the ring"
        );
    }

    /// Gives the pages back behind the first `used_bytes` of the ring, but for those in which there is
    /// something `kept`, which goes on at the start of the ring where its end is not behind its start. They
    /// read as zero when they are touched again, as flags do that are cleared.
    pub fn give_back(&mut self, used_bytes: usize, kept: Range<usize>) {
        let used = used_bytes + AHEAD_BYTES;
        let place = |range: Range<usize>| CONTROL_BYTES + range.start..CONTROL_BYTES + range.end;
        if kept.start < kept.end {
            self.mapping.give_back(place(used..kept.start));
            self.mapping.give_back(place(used.max(kept.end)..self.bytes));
        } else {
            self.mapping.give_back(place(used.max(kept.end)..kept.start));
        }
    }

    /// Copies a part of a record that is not published, from the byte `at` behind its flag on, which is not
    /// in the first line.
    pub fn copy_part(&mut self, offset: usize, at: usize, part: &[u8], copier: &mut PayloadCopier) {
        self.check_record(offset, RECORD_HEADER_BYTES + at + part.len());
        assert!(at >= FIRST_LINE_BYTES, "the first line is written as a whole");
        // SAFETY: the record is inside the mapping up to the end of the part (checked above); for the rest,
        // as in `copy_in`.
        let place = unsafe {
            from_raw_parts_mut(self.start.add(offset + RECORD_HEADER_BYTES + at).as_ptr(), part.len())
        };
        copier.copy_part(place, part);
    }

    /// Copies what follows the flag of the record of `length` bytes into the ring. The first line, which the
    /// peer looks at, comes last and whole, so that little time passes between it and the flag. `copy_lines`
    /// copies what is longer than one or two.
    #[inline(always)]
    pub fn copy_in(
        &mut self,
        offset: usize,
        draft: &[u8],
        length: usize,
        copy_lines: impl FnOnce(&mut [u8], &[u8]),
    ) {
        self.check_record(offset, length);
        let (first, rest) =
            draft.split_first_chunk::<FIRST_LINE_BYTES>().expect("a draft has the bytes of a ring");
        // SAFETY: both ranges are inside the mapping, which lives as long as `self`: the record is (checked
        // above), and so is its first line, because offsets and the ring's size are whole lines. `&mut self`
        // is the only writer in this process. A correct peer does not touch a record that is not published; a
        // hostile one can change what we write, which only spoils its own input, since nothing here is read
        // back.
        unsafe {
            let start = self.start.add(offset + RECORD_HEADER_BYTES).as_ptr();
            if length > SHORT_RECORD_BYTES {
                let rest = &rest[..length - RECORD_ALIGN];
                copy_lines(from_raw_parts_mut(start.add(FIRST_LINE_BYTES), rest.len()), rest);
            } else if length > RECORD_ALIGN {
                let rest = &rest[..length - RECORD_ALIGN];
                core::ptr::copy_nonoverlapping(rest.as_ptr(), start.add(FIRST_LINE_BYTES), rest.len());
            }
        }
        self.write_words(offset, first);
    }

    /// Writes the first line of a record, but for the flag.
    pub fn write_first_line(&mut self, offset: usize, draft: &[u8]) {
        let first = draft.first_chunk().expect("a draft has the bytes of a ring");
        self.write_words(offset, first);
    }

    #[inline(always)]
    fn write_words(&mut self, offset: usize, first: &[u8; FIRST_LINE_BYTES]) {
        // Word by word, as it was put together: a load of more than was stored at once waits until that
        // store, and all before it, has left the core.
        for (at, word) in first.as_chunks().0.iter().enumerate() {
            let place = self.word(offset + RECORD_HEADER_BYTES + at * size_of::<u64>());
            place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
    }
}

impl Words for RingMemory {
    #[inline]
    fn load(&self, offset: usize, order: Ordering) -> u64 {
        self.word(offset).load(order)
    }

    #[inline]
    fn store(&self, offset: usize, value: u64, order: Ordering) {
        self.word(offset).store(value, order);
    }
}
