//! A key-value store in the memory of a cluster.
//!
//! [`store`] is the data structure: tables of versioned objects in log-structured memory, for one thread,
//! without clock or network. It follows RAMCloud's (Rumble, Kejriwal and Ousterhout, "Log-structured memory
//! for DRAM-based storage", FAST 2014) without the copies on disk: what a process stores is gone when the
//! process is.
//!
//! A [`Shard`] is a store that answers calls, a [`Client`] knows which shard to call. Both talk over any
//! transport of farcall, in the messages of [`wire`]. A [`daemon`] serves its shard to the processes of its
//! host as well, through slots in shared memory, and asks other shards for them.

mod client;
pub mod daemon;
mod decimal;
pub mod durable;
mod limits;
pub mod resp;
mod shard;
mod shared;
pub mod slots;
pub mod store;
pub mod wire;

#[doc(hidden)]
pub use client::fuzz_answers;
pub use client::{Client, Failure, FoundObject, Operation, Page, ScanPosition};
pub use limits::{
    KEY_BYTES_MAX, LimitError, Name, TABLE_NAME_BYTES_MAX, TABLES_MAX, TableId, VALUE_BYTES_MAX, Value,
};
pub use shard::{Answer, Shard, ShardCounters};
pub use shared::SharedShard;
