//! The journal: records are gathered into groups, and a group is written and flushed at a time.
//!
//! While a flush is out the next group gathers: a lone write waits for nothing, and under load a group grows
//! as large as the disk is slow. Nothing here waits: [`Journal::poll`] looks at what the disk has done and
//! begins what comes next. A new segment is opened in two steps, its digest and then a superblock that names
//! it, so that at every moment one head is whole.

pub mod room;

use std::collections::VecDeque;
use std::time::Instant;

use farcall_base::canary::{Rule, leaves_out};
use farcall_disk::{BLOCK_BYTES, Blocks, Disk, DiskError, Job};

pub use self::room::NotAdmitted;
use super::certificate::Part;
use super::format::{
    Ending, FRAME_BYTES, GROUP_HEADER_BYTES, GroupHeader, Record, SUPERBLOCKS_AT, Superblock, frame_at,
};
use super::frames::Frames;
use super::moved::Moved;
use super::statistics::LogStatistics;
use crate::TableId;

/// A group takes no more records when it has this many bytes; the last one may go beyond.
pub const GROUP_BYTES_MAX: usize = 1 << 20;

/// A group that would become longer than this is closed, and what a command appends goes on in the next one.
/// A frame has room for it and one record more.
pub const SPLIT_BYTES: usize = 2 << 20;

/// Bytes by which the disk grows at a time: what a write may have to wait for.
const GROWTH_BYTES: u64 = 512 << 10;

/// What the disk has done.
#[derive(Debug)]
pub enum Progress {
    /// All groups up to this one are flushed.
    Flushed(u64),
    /// The disk has failed.
    Failed(DiskError),
    /// What was to be read is there.
    Read(Blocks),
    /// What was to be looked at is there, or cannot be read.
    Looked(Blocks, bool),
    /// What was to be written again is, or is not.
    Mended(bool),
}

/// Records that are flushed together.
#[derive(Debug)]
struct Group {
    blocks: Blocks,
    records: u32,
    last_version: u64,
    /// The records of a command go on in the next group.
    continues: bool,
}

impl Group {
    fn new(mut blocks: Blocks) -> Self {
        blocks.resize(0);
        blocks.resize(GROUP_HEADER_BYTES);
        Self { blocks, records: 0, last_version: 0, continues: false }
    }

    fn add(&mut self, record: &Record<'_>) {
        record.encode(&mut self.blocks);
        self.records += 1;
    }

    fn disk_bytes(&self) -> usize {
        self.blocks.len().next_multiple_of(BLOCK_BYTES)
    }
}

/// What the disk is at.
#[derive(Debug)]
enum Stage {
    Idle,
    /// The group that is out; it ends the head so.
    Flushing {
        ending: Ending,
        begun: Instant,
    },
    /// The digest of the next segment.
    Opening(Ending),
    /// The superblock that makes the next segment the head.
    Naming(Ending),
    Growing,
    Reading,
    /// Blocks are read of which it does not matter for the log whether they can be.
    Looking,
    /// Blocks are written again.
    Mending,
    Failed(DiskError),
}

/// A table, as digests name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    pub name: String,
    pub level: u8,
}

impl TableEntry {
    /// Its number on the wire; 0, which no table has, if its name breaks a limit.
    pub fn id(&self) -> u64 {
        TableId::of(&self.name).map_or(0, |id| id.0)
    }
}

/// The log of a shard.
pub struct Journal {
    disk: Box<dyn Disk>,
    superblock: Superblock,
    frames: Frames,
    /// The segment that is appended to, as far as it is flushed.
    head: Ending,
    next_segment: u64,
    /// The frame of the last life's head, if that is not needed.
    idle_frame: Option<u32>,
    tables: Vec<TableEntry>,
    gathering: Group,
    /// Groups that take no more, and go out before the one that gathers.
    full: VecDeque<Group>,
    /// Free frames that something waited for.
    wanted: usize,
    /// When a device without room was asked again last.
    looked_at: Option<Instant>,
    /// The group that is flushed, or waits for a segment.
    out: Option<Group>,
    /// Memory for the next group.
    spare: Blocks,
    /// The number of the group that gathers; of the one that is out, or was; and of the last one that is
    /// flushed with all that it goes on in.
    number: u64,
    out_number: u64,
    flushed: u64,
    last_version: u64,
    stage: Stage,
    statistics: LogStatistics,
}

/// What recovery found, from which a journal goes on.
pub struct Found {
    pub superblock: Superblock,
    pub frames: Frames,
    /// The head of the last life, which is closed where it verified; none in a new log.
    pub head: Option<Ending>,
    /// Whether that has more than its digest.
    pub has_records: bool,
    pub next_segment: u64,
    pub last_version: u64,
    pub tables: Vec<TableEntry>,
    /// What the last life's cleaner has moved of the oldest segment.
    pub moved: Moved,
}

impl Journal {
    /// Goes on from what was found, in an epoch of its own; the first segment of it must be opened with
    /// [`Journal::open_segment`] and polled for.
    pub fn new(disk: Box<dyn Disk>, found: Found) -> Self {
        let Found { superblock, mut frames, head, has_records, next_segment, last_version, tables, .. } =
            found;
        let superblock = Superblock { epoch: superblock.epoch + 1, ..superblock };
        let nowhere = Ending { segment: 0, frame: 0, bytes: FRAME_BYTES as u32, crc: 0 };
        // A life in which nothing was written leaves nothing: its frame is free when there is another head.
        let idle_frame = head.filter(|_| !has_records).map(|head| head.frame);
        if let Some(head) = head.filter(|_| has_records) {
            frames.closed(head);
        }
        Self {
            disk,
            superblock,
            frames,
            head: nowhere,
            next_segment,
            idle_frame,
            tables,
            gathering: Group::new(Blocks::new()),
            full: VecDeque::new(),
            wanted: 0,
            looked_at: None,
            out: None,
            spare: Blocks::new(),
            number: 1,
            out_number: 0,
            flushed: 0,
            last_version,
            stage: Stage::Idle,
            statistics: LogStatistics::default(),
        }
    }

    /// The tables, with their levels.
    pub fn tables(&self) -> &[TableEntry] {
        &self.tables
    }

    /// Adds a table, now and in the digests to come.
    pub fn add_table(&mut self, table: TableEntry) {
        self.append(&Record::Table { level: table.level, name: &table.name });
        self.tables.push(table);
    }

    /// Drops a table that is there, with all objects up to this version.
    pub fn drop_table(&mut self, name: &str, (table, version): (u64, u64)) {
        self.append(&Record::Drop { table, version });
        self.tables.retain(|table| table.name != name);
    }

    /// Appends a survivor, which was admitted. Its group ends where the head does, so that no more of a frame
    /// is left than a record needs; and groups of survivors do not grow from one cleaning to the next.
    pub fn append_survivor(&mut self, record: &Record<'_>) {
        let bytes = record.bytes();
        let is_long = self.gathering.blocks.len() + bytes > SPLIT_BYTES;
        let ends_head = self.fits(0) && !self.fits(bytes + BLOCK_BYTES);
        if self.gathering.records > 0 && (is_long || ends_head) {
            self.close_group(false);
        }
        self.gathering.add(record);
    }

    /// Appends a record, which was admitted.
    pub fn append(&mut self, record: &Record<'_>) {
        self.gathering.add(record);
    }

    /// A command is about to append records of this many bytes. If they are too many for a group they are in
    /// groups that have nothing else: those count together.
    pub fn begin_command(&mut self, bytes: usize) {
        if self.gathering.records > 0 && self.gathering.blocks.len() + bytes > SPLIT_BYTES {
            self.close_group(false);
        }
    }

    /// Appends a record of a command.
    pub fn append_of_command(&mut self, record: &Record<'_>) {
        if self.gathering.records > 0 && self.gathering.blocks.len() + record.bytes() > SPLIT_BYTES {
            self.close_group(true);
        }
        self.gathering.add(record);
    }

    fn close_group(&mut self, continues: bool) {
        let mut full = core::mem::replace(&mut self.gathering, Group::new(Blocks::new()));
        full.continues = continues;
        self.full.push_back(full);
        self.number += 1;
    }

    /// The number of the group that gathers.
    pub fn gathering(&self) -> u64 {
        self.number
    }

    /// Bytes of records that are in no group which is out.
    pub fn gathered_bytes(&self) -> usize {
        let full: usize = self.full.iter().map(|group| group.blocks.len()).sum();
        full + self.gathering.blocks.len() - GROUP_HEADER_BYTES
    }

    /// Whether the disk is at something.
    pub fn is_working(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Failed(_))
    }

    /// Whether a group is on its way to the disk.
    pub fn is_flushing(&self) -> bool {
        self.out.is_some()
    }

    /// Why nothing is appended any more.
    pub fn failure(&self) -> Option<DiskError> {
        if let Stage::Failed(error) = self.stage { Some(error) } else { None }
    }

    /// What the log holds around a place, as the disk has it; `None` while a job is out.
    pub fn part_around(&self, place: u64) -> Option<Part> {
        if !matches!(self.stage, Stage::Idle) || self.out.is_some() {
            return None;
        }
        let segments = self.frames.live().chain([self.head]);
        Some(Part::around(place, &self.superblock, segments))
    }

    /// Frames, for those that clean them.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// The oldest segment is gone, and the group that says so is flushed.
    pub fn retired(&mut self, segment: u64) {
        self.frames.retired(segment);
    }

    /// The log, which all of its groups name.
    pub fn log(&self) -> u64 {
        self.superblock.log
    }

    /// Whether a segment of this epoch is open.
    pub fn has_head(&self) -> bool {
        self.head.segment != 0
    }

    /// What it has done.
    pub fn statistics(&self) -> &LogStatistics {
        &self.statistics
    }

    /// How often the log was opened.
    pub fn epoch(&self) -> u64 {
        self.superblock.epoch
    }

    /// Begins to flush what was gathered, unless a group is out; says whether all of it is out then.
    /// `last_version` is the version that the store has given last.
    pub fn commit(&mut self, last_version: u64) -> bool {
        if self.out.is_some() || matches!(self.stage, Stage::Failed(_)) {
            return false;
        }
        if let Some(mut full) = self.full.pop_front() {
            full.last_version = last_version;
            self.last_version = last_version;
            self.out = Some(full);
            self.out_number += 1;
            self.begin_next();
            return false;
        }
        if self.gathering.records == 0 {
            return false;
        }
        let next = Group::new(core::mem::take(&mut self.spare));
        let mut group = core::mem::replace(&mut self.gathering, next);
        self.last_version = last_version;
        group.last_version = last_version;
        self.out = Some(group);
        self.out_number += 1;
        self.number += 1;
        self.begin_next();
        true
    }

    /// Begins to read blocks of a segment's frame, if the disk has nothing else to do; says whether it did.
    pub fn read(&mut self, frame: u32, offset: usize, blocks: Blocks) -> bool {
        if !matches!(self.stage, Stage::Idle) || self.out.is_some() {
            return false;
        }
        self.disk.begin(Job::Read { at: frame_at(frame) + offset as u64, blocks });
        self.stage = Stage::Reading;
        true
    }

    /// Begins to read blocks to look at, if the disk has nothing else to do; says whether it did. That they
    /// cannot be read is no failure of the log.
    pub fn look_at(&mut self, at: u64, blocks: Blocks) -> bool {
        self.begin_aside(Job::Read { at, blocks }, Stage::Looking)
    }

    /// Begins to write blocks again that are there already, as far as the log knows.
    pub fn mend(&mut self, at: u64, blocks: Blocks) -> bool {
        self.begin_aside(Job::Write { at, blocks, flush: true }, Stage::Mending)
    }

    fn begin_aside(&mut self, job: Job, stage: Stage) -> bool {
        if !matches!(self.stage, Stage::Idle) || self.out.is_some() {
            return false;
        }
        self.disk.begin(job);
        self.stage = stage;
        true
    }

    /// How long the disk is.
    pub fn disk_bytes(&self) -> u64 {
        self.disk.bytes()
    }

    /// What the disk has done since, and begins what comes next.
    #[inline]
    pub fn poll(&mut self) -> Option<Progress> {
        if matches!(self.stage, Stage::Idle | Stage::Failed(_)) {
            return None;
        }
        let done = self.disk.poll()?;
        Some(self.done(done)).flatten()
    }

    /// The same, waiting for the disk; `None` when it does nothing.
    pub fn wait(&mut self) -> Option<Progress> {
        loop {
            let done = self.disk.wait()?;
            if let Some(progress) = self.done(done) {
                return Some(progress);
            }
        }
    }

    fn done(&mut self, done: farcall_disk::Done) -> Option<Progress> {
        let stage = core::mem::replace(&mut self.stage, Stage::Idle);
        if matches!(stage, Stage::Looking | Stage::Mending) {
            self.begin_next();
            let is_done = done.outcome.is_ok();
            return Some(match stage {
                Stage::Looking => Progress::Looked(done.blocks, is_done),
                _ => Progress::Mended(is_done),
            });
        }
        if let Err(error) = done.outcome {
            if matches!((&stage, error), (Stage::Growing, DiskError::Full)) {
                self.frames.cannot_grow();
                self.begin_next();
                return None;
            }
            self.stage = Stage::Failed(error);
            return Some(Progress::Failed(error));
        }
        let progress = match stage {
            Stage::Flushing { ending, begun } => {
                let group = self.out.take().expect("it was out");
                let bytes = ending.bytes - self.head.bytes;
                self.statistics.flushed(group.records, bytes as usize, begun.elapsed());
                self.head = ending;
                self.spare = done.blocks;
                // One that goes on counts with the next: what was gathered before in it waits as well.
                if !group.continues {
                    self.flushed = self.out_number;
                }
                Some(Progress::Flushed(self.flushed))
            }
            Stage::Opening(ending) => {
                self.name_head(ending);
                None
            }
            Stage::Naming(ending) => {
                if self.head.segment != 0 {
                    self.frames.closed(self.head);
                }
                if let Some(frame) = self.idle_frame.take() {
                    self.frames.freed(frame);
                }
                self.statistics.segments += 1;
                self.head = ending;
                None
            }
            Stage::Growing => {
                self.frames.grown(self.disk.bytes());
                if self.frames.free() >= self.wanted {
                    self.wanted = 0;
                }
                None
            }
            Stage::Reading => Some(Progress::Read(done.blocks)),
            Stage::Looking | Stage::Mending | Stage::Idle | Stage::Failed(_) => {
                unreachable!("the disk has nothing to do then")
            }
        };
        self.begin_next();
        progress
    }

    /// Begins the next job, if there is one and the disk does nothing.
    fn begin_next(&mut self) {
        if !matches!(self.stage, Stage::Idle) {
            return;
        }
        match &self.out {
            Some(group) if self.head.bytes as usize + group.disk_bytes() <= FRAME_BYTES => self.flush_group(),
            // Admission left a frame for it; one that is being made ready counts.
            Some(_) if self.frames.free() > 0 => self.open_segment(),
            Some(_) if !self.frames.can_grow() => self.stage = Stage::Failed(DiskError::Full),
            Some(_) => self.grow(FRAME_BYTES as u64),
            None if self.frames.should_grow(self.wanted) => self.grow(GROWTH_BYTES),
            None => {}
        }
    }

    fn grow(&mut self, bytes: u64) {
        let end = frame_at(self.frames.most() as u32);
        let bytes = bytes.min(end.saturating_sub(self.disk.bytes())).max(BLOCK_BYTES as u64);
        self.disk.begin(Job::Extend { bytes });
        self.stage = Stage::Growing;
    }

    fn flush_group(&mut self) {
        let group = self.out.as_mut().expect("one is out");
        let mut blocks = core::mem::take(&mut group.blocks);
        let head = self.head;
        let mut header = GroupHeader {
            segment: head.segment,
            epoch: self.superblock.epoch,
            at: head.bytes,
            bytes: 0,
            last_version: group.last_version,
            records: group.records,
            crc_before: head.crc,
            crc: 0,
            continues: group.continues,
        };
        header.seal(self.superblock.log, &mut blocks);
        let ending = Ending { bytes: head.bytes + blocks.len() as u32, crc: header.crc, ..head };
        let at = frame_at(head.frame) + u64::from(head.bytes);
        let flush = !leaves_out(Rule::FlushedGroups);
        self.disk.begin(Job::Write { at, blocks, flush });
        self.stage = Stage::Flushing { ending, begun: Instant::now() };
    }

    /// Opens another segment, with its digest.
    pub fn open_segment(&mut self) {
        let frame = self.frames.take().expect("a frame is free");
        let mut group = Group::new(Blocks::new());
        let head = (self.head.segment != 0).then_some(self.head);
        self.frames.live().chain(head).for_each(|ending| group.add(&Record::Segment(ending)));
        for table in &self.tables {
            group.add(&Record::Table { level: table.level, name: &table.name });
        }
        let segment = self.next_segment;
        self.next_segment += 1;
        let mut header = GroupHeader {
            segment,
            epoch: self.superblock.epoch,
            at: 0,
            bytes: 0,
            last_version: self.last_version,
            records: group.records,
            crc_before: 0,
            crc: 0,
            continues: false,
        };
        header.seal(self.superblock.log, &mut group.blocks);
        let ending = Ending { segment, frame, bytes: group.blocks.len() as u32, crc: header.crc };
        self.disk.begin(Job::Write { at: frame_at(frame), blocks: group.blocks, flush: true });
        self.stage = Stage::Opening(ending);
    }

    fn name_head(&mut self, ending: Ending) {
        self.superblock.generation += 1;
        (self.superblock.head, self.superblock.head_frame) = (ending.segment, ending.frame);
        let slot = (self.superblock.generation % 2) as usize;
        let blocks = self.superblock.encode();
        self.disk.begin(Job::Write { at: SUPERBLOCKS_AT[slot], blocks, flush: true });
        self.stage = Stage::Naming(ending);
    }
}

impl core::fmt::Debug for Journal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Journal(epoch {}, head {:?}, {:?})", self.superblock.epoch, self.head, self.stage)
    }
}
