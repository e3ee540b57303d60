//! Requests to durable tables: their answers wait for the flush of what they say.

use std::time::SystemTime;

use farcall_disk::Disk;
use farcall_replica::{Mirror, ReplicaStage, ScrubOutcome};

use super::{Answer, Shard, refused_write};
use crate::durable::{Durable, Held, Level, LogError, LogOutcome, LogStatus, Recovered, Released, When};
use crate::store::{CreateTableError, Held as LongHeld, WriteError, long_record_bytes};
use crate::wire::{
    Code, DeleteRequest, GetRequest, IncrementRequest, IncrementResponse, PutRequest, Replication,
    WriteResponse, decode_scrub, encode_scrubbed,
};
use crate::{Name, TableId};

impl Shard {
    /// Opens the log of durable tables on a disk, and brings back what it has. The log may become `bytes_max`
    /// long.
    pub fn open_log(&mut self, disk: Box<dyn Disk>, bytes_max: u64) -> Result<Recovered, LogError> {
        let (durable, recovered) = Durable::open(
            (&mut self.store, &mut self.results),
            disk,
            None,
            (self.shard, self.shards),
            bytes_max,
        )?;
        let replicas = durable.level().replicas();
        if replicas > 0 {
            return Err(LogError::Replicated { replicas });
        }
        self.durable = Some(Box::new(durable));
        Ok(recovered)
    }

    /// The same on the disk of a mirror.
    pub fn open_mirrored_log(
        &mut self,
        disk: Box<dyn Disk>,
        mirror: Mirror,
        bytes_max: u64,
    ) -> Result<Recovered, LogError> {
        let (durable, recovered) = Durable::open(
            (&mut self.store, &mut self.results),
            disk,
            Some(mirror),
            (self.shard, self.shards),
            bytes_max,
        )?;
        self.durable = Some(Box::new(durable));
        Ok(recovered)
    }

    /// Drops all tables: what a damaged log had so far.
    pub(crate) fn clear(&mut self) {
        let names: Vec<String> = self.store.table_names().map(str::to_owned).collect();
        names.iter().for_each(|name| _ = self.store.drop_table(name));
        self.store.forget_all_pieces();
    }

    /// The mirror of its log.
    pub fn mirror(&self) -> Option<&Mirror> {
        self.durable.as_ref()?.mirror()
    }

    /// Creates a table with a level, unless there is one of that name; gives the level that it has.
    ///
    /// # Panics
    /// When the level needs a log, or replicas, and no such log was opened.
    pub fn create_table_at(&mut self, name: &str, level: Level) -> Result<Level, CreateTableError> {
        let was_there = self.store.table_names().any(|table| table == name);
        let table = self.store.create_table(name)?;
        if level == Level::Memory || was_there {
            return Ok(self.level_of(table));
        }
        assert!(level.replicas() == 0 || self.mirror().is_some(), "a mirrored log was opened");
        let durable = self.durable.as_mut().expect("a log was opened");
        durable.add_table(&mut self.store, name, table, level);
        Ok(level)
    }

    /// The level of a table.
    pub fn level_of(&self, table: TableId) -> Level {
        self.durable.as_ref().map_or(Level::Memory, |durable| durable.level_of(table))
    }

    /// Whether it has a log, and so [`Shard::turn_log`] something to do.
    #[inline]
    pub fn has_log(&self) -> bool {
        self.durable.is_some()
    }

    /// Whether writes wait for the disk.
    pub fn is_flushing(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.is_busy())
    }

    /// A turn of the log, for the thread that owns the shard to call in each of its turns; says whether
    /// something happened. [`Shard::release`] then has answers.
    #[inline]
    pub fn turn_log(&mut self) -> bool {
        self.durable.as_mut().is_some_and(|durable| durable.turn(&mut self.store, &self.results))
    }

    /// Whether a turn of the log has something to do.
    pub fn wants_log_turn(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.wants_turn(&self.results))
    }

    /// Removes objects that have expired, at most so many; gives how many. Those of durable tables are
    /// recorded, and stay while the log does not take that: nobody sees them. Others do not wait for these.
    pub fn expire(&mut self, objects_max: usize) -> usize {
        let Some(durable) = &mut self.durable else { return self.store.expire(objects_max) };
        let mut expired = 0;
        while expired < objects_max
            && let Some(is_durable) = self.store.expires_durably()
            && (!is_durable || durable.admit(Durable::DELETE_BYTES_MAX, 0).is_ok())
        {
            self.store.expire(1);
            durable.record_changes(&mut self.store);
            expired += 1;
        }
        expired + self.store.expire_in_memory(objects_max - expired)
    }

    /// Records what a command did to durable tables; gives the group of the log that has it.
    pub(crate) fn record_changes(&mut self) -> Option<u64> {
        self.durable.as_mut()?.record_changes(&mut self.store)
    }

    /// Whether the log takes records of this many bytes, which add so many to what lives.
    pub(crate) fn admit(&mut self, record_bytes: usize, new_bytes: usize) -> Result<(), Code> {
        let Some(durable) = &mut self.durable else { return Ok(()) };
        durable.follow_ended(&mut self.store);
        durable.admit(record_bytes, new_bytes)
    }

    /// Whether a long value of this many bytes may be begun in a table.
    pub(crate) fn admit_long(&mut self, table: TableId, bytes: usize) -> Result<(), Code> {
        if !self.is_durable(table) {
            return Ok(());
        }
        // The log may be busy by now: its pieces wait.
        self.admit(0, long_record_bytes(bytes))
            .or_else(|code| if code == Code::Busy { Ok(()) } else { Err(code) })
    }

    /// Whether an object gets to a table by a copy only: its value is long, and the log does not have it.
    pub(crate) fn needs_copy(&self, from: Name<'_>, table: TableId) -> bool {
        self.is_durable(table)
            && self.store.long_header(from).is_some_and(|header| !self.store.has_pieces(&header))
    }

    /// Begins a long value for a table. The log of a durable one gets its pieces as they come.
    pub(crate) fn begin_long(&mut self, table: TableId) -> LongHeld {
        if self.is_durable(table) { self.store.begin_logged_long() } else { self.store.begin_long() }
    }

    /// Writes the next pieces of a value that was begun. When the log is busy nothing is done.
    pub(crate) fn extend_long(&mut self, held: &mut LongHeld, bytes: &[u8]) -> Result<(), NotExtended> {
        if !self.store.is_logged(held) {
            return Ok(self.store.extend_long(held, bytes)?);
        }
        let record_bytes = long_record_bytes(bytes.len());
        self.admit(record_bytes, record_bytes).map_err(NotExtended::Log)?;
        let extended = self.store.extend_long(held, bytes);
        self.record_changes();
        Ok(extended?)
    }

    /// Whether this process may say what durable tables have.
    pub(crate) fn may_answer(&self) -> Result<(), Code> {
        self.durable.as_ref().map_or(Ok(()), |durable| durable.may_answer())
    }

    /// The same, where something is of a durable table; what is of others may always be said.
    pub(super) fn may_answer_of(&self, is_durable: bool) -> Result<(), Code> {
        if is_durable { self.may_answer() } else { Ok(()) }
    }

    /// The group that must be flushed before it is told what an object is; 0 if none must.
    pub(crate) fn group_of(&self, name: Name<'_>) -> u64 {
        let Some(durable) = &self.durable else { return 0 };
        let version = self.store.get(name).ok().flatten().map_or(0, |object| object.version());
        group_in(durable.when(version))
    }

    /// The same of all objects.
    pub(crate) fn group_of_all(&self) -> u64 {
        self.durable.as_ref().map_or(0, |durable| group_in(durable.when_all()))
    }

    /// What became of groups of the log.
    pub(crate) fn log_outcome(&self) -> LogOutcome {
        self.durable.as_ref().map_or_else(LogOutcome::default, |durable| durable.outcome())
    }

    /// What is refused that waits for a flush which will not be, or not in time; `None` while it may be.
    pub(crate) fn gone_wrong(&self) -> Option<Code> {
        self.durable.as_ref()?.gone_wrong()
    }

    /// What survives what any of its tables survives.
    pub(crate) fn log_level(&self) -> Level {
        self.durable.as_ref().map_or(Level::Memory, |durable| durable.level())
    }

    /// Whether a group of the log has reached its level, and how many replicas have confirmed it.
    pub(crate) fn acknowledged(&self, group: u64) -> (bool, usize) {
        let Some(durable) = &self.durable else { return (false, 0) };
        let has_reached = group <= durable.outcome().flushed;
        let replicas = self.mirror().map_or_else(Vec::new, |mirror| mirror.status().replicas);
        let confirmed = replicas.iter().filter(|replica| {
            let has_all = durable.is_out(group) && replica.behind_bytes == 0;
            replica.stage == ReplicaStage::Whole && (has_reached && replica.is_recorded || has_all)
        });
        (has_reached, confirmed.count())
    }

    /// When the log was flushed last.
    pub(crate) fn flushed_at(&self) -> Option<SystemTime> {
        self.durable.as_ref()?.flushed_at()
    }

    /// The next answer that waited for the disk, and may be given now.
    #[inline]
    pub fn release(&mut self) -> Option<Released> {
        self.durable.as_mut()?.release()
    }

    /// What keeps the shard from taking writes to its durable tables, or from reading them, now.
    pub fn hindrance(&self) -> Option<Code> {
        let durable = self.durable.as_ref()?;
        let too_few = || durable.mirror().filter(|mirror| !mirror.may_write()).map(|_| Code::TooFewReplicas);
        durable.gone_wrong().or(durable.may_answer().err()).or_else(too_few)
    }

    /// What its log says of itself.
    pub fn log_status(&self) -> Option<LogStatus> {
        self.durable.as_ref().map(|durable| durable.status())
    }

    /// Who has replicas of the log; an empty answer if it has a mirror of none.
    pub(super) fn tell_replication(&self, reply: impl Answer) {
        match self.mirror() {
            Some(mirror) => reply.send(&Replication::of(mirror.status()).encode()),
            None => reply.send(&[]),
        }
    }

    /// Tells what a comparison of replicas found, or a look at a log without them; begins it, or goes on with
    /// it, until then. While the log is at a stand there is none. A shard without a log has nothing to be
    /// found.
    pub(super) fn scrub(&mut self, message: &[u8], reply: impl Answer) {
        let Ok((run, repairs)) = decode_scrub(message) else {
            return self.refuse(reply, Code::Malformed);
        };
        if let Some(code) = self.gone_wrong() {
            return self.refuse(reply, code);
        }
        let mut answer = Vec::new();
        let outcome = match &mut self.durable {
            Some(durable) => match durable.mirror() {
                Some(mirror) => mirror.scrub(run, repairs),
                None => durable.scrub(run, repairs),
            },
            None => Some(ScrubOutcome::default()),
        };
        if let Some(outcome) = outcome {
            encode_scrubbed(&outcome, &mut answer);
        }
        reply.send(&answer);
    }

    /// From now on durable tables are refused to everybody: another process is about to serve them. It needs
    /// the replicas that are recorded, so none is handed over that lacks some; one whose disk has failed is,
    /// since that has no use for them.
    pub(super) fn hand_over(&mut self, reply: impl Answer) {
        let Some(durable) = &mut self.durable else { return self.refuse(reply, Code::Malformed) };
        let Some(mirror) = durable.mirror() else { return self.refuse(reply, Code::Malformed) };
        if durable.failure().is_none() && mirror.status().trouble.is_some() {
            return self.refuse(reply, Code::TooFewReplicas);
        }
        durable.leave();
        reply.send(&[]);
    }

    /// Whether it was asked to hand over, and all that it has promised is done.
    pub fn is_handed_over(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.has_left())
    }

    #[inline]
    pub(super) fn is_durable(&self, table: TableId) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.level_of(table) != Level::Memory)
    }

    fn log(&mut self) -> &mut Durable {
        self.durable.as_mut().expect("a durable table has a log")
    }

    pub(super) fn get_durable(&mut self, get: GetRequest<'_>, reply: impl Answer) {
        if let Err(code) = self.log().may_answer() {
            return self.refuse(reply, code);
        }
        let (version, answer) = match self.store.get(get.name) {
            Ok(Some(object)) if object.is_collection() => return self.refuse(reply, Code::Collection),
            Ok(Some(object)) if object.is_long() => return self.refuse(reply, Code::TooLong),
            Ok(Some(object)) => {
                let mut answer = object.version().to_le_bytes().to_vec();
                answer.resize(8 + object.value_bytes(), 0);
                object.copy_value_to(&mut answer[8..]);
                (object.version(), answer)
            }
            Ok(None) => (0, vec![0; 8]),
            Err(error) => return self.refuse(reply, error.into()),
        };
        let when = self.log().when(version);
        self.answer_when(when, &answer, reply);
    }

    pub(super) fn put_durable(&mut self, put: &PutRequest<'_>, reply: impl Answer) {
        let Self { durable: Some(durable), store, .. } = self else { return };
        let outcome = durable.put(store, put.name, put.value, put.condition);
        self.answer_durable_write(outcome, reply);
    }

    /// Writes one of many objects; the answer to all of them waits.
    pub(super) fn put_one_durable(&mut self, put: &PutRequest<'_>) -> WriteResponse {
        let Self { durable: Some(durable), store, .. } = self else {
            return refused_write(Code::UnknownTable);
        };
        let outcome = durable.put(store, put.name, put.value, put.condition);
        outcome.map_or_else(refused_write, |(response, _)| response)
    }

    pub(super) fn delete_durable(&mut self, delete: &DeleteRequest<'_>, reply: impl Answer) {
        let Self { durable: Some(durable), store, .. } = self else { return };
        let outcome = durable.delete(store, delete.name, delete.condition);
        self.answer_durable_write(outcome, reply);
    }

    pub(super) fn increment_durable(&mut self, increment: &IncrementRequest<'_>, reply: impl Answer) {
        let Self { durable: Some(durable), store, .. } = self else { return };
        match durable.increment(store, increment.name, increment.amount) {
            Ok(((version, sum), when)) => {
                let level = durable.level_of(increment.name.table());
                let response = IncrementResponse { version, sum, level };
                self.answer_when(when, &response.encode_with_level(), reply);
            }
            Err(code) => self.refuse(reply, code),
        }
    }

    pub(super) fn drop_durable(&mut self, name: &str, table: TableId, reply: impl Answer) {
        let Self { durable: Some(durable), store, .. } = self else { return };
        match durable.drop_table(store, name, table) {
            Ok(when) => self.answer_when(when, &[1], reply),
            Err(code) => self.refuse(reply, code),
        }
    }

    fn answer_durable_write(&mut self, outcome: Result<(WriteResponse, When), Code>, reply: impl Answer) {
        match outcome {
            Ok((response, when)) => self.answer_when(when, &response.encode(), reply),
            Err(code) => self.refuse(reply, code),
        }
    }

    /// When it is told what several objects are, or what became of several writes: with the log if one of
    /// their tables is durable.
    pub(super) fn when_many(&self, is_durable: bool) -> When {
        match &self.durable {
            Some(durable) if is_durable => durable.when_all(),
            _ => When::Now,
        }
    }

    pub(super) fn answer_when(&mut self, when: When, answer: &[u8], reply: impl Answer) {
        match when {
            When::Now => reply.send(answer),
            When::Flushed(group) => match self.log().gone_wrong() {
                // What waits would wait too long.
                Some(code) => self.refuse(reply, code),
                None => self.log().hold(group, reply.park(), Held::new(answer)),
            },
        }
    }
}

/// Why nothing was added to a long value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotExtended {
    /// The log does not take it now, or never.
    Log(Code),
    /// The store does not.
    Store(WriteError),
}

impl From<WriteError> for NotExtended {
    fn from(error: WriteError) -> Self {
        Self::Store(error)
    }
}

fn group_in(when: When) -> u64 {
    match when {
        When::Now => 0,
        When::Flushed(group) => group,
    }
}
