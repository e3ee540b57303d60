//! Whether a journal has room, for a write and for a survivor of cleaning.
//!
//! A frame is promised once: what a group that is out may still need counts as taken. A reserve is the
//! cleaner's alone, so that it can always make room for the others.

use core::time::Duration;
use std::time::Instant;

use farcall_disk::BLOCK_BYTES;

use super::super::format::FRAME_BYTES;
use super::super::frames::SURVIVORS_RESERVE;
use super::{GROUP_BYTES_MAX, Group, Journal, SPLIT_BYTES, Stage};

/// A device that had no room is asked again once in this time, if something needs it: others may have deleted
/// their files, and an attempt writes to what is left.
pub const LOOK_FOR_ROOM_EVERY: Duration = Duration::from_secs(1);

/// Why a record cannot be appended now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// Too much waits to be flushed.
    Busy,
    /// The log has no room.
    Full,
    /// The disk has failed: nothing can be appended any more.
    Failed,
}

impl Journal {
    /// Whether records of this many bytes can be appended, of a write.
    pub fn admits(&mut self, record_bytes: usize) -> Result<(), NotAdmitted> {
        if matches!(self.stage, Stage::Failed(_)) {
            return Err(NotAdmitted::Failed);
        }
        let group_bytes = self.gathering.blocks.len();
        if group_bytes >= GROUP_BYTES_MAX {
            return Err(NotAdmitted::Busy);
        }
        // A group that is out may need a frame as well, and each one that this becomes.
        let needed = self.frames_owed() + record_bytes / SPLIT_BYTES;
        // While the cleaner has taken of its reserve, the rest of the head is its as well.
        let fits = self.frames.has_reserve() && self.fits(record_bytes);
        if fits || self.frames.free() > SURVIVORS_RESERVE + needed {
            return Ok(());
        }
        if !self.frames.can_grow() {
            // What is on its way may leave it room in the head that it opens.
            let waits = self.out.is_some() || !self.full.is_empty();
            return Err(if waits { NotAdmitted::Busy } else { NotAdmitted::Full });
        }
        self.wanted = self.wanted.max(SURVIVORS_RESERVE + needed + 1);
        self.begin_next();
        Err(NotAdmitted::Busy)
    }

    /// A write was refused because there is no room: looks whether the device has some again, unless that was
    /// tried a moment ago. Later writes then find it.
    pub fn look_for_room(&mut self, now: Instant) {
        let is_idle = matches!(self.stage, Stage::Idle) && self.out.is_none();
        let is_due = self.looked_at.is_none_or(|at| now >= at + LOOK_FOR_ROOM_EVERY);
        if self.frames.is_full() && is_idle && is_due {
            self.looked_at = Some(now);
            self.frames.may_grow_again();
            self.wanted = self.wanted.max(SURVIVORS_RESERVE + 1);
            self.begin_next();
        }
    }

    /// Frames that groups may take that are out or full. A segment that is being opened has its frame: the
    /// group that waits for it takes no other.
    fn frames_owed(&self) -> usize {
        let has_frame = matches!(self.stage, Stage::Opening(_) | Stage::Naming(_));
        usize::from(self.out.is_some() && !has_frame) + self.full.len()
    }

    /// Bytes of the head that groups take which are out or full.
    fn owed_bytes(&self) -> usize {
        let out = match &self.stage {
            Stage::Flushing { ending, .. } => (ending.bytes - self.head.bytes) as usize,
            _ => self.out.as_ref().map_or(0, Group::disk_bytes),
        };
        out + self.full.iter().map(Group::disk_bytes).sum::<usize>()
    }

    /// Whether the head has room for records of this many bytes behind all that was appended, in however many
    /// groups.
    pub fn fits(&self, record_bytes: usize) -> bool {
        let groups = 2 + record_bytes / GROUP_BYTES_MAX;
        let appended = self.head.bytes as usize + self.owed_bytes() + self.gathering.blocks.len();
        appended + record_bytes + groups * BLOCK_BYTES <= FRAME_BYTES
    }

    /// Whether a survivor of cleaning of this many bytes can be appended now. If few frames are free, writes
    /// that have filled a group do not keep it out.
    pub fn admits_survivor(&self, bytes: usize) -> bool {
        let gathered = self.gathering.blocks.len();
        let has_turn = match self.frames.is_low() {
            true => self.full.is_empty(),
            false => gathered < GROUP_BYTES_MAX,
        };
        has_turn && !matches!(self.stage, Stage::Failed(_)) && self.has_room_for_survivor(bytes)
    }

    fn has_room_for_survivor(&self, bytes: usize) -> bool {
        let closes = self.gathering.records > 0 && self.gathering.blocks.len() + bytes > SPLIT_BYTES;
        let needed = 1 + self.frames_owed() + usize::from(closes);
        // Behind the last survivor comes the record that the segment is gone.
        self.fits(bytes + BLOCK_BYTES) || self.frames.free() >= needed
    }

    /// Whether a survivor of this many bytes never can be appended unless a frame becomes free: nothing else
    /// is on its way.
    pub fn keeps_out_survivor(&self, bytes: usize) -> bool {
        let rests = matches!(self.stage, Stage::Idle) && self.out.is_none() && self.gathered_bytes() == 0;
        rests && !self.has_room_for_survivor(bytes)
    }

    /// Has the disk grow by a frame beyond the most that the log may have, so that the cleaner goes on; says
    /// whether it will try.
    pub fn lend_frame(&mut self) -> bool {
        let is_lent = self.frames.lend();
        if is_lent {
            self.wanted = self.wanted.max(self.frames.free() + 1);
            self.begin_next();
        }
        is_lent
    }
}
