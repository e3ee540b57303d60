//! The log's memory: segments that are filled from the start and emptied as a whole.
//!
//! A segment is free, open (something is appended to it), or closed. Segments are taken from the system when they
//! are first needed and given back only when the index needs their memory.

use super::entry::{Entry, NewEntry, mark_dead, rewrite};

/// Bytes in a segment. Entries do not cross its end, so it is large against an entry.
pub const SEGMENT_BYTES: usize = 1 << 20;

/// Where an entry lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    segment: u32,
    offset: u32,
}

/// What is appended to a segment's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Free,
    Open,
    Closed,
}

#[derive(Debug)]
struct Segment {
    stage: Stage,
    /// Empty and without memory while the segment was never needed, or its memory was given back.
    log: Vec<u8>,
    /// Bytes of entries that are not dead.
    live_bytes: usize,
}

/// Who appends: what is written and what survives a cleaning go to segments of their own, because what has lived
/// long tends to live longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    Writes = 0,
    Survivors = 1,
}

/// Free segments that only survivors may take: without room for them nothing could be cleaned.
const SURVIVORS_RESERVE: usize = 2;

/// All segments.
#[derive(Debug, Default)]
pub struct Segments {
    segments: Vec<Segment>,
    free: Vec<u32>,
    /// The open segment of each [`Head`].
    open: [Option<u32>; 2],
    /// How many may have memory.
    segments_max: usize,
    /// How many have.
    allocated: usize,
    live_bytes: usize,
}

impl Segments {
    /// Sets how many segments may have memory; those that are free give theirs back if they are too many.
    pub fn set_max(&mut self, segments_max: usize) {
        self.segments_max = segments_max;
        while self.allocated > self.segments_max
            && let Some(number) = self.free.pop()
        {
            self.segments[number as usize].log = Vec::new();
            self.allocated -= 1;
        }
    }

    /// How many may have memory.
    pub fn max(&self) -> usize {
        self.segments_max
    }

    /// How many have memory.
    pub fn allocated(&self) -> usize {
        self.allocated
    }

    /// Segments that could be opened.
    pub fn free(&self) -> usize {
        (self.free.len() + self.segments_max).saturating_sub(self.allocated)
    }

    /// Bytes of entries that are not dead.
    pub fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    /// Whether the head's open segment has room for so many bytes.
    #[inline]
    pub fn has_room(&self, head: Head, bytes: usize) -> bool {
        let open = self.open[head as usize];
        open.is_some_and(|number| self.segments[number as usize].log.len() + bytes <= SEGMENT_BYTES)
    }

    /// Opens another segment for a head and closes the one that it had; says whether there is one.
    pub fn open_next(&mut self, head: Head) -> bool {
        let reserve = if head == Head::Writes { SURVIVORS_RESERVE } else { 0 };
        if self.free() <= reserve {
            return false;
        }
        let Some(number) = self.free.pop().or_else(|| self.allocate()) else { return false };
        self.segments[number as usize].stage = Stage::Open;
        if let Some(full) = self.open[head as usize].replace(number) {
            self.segments[full as usize].stage = Stage::Closed;
        }
        true
    }

    /// Memory for one more segment; `None` when the system has none.
    fn allocate(&mut self) -> Option<u32> {
        let mut log = Vec::new();
        log.try_reserve_exact(SEGMENT_BYTES).ok()?;
        self.allocated += 1;
        let without = self.segments.iter().position(|segment| segment.log.capacity() == 0);
        let number = without.unwrap_or(self.segments.len());
        if number == self.segments.len() {
            self.segments.push(Segment { stage: Stage::Free, log: Vec::new(), live_bytes: 0 });
        }
        self.segments[number].log = log;
        Some(number as u32)
    }

    /// Writes an entry to the head's open segment, which has room.
    #[inline]
    pub fn append(&mut self, head: Head, entry: &NewEntry<'_>) -> Place {
        self.append_with(head, entry.bytes(), |log| entry.append_to(log))
    }

    #[inline]
    fn append_with(&mut self, head: Head, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> Place {
        let number = self.open[head as usize].expect("a segment with room was opened");
        let segment = &mut self.segments[number as usize];
        let offset = segment.log.len() as u32;
        debug_assert!(segment.log.len() + bytes <= SEGMENT_BYTES, "a segment is never filled over its end");
        write(&mut segment.log);
        segment.live_bytes += bytes;
        self.live_bytes += bytes;
        Place { segment: number, offset }
    }

    /// The entry at a place.
    #[inline]
    pub fn entry(&self, place: Place) -> Entry<'_> {
        Entry::at(&self.segments[place.segment as usize].log[place.offset as usize..])
    }

    /// Marks an entry dead.
    #[inline]
    pub fn kill(&mut self, place: Place) {
        let bytes = self.entry(place).bytes();
        let segment = &mut self.segments[place.segment as usize];
        mark_dead(&mut segment.log[place.offset as usize..]);
        segment.live_bytes -= bytes;
        self.live_bytes -= bytes;
    }

    /// Replaces version and body of an entry, which must stay as long as it is.
    #[inline]
    pub fn rewrite(&mut self, place: Place, key_bytes: usize, version: u64, body: &[u8]) {
        let log = &mut self.segments[place.segment as usize].log;
        rewrite(&mut log[place.offset as usize..], key_bytes, version, body);
    }

    /// The closed segment with the fewest live bytes; `None` when none has a dead byte.
    pub fn emptiest(&self) -> Option<u32> {
        let closed = self.segments.iter().enumerate().filter(|(_, segment)| segment.stage == Stage::Closed);
        let (number, segment) = closed.min_by_key(|(_, segment)| segment.live_bytes)?;
        (segment.live_bytes < SEGMENT_BYTES).then_some(number as u32)
    }

    /// Bytes written to a segment, and how many of them live.
    pub fn fill_of(&self, number: u32) -> (usize, usize) {
        let segment = &self.segments[number as usize];
        (segment.log.len(), segment.live_bytes)
    }

    /// The place in a segment at an offset where an entry starts.
    pub fn place(&self, segment: u32, offset: usize) -> Place {
        Place { segment, offset: offset as u32 }
    }

    /// Copies an entry to the survivors' open segment, which has room, and marks the original dead.
    pub fn move_to_survivors(&mut self, from: Place) -> Place {
        let bytes = self.entry(from).bytes();
        let source = core::mem::take(&mut self.segments[from.segment as usize].log);
        let entry = &source[from.offset as usize..from.offset as usize + bytes];
        let to = self.append_with(Head::Survivors, bytes, |log| log.extend_from_slice(entry));
        self.segments[from.segment as usize].log = source;
        self.kill(from);
        to
    }

    /// Makes a closed segment without live entries free.
    pub fn release(&mut self, number: u32) {
        let segment = &mut self.segments[number as usize];
        debug_assert_eq!(
            (segment.stage, segment.live_bytes),
            (Stage::Closed, 0),
            "only what is dead is released"
        );
        segment.stage = Stage::Free;
        segment.log.clear();
        self.free.push(number);
        self.set_max(self.segments_max);
    }
}
