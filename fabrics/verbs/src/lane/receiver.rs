//! The reading end of a lane: it learns of records from its completion queue, and reads them where the peer
//! wrote them.

use core::cell::{Cell, UnsafeCell};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, compiler_fence};
use std::sync::Arc;

use farcall_driver::{LaneFault, LaneReceiver, RECORD_ALIGN, RECORD_HEADER_BYTES, Record};

use super::link::{BROKEN_QUEUE, Link};
use super::sender::MARK;
use crate::queues::CompletionQueue;
use crate::sys;

/// Completions that one look takes.
const ARRIVALS_MAX: usize = 16;

/// Looks that find nothing before the writes are looked after: a broken connection is noticed even when
/// nothing is sent.
const LOOKS_PER_REAP: u32 = 256;

/// The reading end: the ring in our own memory.
pub struct VerbsReceiver {
    link: Arc<Link>,
    /// The link's, from which it would have to be fetched for each look.
    queue: Arc<CompletionQueue>,
    /// The ring, which the link keeps.
    ring: NonNull<u8>,
    ring_bytes: usize,
    ring_lines: usize,
    /// How full the ring was ever made, in lines, modulo the ring: where the next record will be.
    end_line: Cell<usize>,
    empty_looks: Cell<u32>,
    /// Kept, because a look that finds nothing should not have to clear it first.
    arrivals: UnsafeCell<[sys::ibv_wc; ARRIVALS_MAX]>,
    /// The peer has announced what no correct peer does.
    is_corrupt: Cell<bool>,
}

// SAFETY: the pointer is to memory of the link, which may be used from any thread.
unsafe impl Send for VerbsReceiver {}

impl VerbsReceiver {
    pub(super) fn new(link: Arc<Link>, ring_bytes: usize) -> Self {
        Self {
            queue: Arc::clone(&link.arrivals),
            ring: link.ring.at(0, ring_bytes),
            link,
            ring_bytes,
            ring_lines: ring_bytes / RECORD_ALIGN,
            end_line: Cell::new(0),
            empty_looks: Cell::new(0),
            arrivals: UnsafeCell::new([sys::ibv_wc::new(); ARRIVALS_MAX]),
            is_corrupt: Cell::new(false),
        }
    }

    /// Asks the card for what has been written, and learns of it; says whether there was anything, good or
    /// bad.
    #[inline(always)]
    fn look(&self) -> bool {
        // SAFETY: no other reference to them is there: this one ends here, and one thread at most is here,
        // since the type is not `Sync`.
        let arrivals = unsafe { &mut *self.arrivals.get() };
        match self.queue.poll(arrivals) {
            Some([]) => {
                self.note_empty_look();
                false
            }
            Some(completions) => {
                self.take_in(completions);
                true
            }
            None => {
                self.link.fail(BROKEN_QUEUE);
                false
            }
        }
    }

    #[inline(always)]
    fn take_in(&self, completions: &[sys::ibv_wc]) {
        let ring_lines = self.ring_lines;
        let mut end_line = self.end_line.get();
        for completion in completions {
            match self.link.lines_announced(completion) {
                Some(lines) if lines as usize <= ring_lines => {
                    end_line = (end_line + lines as usize) & (ring_lines - 1);
                }
                _ => self.note_bad(completion),
            }
        }
        self.end_line.set(end_line);
        self.link.receive_again(completions);
        // The card wrote the records before it reported them; the compiler must not read them earlier.
        compiler_fence(Ordering::Acquire);
    }

    #[cold]
    fn note_bad(&self, completion: &sys::ibv_wc) {
        if completion.status == sys::IBV_WC_SUCCESS {
            self.is_corrupt.set(true);
        } else {
            self.link.fail(completion.status);
        }
    }

    /// What is said where no record is.
    #[inline]
    fn nothing(&self) -> Result<Option<Record<'_>>, LaneFault> {
        match self.is_corrupt.get() {
            true => Err(LaneFault::Corrupt { what: "an announcement that no correct peer makes" }),
            false => Ok(None),
        }
    }

    #[inline(always)]
    fn note_empty_look(&self) {
        let looks = self.empty_looks.get() + 1;
        self.empty_looks.set(looks);
        if looks == LOOKS_PER_REAP {
            self.reap();
        }
    }

    #[cold]
    fn reap(&self) {
        self.empty_looks.set(0);
        self.link.reap();
    }
}

impl LaneReceiver for VerbsReceiver {
    #[inline(always)]
    fn may_have_record(&self, offset: usize) -> bool {
        offset / RECORD_ALIGN != self.end_line.get() || self.is_corrupt.get() || self.look()
    }

    #[inline(always)]
    fn peek(&self, offset: usize, _bytes: Range<usize>) -> Result<Option<Record<'_>>, LaneFault> {
        assert!(
            offset < self.ring_bytes && offset.is_multiple_of(RECORD_ALIGN),
            "an offset outside the ring"
        );
        let at_end = || offset / RECORD_ALIGN == self.end_line.get();
        if at_end() && (self.is_corrupt.get() || !self.look() || at_end()) {
            return self.nothing();
        }
        // SAFETY: inside the ring and aligned (checked above). Read once, because a hostile peer may be
        // writing it.
        let word = unsafe { self.ring.add(offset).cast::<u64>().read_volatile() };
        let word = u64::from_le(word);
        let length = word as u32 as usize;
        if word >> 32 != MARK || length < RECORD_HEADER_BYTES || length > self.ring_bytes - offset {
            return Err(LaneFault::Corrupt { what: "a record that leaves the ring or is none" });
        }
        // SAFETY: inside the ring (checked above), which the link keeps. A correct peer does not write to a
        // published record; what a hostile one could change is documented at `Record`.
        let bytes = unsafe {
            let start = self.ring.add(offset + RECORD_HEADER_BYTES);
            core::slice::from_raw_parts(start.as_ptr(), length - RECORD_HEADER_BYTES)
        };
        Ok(Some(Record::new(bytes)))
    }
}
