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
    /// Too many requests of this client wait, or requests of too many bytes.
    Busy = 11,
    /// The log of durable tables has no room: its disk is full, or the share of it that the log may take.
    LogFull = 12,
    /// The disk of durable tables has failed. Of writes that were recorded by then nobody knows whether they
    /// are there after the next start.
    DiskFailed = 13,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 14] = [
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
    ];

    /// The code that a number means.
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl From<ReadError> for Code {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::UnknownTable => Self::UnknownTable,
            ReadError::DiskFailed => Self::DiskFailed,
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
