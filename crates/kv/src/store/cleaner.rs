//! Cleaning: what lives in a segment that is mostly dead moves on, and the segment is free again.
//!
//! Nothing is ever cleaned at one go. An append also cleans, a fixed multiple of what is appended, so that
//! free segments never run out as long as the live entries leave the share of memory free that
//! [`live_bytes_max`] says: the emptiest segment has at least the average's share of dead bytes, so looking
//! through [`PACE`] bytes frees one.

use super::entry::ENTRY_BYTES_MAX;
use super::hashes::Hashes;
use super::index::Index;
use super::segments::{Head, SEGMENT_BYTES, Segments};

/// Bytes looked through for each byte appended, while cleaning is due.
const PACE: usize = 20;

/// Cleaning is due while there are fewer free segments.
const FREE_WANTED: usize = 5;

/// Segments that stay free of live entries: the open ones, those for survivors, and a segment that is half
/// cleaned.
const SPARE_SEGMENTS: usize = 6;

/// The most segments that one append cleans when no segment is free all the same.
const FORCED_SEGMENTS_MAX: usize = 4;

/// The most bytes of entries that may live in `segments` segments: all but the spare ones, and a sixteenth.
pub fn live_bytes_max(segments: usize) -> usize {
    segments.saturating_sub(SPARE_SEGMENTS) * (SEGMENT_BYTES / 16 * 15)
}

/// The most bytes that are looked through when `entries` are appended that have this many bytes together.
pub fn visited_bytes_max(entries: usize, bytes: usize) -> usize {
    bytes * PACE + entries * (ENTRY_BYTES_MAX + FORCED_SEGMENTS_MAX * (SEGMENT_BYTES + ENTRY_BYTES_MAX))
}

/// What cleaning has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanerStatistics {
    /// Bytes of entries looked at, dead or alive.
    pub visited_bytes: u64,
    /// Bytes of entries that were alive and moved.
    pub moved_bytes: u64,
    /// Segments that became free.
    pub segments_freed: u64,
    /// Times that an append found no free segment and had to wait for one to be cleaned.
    pub forced: u64,
}

/// The segment that is being cleaned, and how far.
#[derive(Clone, Copy, Debug)]
struct Victim {
    segment: u32,
    offset: usize,
}

/// The cleaner.
#[derive(Debug)]
pub struct Cleaner {
    hashes: Hashes,
    victim: Option<Victim>,
    pub statistics: CleanerStatistics,
}

impl Cleaner {
    /// A cleaner that finds entries in the index by these hashes.
    pub fn new(hashes: Hashes) -> Self {
        Self { hashes, victim: None, statistics: CleanerStatistics::default() }
    }

    /// Does the share of cleaning that comes with an append of this many bytes.
    #[inline]
    pub fn keep_pace(&mut self, segments: &mut Segments, index: &mut Index, appended_bytes: usize) {
        if segments.free() < FREE_WANTED {
            self.clean(segments, index, appended_bytes * PACE);
        }
    }

    /// Makes sure that an entry of this many bytes can be appended; says whether it can.
    #[inline]
    pub fn make_room(&mut self, segments: &mut Segments, index: &mut Index, bytes: usize) -> bool {
        segments.has_room(Head::Writes, bytes)
            || segments.open_next(Head::Writes)
            || self.force(segments, index)
    }

    #[cold]
    fn force(&mut self, segments: &mut Segments, index: &mut Index) -> bool {
        self.statistics.forced += 1;
        for _ in 0..FORCED_SEGMENTS_MAX {
            self.clean(segments, index, SEGMENT_BYTES);
            if segments.open_next(Head::Writes) {
                return true;
            }
        }
        false
    }

    /// Looks through `budget_bytes` of entries, and at most one entry more.
    fn clean(&mut self, segments: &mut Segments, index: &mut Index, budget_bytes: usize) {
        let mut visited = 0;
        while visited < budget_bytes {
            let Some(victim) = self.victim.or_else(|| choose(segments)) else { break };
            let (end, live_bytes) = segments.fill_of(victim.segment);
            if live_bytes == 0 || victim.offset == end {
                segments.release(victim.segment);
                self.statistics.segments_freed += 1;
                self.victim = None;
                continue;
            }
            let Some(bytes) = self.visit(segments, index, victim) else { break };
            visited += bytes;
            self.victim = Some(Victim { offset: victim.offset + bytes, ..victim });
        }
        self.statistics.visited_bytes += visited as u64;
    }

    /// Looks at one entry, and moves it when it is alive; gives its length, or `None` when there is no room
    /// for it.
    fn visit(&mut self, segments: &mut Segments, index: &mut Index, victim: Victim) -> Option<usize> {
        let place = segments.place(victim.segment, victim.offset);
        let entry = segments.entry(place);
        let bytes = entry.bytes();
        if !entry.is_dead() {
            let hash = self.hashes.of_entry(&entry);
            if !segments.has_room(Head::Survivors, bytes) && !segments.open_next(Head::Survivors) {
                return None;
            }
            let moved = segments.move_to_survivors(place);
            index.replace(hash, place, moved);
            self.statistics.moved_bytes += bytes as u64;
        }
        Some(bytes)
    }
}

fn choose(segments: &Segments) -> Option<Victim> {
    segments.emptiest().map(|segment| Victim { segment, offset: 0 })
}
