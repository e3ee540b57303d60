//! The two ends of a shared-memory lane.
//!
//! A ring lives in a segment of the process that reads it. Behind a control line the segment holds nothing
//! but the ring; what a reader or writer remembers (positions, runway) is private to it, so no line of the
//! segment is ever written by both, except the sleeper's flag in the control line.

use core::ops::Range;
use core::ptr::slice_from_raw_parts;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

use farcall_base::Instant;
use farcall_driver::{
    FETCH_BYTES_MAX, LaneFault, LaneReceiver, LaneSender, Loan, RECORD_ALIGN, RECORD_HEADER_BYTES, Record,
    RecordKind,
};

use crate::blocks::PeerBlocks;
use crate::copy::prefetch::prefetch_for_ownership;
use crate::copy::progress::{self, Follower, PROGRESS_BYTES_MIN, Progress};
use crate::copy::{PayloadCopier, StreamCopier};
use crate::doorbell;
use crate::flags::{Runway, Words, published};
use crate::intake::ForeignFd;
use crate::mirror::Mirror;
use crate::ring_memory::{FIRST_LINE_BYTES, RingMemory, populate_ring};
use crate::segment::Mapping;
use crate::sleep;

/// How long a draft is at first: as long as records are that hold many short messages.
const DRAFT_BYTES: usize = 16 << 10;

/// The writing end: the ring in the peer's segment.
#[derive(Debug)]
pub struct ShmSender {
    ring: RingMemory,
    runway: Runway,
    /// The record that is being written. The peer keeps looking at the first line of the next record; if that
    /// line were written piece by piece, each piece would have to win it back from the peer's cache.
    /// As long as the longest yet: one of the ring's length would be cleared by the allocator as a whole,
    /// where it uses memory again, and so have all of its pages.
    draft: Vec<u8>,
    /// How much of the record is in its place already, its first line left out; 0 when nothing is.
    written_bytes: usize,
    /// For payloads, in blocks and in records.
    copier: PayloadCopier,
    /// For records of many short messages.
    message_copier: StreamCopier,
    /// Whether the last record was one of these, as the next may be.
    is_stream: bool,
    /// How long a block is that the driver should make ready for the next payload; 0 when none.
    wanted_bytes: Arc<AtomicUsize>,
    /// Whether a peer that waits for a long payload is told how far its copy is.
    tells_progress: bool,
    /// The peer's wake-up descriptor, if it may sleep at all.
    doorbell: Option<Arc<ForeignFd>>,
}

impl ShmSender {
    pub(crate) fn new(
        mapping: Arc<Mapping>,
        doorbell: Option<Arc<ForeignFd>>,
        nontemporal: Option<bool>,
        wanted_bytes: Arc<AtomicUsize>,
    ) -> Self {
        let ring = RingMemory::new(mapping);
        let runway = Runway::new(ring.bytes());
        let draft = vec![0; ring.bytes().min(DRAFT_BYTES)];
        let copier = PayloadCopier::new(nontemporal);
        let message_copier = StreamCopier::new(nontemporal);
        Self {
            ring,
            runway,
            draft,
            written_bytes: 0,
            copier,
            message_copier,
            is_stream: false,
            wanted_bytes,
            tells_progress: progress::pays_here(),
            doorbell,
        }
    }
}

impl ShmSender {
    /// Brings what is still a draft of a record to its place, the first line last.
    #[inline(never)]
    fn finish(&mut self, offset: usize, length: usize) {
        let behind = core::mem::take(&mut self.written_bytes)..length - RECORD_HEADER_BYTES;
        self.ring.copy_part(offset, behind.start, &self.draft[behind], &mut self.copier);
        self.ring.write_first_line(offset, &self.draft);
    }

    /// Makes the draft long enough for a record.
    #[inline]
    fn draft_for(&mut self, length: usize) {
        if length > self.draft.len() {
            self.lengthen_draft(length);
        }
    }

    fn lengthen_draft(&mut self, length: usize) {
        assert!(length <= self.ring.bytes(), "a record outside the ring");
        self.draft.resize(length.next_power_of_two().min(self.ring.bytes()), 0);
    }

    /// Makes a part of the next record's place ready, should it have `length` bytes; whether there is more
    /// to do. Not while a part of a record is in its place: it is in what would be cleared.
    pub(crate) fn prepare(&mut self, length: usize) -> bool {
        self.written_bytes == 0
            && self.copier.wants_lines_ahead(length)
            && self.runway.lengthen(&self.ring, length)
    }

    /// Copies a payload for which the peer waits, and tells it of each part but the last, which comes with
    /// the record.
    fn copy_by_parts(&mut self, loan: &mut Loan, payload: &[u8]) {
        let part_bytes = progress::part_bytes(payload.len());
        let offset = loan.descriptor().offset;
        let mut written = 0;
        for (to, from) in loan.chunks_mut(part_bytes).zip(payload.chunks(part_bytes)) {
            self.copier.copy(to, from);
            written += from.len();
            if written < payload.len() {
                self.runway.tell(&self.ring, Progress::new(offset, written));
            }
        }
    }
}

impl LaneSender for ShmSender {
    fn ring_bytes(&self) -> usize {
        self.ring.bytes()
    }

    /// Asks for the record's lines, which the peer has read in the ring's last round and still holds.
    #[inline(always)]
    fn begin(&mut self, offset: usize, length: usize) {
        let start = self.ring.at(offset);
        let is_nontemporal = match self.is_stream {
            true => self.message_copier.is_nontemporal(length),
            false => self.copier.is_nontemporal(length),
        };
        let bytes_max = if is_nontemporal { RECORD_ALIGN } else { FETCH_BYTES_MAX };
        prefetch_for_ownership(slice_from_raw_parts(start, length.min(bytes_max)));
    }

    #[inline(always)]
    fn record(&mut self, _offset: usize, length: usize) -> &mut [u8] {
        // Its place is looked at when it is published.
        self.draft_for(length);
        &mut self.draft[..length - RECORD_HEADER_BYTES]
    }

    /// Where lines come quickly from the peer's cache, to copy twice costs more than to fetch them one after
    /// the other. The draft behind what was written before, and what is in the first line, stay drafts.
    fn write_payload(&mut self, offset: usize, at: usize, payload: &[u8]) {
        self.draft_for(RECORD_HEADER_BYTES + at + payload.len());
        if !self.copier.may_go_by_parts() || payload.len() < FIRST_LINE_BYTES {
            self.draft[at..at + payload.len()].copy_from_slice(payload);
            return;
        }
        let begin = at.max(FIRST_LINE_BYTES);
        let (first, rest) = payload.split_at(begin - at);
        self.draft[at..begin].copy_from_slice(first);
        let before = self.written_bytes.max(FIRST_LINE_BYTES)..begin;
        self.ring.copy_part(offset, before.start, &self.draft[before], &mut self.copier);
        self.ring.copy_part(offset, begin, rest, &mut self.copier);
        self.written_bytes = at + payload.len();
    }

    #[inline(always)]
    fn publish(&mut self, kind: RecordKind, offset: usize, length: usize, next_offset: usize) {
        self.is_stream = kind == RecordKind::Stream;
        if self.written_bytes > 0 {
            self.finish(offset, length);
        } else if self.is_stream {
            self.ring.copy_in(offset, &self.draft, length, |to, from| self.message_copier.copy(to, from));
        } else {
            self.ring.copy_in(offset, &self.draft, length, |to, from| self.copier.copy(to, from));
        }
        self.runway.publish(&self.ring, offset, length, next_offset);
    }

    fn copy_payload(&mut self, kind: RecordKind, loan: &mut Loan, payload: &[u8]) {
        assert_eq!(loan.len(), payload.len(), "a loan for all of the payload");
        if self.tells_progress && kind == RecordKind::Conversation && payload.len() >= PROGRESS_BYTES_MIN {
            self.copy_by_parts(loan, payload);
        } else {
            self.copier.copy(loan, payload);
        }
        // Another as long may come.
        let wanted_bytes = if self.copier.wants_lines_ahead(payload.len()) { payload.len() } else { 0 };
        self.wanted_bytes.store(wanted_bytes, Ordering::Relaxed);
    }

    fn fit(&mut self, used_bytes: usize, kept: Option<Range<usize>>) {
        match kept {
            None => populate_ring(self.ring.mapping(), used_bytes),
            Some(kept) => self.ring.give_back(used_bytes, kept),
        }
    }

    #[inline]
    fn ring_doorbell(&mut self) -> bool {
        if let Some(doorbell) = &self.doorbell {
            wake_sleeper(self.ring.mapping(), doorbell);
        }
        true
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

/// The reading end: the ring in our own segment.
#[derive(Debug)]
pub struct ShmReceiver {
    ring: RingMemory,
    follower: Follower,
    /// Where records are copied that a peer writes which is not trusted.
    mirror: Option<Box<Mirror>>,
}

impl ShmReceiver {
    pub(crate) fn new(mapping: Arc<Mapping>, peer_blocks: Weak<PeerBlocks>, copies: bool) -> Self {
        let ring = RingMemory::new(mapping);
        let mirror = copies.then(|| Box::new(Mirror::new(ring.bytes())));
        Self { ring, follower: Follower::new(peer_blocks), mirror }
    }

    /// As `record`, for a peer that is not trusted. The record that is being read stays as it was copied,
    /// whatever the peer writes there, unless it is not published any more.
    fn copied_record<'a>(
        &'a self,
        mirror: &'a Mirror,
        offset: usize,
    ) -> Result<Option<Record<'a>>, LaneFault> {
        let Some(length) = self.published(offset)? else {
            mirror.forget();
            return Ok(None);
        };
        match mirror.reading(offset) {
            Some(record) => Ok(Some(Record::new(record))),
            None => mirror.copy(&self.ring, offset, length).map(Record::new).map(Some),
        }
    }

    /// The length of the record at `offset`, if there is one, within the ring.
    #[inline]
    fn published(&self, offset: usize) -> Result<Option<usize>, LaneFault> {
        let Some(length) = published(&self.ring, offset).map_err(|_| bad("a damaged publication flag"))?
        else {
            return Ok(None);
        };
        if length < RECORD_HEADER_BYTES || length > self.ring.bytes() - offset {
            return Err(bad("a record that leaves the ring"));
        }
        Ok(Some(length))
    }

    /// The record at `offset`, without its flag.
    #[inline(always)]
    fn record(&self, offset: usize) -> Result<Option<Record<'_>>, LaneFault> {
        assert!(
            offset < self.ring.bytes() && offset.is_multiple_of(RECORD_ALIGN),
            "an offset outside the ring"
        );
        if let Some(mirror) = &self.mirror {
            return self.copied_record(mirror, offset);
        }
        let Some(length) = self.published(offset)? else { return Ok(None) };
        // SAFETY: inside the mapping (`published` checks it), which outlives the borrow, and behind a flag of
        // eight bytes at the beginning of a line.
        let record = unsafe {
            Record::from_raw(self.ring.at(offset + RECORD_HEADER_BYTES), length - RECORD_HEADER_BYTES)
        };
        Ok(Some(record))
    }
}

impl LaneReceiver for ShmReceiver {
    #[inline(always)]
    fn may_have_record(&self, offset: usize) -> bool {
        let flag = self.ring.load(offset, Ordering::Relaxed);
        flag != 0 && !self.follower.follows(flag)
    }

    #[inline(always)]
    fn peek(&self, offset: usize, bytes: Range<usize>) -> Result<Option<Record<'_>>, LaneFault> {
        let Some(record) = self.record(offset)? else { return Ok(None) };
        // From the start, the lines behind the first, which is here. Further on, what is read now was
        // fetched before, and what comes so far behind it was not.
        let ahead = match bytes.start {
            0 => FIRST_LINE_BYTES..FETCH_BYTES_MAX,
            start => start + FETCH_BYTES_MAX..bytes.end + FETCH_BYTES_MAX,
        };
        record.prefetch(ahead);
        Ok(Some(record))
    }
}

#[cold]
fn bad(what: &'static str) -> LaneFault {
    LaneFault::Corrupt { what }
}

/// Wakes the owner of a ring if it sleeps; called after publishing something there.
#[inline]
pub fn wake_sleeper(mapping: &Mapping, doorbell: &ForeignFd) {
    if sleep::must_ring(sleeper(mapping)) {
        doorbell::ring(doorbell.as_fd());
    }
}

/// Announces in the ring's control line that its owner sleeps, or that it is awake.
pub fn announce_sleep(mapping: &Mapping, asleep: bool) {
    if asleep {
        sleep::announce(sleeper(mapping));
    } else {
        sleep::withdraw(sleeper(mapping));
    }
}

/// The owner's announcement that it sleeps, in the control line.
fn sleeper(mapping: &Mapping) -> &AtomicU32 {
    // SAFETY: aligned, inside the mapping, and only ever accessed as an atomic.
    unsafe { mapping.at(0, 4).cast().as_ref() }
}
