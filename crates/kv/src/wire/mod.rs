//! What clients and shards say to each other, byte by byte as `docs/protocol/kv.md` shows it.
//!
//! Requests and responses are plain sequences of little-endian numbers and bytes; what is inside a message
//! was delivered whole by the transport, and is checked here once. Shards borrow everything from the message.

mod code;
mod fields;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use code::Code;
pub use fields::Malformed;
pub use request::{
    DeleteRequest, GetRequest, IncrementRequest, MultiGetRequest, MultiPutRequest, PutRequest, ScanRequest,
};
pub use response::{
    IncrementResponse, MultiGetItem, MultiGetResponse, MultiPutResponse, ScanItem, ScanResponse,
    ShardStatistics, WriteResponse, found,
};

use farcall::Service;

/// Reads an object.
pub const GET: Service = Service(256);
/// Writes an object.
pub const PUT: Service = Service(257);
/// Deletes an object.
pub const DELETE: Service = Service(258);
/// Adds to a number.
pub const INCREMENT: Service = Service(259);
/// Reads objects.
pub const MULTI_GET: Service = Service(260);
/// Writes objects.
pub const MULTI_PUT: Service = Service(261);
/// Reads a page of a table.
pub const SCAN: Service = Service(262);
/// Creates a table.
pub const CREATE_TABLE: Service = Service(263);
/// Tells what a shard holds.
pub const STATISTICS: Service = Service(264);

/// The most bytes of objects in a page of a scan or in the answer to a multi-get that has more than one
/// object.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// The shard, of `shards`, that has the objects with this hash: the low half of the hash as a fraction of
/// all.
#[inline]
pub fn shard_of(hash: u64, shards: u32) -> u32 {
    ((u64::from(hash as u32) * u64::from(shards)) >> 32) as u32
}
