//! Durable tables: what their writes survive is written down before they are answered.
//!
//! The store in memory is as it always was; beside it lies a log of what happened to the objects of durable
//! tables. A write is done in memory, recorded in the group that gathers, and answered when that group is
//! flushed. What was read and is not flushed yet would be lost with the process, so such a read is answered
//! with the flush as well: nobody ever saw what is not there after a crash.

mod admission;
mod answers;
mod certificate;
mod cleaner;
mod counters;
mod format;
mod frames;
mod journal;
mod level;
mod log_error;
mod moved;
pub(crate) mod parts;
mod rebuilding;
mod recording;
mod recovery;
mod saved;
mod scrubbing;
mod statistics;
#[cfg(test)]
mod tests;
mod writes;

use std::time::Instant;

use farcall_disk::{Disk, DiskError};
use farcall_replica::{Mirror, ScrubOutcome};
use std::time::SystemTime;

use rustix::rand::{GetRandomFlags, getrandom};

pub use answers::{Held, Parked, Released};
pub use counters::LogCounters;
#[doc(hidden)]
pub use format::fuzz_log;
pub(crate) use format::{Ending, FRAME_BYTES, frame_at};
pub use level::{Level, REPLICAS_MAX};
pub use log_error::LogError;
pub use recovery::Recovered;
pub(crate) use recovery::{BlockSource, outline, outline_until};
pub use saved::{SavedLog, SavedLong, SavedLongs, SavedObjects};
pub use statistics::{BUCKETS, Histogram, LogStatistics};

use self::answers::Answers;
use self::cleaner::LogCleaner;
use self::format::Record;
use self::frames::SURVIVORS_RESERVE;
use self::journal::{Journal, Progress, TableEntry};
use self::rebuilding::Rebuilding;
use self::scrubbing::LogScrub;
use crate::shard::{Recorded, Results};
use crate::store::{Expiry, Store, WriteError};
use crate::wire::Code;
use crate::{Name, TableId, Value};

/// The least that a log may take on its disk, in bytes.
pub const LOG_BYTES_MIN: u64 = 64 << 20;

/// A group that gathers is flushed after this many turns, even if each turn brought another write.
const GATHERING_TURNS_MAX: u32 = 64;

/// A busy log brings its counters up to date with every so many groups.
const COUNTED_GROUPS: u64 = 16;

/// When an answer about a durable table may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// All that it says is flushed.
    Now,
    /// The group of this number is flushed.
    Flushed(u64),
}

/// How often everything that waited was refused, and the last time with what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusals {
    pub count: u64,
    pub code: Option<Code>,
}

/// What became of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogOutcome {
    /// Groups up to this one are flushed.
    pub flushed: u64,
    /// And what was refused.
    pub refusals: Refusals,
    /// How many frames are free: what waits for room tries again.
    pub free_frames: usize,
}

/// A durable table.
#[derive(Clone, Copy, Debug)]
struct DurableTable {
    id: TableId,
    level: Level,
}

/// The durable tables of a shard, and their log.
#[derive(Debug)]
pub struct Durable {
    journal: Journal,
    cleaner: LogCleaner,
    scrub: LogScrub,
    tables: Vec<DurableTable>,
    answers: Answers,
    /// No disk is waited for, here or at a backup.
    is_in_memory: bool,
    /// What its disk is mirrored by, if it is.
    mirror: Option<Mirror>,
    /// It was asked to hand over: it says nothing new.
    is_leaving: bool,
    /// Whether replicas have not confirmed the group that is out in time.
    is_overdue: bool,
    counters: LogCounters,
    /// The last version that was recorded, the last with the group that is out, the last that is flushed.
    /// Versions of other tables lie in between.
    recorded_version: u64,
    out_version: u64,
    out_group: u64,
    flushed_version: u64,
    /// The last group with a delete, or with a table that a client has created.
    deleted_in: u64,
    /// Groups up to this one are flushed, the last one since this time.
    flushed: u64,
    flushed_at: Option<SystemTime>,
    refusals: Refusals,
    /// Bytes of records of objects that exist; of clients and their results, at the last turn.
    live_bytes: u64,
    results_bytes: u64,
    /// Bytes gathered at the last turn, and turns since the group could have been flushed.
    seen_bytes: usize,
    turns: u32,
}

/// What a log says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStatus {
    /// How often the log was opened.
    pub epoch: u64,
    /// Bytes of records of objects that exist.
    pub live_bytes: u64,
    /// Frames that hold something, and the most that there may be.
    pub frames: (u64, u64),
    /// What it has done.
    pub statistics: LogStatistics,
    /// Durable tables, with their levels.
    pub tables: Vec<(String, Level)>,
    /// Why nothing is written any more.
    pub failure: Option<DiskError>,
}

impl Durable {
    /// Bytes of the record of an object that is deleted, at most.
    pub(crate) const DELETE_BYTES_MAX: usize = Record::put_bytes(crate::KEY_BYTES_MAX, 0);

    /// Opens the log on a disk, and puts what it has into the store of this shard. A disk that is mirrored
    /// comes with its mirror, which serves from then on.
    pub fn open(
        (store, results): (&mut Store, &mut Results),
        disk: Box<dyn Disk>,
        mirror: Option<Mirror>,
        of: (u32, u32),
        bytes_max: u64,
    ) -> Result<(Self, Recovered), LogError> {
        let begun = Instant::now();
        let mut collections = Rebuilding::default();
        let replay = |record: &Record<'_>| {
            replay((&mut *store, &mut *results), &collections, record)?;
            collections.follow(record);
            Ok(())
        };
        let (journal, moved, mut recovered) = recovery::open(disk, of, bytes_max, fresh_number(), replay)?;
        collections.finish(store, journal.epoch())?;
        recovered.objects = store.statistics().objects;
        recovered.took = begun.elapsed();
        store.count_version(recovered.last_version);
        let tables = journal.tables().iter().filter_map(|entry| {
            Some(DurableTable { id: TableId::of(&entry.name).ok()?, level: Level::from_wire(entry.level)? })
        });
        let tables: Vec<_> = tables.collect();
        tables.iter().for_each(|table| store.track(table.id));
        let live_bytes = store.record_bytes();
        let version = store.last_version();
        let mut durable = Self {
            journal,
            cleaner: LogCleaner::after(moved),
            scrub: LogScrub::default(),
            tables,
            answers: Answers::default(),
            is_in_memory: mirror.as_ref().is_some_and(|mirror| !mirror.is_flushed()),
            mirror,
            is_leaving: false,
            is_overdue: false,
            counters: LogCounters::of(of.0, &recovered),
            recorded_version: version,
            out_version: version,
            out_group: 0,
            flushed_version: version,
            deleted_in: 0,
            flushed: 0,
            flushed_at: None,
            refusals: Refusals::default(),
            live_bytes,
            results_bytes: results.bytes(),
            seen_bytes: 0,
            turns: 0,
        };
        durable.make_room(store, results)?;
        durable.mirror.iter().for_each(Mirror::serve);
        Ok((durable, recovered))
    }

    /// Cleans until there is a frame that the next life can begin with, however short this one is.
    fn make_room(&mut self, store: &mut Store, results: &Results) -> Result<(), LogError> {
        let segments = self.journal.frames().live().len() as u64;
        let lacks_frames =
            |journal: &Journal| journal.frames().free() <= SURVIVORS_RESERVE && !journal.frames().can_grow();
        let is_cleaning =
            |this: &Self| this.cleaner.has_work(&this.journal, this.live_bytes + results.bytes());
        while lacks_frames(&self.journal) && is_cleaning(self) && self.cleaner.done().0 < segments {
            self.turn(store, results);
            if self.journal.is_working() {
                let progress = self.journal.wait().ok_or(LogError::Disk(recovery::NO_ANSWER))?;
                self.progressed(progress);
            }
            if let Some(error) = self.journal.failure() {
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// The level of a table.
    #[inline]
    pub fn level_of(&self, table: TableId) -> Level {
        let table = self.tables.iter().find(|durable| durable.id == table);
        table.map_or(Level::Memory, |durable| durable.level)
    }

    /// What survives what any of its tables survives.
    pub fn level(&self) -> Level {
        self.tables.iter().fold(Level::Memory, |level, table| level.and(table.level))
    }

    /// Makes a table of the store durable, which is empty or was recovered.
    pub fn add_table(&mut self, store: &mut Store, name: &str, id: TableId, level: Level) {
        if self.level_of(id) == Level::Memory {
            store.track(id);
            self.tables.push(DurableTable { id, level });
            self.journal.add_table(TableEntry { name: name.to_owned(), level: level.to_wire() });
        }
    }

    /// Drops a durable table, and records it.
    pub fn drop_table(&mut self, store: &mut Store, name: &str, id: TableId) -> Result<When, Code> {
        self.admit(Record::DROP_BYTES, 0)?;
        store.untrack(id);
        store.drop_table(name);
        store.sweep();
        self.tables.retain(|table| table.id != id);
        self.journal.drop_table(name, (id.0, store.last_version()));
        self.live_bytes = store.record_bytes();
        self.deleted_in = self.journal.gathering();
        Ok(When::Flushed(self.deleted_in))
    }

    /// When an answer may be given that was to be given then.
    pub fn still(&self, when: When) -> When {
        match when {
            When::Flushed(group) if group > self.flushed => when,
            _ => When::Now,
        }
    }

    /// What a look at the whole log, which has no replicas, has found; before that, begins it once no other
    /// is in progress.
    pub fn scrub(&mut self, run: u64, repairs: bool) -> Option<ScrubOutcome> {
        self.scrub.of_run(run, repairs)
    }

    /// The mirror of its disk.
    pub fn mirror(&self) -> Option<&Mirror> {
        self.mirror.as_ref()
    }

    /// When an answer may be given that tells a version of a durable table, 0 for an object that does not
    /// exist.
    #[inline]
    pub fn when(&self, version: u64) -> When {
        match version {
            0 if self.deleted_in > self.flushed => When::Flushed(self.deleted_in),
            0 => When::Now,
            version if version <= self.flushed_version => When::Now,
            version if version <= self.out_version => When::Flushed(self.out_group),
            _ => When::Flushed(self.journal.gathering()),
        }
    }

    /// When an answer may be given that tells many objects.
    pub fn when_all(&self) -> When {
        let deleted = self.deleted_in.max(self.flushed);
        match self.when(self.recorded_version) {
            When::Now if deleted == self.flushed => When::Now,
            When::Now => When::Flushed(deleted),
            When::Flushed(group) => When::Flushed(group.max(deleted)),
        }
    }

    /// Holds an answer until a group is flushed.
    pub fn hold(&mut self, group: u64, to: Parked, answer: Held) {
        self.answers.hold(group, to, answer);
    }

    /// What became of groups, for those that hold answers themselves.
    pub(crate) fn outcome(&self) -> LogOutcome {
        let free_frames = self.journal.frames().free();
        LogOutcome { flushed: self.flushed, refusals: self.refusals, free_frames }
    }

    /// Whether a group was begun to be flushed, and so all replicas were sent it.
    pub fn is_out(&self, group: u64) -> bool {
        group <= self.out_group
    }

    /// When the last group was flushed.
    pub fn flushed_at(&self) -> Option<SystemTime> {
        self.flushed_at
    }

    /// Whether a turn has something to do.
    pub fn wants_turn(&self, results: &Results) -> bool {
        self.journal.failure().is_none()
            && (self.is_busy()
                || self.journal.is_working()
                || self.scrub.is_busy()
                || self.mirror.as_ref().is_some_and(|mirror| mirror.suspect().is_some())
                || self.cleaner.has_work(&self.journal, self.live_bytes + results.bytes()))
    }

    /// The next answer that may be given, and where to.
    #[inline]
    pub fn release(&mut self) -> Option<Released> {
        self.answers.release()
    }

    /// Whether something is not flushed yet, and will be.
    pub fn is_busy(&self) -> bool {
        self.failure().is_none() && (self.journal.is_flushing() || self.journal.gathered_bytes() > 0)
    }

    /// Why nothing is written any more.
    pub fn failure(&self) -> Option<DiskError> {
        self.journal.failure()
    }

    /// A turn: looks at what the disk has done, and flushes what was gathered once a turn brings no more of
    /// it. Answers to earlier writes bring the next ones: a group that is flushed too early leaves them to
    /// the one after it, which costs them a flush. Where no disk is waited for it costs less than the turn.
    /// Says whether something happened.
    #[inline]
    pub fn turn(&mut self, store: &mut Store, results: &Results) -> bool {
        self.results_bytes = results.bytes();
        let progress = self.journal.poll();
        let progressed = progress.is_some();
        if let Some(progress) = progress {
            self.progressed(progress);
        }
        self.certify();
        self.follow_ended(store);
        if self.journal.is_flushing() {
            self.turns = 0;
            self.refuse_overdue();
            return progressed;
        }
        self.cleaner.turn(&mut self.journal, (store, results), self.live_bytes + results.bytes());
        self.scrub.turn(&mut self.journal);
        let bytes = self.journal.gathered_bytes();
        if bytes > 0 {
            self.turns += 1;
            if self.is_in_memory || bytes == self.seen_bytes || self.turns >= GATHERING_TURNS_MAX {
                self.commit(store);
            }
        }
        self.seen_bytes = self.journal.gathered_bytes();
        progressed
    }

    /// Says what the log holds where copies of it differ, while the disk has no job of it.
    fn certify(&mut self) {
        if let Some(mirror) = self.mirror.as_ref().filter(|_| !self.journal.is_working())
            && let Some(place) = mirror.suspect()
            && let Some(part) = self.journal.part_around(place)
        {
            self.cleaner.look_again();
            mirror.examine(part.at, part.bytes, Box::new(part));
        }
    }

    /// Flushes what was gathered, unless a group is out.
    pub fn commit(&mut self, store: &Store) {
        if self.journal.commit(store.last_version()) {
            (self.out_version, self.out_group) = (self.recorded_version, self.journal.gathering() - 1);
            self.turns = 0;
        }
    }

    fn progressed(&mut self, progress: Progress) {
        match progress {
            Progress::Flushed(group) => {
                self.flushed = group;
                self.is_overdue = false;
                self.flushed_at = Some(SystemTime::now());
                self.flushed_version = self.out_version;
                self.cleaner.flushed(&mut self.journal, group);
                self.answers.flushed(group);
                if group.is_multiple_of(COUNTED_GROUPS) || self.journal.gathered_bytes() == 0 {
                    self.counters.update(self.journal.statistics(), self.cleaner.done());
                }
            }
            Progress::Failed(_) => self.refuse_all(self.refusal_of_unflushed()),
            Progress::Read(blocks) => self.cleaner.read(blocks),
            Progress::Looked(blocks, is_read) => self.scrub.read(&blocks, is_read),
            Progress::Mended(is_written) => {
                self.scrub.written(is_written);
                self.cleaner.look_again();
            }
        }
    }

    /// What it says of itself.
    pub fn status(&self) -> LogStatus {
        let frames = self.journal.frames();
        let name = |entry: &TableEntry| Some((entry.name.clone(), Level::from_wire(entry.level)?));
        let mut statistics = *self.journal.statistics();
        (statistics.cleaned, statistics.survivors) = self.cleaner.done();
        LogStatus {
            epoch: self.journal.epoch(),
            live_bytes: self.live_bytes,
            frames: (frames.used() as u64, frames.most() as u64),
            statistics,
            tables: self.journal.tables().iter().filter_map(name).collect(),
            failure: self.journal.failure(),
        }
    }
}

/// A random number: that two are the same is left to chance, of 64 bits.
pub(crate) fn fresh_number() -> u64 {
    let mut bytes = [0; 8];
    while getrandom(&mut bytes, GetRandomFlags::empty()) != Ok(bytes.len()) {}
    u64::from_ne_bytes(bytes)
}

/// Does again what a record says.
fn replay(
    (store, results): (&mut Store, &mut Results),
    collections: &Rebuilding,
    record: &Record<'_>,
) -> Result<(), LogError> {
    // A log that verifies was written by a store; what breaks a limit is damage all the same.
    // Objects of a table that is dropped further on need no place.
    let fits = |outcome| match outcome {
        Ok(()) | Err(WriteError::UnknownTable) => Ok(()),
        Err(_) => Err(LogError::TooLarge),
    };
    match *record {
        Record::Put { table, version, key, .. } | Record::PutUntil { table, version, key, .. }
            if collections.is_newer(table, key, version) =>
        {
            Ok(())
        }
        Record::Put { table, version, key, value } => {
            let (Ok(name), Ok(value)) = (Name::new(TableId(table), key), Value::new(value)) else {
                return Ok(());
            };
            fits(store.restore(name, value, version, Expiry::Never))
        }
        Record::PutUntil { table, version, deadline, key, value } => {
            let (Ok(name), Ok(value)) = (Name::new(TableId(table), key), Value::new(value)) else {
                return Ok(());
            };
            fits(store.restore(name, value, version, Expiry::At(deadline)))
        }
        Record::Tombstone { table, version, key }
        | Record::Collection { table, version, key, .. }
        | Record::Long { table, version, key, .. } => {
            let Ok(name) = Name::new(TableId(table), key) else { return Ok(()) };
            store.bury(name, version);
            Ok(())
        }
        Record::Table { name, .. } => store.create_table(name).map(drop).map_err(|_| LogError::TooLarge),
        Record::Drop { table, version } => {
            store.drop_numbered(TableId(table));
            store.count_version(version);
            Ok(())
        }
        Record::Cleared { table, version } => {
            store.empty_table(TableId(table)).map_err(|_| LogError::TooLarge)?;
            store.count_version(version);
            Ok(())
        }
        Record::Client { client } => {
            results.add_client(client);
            Ok(())
        }
        Record::Result { client, sequence, first, answer } => {
            let recorded = Recorded { answer: answer.to_vec(), when: When::Now };
            // The cleaner may have moved the record of the client behind this one. One that is gone is so by
            // a record that is never moved.
            results.add_client(client);
            results.record(client, (sequence, first), recorded);
            Ok(())
        }
        Record::Gone { client } => {
            results.remove_client(client);
            Ok(())
        }
        Record::Piece { .. } | Record::Ended { .. } => rebuilding::replay_piece(store, record),
        Record::Segment(_)
        | Record::Retired { .. }
        | Record::Element { .. }
        | Record::Removed { .. }
        | Record::Cut { .. } => Ok(()),
    }
}
