//! Why a log is not opened: each reason with what to do about it.

use farcall_disk::DiskError;

use super::format::FORMAT_VERSION;

/// Why a log was not opened. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Look into the system's log; free some space.
    #[error("the log cannot be read or written: {0}")]
    Disk(#[from] DiskError),
    /// Use the farcall that wrote it, or a newer one.
    #[error(
        "the log has format version {version}, and this farcall understands versions up to {FORMAT_VERSION}"
    )]
    Version {
        /// Its version.
        version: u32,
    },
    /// Give another directory; the file is not overwritten.
    #[error(
        "the file is no log of farcall, or cut off, or both its superblocks are damaged; nothing was changed"
    )]
    NotALog,
    /// Give each shard its own log, and as many shards as there were.
    #[error("the log is that of shard {shard} of {shards}, and this is shard {own} of {own_shards}")]
    OtherShard {
        /// The log's shard.
        shard: u32,
        /// How many there were.
        shards: u32,
        /// This shard.
        own: u32,
        /// How many there are.
        own_shards: u32,
    },
    /// Its objects are at other shards now: bring them into a new store.
    #[error(
        "the log is one of {shards} shards and of format version {version}, by which keys belonged to other \
         shards: `farcall kv backup --export` its directory, and `farcall kv restore` that into a new store"
    )]
    OtherPlacement {
        /// Its version.
        version: u32,
        /// How many shards there are.
        shards: u32,
    },
    /// Restore a copy of the file: what is damaged was acknowledged.
    #[error(
        "acknowledged writes are damaged: segment {segment} does not verify at byte {at} of the file, and more \
         was written after that; nothing was changed"
    )]
    Damaged {
        /// The segment.
        segment: u64,
        /// Where in the file the first group that does not verify begins.
        at: u64,
    },
    /// Restore a copy of the file: what is missing was acknowledged.
    #[error(
        "the file is cut off: the log has segment {segment} up to byte {needed} of the file, which ends at byte \
         {bytes}; nothing was changed"
    )]
    CutOff {
        /// The segment.
        segment: u64,
        /// Where in the file its frame ends.
        needed: u64,
        /// How long the file is, in whole blocks.
        bytes: u64,
    },
    /// Restore a copy of the file; say what was done with the store before.
    #[error(
        "the log lacks elements of the collection `{}`; nothing was changed",
        farcall_base::printable(key)
    )]
    Elements {
        /// The collection's key.
        key: String,
    },
    /// Restore a copy of the file; say what was done with the store before.
    #[error("the log lacks pieces of the string `{}`; nothing was changed", farcall_base::printable(key))]
    Pieces {
        /// The string's key.
        key: String,
    },
    /// Give the shard its registry.
    #[error("the log has tables with {replicas} replicas, which takes --registry file:DIR")]
    Replicated {
        /// Replicas besides the primary.
        replicas: u8,
    },
    /// Give the store more memory.
    #[error("the objects of the log do not fit into the store's memory")]
    TooLarge,
}
