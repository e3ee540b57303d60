//! The writing end of a lane.
//!
//! Records are written in place into a staging ring, which mirrors the peer's. What was published since the
//! last doorbell lies there in one piece, or two at the end of the ring, and leaves with one write each,
//! which announces itself: its immediate value says how many lines further the ring is now full. So the
//! reader learns of records from its completion queue, after all of their bytes are there, and needs no flag
//! that the network must write last. Over iWARP, whose writes have no immediate value, a message behind the
//! writes says the same.

use core::ffi::c_int;
use core::ops::Range;
use core::ptr::NonNull;
use std::sync::Arc;

use farcall_base::Instant;
use farcall_driver::{LaneSender, Loan, RECORD_ALIGN, RECORD_HEADER_BYTES, RecordKind};

use super::announcements::ANNOUNCEMENT_BYTES;
use super::link::{Announcing, Link, WRITES_MAX};
use super::pieces::{PIECES_MAX, Piece, Pieces};
use crate::sys;

/// Marks the first word of a record as one of ours: its upper half. The lower half is the record's length.
pub const MARK: u64 = 0xfa2c_a11e;

/// Requests of one doorbell: a write for each piece, and a message behind them where writes cannot announce
/// themselves.
const REQUESTS_MAX: usize = PIECES_MAX + 1;

/// The writing end: a mirror of the ring in the peer's memory.
pub struct VerbsSender {
    link: Arc<Link>,
    ring_bytes: usize,
    /// What the next doorbell hands to the card.
    waiting: Pieces,
    signal_period: u64,
    /// Writes handed to the card.
    posted: u64,
    /// The next write of which the card is to report that it is done.
    next_signal: u64,
    /// The staging memory, as long as the ring, and its key; the address of the ring.
    staging: NonNull<u8>,
    staging_key: u32,
    peer_address: u64,
    inline_bytes: usize,
    /// What writes a piece.
    write: c_int,
    /// The requests of a doorbell, written once but for what differs between doorbells.
    requests: [sys::ibv_send_wr; REQUESTS_MAX],
    parts: [sys::ibv_sge; REQUESTS_MAX],
}

// SAFETY: the pointers in the requests lead to the parts beside them and to each other, and are rewritten
// before use; the one to the staging memory is good on any thread, as the link is, which keeps it.
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
            staging: link.staging.at(0, ring_bytes),
            staging_key: link.staging.local_key(),
            peer_address: link.peer.ring_address,
            inline_bytes: link.inline_bytes(),
            link,
            ring_bytes,
            waiting: Pieces::default(),
            signal_period,
            posted: 0,
            next_signal: signal_period,
            write,
            requests: [request; REQUESTS_MAX],
            parts: [part; REQUESTS_MAX],
        }
    }

    #[inline(always)]
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
    #[inline(always)]
    fn has_room(&self) -> bool {
        self.writes_free() >= WRITES_MAX / 2 || self.has_room_now()
    }

    #[cold]
    fn has_room_now(&self) -> bool {
        self.link.reap();
        self.writes_free() >= REQUESTS_MAX
    }

    #[inline(always)]
    fn writes_free(&self) -> usize {
        WRITES_MAX - (self.posted - self.link.writes_gone()) as usize
    }

    /// Hands the waiting pieces to the card.
    #[inline(always)]
    fn post(&mut self) {
        if self.waiting.len() == 1 && matches!(self.link.announcing, Announcing::Immediate(_)) {
            self.describe(0);
            self.hand_over(1);
        } else {
            self.post_chain();
        }
        self.waiting.clear();
    }

    #[inline(never)]
    fn post_chain(&mut self) {
        let pieces = self.waiting.len();
        for index in 0..pieces {
            self.describe(index);
        }
        let count = pieces + usize::from(self.announce(pieces));
        self.hand_over(count);
    }

    /// Hands the first `count` requests to the card, which have been described.
    #[inline(always)]
    fn hand_over(&mut self, count: usize) {
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
        // SAFETY: the chain lives for the call, and its parts lie in the staging memory. A record is not
        // written again before the peer has said that it is read, and so has arrived; should the card send it
        // once more after that, because the acknowledgement was lost, then the peer's card drops it as a
        // duplicate.
        unsafe { self.link.write(requests) };
    }

    /// Writes what the request for a waiting piece does not share with others.
    #[inline(always)]
    fn describe(&mut self, index: usize) {
        // Inside the ring, and so inside the staging memory, which is as long: `publish` has checked it.
        let Piece { offset, bytes, lines, .. } = self.waiting.pieces()[index];
        self.posted += 1;
        let part = &mut self.parts[index];
        part.addr = (self.staging.as_ptr().addr() + offset) as u64;
        (part.length, part.lkey) = (bytes as u32, self.staging_key);
        let request = &mut self.requests[index];
        request.opcode = self.write;
        request.imm_data = lines.to_be();
        request.wr.rdma.remote_addr = self.peer_address.wrapping_add(offset as u64);
        self.number(index, bytes);
    }

    /// Adds a message about all pieces behind them, if the writes do not announce themselves.
    fn announce(&mut self, pieces: usize) -> bool {
        let Announcing::Message(announcements) = &self.link.announcing else { return false };
        let lines = self.waiting.pieces().iter().map(|piece| piece.lines).sum();
        self.posted += 1;
        self.parts[pieces] = announcements.outgoing(self.posted, lines);
        self.requests[pieces].opcode = sys::IBV_WR_SEND;
        self.number(pieces, ANNOUNCEMENT_BYTES);
        true
    }

    /// Gives a request its number, and says how it travels.
    #[inline(always)]
    fn number(&mut self, index: usize, bytes: usize) {
        let request = &mut self.requests[index];
        request.wr_id = self.posted;
        request.send_flags = if bytes <= self.inline_bytes { sys::IBV_SEND_INLINE } else { 0 };
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
    #[inline(always)]
    fn begin(&mut self, _offset: usize, _length: usize) {}

    #[inline(always)]
    fn record(&mut self, offset: usize, length: usize) -> &mut [u8] {
        self.check(offset, length);
        let payload_bytes = length - RECORD_HEADER_BYTES;
        // SAFETY: inside the ring (checked above), and so inside the staging memory, which only this end
        // accesses and which the link keeps; the card does not read a record that is being written (see
        // `hand_over`).
        unsafe {
            let start = self.staging.add(offset + RECORD_HEADER_BYTES);
            core::slice::from_raw_parts_mut(start.as_ptr(), payload_bytes)
        }
    }

    #[inline]
    fn write_payload(&mut self, offset: usize, at: usize, payload: &[u8]) {
        self.record(offset, RECORD_HEADER_BYTES + at + payload.len())[at..].copy_from_slice(payload);
    }

    #[inline(always)]
    fn publish(&mut self, _kind: RecordKind, offset: usize, length: usize, next_offset: usize) {
        self.check(offset, length);
        // SAFETY: inside the staging memory, as in `record`, and aligned, since records are.
        unsafe { self.staging.add(offset).cast::<u64>().write((MARK << 32 | length as u64).to_le()) };
        let end = if next_offset == 0 { self.ring_bytes } else { next_offset };
        let lines = ((end - offset) / RECORD_ALIGN) as u32;
        self.waiting.add(Piece { offset, bytes: length, lines, next_offset });
    }

    #[inline(always)]
    fn ring_doorbell(&mut self) -> bool {
        if self.waiting.len() == 0 {
            return true;
        }
        if self.link.is_down() {
            self.waiting.clear();
            return true;
        }
        if !self.has_room() {
            return false;
        }
        self.post();
        true
    }

    fn copy_payload(&mut self, _kind: RecordKind, loan: &mut Loan, payload: &[u8]) {
        loan.copy_from_slice(payload);
    }

    /// All of a ring is pinned for the card.
    fn fit(&mut self, _used_bytes: usize, _kept: Option<Range<usize>>) {}

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}
