//! The log's cleaner: what lives in the oldest segment is appended again, and its frame is free.
//!
//! What lives is known to the store: a put counts while its object has that version, an element while its
//! collection has one with that stamp. Tombstones and drops of
//! the oldest segment do not: whatever they deleted lay in segments before it, which are gone. The segment is
//! read while the disk has nothing else to do, and looked through in steps, each no longer than a few of the
//! writes that it comes with.

use farcall_disk::Blocks;

use super::format::{Ending, FRAME_BYTES, GroupHeader, Record, records};
use super::frames::Frames;
use super::journal::Journal;
use super::moved::Moved;
use crate::shard::Results;
use crate::store::Store;
use crate::{Name, TableId};

/// Bytes of a segment that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// Bytes looked through for each byte gathered, and besides those.
const PACE: usize = 4;
const STEP_BYTES: usize = 32 << 10;

/// Cleaning is due when fewer than one in this many frames is free.
const FREE_SHARE_WANTED: usize = 4;

/// And at least one in this many bytes of segments is of no use.
const GARBAGE_SHARE_WANTED: u64 = 4;

/// Or so much of their frames: short lives end segments early. Moved together, records leave less of a frame
/// than the longest one takes, which is below this share.
const WASTE_SHARE_WANTED: (u64, u64) = (3, 8);

/// Where cleaning is.
#[derive(Debug, Default)]
enum Stage {
    #[default]
    Idle,
    /// A segment is being read; `data` has its start.
    Reading { victim: Ending, data: Vec<u8>, asked: bool },
    /// It is looked through up to an offset, and `records` of the group that begins there.
    Visiting { victim: Ending, data: Vec<u8>, at: usize, records: usize },
    /// The group of this number says that it is gone.
    Retiring { victim: Ending, group: u64 },
    /// The segment does not verify any more.
    Damaged,
}

/// The cleaner of a log.
#[derive(Debug, Default)]
pub struct LogCleaner {
    stage: Stage,
    /// No room is left for a survivor, and none comes by itself.
    is_stuck: bool,
    /// What the last life has moved already.
    moved: Moved,
    cleaned: u64,
    survivors: u64,
}

impl LogCleaner {
    /// A cleaner that goes on where the last life ended.
    pub fn after(moved: Moved) -> Self {
        Self { moved, ..Self::default() }
    }

    /// Segments that were cleaned, and records that survived it.
    pub fn done(&self) -> (u64, u64) {
        (self.cleaned, self.survivors)
    }

    /// Does a step, if cleaning is due and no group is out; the records that are needed have `needed_bytes`.
    pub fn turn(&mut self, journal: &mut Journal, of: (&Store, &Results), needed_bytes: u64) {
        match &mut self.stage {
            Stage::Idle => {
                let frames = journal.frames();
                if is_due(frames, needed_bytes)
                    && let Some(victim) = frames.oldest()
                {
                    self.stage = Stage::Reading { victim, data: Vec::new(), asked: false };
                }
            }
            Stage::Reading { victim, data, asked } => {
                let left = victim.bytes as usize - data.len();
                if left == 0 {
                    self.stage =
                        Stage::Visiting { victim: *victim, data: core::mem::take(data), at: 0, records: 0 };
                } else if !*asked {
                    let blocks = Blocks::zeroed(left.min(READ_BYTES));
                    *asked = journal.read(victim.frame, data.len(), blocks);
                }
            }
            Stage::Visiting { .. } => self.visit(journal, of),
            Stage::Retiring { .. } | Stage::Damaged => {}
        }
    }

    /// Whether a turn has something to do, or waits for the disk.
    pub fn has_work(&self, journal: &Journal, needed_bytes: u64) -> bool {
        match self.stage {
            Stage::Idle => is_due(journal.frames(), needed_bytes),
            Stage::Damaged => false,
            _ => !self.is_stuck,
        }
    }

    /// A segment that did not verify may have been written again.
    pub fn look_again(&mut self) {
        if matches!(self.stage, Stage::Damaged) {
            self.stage = Stage::Idle;
        }
    }

    /// A part of a segment was read.
    pub fn read(&mut self, blocks: Blocks) {
        if let Stage::Reading { data, asked, .. } = &mut self.stage {
            data.extend_from_slice(&blocks);
            *asked = false;
        }
    }

    /// Groups up to this one are flushed.
    pub fn flushed(&mut self, journal: &mut Journal, flushed: u64) {
        if let Stage::Retiring { victim, group } = self.stage
            && group <= flushed
        {
            journal.retired(victim.segment);
            self.stage = Stage::Idle;
            self.moved = Moved::default();
            self.cleaned += 1;
        }
    }

    /// Looks through some groups of the segment.
    fn visit(&mut self, journal: &mut Journal, of: (&Store, &Results)) {
        let Stage::Visiting { victim, data, at, records: seen } = &mut self.stage else { return };
        self.is_stuck = false;
        let budget = *at + STEP_BYTES + PACE * journal.gathered_bytes();
        while *at < (victim.bytes as usize).min(FRAME_BYTES) {
            if *at >= budget {
                return;
            }
            // It verified when it was opened or was written in this life. Damaged meanwhile, it must not be
            // given up: cleaning ends here, and so do writes when no frame is left.
            let Some((header, bytes)) = GroupHeader::verify(journal.log(), &data[*at..]) else {
                self.stage = Stage::Damaged;
                return;
            };
            for record in records(bytes).flatten().skip(*seen) {
                if lives(of, &record) && !self.moved.has(victim.segment, &record) {
                    if !journal.admits_survivor(record.bytes()) {
                        self.is_stuck = journal.keeps_out_survivor(record.bytes()) && !journal.lend_frame();
                        return;
                    }
                    journal.append_survivor(&record);
                    self.survivors += 1;
                }
                *seen += 1;
            }
            *at += header.disk_bytes();
            *seen = 0;
        }
        let retired = Record::Retired { segment: victim.segment };
        if !journal.fits(retired.bytes()) && !journal.admits_survivor(retired.bytes()) {
            self.is_stuck = journal.keeps_out_survivor(retired.bytes()) && !journal.lend_frame();
            return;
        }
        journal.append(&retired);
        self.stage = Stage::Retiring { victim: *victim, group: journal.gathering() };
    }
}

/// Whether cleaning is due: few frames are free, and a good part of the others is not needed. With less it
/// would move everything again and again.
fn is_due(frames: &Frames, needed_bytes: u64) -> bool {
    let is_low = frames.is_low() || frames.free() * FREE_SHARE_WANTED < frames.most();
    let garbage = frames.live_bytes().saturating_sub(needed_bytes);
    let is_garbage = garbage * GARBAGE_SHARE_WANTED >= frames.live_bytes();
    let framed = (frames.live().len() * FRAME_BYTES) as u64;
    let (wasted, of) = WASTE_SHARE_WANTED;
    let is_waste = framed.saturating_sub(needed_bytes) * of >= framed * wasted;
    is_low && !frames.can_grow() && frames.oldest().is_some() && (is_garbage || is_waste)
}

/// Whether a record is needed.
fn lives((store, results): (&Store, &Results), record: &Record<'_>) -> bool {
    let (table, version, key) = match *record {
        Record::Put { table, version, key, .. }
        | Record::PutUntil { table, version, key, .. }
        | Record::Long { table, version, key, .. } => (table, version, key),
        Record::Collection { table, version, number, key, .. } => {
            let name = Name::new(TableId(table), key);
            return name.is_ok_and(|name| store.is_recorded(name, (number, version)));
        }
        Record::Element { number, stamp, name, .. } => {
            return store.element_stamp(number, name) == Some(stamp);
        }
        Record::Piece { id, stamp, number, .. } => {
            return store.logged_piece(id, number as usize).is_some_and(|(found, _)| found == stamp);
        }
        Record::Client { client } => return results.has_client(client),
        Record::Result { client, sequence, .. } => return results.has(client, sequence),
        _ => return false,
    };
    let Ok(name) = Name::new(TableId(table), key) else { return false };
    matches!(store.get(name), Ok(Some(object)) if object.version() == version)
}
