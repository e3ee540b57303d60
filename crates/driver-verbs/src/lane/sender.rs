//! The writing end of a lane.
//!
//! Records are written in place into a staging ring, which mirrors the peer's. What was published since the last doorbell
//! lies there in one piece, or two at the end of the ring, and leaves with one write each, which announces itself: its
//! immediate value says how many lines further the ring is now full. So the reader learns of records from its completion
//! queue, after all of their bytes are there, and needs no flag that the network must write last. Over iWARP, whose writes have
//! no immediate value, a message behind the writes says the same.

use core::ffi::c_int;
use std::sync::Arc;

use farcall_driver::{LaneSender, RECORD_ALIGN, RECORD_HEADER_BYTES};

use super::announcements::ANNOUNCEMENT_BYTES;
use super::link::{Announcing, Link, WRITES_MAX};
use crate::sys;

/// Marks the first word of a record as one of ours: its upper half. The lower half is the record's length.
pub const MARK: u64 = 0xfa2c_a11e;

/// Records lie in at most so many pieces between two doorbells: before the end of the ring, and after it.
const PIECES_MAX: usize = 2;

/// Requests of one doorbell: a write for each piece, and a message behind them where writes cannot announce themselves.
const REQUESTS_MAX: usize = PIECES_MAX + 1;

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
    /// What writes a piece.
    write: c_int,
    /// The requests of a doorbell, written once but for what differs between doorbells.
    requests: [sys::ibv_send_wr; REQUESTS_MAX],
    parts: [sys::ibv_sge; REQUESTS_MAX],
}

// SAFETY: the pointers in the requests lead to the parts beside them and to each other, and are rewritten before use.
unsafe impl Send for VerbsSender {}

impl VerbsSender {
    pub(super) fn new(link: Arc<Link>, signal_period: usize) -> Self {
        let ring_bytes = link.peer.ring_bytes as usize;
        let signal_period = signal_period.clamp(1, WRITES_MAX / 2) as u64;
        let write = match link.announcing {
            Announcing::Immediate(_) => sys::IBV_WR_RDMA_WRITE_WITH_IMM,
            Announcing::Message(_) => sys::IBV_WR_RDMA_WRITE,
        };
        let mut request = sys::ibv_send_wr::new();
        request.num_sge = 1;
        request.wr.rdma = sys::ibv_rdma_target { remote_addr: 0, rkey: link.peer.ring_key };
        let part = sys::ibv_sge::default();
        Self {
            link,
            ring_bytes,
            pieces: Default::default(),
            waiting: 0,
            signal_period,
            posted: 0,
            next_signal: signal_period,
            write,
            requests: [request; REQUESTS_MAX],
            parts: [part; REQUESTS_MAX],
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

    /// Whether the card can take another doorbell's requests.
    #[inline]
    fn has_room(&self) -> bool {
        let free = || WRITES_MAX - (self.posted - self.link.writes_gone()) as usize;
        if free() < WRITES_MAX / 2 {
            self.link.reap();
        }
        free() >= REQUESTS_MAX
    }

    /// Hands the waiting pieces to the card.
    fn post(&mut self) {
        let waiting = core::mem::take(&mut self.waiting);
        for index in 0..waiting {
            self.describe(index);
        }
        let count = waiting + usize::from(self.announce(waiting));
        let (requests, parts) = (self.requests.as_mut_ptr(), self.parts.as_mut_ptr());
        for index in 0..count {
            // SAFETY: `count` is at most the length of both arrays.
            unsafe {
                (*requests.add(index)).sg_list = parts.add(index);
                let is_last = index + 1 == count;
                (*requests.add(index)).next =
                    if is_last { core::ptr::null_mut() } else { requests.add(index + 1) };
            }
        }
        // SAFETY: the chain lives for the call, and its parts lie in the staging memory. A record is not written again
        // before the peer has said that it is read, and so has arrived; should the card send it once more after that,
        // because the acknowledgement was lost, then the peer's card drops it as a duplicate.
        unsafe { self.link.write(requests) };
    }

    /// Writes what the request for a waiting piece does not share with others.
    #[inline]
    fn describe(&mut self, index: usize) {
        let Piece { offset, bytes, lines, .. } = self.pieces[index];
        self.posted += 1;
        let part = &mut self.parts[index];
        part.addr = self.link.staging.at(offset, bytes).as_ptr().addr() as u64;
        (part.length, part.lkey) = (bytes as u32, self.link.staging.local_key());
        let request = &mut self.requests[index];
        request.opcode = self.write;
        request.imm_data = lines.to_be();
        request.wr.rdma.remote_addr = self.link.peer.ring_address.wrapping_add(offset as u64);
        self.number(index, bytes);
    }

    /// Adds a message about all pieces behind them, if the writes do not announce themselves.
    #[inline]
    fn announce(&mut self, pieces: usize) -> bool {
        let Announcing::Message(announcements) = &self.link.announcing else { return false };
        let lines = self.pieces[..pieces].iter().map(|piece| piece.lines).sum();
        self.posted += 1;
        self.parts[pieces] = announcements.outgoing(self.posted, lines);
        self.requests[pieces].opcode = sys::IBV_WR_SEND;
        self.number(pieces, ANNOUNCEMENT_BYTES);
        true
    }

    /// Gives a request its number, and says how it travels.
    #[inline]
    fn number(&mut self, index: usize, bytes: usize) {
        let request = &mut self.requests[index];
        request.wr_id = self.posted;
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
        if !self.has_room() {
            return false;
        }
        self.post();
        true
    }
}
