//! Why a shard refuses, as a number.

use crate::store::{CreateTableError, IncrementError, ReadError, WriteError};

/// A refusal's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Done; only in the answers to multi-gets and multi-puts.
    Done = 0,
    /// The request is none, or breaks a limit.
    Malformed = 1,
    /// Another shard has the object.
    WrongShard = 2,
    /// The table does not exist.
    UnknownTable = 3,
    /// The store is full.
    OutOfMemory = 4,
    /// The object has another version; an answer with this code also has the version.
    WrongVersion = 5,
    /// The object is no number.
    NotANumber = 6,
    /// The sum is out of range.
    Overflow = 7,
    /// Another table has the same number.
    SameNumber = 8,
    /// The store has all tables that it can have, or this client has created all that it may.
    TooManyTables = 9,
    /// Too many objects have the hash of this one's key.
    SameHash = 10,
    /// Too many requests of this client wait, or requests of too many bytes; or too much waits for the disk.
    Busy = 11,
    /// The log of durable tables has no room: its disk is full, or the share of it that the log may take.
    LogFull = 12,
    /// The disk of durable tables has failed. Of writes that were recorded by then nobody knows whether they
    /// are there after the next start.
    DiskFailed = 13,
    /// Too few backups hold the log, for longer than a write waits, or since the primary was started. Nothing
    /// was changed.
    TooFewReplicas = 14,
    /// Too few backups hold what the request did or read. A write may have happened, or happen yet.
    LevelNotReached = 15,
    /// Another process is the shard's primary, or may be. Nothing was changed.
    NotPrimary = 16,
    /// The shard does not know the client that wants a write to happen once (any more). It may have happened.
    ClientForgotten = 17,
    /// The object is a collection of Redis clients.
    Collection = 18,
    /// The policy of the store does not let the caller do it. Nothing was changed.
    NotAllowed = 19,
    /// The level of a new table takes a log, and the shard has none. Nothing was changed.
    NoLog = 20,
    /// The level of a new table survives more than the shard's log does. Nothing was changed.
    WeakLog = 21,
    /// A table of that name exists, whose level survives less. Nothing was changed.
    WeakTable = 22,
    /// The object's value is longer than a message can be.
    TooLong = 23,
    /// The object's hash slot is about to be another shard's. Nothing was changed: ask again.
    SlotsMoving = 24,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::Done,
        Self::Malformed,
        Self::WrongShard,
        Self::UnknownTable,
        Self::OutOfMemory,
        Self::WrongVersion,
        Self::NotANumber,
        Self::Overflow,
        Self::SameNumber,
        Self::TooManyTables,
        Self::SameHash,
        Self::Busy,
        Self::LogFull,
        Self::DiskFailed,
        Self::TooFewReplicas,
        Self::LevelNotReached,
        Self::NotPrimary,
        Self::ClientForgotten,
        Self::Collection,
        Self::NotAllowed,
        Self::NoLog,
        Self::WeakLog,
        Self::WeakTable,
        Self::TooLong,
        Self::SlotsMoving,
    ];

    /// The code that a number means.
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Why a shard refuses that has, or had, its durable tables on other machines as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReplicated {
    /// Nothing was changed. Start a backup; writes, and reads at a primary that was just started, go on once
    /// as many as the level says have the log.
    #[error("too few backups hold the log of the table; start another one with `farcall kv backup`")]
    TooFewReplicas,
    /// A write may have happened, or happen yet: read the object once there are enough backups.
    #[error("too few backups have confirmed the write within the lease; it may have happened, or happen yet")]
    LevelNotReached,
    /// Nothing was changed. Ask again: another process is about to be the primary, or is already.
    #[error(
        "another process is the primary of the shard, or may be since the registry has not answered for a lease; \
         ask again"
    )]
    NotPrimary,
}

impl NotReplicated {
    /// What a code means, if it is about replicas.
    pub fn from_code(code: Code) -> Option<Self> {
        match code {
            Code::TooFewReplicas => Some(Self::TooFewReplicas),
            Code::LevelNotReached => Some(Self::LevelNotReached),
            Code::NotPrimary => Some(Self::NotPrimary),
            _ => None,
        }
    }

    /// Whether nothing was changed, and the same may succeed a little later.
    pub fn passes(self) -> bool {
        matches!(self, Self::NotPrimary | Self::TooFewReplicas)
    }
}

impl From<ReadError> for Code {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::UnknownTable => Self::UnknownTable,
            ReadError::DiskFailed => Self::DiskFailed,
            ReadError::Collection => Self::Collection,
            ReadError::TooLong => Self::TooLong,
        }
    }
}

impl From<WriteError> for Code {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::UnknownTable => Self::UnknownTable,
            WriteError::WrongVersion { .. } => Self::WrongVersion,
            WriteError::OutOfMemory => Self::OutOfMemory,
            WriteError::SameHash => Self::SameHash,
            WriteError::LogFull => Self::LogFull,
            WriteError::DiskFailed => Self::DiskFailed,
            WriteError::TooLong => Self::TooLong,
        }
    }
}

impl From<IncrementError> for Code {
    fn from(error: IncrementError) -> Self {
        match error {
            IncrementError::Write(error) => error.into(),
            IncrementError::NotANumber => Self::NotANumber,
            IncrementError::Overflow => Self::Overflow,
        }
    }
}

impl From<CreateTableError> for Code {
    fn from(error: CreateTableError) -> Self {
        match error {
            CreateTableError::Limit(_) => Self::Malformed,
            CreateTableError::SameNumber => Self::SameNumber,
            CreateTableError::TooMany => Self::TooManyTables,
        }
    }
}
