//! Recovery: what a log has, after whatever ended its process.
//!
//! The head is the newest segment whose digest verifies, and none older than the superblocks say. The
//! segments that the digest names must verify to the end that it names; of the head the prefix that verifies
//! counts. What lies behind it was never acknowledged: a group is begun when the one before it is flushed. If
//! a later group verifies nevertheless, an acknowledged one is damaged, and the log is refused rather than
//! shortened.

use core::time::Duration;
use std::collections::VecDeque;

use farcall_base::canary::{Rule, leaves_out};
use farcall_disk::{BLOCK_BYTES, Blocks, Disk, DiskError, Job};

use super::format::{
    Ending, FORMAT_VERSION, FRAME_BYTES, FRAMES_AT, GroupHeader, NoSuperblock, Record, SLOTS_VERSION,
    SUPERBLOCKS_AT, Superblock, frame_at, records,
};
use super::frames::Frames;
use super::journal::{Found, Journal, Progress, TableEntry};
use super::log_error::LogError;
use super::moved::Moved;

/// Frames of a new log.
const FRAMES_AT_FIRST: usize = 4;

/// What a disk that has lost its power says: an error of the device.
pub const NO_ANSWER: DiskError = DiskError::Failed { code: 5 };

/// What became of the log's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Objects.
    pub objects: u64,
    /// Bytes of segments that were read.
    pub bytes: u64,
    /// Bytes behind the last whole group: a write that was in flight when the process ended.
    pub torn_bytes: u64,
    /// How long it took to read the log and to do again what it says.
    pub took: Duration,
    /// How often the log was opened.
    pub epoch: u64,
    /// The highest version that was given by then.
    pub last_version: u64,
}

/// Opens the log on a disk, a new one on an empty disk; calls `visit` with its records, in the order in which
/// they were appended. The log may become `bytes_max` long.
pub fn open(
    mut disk: Box<dyn Disk>,
    (shard, shards): (u32, u32),
    bytes_max: u64,
    fresh_log: u64,
    mut visit: impl FnMut(&Record<'_>) -> Result<(), LogError>,
) -> Result<(Journal, Moved, Recovered), LogError> {
    let mut recovered = Recovered::default();
    let mut found = match superblock(&mut *disk)? {
        None => create(&mut *disk, (shard, shards), bytes_max, fresh_log)?,
        Some(superblock) => {
            is_of(&superblock, (shard, shards))?;
            recover(&mut *disk, superblock, bytes_max, &mut recovered, &mut visit)?
        }
    };
    recovered.last_version = found.last_version;
    let frames = &mut found.frames;
    if frames.free() == 0 {
        // This life has no frame to begin with. It gets one beyond the most, rather than none of what was
        // acknowledged being read.
        let bytes = frames.next_end() - disk.bytes();
        carry_out(&mut *disk, Job::Extend { bytes })?;
        frames.grown(disk.bytes());
    }
    let moved = core::mem::take(&mut found.moved);
    let mut journal = Journal::new(disk, found);
    recovered.epoch = journal.epoch();
    open_head(&mut journal)?;
    Ok((journal, moved, recovered))
}

/// Reads a log and changes nothing, whichever shard it is of; `None` if nothing was ever written to it.
pub fn read_only(
    disk: &mut dyn Disk,
    mut visit: impl FnMut(&Record<'_>) -> Result<(), LogError>,
) -> Result<Option<(Found, Recovered)>, LogError> {
    let Some(superblock) = superblock(disk)? else { return Ok(None) };
    let mut recovered = Recovered::default();
    let bytes = disk.bytes();
    let found = recover(disk, superblock, bytes, &mut recovered, &mut visit)?;
    recovered.last_version = found.last_version;
    recovered.epoch = found.superblock.epoch;
    Ok(Some((found, recovered)))
}

/// Opens the first segment of an epoch.
fn open_head(journal: &mut Journal) -> Result<(), LogError> {
    journal.open_segment();
    match journal.wait() {
        Some(Progress::Failed(error)) => Err(error.into()),
        _ if journal.has_head() => Ok(()),
        _ => Err(LogError::Disk(NO_ANSWER)),
    }
}

/// Where a log is read: a disk, or replicas at backups.
pub trait BlockSource {
    /// How long it is.
    fn bytes(&self) -> u64;

    /// The blocks there.
    fn blocks(&mut self, at: u64, bytes: usize) -> Result<Blocks, LogError>;
}

impl BlockSource for dyn Disk + '_ {
    fn bytes(&self) -> u64 {
        Disk::bytes(self)
    }

    fn blocks(&mut self, at: u64, bytes: usize) -> Result<Blocks, LogError> {
        // A place that something else than this disk has named: it may be that of a file that was longer.
        if at.saturating_add(bytes as u64) > Disk::bytes(self) {
            return Err(LogError::Disk(NO_ANSWER));
        }
        carry_out(self, Job::Read { at, blocks: Blocks::zeroed(bytes) })
    }
}

fn carry_out(disk: &mut dyn Disk, job: Job) -> Result<Blocks, LogError> {
    disk.begin(job);
    done_of(disk)
}

/// What the job that is out has brought.
fn done_of(disk: &mut dyn Disk) -> Result<Blocks, LogError> {
    let done = disk.wait().ok_or(LogError::Disk(NO_ANSWER))?;
    done.outcome?;
    Ok(done.blocks)
}

/// The superblock that counts; `None` on a disk on which there is no log yet.
fn superblock<S: BlockSource + ?Sized>(disk: &mut S) -> Result<Option<Superblock>, LogError> {
    if disk.bytes() < FRAMES_AT {
        return if disk.bytes() == 0 { Ok(None) } else { blank_or_refused(disk) };
    }
    let mut found: Option<Superblock> = None;
    let mut blank = true;
    for at in SUPERBLOCKS_AT {
        match Superblock::decode(&disk.blocks(at, BLOCK_BYTES)?) {
            Ok(superblock) if found.is_none_or(|other| other.generation < superblock.generation) => {
                found = Some(superblock);
            }
            Ok(_) | Err(NoSuperblock::Blank) => continue,
            Err(NoSuperblock::Version(version)) => return Err(LogError::Version { version }),
            Err(NoSuperblock::Damaged) => {}
        }
        blank = false;
    }
    match found {
        Some(superblock) => Ok(Some(superblock)),
        // The first superblock was being written when the process ended; or both are damaged. What was
        // acknowledged lies in frames, and there the first segment is flushed before it has a superblock.
        None if blank => blank_or_refused(disk),
        None => Err(LogError::NotALog),
    }
}

/// A file without superblock is a log that was being created if all of it is blank, but for the first
/// segment.
fn blank_or_refused<S: BlockSource + ?Sized>(disk: &mut S) -> Result<Option<Superblock>, LogError> {
    let bytes = disk.bytes().min(FRAMES_AT);
    let is_blank = disk.blocks(0, bytes as usize)?.iter().all(|&byte| byte == 0);
    if is_blank && disk.bytes() <= frame_at(FRAMES_AT_FIRST as u32) {
        Ok(None)
    } else {
        Err(LogError::NotALog)
    }
}

/// Makes a new log ready.
fn create(
    disk: &mut dyn Disk,
    (shard, shards): (u32, u32),
    bytes_max: u64,
    log: u64,
) -> Result<Found, LogError> {
    let wanted = frame_at(FRAMES_AT_FIRST as u32);
    if disk.bytes() < wanted {
        let bytes = wanted - disk.bytes();
        carry_out(disk, Job::Extend { bytes })?;
    }
    let (version, head_frame, epoch, generation, head) = (FORMAT_VERSION, 0, 0, 0, 0);
    let superblock = Superblock { version, shard, shards, head_frame, log, epoch, generation, head };
    let frames = Frames::new(disk.bytes(), bytes_max, VecDeque::new(), None);
    Ok(Found {
        superblock,
        frames,
        head: None,
        has_records: false,
        next_segment: 1,
        last_version: 0,
        tables: Vec::new(),
        moved: Moved::default(),
    })
}

/// The head, and what its digest says.
struct Head {
    ending: Ending,
    epoch: u64,
    frame: Blocks,
}

fn recover(
    disk: &mut dyn Disk,
    superblock: Superblock,
    bytes_max: u64,
    recovered: &mut Recovered,
    visit: &mut impl FnMut(&Record<'_>) -> Result<(), LogError>,
) -> Result<Found, LogError> {
    let log = superblock.log;
    let Head { ending: head, epoch, frame } = find_head(disk, &superblock)?;
    let mut moved = Moved::default();
    let mut state = State::default();
    // The head is looked at first: which segments count is said there.
    let (head, groups) = verified_head(log, &head, &frame)?;
    recovered.torn_bytes = torn_bytes(&frame[head.bytes as usize..], log, head.segment);
    let live = live_segments(&groups);
    live.iter().try_for_each(|ending| check_place(disk.bytes(), ending))?;
    read_each(disk, &live, |ending, segment| {
        let (found, groups) = verified(log, ending.segment, segment);
        if (found.bytes, found.crc) != (ending.bytes, ending.crc) && !leaves_out(Rule::Digests) {
            return Err(damaged_at(ending, found.bytes));
        }
        recovered.bytes += segment.len() as u64;
        moved.follow(ending.segment, &groups);
        state.replay(&groups, visit)
    })?;
    recovered.bytes += u64::from(head.bytes);
    moved.follow(head.segment, &groups);
    moved.end();
    state.replay(&groups, visit)?;
    let frames = Frames::new(disk.bytes(), bytes_max, live.into(), Some(head.frame));
    let superblock = Superblock { epoch: superblock.epoch.max(epoch), ..superblock };
    let has_records = groups.len() > 1;
    let head = Some(head);
    recovered.torn_bytes += state.abandon();
    let State { last_version, tables, .. } = state;
    let next_segment = head.map_or(0, |head| head.segment) + 1;
    Ok(Found { superblock, frames, head, has_records, next_segment, last_version, tables, moved })
}

/// Checks that a disk of this length has the frame of a segment, and that it ends at a block: a file may have
/// been cut off behind the head that names it.
fn check_place(disk_bytes: u64, ending: &Ending) -> Result<(), LogError> {
    let Ending { segment, frame, bytes, .. } = *ending;
    let needed = frame_at(frame) + FRAME_BYTES as u64;
    if needed > disk_bytes {
        return Err(LogError::CutOff { segment, needed, bytes: disk_bytes });
    }
    let bytes = bytes as usize;
    let is_of_blocks = bytes > 0 && bytes <= FRAME_BYTES && bytes.is_multiple_of(BLOCK_BYTES);
    if is_of_blocks { Ok(()) } else { Err(damaged_at(ending, 0)) }
}

/// Reads segments one after the other: each while the one before it is looked at. Their places are checked.
fn read_each(
    disk: &mut dyn Disk,
    segments: &[Ending],
    mut look: impl FnMut(&Ending, &[u8]) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let begin = |disk: &mut dyn Disk, segment: Option<&Ending>, mut blocks: Blocks| {
        let Some(Ending { frame, bytes, .. }) = segment else { return };
        blocks.resize(*bytes as usize);
        disk.begin(Job::Read { at: frame_at(*frame), blocks });
    };
    let mut spare = Blocks::new();
    begin(disk, segments.first(), Blocks::new());
    for (number, segment) in segments.iter().enumerate() {
        let blocks = done_of(disk)?;
        let next = segments.get(number + 1);
        begin(disk, next, spare);
        if let Err(error) = look(segment, &blocks) {
            // Whoever has the disk may begin something else.
            next.and_then(|_| disk.wait());
            return Err(error);
        }
        spare = blocks;
    }
    Ok(())
}

/// What of a head verifies, behind which nothing may.
fn verified_head<'s>(log: u64, head: &Ending, frame: &'s [u8]) -> Result<(Ending, Vec<Group<'s>>), LogError> {
    let (found, groups) = verified(log, head.segment, frame);
    if has_later_group(log, head.segment, &frame[found.bytes as usize..]) {
        return Err(damaged_at(head, found.bytes));
    }
    Ok((Ending { frame: head.frame, ..found }, groups))
}

fn damaged_at(segment: &Ending, bytes: u32) -> LogError {
    LogError::Damaged { segment: segment.segment, at: frame_at(segment.frame) + u64::from(bytes) }
}

/// The segments besides the head that count, in their order: the head says so at its start and further on.
fn live_segments(head: &[Group<'_>]) -> Vec<Ending> {
    let (mut live, mut retired) = (Vec::new(), Vec::new());
    for record in head.iter().flat_map(|(_, bytes)| records(bytes).flatten()) {
        match record {
            Record::Segment(ending) => live.push(ending),
            Record::Retired { segment } => retired.push(segment),
            _ => {}
        }
    }
    live.retain(|ending: &Ending| !retired.contains(&ending.segment));
    live.sort_unstable_by_key(|ending| ending.segment);
    live
}

/// The number of a log, and its segments as they end, the head last; `None` if nothing was ever written to
/// it. Of the others than the head nothing was read.
pub fn outline<S: BlockSource + ?Sized>(
    disk: &mut S,
    of: (u32, u32),
) -> Result<Option<(u64, Vec<Ending>)>, LogError> {
    let Some(superblock) = superblock(disk)? else { return Ok(None) };
    is_of(&superblock, of)?;
    let Head { ending, frame, .. } = find_head(disk, &superblock)?;
    let (head, groups) = verified_head(superblock.log, &ending, &frame)?;
    let mut segments = live_segments(&groups);
    segments.push(head);
    segments.iter().try_for_each(|ending| check_place(disk.bytes(), ending))?;
    Ok(Some((superblock.log, segments)))
}

/// The segments of a log that ends so, as above. More may lie behind that.
pub fn outline_until<S: BlockSource + ?Sized>(
    disk: &mut S,
    log: u64,
    head: Ending,
) -> Result<Vec<Ending>, LogError> {
    let bytes = (head.bytes as usize).min(FRAME_BYTES);
    let segment = disk.blocks(frame_at(head.frame), bytes)?;
    let mut segments = live_segments(&check_segment(log, &head, &segment)?);
    segments.push(head);
    Ok(segments)
}

/// The groups of a segment, which must be whole.
pub fn check_segment<'s>(log: u64, ending: &Ending, segment: &'s [u8]) -> Result<Vec<Group<'s>>, LogError> {
    let (found, groups) = verified(log, ending.segment, segment);
    let is_whole = (found.bytes, found.crc) == (ending.bytes, ending.crc);
    is_whole.then_some(groups).ok_or_else(|| damaged_at(ending, found.bytes))
}

/// Checks that a log is that of a shard.
fn is_of(superblock: &Superblock, (own, own_shards): (u32, u32)) -> Result<(), LogError> {
    let Superblock { shard, shards, version, .. } = *superblock;
    if (shard, shards) != (own, own_shards) {
        return Err(LogError::OtherShard { shard, shards, own, own_shards });
    }
    if shards > 1 && version < SLOTS_VERSION {
        return Err(LogError::OtherPlacement { version, shards });
    }
    Ok(())
}

/// What holds at the end of a replay.
#[derive(Debug, Default)]
pub struct State {
    pub last_version: u64,
    tables: Vec<TableEntry>,
    /// Groups that count with the one after them, in the same epoch.
    pending: Vec<(GroupHeader, Vec<u8>)>,
}

impl State {
    /// Leaves out groups whose rest is missing: the process ended before it was flushed, and nothing of them
    /// was acknowledged. Gives their bytes.
    fn abandon(&mut self) -> u64 {
        self.pending.drain(..).map(|(header, _)| header.disk_bytes() as u64).sum()
    }

    /// Does a group again, once all that it goes on in is there.
    fn take(
        &mut self,
        header: GroupHeader,
        group: &[u8],
        visit: &mut impl FnMut(&Record<'_>) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        // The digest of a segment stands between the groups of a command.
        if header.at != 0 {
            if self.pending.first().is_some_and(|(first, _)| first.epoch != header.epoch) {
                self.abandon();
            }
            if header.continues {
                self.pending.push((header, group.to_vec()));
                return Ok(());
            }
            for (header, group) in core::mem::take(&mut self.pending) {
                self.visit(header, &group, visit)?;
            }
        }
        self.visit(header, group, visit)
    }

    fn visit(
        &mut self,
        header: GroupHeader,
        group: &[u8],
        visit: &mut impl FnMut(&Record<'_>) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        for record in records(group) {
            let damaged = LogError::Damaged { segment: header.segment, at: u64::from(header.at) };
            let record = record.map_err(|_| damaged)?;
            match record {
                Record::Table { level, name } if self.tables.iter().all(|table| table.name != name) => {
                    self.tables.push(TableEntry { name: name.to_owned(), level });
                }
                Record::Drop { table, .. } => self.tables.retain(|entry| entry.id() != table),
                _ => {}
            }
            visit(&record)?;
        }
        Ok(())
    }

    fn replay(
        &mut self,
        groups: &[Group<'_>],
        visit: &mut impl FnMut(&Record<'_>) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        groups.iter().try_for_each(|(header, bytes)| self.replay_group(*header, bytes, visit))
    }

    /// Does a group again, or keeps it until that it goes on in is there.
    pub fn replay_group(
        &mut self,
        header: GroupHeader,
        group: &[u8],
        visit: &mut impl FnMut(&Record<'_>) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        self.last_version = self.last_version.max(header.last_version);
        // A digest names the tables that there are: others were dropped before.
        if header.at == 0 {
            self.tables.clear();
        }
        self.take(header, group, visit)
    }
}

/// Finds the newest segment whose digest verifies.
fn find_head<S: BlockSource + ?Sized>(disk: &mut S, superblock: &Superblock) -> Result<Head, LogError> {
    let frames = disk.bytes().saturating_sub(FRAMES_AT) / FRAME_BYTES as u64;
    let mut candidates = Vec::new();
    for frame in 0..frames as u32 {
        let block = disk.blocks(frame_at(frame), BLOCK_BYTES)?;
        if let Some(segment) = segment_named(superblock.log, &block)
            && segment >= superblock.head
        {
            candidates.push((segment, frame));
        }
    }
    candidates.sort_unstable();
    for (segment, frame) in candidates.into_iter().rev() {
        let blocks = disk.blocks(frame_at(frame), FRAME_BYTES)?;
        if let Some((header, _)) = GroupHeader::verify(superblock.log, &blocks)
            && header.segment == segment
        {
            let ending = Ending { segment, frame, bytes: 0, crc: 0 };
            return Ok(Head { ending, epoch: header.epoch, frame: blocks });
        }
        // One that was being opened has a digest that is torn, and nothing behind it.
        if has_later_group(superblock.log, segment, &blocks) {
            return Err(LogError::Damaged { segment, at: frame_at(frame) });
        }
    }
    let Superblock { head: segment, head_frame: frame, .. } = *superblock;
    check_place(disk.bytes(), &Ending { segment, frame, bytes: BLOCK_BYTES as u32, crc: 0 })?;
    Err(LogError::Damaged { segment, at: frame_at(frame) })
}

/// Which segment a block says that it begins, verified or not.
fn segment_named(log: u64, block: &[u8]) -> Option<u64> {
    let (header, _) = GroupHeader::parse(log, block)?;
    (header.at == 0).then_some(header.segment)
}

/// A group that verifies, and its records.
pub type Group<'s> = (GroupHeader, &'s [u8]);

/// The prefix of a segment that verifies, and its groups. Here each byte is summed, once: whoever wants the
/// groups of a segment has them from here.
fn verified(log: u64, segment: u64, bytes: &[u8]) -> (Ending, Vec<Group<'_>>) {
    let mut ending = Ending { segment, frame: 0, bytes: 0, crc: 0 };
    let mut groups = Vec::new();
    while let Some((header, records)) = bytes
        .get(ending.bytes as usize..)
        .filter(|rest| continues(log, &ending, rest))
        .and_then(|rest| GroupHeader::verify(log, rest))
    {
        ending.bytes += header.disk_bytes() as u32;
        ending.crc = header.crc;
        groups.push((header, records));
    }
    (ending, groups)
}

/// Whether a group says that it is the next one behind others of its segment, damaged or not.
fn continues(log: u64, before: &Ending, rest: &[u8]) -> bool {
    GroupHeader::parse(log, rest).is_some_and(|(header, _)| {
        (header.segment, header.at, header.crc_before) == (before.segment, before.bytes, before.crc)
    })
}

/// Whether a group of the segment verifies by itself anywhere behind the first block.
fn has_later_group(log: u64, segment: u64, bytes: &[u8]) -> bool {
    let starts = (BLOCK_BYTES..bytes.len()).step_by(BLOCK_BYTES);
    starts
        .filter_map(|at| GroupHeader::verify(log, &bytes[at..]))
        .any(|(header, _)| header.segment == segment)
}

/// Bytes of a group that was in flight.
fn torn_bytes(rest: &[u8], log: u64, segment: u64) -> u64 {
    let header = GroupHeader::parse(log, rest).filter(|(header, _)| header.segment == segment);
    header.map_or(0, |(header, _)| header.disk_bytes() as u64)
}
