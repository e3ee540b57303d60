//! The log's memory: segments that are filled from the start and emptied as a whole.
//!
//! A segment is free, open (something is appended to it), or closed. All lie side by side in one range of
//! addresses, so that the system can use huge pages. Their memory is taken when they are first needed and
//! given back only when the index needs it.

use std::io;

use farcall_driver::prefetch_lines;

use super::entry::{Entry, NewEntry, Tail, mark_dead, rewrite, set_uses};
use super::reserve::Reserve;

/// Bytes in a segment. Entries do not cross its end, so it is large against an entry.
pub const SEGMENT_BYTES: usize = 1 << 20;

/// Where an entry lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    segment: u32,
    offset: u32,
}

/// Where that is in the memory of all segments.
#[inline]
fn at(place: Place) -> usize {
    place.segment as usize * SEGMENT_BYTES + place.offset as usize
}

/// Bytes of an entry that are fetched when it is about to be looked at: a key of thirty bytes and a value of
/// a hundred.
const PREFETCHED_BYTES: usize = 192;

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
    /// It was needed, and its memory was not given back.
    has_memory: bool,
    /// Bytes of entries, dead or alive.
    filled: usize,
    /// Bytes of entries that are not dead.
    live_bytes: usize,
}

/// The source of an append: what is written and what survives a cleaning go to segments of their own, because
/// what has lived long tends to live longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    Writes = 0,
    Survivors = 1,
}

/// Free segments that only survivors may take: without room for them nothing could be cleaned.
const SURVIVORS_RESERVE: usize = 2;

/// All segments.
#[derive(Debug)]
pub struct Segments {
    memory: Reserve,
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
    /// No segments yet, and addresses for those that fit into this many bytes.
    pub fn new(memory_bytes: usize) -> io::Result<Self> {
        Ok(Self {
            memory: Reserve::new(memory_bytes / SEGMENT_BYTES * SEGMENT_BYTES)?,
            segments: Vec::new(),
            free: Vec::new(),
            open: [None; 2],
            segments_max: 0,
            allocated: 0,
            live_bytes: 0,
        })
    }

    /// Sets how many segments may have memory; those that are free give theirs back if they are too many.
    pub fn set_max(&mut self, segments_max: usize) {
        self.segments_max = segments_max;
        while self.allocated > self.segments_max
            && let Some(number) = self.free.pop()
        {
            let start = number as usize * SEGMENT_BYTES;
            self.memory.give_back(start..start + SEGMENT_BYTES);
            self.segments[number as usize].has_memory = false;
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

    /// Whether the head's open segment has room for this many bytes.
    #[inline]
    pub fn has_room(&self, head: Head, bytes: usize) -> bool {
        let open = self.open[head as usize];
        open.is_some_and(|number| self.segments[number as usize].filled + bytes <= SEGMENT_BYTES)
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

    /// One more segment with memory; `None` when there are no addresses for it.
    fn allocate(&mut self) -> Option<u32> {
        let number = match self.segments.iter().position(|segment| !segment.has_memory) {
            Some(number) => number,
            None if (self.segments.len() + 1) * SEGMENT_BYTES <= self.memory.len() => {
                self.segments.push(Segment {
                    stage: Stage::Free,
                    has_memory: false,
                    filled: 0,
                    live_bytes: 0,
                });
                self.segments.len() - 1
            }
            None => return None,
        };
        self.segments[number].has_memory = true;
        self.allocated += 1;
        Some(number as u32)
    }

    /// Writes an entry to the head's open segment, which has room.
    #[inline]
    pub fn append(&mut self, head: Head, entry: &NewEntry<'_>) -> Place {
        let bytes = entry.bytes();
        let place = self.extend(head, bytes);
        let at = at(place);
        entry.write(&mut self.memory[at..at + bytes]);
        place
    }

    /// Makes this many bytes at the end of the head's open segment, which has room, those of a live entry.
    #[inline]
    fn extend(&mut self, head: Head, bytes: usize) -> Place {
        let number = self.open[head as usize].expect("a segment with room was opened");
        let segment = &mut self.segments[number as usize];
        let offset = segment.filled as u32;
        debug_assert!(segment.filled + bytes <= SEGMENT_BYTES, "a segment is never filled over its end");
        segment.filled += bytes;
        segment.live_bytes += bytes;
        self.live_bytes += bytes;
        Place { segment: number, offset }
    }

    /// The entry at a place.
    #[inline]
    pub fn entry(&self, place: Place) -> Entry<'_> {
        Entry::at(&self.memory[at(place)..])
    }

    /// Starts to fetch the first lines of an entry: its key is about to be compared, and its value to be
    /// read.
    #[inline]
    pub fn prefetch(&self, place: Place) {
        // At the very end of the memory there may be less, which is not worth the count of its lines.
        if let Some(lines) = self.memory[at(place)..].first_chunk::<PREFETCHED_BYTES>() {
            prefetch_lines(lines);
        }
    }

    /// Marks an entry dead.
    #[inline]
    pub fn kill(&mut self, place: Place) {
        let bytes = self.entry(place).bytes();
        mark_dead(&mut self.memory[at(place)..]);
        let segment = &mut self.segments[place.segment as usize];
        segment.live_bytes -= bytes;
        self.live_bytes -= bytes;
    }

    /// Replaces all but the key of an entry, which must stay as long as it is.
    #[inline]
    pub fn rewrite(&mut self, place: Place, key_bytes: usize, version: u64, body: &[u8], tail: Tail) {
        rewrite(&mut self.memory[at(place)..], key_bytes, version, body, tail);
    }

    /// Says how the entry at a place is used.
    pub fn set_uses(&mut self, place: Place, uses: u8) {
        set_uses(&mut self.memory[at(place)..], uses);
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
        (segment.filled, segment.live_bytes)
    }

    /// The place in a segment at an offset where an entry starts.
    pub fn place(&self, segment: u32, offset: usize) -> Place {
        Place { segment, offset: offset as u32 }
    }

    /// Copies an entry to the survivors' open segment, which has room, and marks the original dead.
    pub fn move_to_survivors(&mut self, from: Place) -> Place {
        let bytes = self.entry(from).bytes();
        let to = self.extend(Head::Survivors, bytes);
        self.memory.copy_within(at(from)..at(from) + bytes, at(to));
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
        segment.filled = 0;
        self.free.push(number);
        self.set_max(self.segments_max);
    }
}
