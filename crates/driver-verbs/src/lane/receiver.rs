//! The reading end of a lane: it learns of records from its completion queue, and reads them where the peer wrote them.

use core::cell::{Cell, RefCell};
use core::sync::atomic::{Ordering, compiler_fence};
use std::sync::Arc;

use farcall_driver::{LaneFault, LaneReceiver, RECORD_ALIGN, RECORD_HEADER_BYTES, Record};

use super::link::{BROKEN_QUEUE, Link};
use super::sender::MARK;
use crate::sys;

/// Completions that one look takes.
const ARRIVALS_MAX: usize = 16;

/// Looks that find nothing before the writes are looked after: a broken connection is noticed even when nothing is sent.
const LOOKS_PER_REAP: u32 = 256;

/// The reading end: the ring in our own memory.
pub struct VerbsReceiver {
    link: Arc<Link>,
    ring_bytes: usize,
    /// How full the ring was ever made, in lines, modulo the ring: where the next record will be.
    end_line: Cell<usize>,
    empty_looks: Cell<u32>,
    /// Kept, because a look that finds nothing should not have to clear it first.
    arrivals: RefCell<[sys::ibv_wc; ARRIVALS_MAX]>,
}

impl VerbsReceiver {
    pub(super) fn new(link: Arc<Link>, ring_bytes: usize) -> Self {
        let arrivals = RefCell::new([sys::ibv_wc::new(); ARRIVALS_MAX]);
        Self { link, ring_bytes, end_line: Cell::new(0), empty_looks: Cell::new(0), arrivals }
    }

    /// Asks the card for what has been written; false when that is nothing.
    #[inline]
    fn look(&self) -> Result<bool, LaneFault> {
        let mut arrivals = self.arrivals.borrow_mut();
        match self.link.arrivals.poll(&mut *arrivals) {
            Some([]) => self.note_empty_look(),
            Some(completions) => return self.take_in(completions),
            None => self.link.fail(BROKEN_QUEUE),
        }
        Ok(false)
    }

    /// Learns of what has been written; says whether anything has.
    #[inline(never)]
    fn take_in(&self, completions: &[sys::ibv_wc]) -> Result<bool, LaneFault> {
        let before = self.end_line.get();
        let ring_lines = self.ring_bytes / RECORD_ALIGN;
        for completion in completions {
            if completion.status != sys::IBV_WC_SUCCESS {
                self.link.fail(completion.status);
                continue;
            }
            let lines = self.link.lines_announced(completion).unwrap_or(u32::MAX) as usize;
            if lines > ring_lines {
                return Err(LaneFault::Corrupt { what: "an announcement that no correct peer makes" });
            }
            self.end_line.set((self.end_line.get() + lines) & (ring_lines - 1));
        }
        self.link.receive_again(completions);
        // The card wrote the records before it reported them; the compiler must not read them earlier.
        compiler_fence(Ordering::Acquire);
        Ok(self.end_line.get() != before)
    }

    fn note_empty_look(&self) {
        let looks = self.empty_looks.get() + 1;
        if looks == LOOKS_PER_REAP {
            self.link.reap();
        }
        self.empty_looks.set(looks % LOOKS_PER_REAP);
    }
}

impl LaneReceiver for VerbsReceiver {
    #[inline]
    fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    #[inline]
    fn peek(&self, offset: usize) -> Result<Option<Record<'_>>, LaneFault> {
        assert!(
            offset < self.ring_bytes && offset.is_multiple_of(RECORD_ALIGN),
            "an offset outside the ring"
        );
        if offset / RECORD_ALIGN == self.end_line.get() && !self.look()? {
            return Ok(None);
        }
        let word = self.link.ring.at(offset, RECORD_HEADER_BYTES).cast::<u64>();
        // SAFETY: inside the ring and aligned. Read once, because a hostile peer may be writing it.
        let word = u64::from_le(unsafe { word.read_volatile() });
        let length = word as u32 as usize;
        if word >> 32 != MARK || length < RECORD_HEADER_BYTES || length > self.ring_bytes - offset {
            return Err(LaneFault::Corrupt { what: "a record that leaves the ring or is none" });
        }
        let payload_bytes = length - RECORD_HEADER_BYTES;
        let start = self.link.ring.at(offset + RECORD_HEADER_BYTES, payload_bytes);
        // SAFETY: inside the ring, which the link keeps. A correct peer does not write to a published record; what a
        // hostile one could change is documented at `Record`.
        let bytes = unsafe { core::slice::from_raw_parts(start.as_ptr(), payload_bytes) };
        Ok(Some(Record::new(bytes)))
    }
}
