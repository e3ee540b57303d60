//! The two ends of a lane.
//!
//! Records are written in place into a staging ring, which mirrors the peer's. What was published since the last doorbell
//! lies there in one piece, or two at the end of the ring, and leaves with one write each, which announces itself: its
//! immediate value says how many lines further the ring is now full. So the reader learns of records from its completion
//! queue, after all of their bytes are there, and needs no flag that the network must write last.

use core::cell::{Cell, RefCell};
use core::sync::atomic::{Ordering, compiler_fence};
use std::sync::Arc;

use farcall_driver::{LaneFault, LaneReceiver, LaneSender, RECORD_ALIGN, RECORD_HEADER_BYTES, Record};

use super::link::{BROKEN_QUEUE, Link, WRITES_MAX};
use crate::sys;

/// Marks the first word of a record as one of ours: its upper half. The lower half is the record's length.
const MARK: u64 = 0xfa2c_a11e;

/// Records lie in at most so many pieces between two doorbells: before the end of the ring, and after it.
const PIECES_MAX: usize = 2;

/// Completions that one look takes.
const ARRIVALS_MAX: usize = 16;

/// Looks that find nothing before the writes are looked after: a broken connection is noticed even when nothing is sent.
const LOOKS_PER_REAP: u32 = 256;

/// Published records that lie one after the other, not handed to the card yet.
#[derive(Clone, Copy, Default)]
struct Piece {
    offset: usize,
    bytes: usize,
    /// By how much the ring is fuller, including what is left out at its end.
    lines: u32,
    /// Where the record after it will be.
    next_offset: usize,
}

/// The writing end: a mirror of the ring in the peer's memory.
pub struct VerbsSender {
    link: Arc<Link>,
    ring_bytes: usize,
    pieces: [Piece; PIECES_MAX],
    waiting: usize,
    signal_period: u64,
    /// Writes handed to the card.
    posted: u64,
    /// The next write of which the card is to report that it is done.
    next_signal: u64,
    /// A request for each piece, written once but for what differs between writes.
    requests: [sys::ibv_send_wr; PIECES_MAX],
    parts: [sys::ibv_sge; PIECES_MAX],
}

// SAFETY: the pointers in the requests lead to the parts beside them and to each other, and are rewritten before use.
unsafe impl Send for VerbsSender {}

impl VerbsSender {
    pub(super) fn new(link: Arc<Link>, signal_period: usize) -> Self {
        let ring_bytes = link.peer.ring_bytes as usize;
        let signal_period = signal_period.clamp(1, WRITES_MAX / 2) as u64;
        let mut request = sys::ibv_send_wr::new();
        (request.opcode, request.num_sge) = (sys::IBV_WR_RDMA_WRITE_WITH_IMM, 1);
        request.wr.rdma = sys::ibv_rdma_target { remote_addr: 0, rkey: link.peer.ring_key };
        let part = sys::ibv_sge { lkey: link.staging.local_key(), ..sys::ibv_sge::default() };
        Self {
            link,
            ring_bytes,
            pieces: Default::default(),
            waiting: 0,
            signal_period,
            posted: 0,
            next_signal: signal_period,
            requests: [request; PIECES_MAX],
            parts: [part; PIECES_MAX],
        }
    }

    #[inline]
    fn check(&self, offset: usize, length: usize) {
        assert!(
            offset.is_multiple_of(RECORD_ALIGN)
                && length >= RECORD_HEADER_BYTES
                && offset < self.ring_bytes
                && length <= self.ring_bytes - offset,
            "a record outside the ring"
        );
    }

    /// Whether the card can take `writes` more.
    #[inline]
    fn has_room(&self, writes: usize) -> bool {
        let free = || WRITES_MAX - (self.posted - self.link.writes_gone()) as usize;
        if free() < WRITES_MAX / 2 {
            self.link.reap();
        }
        free() >= writes
    }

    /// Hands the waiting pieces to the card.
    fn post(&mut self) {
        let waiting = core::mem::take(&mut self.waiting);
        for index in 0..waiting {
            self.describe(index);
        }
        let (requests, parts) = (self.requests.as_mut_ptr(), self.parts.as_mut_ptr());
        let mut next = core::ptr::null_mut();
        for index in (0..waiting).rev() {
            // SAFETY: both have a place for each waiting piece.
            unsafe {
                let request = requests.add(index);
                (*request).sg_list = parts.add(index);
                (*request).next = next;
                next = request;
            }
        }
        // SAFETY: the chain lives for the call, and its parts lie in the staging memory. A record is not written again
        // before the peer has said that it is read, and so has arrived; should the card send it once more after that,
        // because the acknowledgement was lost, then the peer's card drops it as a duplicate.
        unsafe { self.link.write(next) };
    }

    /// Writes what the request for a waiting piece does not share with others.
    #[inline]
    fn describe(&mut self, index: usize) {
        let Piece { offset, bytes, lines, .. } = self.pieces[index];
        self.posted += 1;
        let part = &mut self.parts[index];
        part.addr = self.link.staging.at(offset, bytes).as_ptr().addr() as u64;
        part.length = bytes as u32;
        let request = &mut self.requests[index];
        request.wr_id = self.posted;
        request.imm_data = lines.to_be();
        request.wr.rdma.remote_addr = self.link.peer.ring_address.wrapping_add(offset as u64);
        request.send_flags = if bytes <= self.link.inline_bytes() { sys::IBV_SEND_INLINE } else { 0 };
        if self.posted == self.next_signal {
            self.next_signal += self.signal_period;
            request.send_flags |= sys::IBV_SEND_SIGNALED;
        }
    }
}

impl LaneSender for VerbsSender {
    #[inline]
    fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    /// The mirror is this process's own memory: there is nothing to fetch.
    #[inline]
    fn claim(&mut self, offset: usize, length: usize) {
        self.check(offset, length);
    }

    #[inline]
    fn record(&mut self, offset: usize, length: usize) -> &mut [u8] {
        self.check(offset, length);
        let payload_bytes = length - RECORD_HEADER_BYTES;
        let start = self.link.staging.at(offset + RECORD_HEADER_BYTES, payload_bytes);
        // SAFETY: inside the staging memory, which only this end accesses and which the link keeps; the card does not read a
        // record that is being written (see `post`).
        unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), payload_bytes) }
    }

    #[inline]
    fn publish(&mut self, offset: usize, length: usize, next_offset: usize) {
        self.check(offset, length);
        let flag = self.link.staging.at(offset, RECORD_HEADER_BYTES).cast::<u64>();
        // SAFETY: inside the staging memory and aligned, since records are.
        unsafe { flag.write((MARK << 32 | length as u64).to_le()) };
        let end = if next_offset == 0 { self.ring_bytes } else { next_offset };
        let lines = ((end - offset) / RECORD_ALIGN) as u32;
        let last = self.waiting.checked_sub(1).map(|index| &mut self.pieces[index]);
        match last {
            Some(piece) if piece.next_offset == offset && offset != 0 => {
                piece.bytes = offset + length - piece.offset;
                piece.lines += lines;
                piece.next_offset = next_offset;
            }
            _ => {
                assert!(self.waiting < PIECES_MAX, "records stay within the credit");
                self.pieces[self.waiting] = Piece { offset, bytes: length, lines, next_offset };
                self.waiting += 1;
            }
        }
    }

    #[inline]
    fn ring_doorbell(&mut self) -> bool {
        if self.waiting == 0 {
            return true;
        }
        if self.link.is_down() {
            self.waiting = 0;
            return true;
        }
        if !self.has_room(self.waiting) {
            return false;
        }
        self.post();
        true
    }
}

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

    /// Learns of what has been written.
    fn look(&self) -> Result<(), LaneFault> {
        let mut arrivals = self.arrivals.borrow_mut();
        let Some(completions) = self.link.arrivals.poll(&mut *arrivals) else {
            self.link.fail(BROKEN_QUEUE);
            return Ok(());
        };
        if completions.is_empty() {
            self.note_empty_look();
            return Ok(());
        }
        let ring_lines = self.ring_bytes / RECORD_ALIGN;
        for completion in completions {
            if completion.status != sys::IBV_WC_SUCCESS {
                self.link.fail(completion.status);
                continue;
            }
            let lines = u32::from_be(completion.imm_data) as usize;
            if completion.opcode != sys::IBV_WC_RECV_RDMA_WITH_IMM || lines > ring_lines {
                return Err(LaneFault::Corrupt { what: "an announcement that no correct peer makes" });
            }
            self.end_line.set((self.end_line.get() + lines) & (ring_lines - 1));
        }
        self.link.receives.used(completions.len());
        // The card wrote the records before it reported them; the compiler must not read them earlier.
        compiler_fence(Ordering::Acquire);
        Ok(())
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
        if offset / RECORD_ALIGN == self.end_line.get() {
            self.look()?;
            if offset / RECORD_ALIGN == self.end_line.get() {
                return Ok(None);
            }
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
