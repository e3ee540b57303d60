//! How operations on a store fail.

use super::log::NotAdded;

/// Why nothing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Create the table first.
    #[error("there is no such table")]
    UnknownTable,
    /// The disk of durable tables has failed, and what was to be read is not on it. Start the shard again,
    /// with another disk if need be.
    #[error("the disk of durable tables has failed, and the object's last write is not on it")]
    DiskFailed,
    /// Ask for it as a Redis client.
    #[error("the object is a collection, which Redis clients read")]
    Collection,
    /// Ask for it, or for a part of it, as a Redis client.
    #[error(
        "the object's value is longer than {} bytes; Redis clients and `farcall kv export` read it",
        crate::VALUE_BYTES_MAX
    )]
    TooLong,
}

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Create the table first.
    #[error("there is no such table")]
    UnknownTable,
    /// The object has another version than the one that the condition names: read it again.
    #[error("the object {}", found_instead(*version))]
    WrongVersion {
        /// The version that it has; 0 when there is no such object.
        version: u64,
    },
    /// Delete something, or give the store more memory.
    #[error("the store's memory is full")]
    OutOfMemory,
    /// Choose another key. With the secret hashes of a store this does not happen by chance.
    #[error(
        "the store has {} objects whose keys have the hash of this one, the most",
        super::log::SAME_HASH_MAX
    )]
    SameHash,
    /// Delete something, make room on the disk, or start the shard again with more for the log. Nothing was
    /// changed.
    #[error(
        "the log of durable tables is full: delete something, make room on its disk, or start the shard again \
         with a greater --data-size"
    )]
    LogFull,
    /// Start the shard again, with another disk if need be. The write may have happened: look what is there
    /// then.
    #[error("the disk of durable tables has failed; the write may be there after the next start, or not")]
    DiskFailed,
    /// Do it outside of a transaction.
    #[error(
        "a value of more than {} bytes does not get from a table in memory to a durable one in a transaction",
        crate::VALUE_BYTES_MAX
    )]
    TooLong,
}

impl From<NotAdded> for WriteError {
    fn from(not_added: NotAdded) -> Self {
        match not_added {
            NotAdded::Full => Self::OutOfMemory,
            NotAdded::SameHash => Self::SameHash,
        }
    }
}

/// Why a collection was not read or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectionError {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The object is of another kind: choose another key.
    #[error("the object is of another kind")]
    WrongKind,
    /// Delete some elements, or use several collections.
    #[error("a collection has at most {} elements", super::collections::ELEMENTS_MAX)]
    TooMany,
}

/// Why a number was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IncrementError {
    /// The object could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The object is something else: put a number there first.
    #[error("the object is not a decimal number from -2^63 to 2^63 - 1")]
    NotANumber,
    /// The sum is out of range: choose another amount.
    #[error("the sum is not a number from -2^63 to 2^63 - 1")]
    Overflow,
}

/// Why there is no new table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateTableError {
    /// The name cannot be that of a table.
    #[error(transparent)]
    Limit(#[from] crate::LimitError),
    /// Choose another name: two names with the same number cannot be in one store.
    #[error("another table has the number that follows from this name; choose another name")]
    SameNumber,
    /// Drop a table first. Those of which not all objects are removed yet count.
    #[error(
        "there are too many tables: a store has at most {}, of which one client creates 64",
        crate::TABLES_MAX
    )]
    TooMany,
}

/// Why there is no store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreSizeError {
    /// Give it more.
    #[error("a store of {bytes} bytes is too small; give it at least {}", super::MEMORY_BYTES_MIN)]
    TooSmall {
        /// What it was given.
        bytes: usize,
    },
    /// Give it less.
    #[error("the system does not have the {bytes} bytes of the store")]
    NotThere {
        /// What it was given.
        bytes: usize,
    },
}

fn found_instead(version: u64) -> String {
    match version {
        0 => "does not exist".to_owned(),
        version => format!("has version {version}, not the one that was asked for"),
    }
}
