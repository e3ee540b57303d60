//! Whether a log without replicas is whole: it is read part by part, while the shard serves.
//!
//! A part is read in steps, each while the disk has nothing else to do, and held against the certificate that
//! says of replicas which is right. What is damaged in a segment is whole nowhere else; superblocks are known
//! and can be written again.

use std::collections::VecDeque;

use farcall_disk::{BLOCK_BYTES, Blocks};
use farcall_replica::{Certificate, Damage, Fate, ScrubOutcome};

use super::certificate::Part;
use super::journal::Journal;

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// Frames that hold nothing, of which a turn passes so many.
const EMPTY_PARTS_PER_TURN: usize = 64;

/// So many outcomes are kept for those that asked and have not been told yet.
const OUTCOMES_MAX: usize = 4;

/// A part that is read.
#[derive(Debug)]
struct Reading {
    part: Part,
    data: Vec<u8>,
    is_unreadable: bool,
}

/// Where a look at the log is.
#[derive(Debug, Default)]
enum Stage {
    #[default]
    Next,
    Reading(Reading),
    /// Blocks are written again, by where they are.
    Mending {
        part: Part,
        left: VecDeque<(u64, Blocks)>,
        damage: Damage,
    },
}

/// A look at a whole log.
#[derive(Debug)]
struct Look {
    run: u64,
    repairs: bool,
    /// Where the next part begins.
    next: u64,
    bytes: u64,
    stage: Stage,
    damage: Vec<Damage>,
    /// A job for it is out, and how many bytes that reads, if it does.
    is_out: bool,
    asked_bytes: usize,
}

/// The looks at a log that were asked for.
#[derive(Debug, Default)]
pub struct LogScrub {
    look: Option<Look>,
    done: VecDeque<(u64, ScrubOutcome)>,
}

impl LogScrub {
    /// What the look of a run has found; before that, begins it once no other is in progress.
    pub fn of_run(&mut self, run: u64, repairs: bool) -> Option<ScrubOutcome> {
        if let Some((_, outcome)) = self.done.iter().find(|(of, _)| *of == run) {
            return Some(outcome.clone());
        }
        self.look.get_or_insert(Look {
            run,
            repairs,
            next: 0,
            bytes: 0,
            stage: Stage::Next,
            damage: Vec::new(),
            is_out: false,
            asked_bytes: 0,
        });
        None
    }

    /// Whether it has something to do.
    pub fn is_busy(&self) -> bool {
        self.look.is_some()
    }

    /// Does a step, if no job is out.
    pub fn turn(&mut self, journal: &mut Journal) {
        let Some(look) = &mut self.look else { return };
        if look.is_out || journal.is_working() || !look.step(journal) {
            return;
        }
        if let Some(Look { run, bytes, damage, .. }) = self.look.take() {
            self.done.truncate(OUTCOMES_MAX - 1);
            self.done.push_front((run, ScrubOutcome { bytes, replicas: 0, damage }));
        }
    }

    /// What was to be read is there, or cannot be read.
    pub fn read(&mut self, blocks: &[u8], is_read: bool) {
        let Some(look) = &mut self.look else { return };
        look.is_out = false;
        if let Stage::Reading(Reading { data, is_unreadable, .. }) = &mut look.stage {
            let end = data.len() + look.asked_bytes;
            if is_read {
                data.extend_from_slice(blocks);
            }
            data.resize(end, 0);
            *is_unreadable |= !is_read;
        }
    }

    /// What was to be written is, or cannot be.
    pub fn written(&mut self, is_written: bool) {
        let Some(look) = &mut self.look else { return };
        look.is_out = false;
        if let Stage::Mending { left, damage, .. } = &mut look.stage
            && !is_written
        {
            left.clear();
            damage.fate = Fate::NotWritten;
        }
    }
}

impl Look {
    /// Goes on, while the disk has nothing to do; says whether that was all.
    fn step(&mut self, journal: &mut Journal) -> bool {
        match core::mem::take(&mut self.stage) {
            Stage::Next => return self.begin_part(journal),
            Stage::Reading(reading) if reading.data.len() < reading.part.needed_bytes() => {
                let at = reading.part.at + reading.data.len() as u64;
                let bytes = (reading.part.needed_bytes() - reading.data.len()).min(READ_BYTES);
                self.asked_bytes = bytes;
                self.is_out = journal.look_at(at, Blocks::zeroed(bytes));
                self.stage = Stage::Reading(reading);
            }
            Stage::Reading(reading) => self.judge(reading, journal),
            Stage::Mending { part, mut left, damage } => match left.pop_front() {
                None => self.damage.push(damage),
                // Another superblock counts by now: this part is looked at again.
                Some(_) if !is_still(&part, journal) => self.next = part.at,
                Some((at, blocks)) => {
                    self.is_out = journal.mend(at, blocks);
                    self.stage = Stage::Mending { part, left, damage };
                }
            },
        }
        false
    }

    fn begin_part(&mut self, journal: &Journal) -> bool {
        for _ in 0..EMPTY_PARTS_PER_TURN {
            if self.next >= journal.disk_bytes() {
                return true;
            }
            let Some(part) = journal.part_around(self.next) else { return false };
            self.next = part.at + part.bytes;
            if part.needed_bytes() > 0 {
                self.stage = Stage::Reading(Reading { part, data: Vec::new(), is_unreadable: false });
                return false;
            }
        }
        false
    }

    fn judge(&mut self, reading: Reading, journal: &Journal) {
        let Reading { part, data, is_unreadable } = reading;
        // Superblocks are written and frames are used again meanwhile.
        if !is_still(&part, journal) {
            self.next = part.at;
            return;
        }
        self.bytes += data.len() as u64;
        let (at, bytes, backups) = (part.at, part.bytes, Vec::new());
        let damage = |fate| Damage { at, bytes, fate, is_here: true, backups };
        match part.compose(&[&data]) {
            None => self.damage.push(damage(Fate::Lost)),
            Some(right) if right == data && !is_unreadable => {}
            Some(_) if !self.repairs => self.damage.push(damage(Fate::Reparable)),
            Some(right) => {
                let left = differing(at, &right, &data).collect();
                self.stage = Stage::Mending { part, left, damage: damage(Fate::Repaired) };
            }
        }
    }
}

/// Whether a part holds what it did.
fn is_still(part: &Part, journal: &Journal) -> bool {
    journal.part_around(part.at).is_some_and(|now| part.is_same_as(&now))
}

/// The blocks of a part that are other ones than they should be, and where they are.
fn differing(at: u64, right: &[u8], data: &[u8]) -> impl Iterator<Item = (u64, Blocks)> {
    let pairs = right.chunks(BLOCK_BYTES).zip(data.chunks(BLOCK_BYTES)).enumerate();
    pairs.filter(|(_, (right, found))| right != found).map(move |(number, (right, _))| {
        let mut blocks = Blocks::zeroed(BLOCK_BYTES);
        blocks.copy_from_slice(right);
        (at + (number * BLOCK_BYTES) as u64, blocks)
    })
}
