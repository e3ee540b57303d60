//! Which frames of the disk hold which segments, and which are free.
//!
//! Segments are cleaned in the order in which they were opened: when the oldest is, everything before it is
//! gone, so nothing that a tombstone in it deleted can come back, and the tombstone may go as well.

use std::collections::VecDeque;

use super::format::{Ending, FRAME_BYTES, FRAMES_AT, frame_at};

/// Frames that the cleaner's survivors may take and writes may not: without them nothing could be cleaned.
pub const SURVIVORS_RESERVE: usize = 2;

/// Frames beyond its most that a log may take in a life if its cleaner cannot go on without.
const LENT_MAX: usize = 2;

/// Free frames that are made ready ahead.
const READY_WANTED: usize = 4;

/// The frames of a disk.
#[derive(Debug)]
pub struct Frames {
    /// Segments that are closed, the oldest first.
    live: VecDeque<Ending>,
    live_bytes: u64,
    free: Vec<u32>,
    /// How many there are, and how many there may be.
    ready: usize,
    most: usize,
    /// The device had no room for more.
    is_full: bool,
    /// Frames beyond the most that there were to be, of this life.
    lent: usize,
}

impl Frames {
    /// The frames of a disk of this length, which may become `bytes_max` long; in all but `live` and the
    /// head's lies nothing that is needed.
    pub fn new(disk_bytes: u64, bytes_max: u64, live: VecDeque<Ending>, head: Option<u32>) -> Self {
        let frames = |bytes: u64| (bytes.saturating_sub(FRAMES_AT) / FRAME_BYTES as u64) as usize;
        let ready = frames(disk_bytes);
        let is_used = |frame: &u32| head == Some(*frame) || live.iter().any(|ending| ending.frame == *frame);
        let free = (0..ready as u32).rev().filter(|frame| !is_used(frame)).collect();
        let live_bytes = live.iter().map(|ending| u64::from(ending.bytes)).sum();
        Self { live, live_bytes, free, ready, most: frames(bytes_max).max(ready), is_full: false, lent: 0 }
    }

    /// Segments besides the head.
    pub fn live(&self) -> impl ExactSizeIterator<Item = Ending> {
        self.live.iter().copied()
    }

    /// The segment that is cleaned next.
    pub fn oldest(&self) -> Option<Ending> {
        self.live.front().copied()
    }

    /// Bytes of all segments besides the head, needed or not.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// A segment was closed.
    pub fn closed(&mut self, ending: Ending) {
        self.live_bytes += u64::from(ending.bytes);
        self.live.push_back(ending);
    }

    /// The oldest segment is not needed any more, and the disk knows: its frame is free.
    pub fn retired(&mut self, segment: u64) {
        let oldest = self.live.pop_front().expect("a segment was cleaned");
        assert_eq!(oldest.segment, segment, "segments are cleaned in their order");
        self.live_bytes -= u64::from(oldest.bytes);
        self.free.push(oldest.frame);
    }

    /// A frame is free in which nothing is needed.
    pub fn freed(&mut self, frame: u32) {
        self.free.push(frame);
    }

    /// Takes a free frame.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// How many are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Whether so few are free that cleaning cannot wait.
    pub fn is_low(&self) -> bool {
        self.free() <= SURVIVORS_RESERVE + 1
    }

    /// Whether the cleaner's reserve is whole, or will be before a write takes a frame.
    pub fn has_reserve(&self) -> bool {
        self.free() >= SURVIVORS_RESERVE || self.lent == 0 && self.can_grow()
    }

    /// Lets there be one more than there may be, to clean with; says whether it does.
    pub fn lend(&mut self) -> bool {
        let may = self.lent < LENT_MAX && !self.can_grow() && !self.is_full;
        if may {
            self.most += 1;
            self.lent += 1;
        }
        may
    }

    /// How many there may be, as far as is known.
    pub fn most(&self) -> usize {
        if self.is_full { self.ready } else { self.most }
    }

    /// Whether more can be made ready.
    pub fn can_grow(&self) -> bool {
        self.ready < self.most()
    }

    /// Whether more should be made ready now, of which something waits for so many.
    pub fn should_grow(&self, wanted: usize) -> bool {
        self.free.len() < wanted.max(READY_WANTED) && self.can_grow()
    }

    /// Whether the device had no room when more was to be made ready last.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The device may have room again: that is found out by making more ready.
    pub fn may_grow_again(&mut self) {
        self.is_full = false;
    }

    /// How long the disk is to be so that one more frame is ready.
    pub fn next_end(&self) -> u64 {
        frame_at(self.ready as u32 + 1)
    }

    /// The disk is this long now.
    pub fn grown(&mut self, disk_bytes: u64) {
        while frame_at(self.ready as u32 + 1) <= disk_bytes {
            self.free.push(self.ready as u32);
            self.ready += 1;
        }
        self.most = self.most.max(self.ready);
    }

    /// The device has no room for more.
    pub fn cannot_grow(&mut self) {
        self.is_full = true;
    }

    /// Frames that hold something, with the head's.
    pub fn used(&self) -> usize {
        self.ready - self.free.len()
    }
}
