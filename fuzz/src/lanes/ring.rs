//! Rings in plain memory. Records are copied out of them, so that a hostile writer needs no care and no
//! unsafe code.

use core::cell::{Cell, OnceCell};
use core::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use farcall_base::Instant;
use farcall_driver::{
    LaneFault, LaneReceiver, LaneSender, Loan, RECORD_ALIGN, RECORD_HEADER_BYTES, RUNWAY_BYTES, Record,
    RecordKind,
};

/// The upper half of a publication flag; the lower half is the record's length.
const MARK: u64 = 0x5eed;

/// Copies are kept in chunks, so that an end which reads little costs little.
const CHUNK_RECORDS: usize = 64;

/// Chunks of one end; together they hold more records than a test can read.
const CHUNKS: usize = 64;

/// The bytes of a ring, flags included.
pub struct RingMemory {
    bytes: Vec<u8>,
}

/// A ring that two ends hold.
pub type SharedRing = Arc<Mutex<RingMemory>>;

/// Locks a ring.
fn memory(ring: &SharedRing) -> MutexGuard<'_, RingMemory> {
    ring.lock().expect("a test ends with its first panic")
}

impl RingMemory {
    /// A ring in which nothing has been published.
    pub fn shared(bytes: usize) -> SharedRing {
        Arc::new(Mutex::new(Self { bytes: vec![0; bytes] }))
    }

    /// Overwrites what is at `offset`, as far as it is in the ring.
    pub fn scribble(&mut self, offset: usize, bytes: &[u8]) {
        let offset = offset % self.bytes.len();
        let length = bytes.len().min(self.bytes.len() - offset);
        self.bytes[offset..offset + length].copy_from_slice(&bytes[..length]);
    }

    /// Writes a record with its flag; nothing is cleared, and `offset` may be anywhere.
    pub fn publish(&mut self, offset: usize, content: &[u8]) {
        self.scribble(offset + RECORD_HEADER_BYTES, content);
        self.scribble(offset, &flag(RECORD_HEADER_BYTES + content.len()).to_le_bytes());
    }

    /// Clears the flag at `offset`.
    pub fn clear(&mut self, offset: usize) {
        self.scribble(offset, &[0; 8]);
    }

    /// A copy of the record at `offset`.
    pub fn record(&self, offset: usize) -> Result<Option<Vec<u8>>, LaneFault> {
        let word = u64::from_le_bytes(self.bytes[offset..offset + 8].try_into().expect("eight bytes"));
        let length = word as u32 as usize;
        if word == 0 {
            return Ok(None);
        }
        let fits = (RECORD_HEADER_BYTES..=self.bytes.len() - offset).contains(&length);
        if word >> 32 != MARK || !fits {
            return Err(LaneFault::Corrupt { what: "a damaged publication flag" });
        }
        Ok(Some(self.bytes[offset + RECORD_HEADER_BYTES..offset + length].to_vec()))
    }
}

fn flag(length: usize) -> u64 {
    MARK << 32 | length as u64
}

/// The writing end. What is written becomes part of the ring when it is published.
pub struct MemorySender {
    ring: SharedRing,
    draft: Vec<u8>,
}

impl MemorySender {
    pub fn new(ring: SharedRing) -> Self {
        let draft = vec![0; memory(&ring).bytes.len()];
        Self { ring, draft }
    }
}

impl LaneSender for MemorySender {
    fn ring_bytes(&self) -> usize {
        self.draft.len()
    }

    fn begin(&mut self, _offset: usize, _length: usize) {}

    fn record(&mut self, offset: usize, length: usize) -> &mut [u8] {
        assert!(offset.is_multiple_of(RECORD_ALIGN), "records are aligned");
        &mut self.draft[offset..offset + length][RECORD_HEADER_BYTES..]
    }

    fn write_payload(&mut self, offset: usize, at: usize, payload: &[u8]) {
        self.record(offset, RECORD_HEADER_BYTES + at + payload.len())[at..].copy_from_slice(payload);
    }

    fn publish(&mut self, _kind: RecordKind, offset: usize, length: usize, next_offset: usize) {
        let mut ring = memory(&self.ring);
        for distance in (0..RUNWAY_BYTES).step_by(RECORD_ALIGN) {
            ring.clear(next_offset + distance);
        }
        ring.publish(offset, &self.draft[offset + RECORD_HEADER_BYTES..offset + length]);
    }

    fn ring_doorbell(&mut self) -> bool {
        true
    }

    fn copy_payload(&mut self, _kind: RecordKind, loan: &mut Loan, payload: &[u8]) {
        loan.copy_from_slice(payload);
    }

    /// As memory that went and came again, it is zero.
    fn fit(&mut self, used_bytes: usize, kept: Option<Range<usize>>) {
        let Some(kept) = kept else { return };
        let mut ring = memory(&self.ring);
        let Range { start, end } = kept;
        let is_kept = |line: usize| match start < end {
            true => line + RECORD_ALIGN > start && line < end,
            false => line + RECORD_ALIGN > start || line < end,
        };
        for line in (used_bytes..self.draft.len()).step_by(RECORD_ALIGN).filter(|&line| !is_kept(line)) {
            ring.bytes[line..line + RECORD_ALIGN].fill(0);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

/// The reading end. It keeps a copy of every record that it has shown, because it shows them by reference.
pub struct MemoryReceiver {
    ring: SharedRing,
    shown: Vec<OnceCell<Vec<OnceCell<AlignedBytes>>>>,
    count: Cell<usize>,
}

impl MemoryReceiver {
    pub fn new(ring: SharedRing) -> Self {
        let shown = (0..CHUNKS).map(|_| OnceCell::new()).collect();
        Self { ring, shown, count: Cell::new(0) }
    }
}

impl LaneReceiver for MemoryReceiver {
    fn may_have_record(&self, _offset: usize) -> bool {
        true
    }

    fn peek(&self, offset: usize, _bytes: Range<usize>) -> Result<Option<Record<'_>>, LaneFault> {
        assert!(offset.is_multiple_of(RECORD_ALIGN), "records are aligned");
        let Some(bytes) = memory(&self.ring).record(offset)? else { return Ok(None) };
        let number = self.count.replace(self.count.get() + 1);
        let fresh = || (0..CHUNK_RECORDS).map(|_| OnceCell::new()).collect();
        let cell = &self.shown[number / CHUNK_RECORDS].get_or_init(fresh)[number % CHUNK_RECORDS];
        Ok(Some(Record::new(cell.get_or_init(|| AlignedBytes::new(&bytes)).bytes())))
    }
}

/// A copy of some bytes at an address that records may have.
struct AlignedBytes {
    padded: Box<[u8]>,
    start: usize,
    length: usize,
}

impl AlignedBytes {
    fn new(bytes: &[u8]) -> Self {
        let mut padded = vec![0; bytes.len() + 8].into_boxed_slice();
        let start = padded.as_ptr().align_offset(8);
        padded[start..start + bytes.len()].copy_from_slice(bytes);
        Self { padded, start, length: bytes.len() }
    }

    fn bytes(&self) -> &[u8] {
        &self.padded[self.start..self.start + self.length]
    }
}
