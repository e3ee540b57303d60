//! What clients and shards say to each other, byte by byte as `docs/protocol/kv.md` shows it.
//!
//! Requests and responses are plain sequences of little-endian numbers and bytes; what is inside a message
//! was delivered whole by the transport, and is checked here once. Shards borrow everything from the message.

mod code;
mod fields;
mod hash_slot;
mod parts;
mod replication;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use code::{Code, NotReplicated};
pub(crate) use fields::Fields;
pub use fields::Malformed;
pub use hash_slot::{HASH_SLOTS, hash_slot};
pub use parts::{GetPartRequest, PART_ALIGN, PART_BYTES_MAX, PartResponse, PutPartRequest};
pub use replication::{Replication, decode_scrub, decode_scrubbed, encode_scrubbed};
pub use request::{
    CreateTableRequest, DeleteRequest, GetRequest, IncrementRequest, MultiGetRequest, MultiPutRequest,
    NAMES_LEFT_OUT, OnceRequest, PutRequest, ScanRequest,
};
pub use response::{
    CreateTableResponse, IncrementResponse, LeftOut, MultiGetItem, MultiGetResponse, MultiPutResponse,
    ScanItem, ScanResponse, ShardStatistics, WriteResponse, found,
};

use farcall::Service;

use crate::Name;

/// Reads an object.
pub const GET: Service = Service(272);
/// Writes an object.
pub const PUT: Service = Service(273);
/// Deletes an object.
pub const DELETE: Service = Service(274);
/// Adds to a number.
pub const INCREMENT: Service = Service(275);
/// Reads objects.
pub const MULTI_GET: Service = Service(276);
/// Writes objects.
pub const MULTI_PUT: Service = Service(277);
/// Reads a page of a table.
pub const SCAN: Service = Service(278);
/// Creates a table.
pub const CREATE_TABLE: Service = Service(279);
/// Tells what a shard holds.
pub const STATISTICS: Service = Service(280);
/// Drops a table.
pub const DROP_TABLE: Service = Service(281);
/// Tells who has replicas of a shard's log.
pub const REPLICATION: Service = Service(282);
/// Gives a client an identity, for writes that happen once.
pub const ADD_CLIENT: Service = Service(284);
/// Does a write once, however often it is asked for.
pub const ONCE: Service = Service(285);
/// Asks the primary of a shard to end, so that a process that waits for it takes over.
pub const HAND_OVER: Service = Service(286);
/// Begins to compare all replicas of a shard's log, or tells what a comparison found and has repaired.
pub const SCRUB: Service = Service(287);
/// What a primary asks a backup for; its messages are those of `farcall_replica`.
pub const BACKUP: Service = Service(288);
/// Creates a table whose writes survive what a level says. Shards of older versions refuse it as malformed.
pub const CREATE_TABLE_AT: Service = Service(289);

/// Tells which shard has which hash slots.
pub const SLOT_MAP: Service = Service(290);
/// Gives the destination of a move a page of what the source has.
pub const IMPORT: Service = Service(291);
/// Says that the map of hash slots has changed.
pub const LOOK_AT_MAP: Service = Service(292);
/// Reads a part of an object's value. Shards of older versions refuse it, and the next, as malformed.
pub const GET_PART: Service = Service(293);
/// Writes a part of a value that is longer than a message.
pub const PUT_PART: Service = Service(294);

/// The most shards of a store.
pub const SHARDS_MAX: u32 = 1024;

/// The most bytes of objects in a page of a scan or in the answer to a multi-get that has more than one
/// object.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// The most objects that a shard reads or writes for one request before it serves others.
pub const TURN_OBJECTS_MAX: usize = 128;

/// The most bytes of keys and values that a multi-put writes before others are served, if it is more than one
/// object. Less than can be read in a turn: a write also cleans.
pub const TURN_WRITE_BYTES_MAX: usize = 256 << 10;

/// The shard, of `shards`, that has an object: the one that has its key's hash slot.
#[inline]
pub fn shard_of(name: Name<'_>, shards: u32) -> u32 {
    // One shard has everything; then nobody needs the slot.
    if shards == 1 {
        return 0;
    }
    shard_of_slot(hash_slot(name.key()), shards)
}

/// The shard, of `shards`, that has a hash slot: each has neighbours, and about as many as the others.
#[inline]
pub fn shard_of_slot(slot: u32, shards: u32) -> u32 {
    slot * shards / HASH_SLOTS
}

/// What a client is called, that had an identity at a shard whose slots others have taken over, by those: the
/// number is that of the spread. Two of one shard are never the same.
pub fn identity_after(client: u64, spread: u64) -> u64 {
    // The last steps of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), each of which can be undone.
    let mut mixed = client.wrapping_add(spread.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
