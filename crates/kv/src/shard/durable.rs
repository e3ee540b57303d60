//! Requests to durable tables: their answers wait for the flush of what they say.

use farcall_disk::Disk;
use farcall_replica::Mirror;

use super::{Answer, Shard, refused_write};
use crate::TableId;
use crate::durable::{Durable, Held, Level, LogError, LogStatus, Recovered, Released, When};
use crate::store::CreateTableError;
use crate::wire::{
    Code, DeleteRequest, GetRequest, IncrementRequest, IncrementResponse, PutRequest, Replication,
    WriteResponse, encode_scrubbed,
};

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
        self.durable.as_mut().expect("a log was opened").add_table(name, table, level);
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

    /// Tells what a comparison of replicas found, once; begins one, or goes on with it, until then.
    pub(super) fn scrub(&self, reply: impl Answer) {
        let Some(mirror) = self.mirror() else { return self.refuse(reply, Code::Malformed) };
        let mut answer = Vec::new();
        match mirror.scrubbed() {
            Some(outcome) => encode_scrubbed(&outcome, &mut answer),
            None => mirror.scrub(),
        }
        reply.send(&answer);
    }

    /// From now on durable tables are refused to everybody: another process is about to serve them.
    pub(super) fn hand_over(&mut self, reply: impl Answer) {
        match self.durable.as_mut().filter(|durable| durable.mirror().is_some()) {
            Some(durable) => {
                durable.leave();
                reply.send(&[]);
            }
            None => self.refuse(reply, Code::Malformed),
        }
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

    /// Sends what several objects are, or what became of several writes.
    pub(super) fn send_many(&mut self, answer: &[u8], reply: impl Answer) {
        let when = match &self.durable {
            Some(durable) => durable.may_answer().map(|()| durable.when_all()),
            None => Ok(When::Now),
        };
        match when {
            Ok(when) => self.answer_when(when, answer, reply),
            Err(code) => self.refuse(reply, code),
        }
    }

    pub(super) fn answer_when(&mut self, when: When, answer: &[u8], reply: impl Answer) {
        match when {
            When::Now => reply.send(answer),
            When::Flushed(group) => match self.log().gone_wrong() {
                // What waits would wait for ever.
                Some(code) => self.refuse(reply, code),
                None => self.log().hold(group, reply.park(), Held::new(answer)),
            },
        }
    }
}
