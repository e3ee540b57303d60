//! Tables, which all shards create and drop.

use farcall::Payload;

use super::failure::{Failure, FromCode};
use super::many::join;
use super::operation::Repeat;
use super::placement::Route;
use super::{Client, message};
use crate::TableId;
use crate::durable::Level;
use crate::store::{CreateTableError, WriteError};
use crate::wire::{CREATE_TABLE, CREATE_TABLE_AT, Code, CreateTableRequest, CreateTableResponse, DROP_TABLE};

/// Why there is no new table with a level. At the shard that refused nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateTableAtError {
    /// No table of that name can be.
    #[error(transparent)]
    Table(#[from] CreateTableError),
    /// Start the shard with a log.
    #[error("the shard has no log, which a durable table takes; start it with --data, or with --registry")]
    NoLog,
    /// Start the shard with a table of that level: its log then has what the level takes.
    #[error(
        "the shard's log survives less than the level asks for: it has too few replicas, or is not flushed; \
         start the shard with a table of that level"
    )]
    WeakLog,
    /// Drop the table, or choose another name.
    #[error("there is a table of that name, whose level survives less; drop it, or choose another name")]
    WeakTable,
    /// Give the log more of its disk, or delete objects.
    #[error("the log of durable tables has no room")]
    LogFull,
    /// Start the shard again.
    #[error(
        "the disk of durable tables has failed; whether there is a table after the next start is not known"
    )]
    DiskFailed,
    /// Name the table when the shard is started, or take a shard of this version.
    #[error("the store is of an older version, whose clients cannot create durable tables")]
    OlderStore,
}

impl FromCode for CreateTableAtError {
    fn from_code(code: Code, version: u64) -> Option<Self> {
        match code {
            Code::NoLog => Some(Self::NoLog),
            Code::WeakLog => Some(Self::WeakLog),
            Code::WeakTable => Some(Self::WeakTable),
            Code::LogFull => Some(Self::LogFull),
            Code::DiskFailed => Some(Self::DiskFailed),
            // The name was looked at before it was sent.
            Code::Malformed => Some(Self::OlderStore),
            code => CreateTableError::from_code(code, version).map(Self::Table),
        }
    }
}

impl Client<'_> {
    /// The outcomes of all shards, but for those that are away and have no hash slots: their next processes
    /// create what they are started with.
    fn of_needed<T, E>(
        &self,
        outcomes: Vec<Result<T, Failure<E>>>,
    ) -> impl Iterator<Item = Result<T, Failure<E>>> {
        let is_needed = |shard: u32, outcome: &Result<T, Failure<E>>| {
            !matches!(outcome, Err(Failure::WrongShard)) || !self.has_no_slots(shard)
        };
        let all = (0..).zip(outcomes);
        all.filter(move |(shard, outcome)| is_needed(*shard, outcome)).map(|(_, outcome)| outcome)
    }

    /// Creates a table on all shards, unless there is one of that name. A new one is in memory.
    pub async fn create_table(&self, name: &str) -> Result<TableId, Failure<CreateTableError>> {
        let table = TableId::of(name).map_err(|error| Failure::Store(error.into()))?;
        let calls = (0..self.shards())
            .map(|shard| {
                self.operation((shard, Route::Waiting), CREATE_TABLE, name.into(), Repeat::Always, Ok)
            })
            .collect();
        for answer in self.of_needed(join(calls).await) {
            let answer: Payload = answer?;
            if *answer != table.0.to_le_bytes() {
                return Err(Failure::Misunderstood);
            }
        }
        Ok(table)
    }

    /// Creates a table on all shards, whose writes survive what the level says, unless there is one of that
    /// name which survives as much. A shard that cannot give the level refuses; others may have created the
    /// table by then: ask again, or drop it.
    pub async fn create_table_at(
        &self,
        name: &str,
        level: Level,
    ) -> Result<TableId, Failure<CreateTableAtError>> {
        if level == Level::Memory {
            // Shards of every version know this one.
            return self.create_table(name).await.map_err(Failure::with);
        }
        let table =
            TableId::of(name).map_err(|error| Failure::Store(CreateTableError::from(error).into()))?;
        let message = message(|to| CreateTableRequest { level, name }.encode(to));
        let calls = (0..self.shards())
            .map(|shard| {
                self.operation((shard, Route::Waiting), CREATE_TABLE_AT, message.clone(), Repeat::Always, Ok)
            })
            .collect();
        for answer in self.of_needed(join(calls).await) {
            let answer: Payload = answer?;
            let created = CreateTableResponse::decode(&answer)?;
            if created.table != table || !created.level.covers(level) {
                return Err(Failure::Misunderstood);
            }
        }
        Ok(table)
    }

    /// Drops a table with all that is in it on all shards; says whether one of them had it.
    pub async fn drop_table(&self, name: &str) -> Result<bool, Failure<WriteError>> {
        let calls = (0..self.shards())
            .map(|shard| self.operation((shard, Route::Waiting), DROP_TABLE, name.into(), Repeat::Always, Ok))
            .collect();
        let mut was_there = false;
        for answer in self.of_needed(join(calls).await) {
            let answer: Payload = answer?;
            match *answer {
                [there @ (0 | 1)] => was_there |= there == 1,
                _ => return Err(Failure::Misunderstood),
            }
        }
        Ok(was_there)
    }
}
