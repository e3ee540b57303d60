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
//!
//! # A shard and a client
//!
//! Here as two threads of one process; `farcall kv serve` is the first of them as a program.
//!
//! ```
//! use std::sync::atomic::{AtomicBool, Ordering};
//!
//! use farcall::Node;
//! use farcall::bootstrap::{Bootstrap, LocalRanks};
//! use farcall::parameters::Settings;
//! use farcall_kv::store::{Condition, MEMORY_BYTES_MIN, Store, WriteError};
//! use farcall_kv::{Client, Failure, Name, Shard, TableId, Value};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ranks = LocalRanks::new(2);
//! let node = |rank| Node::new(Bootstrap::among(&ranks, rank, 1), Settings::default());
//! let is_over = AtomicBool::new(false);
//! std::thread::scope(|threads| {
//!     threads.spawn(|| {
//!         let endpoint = node(0).endpoint("ring+shm").expect("shared memory");
//!         let store = Store::new(MEMORY_BYTES_MIN).expect("memory");
//!         let mut shard = Shard::new(store, 0, 1);
//!         shard.create_table("users").expect("a good name");
//!         while !is_over.load(Ordering::Relaxed) {
//!             endpoint.poll_requests_idle(|request, reply| shard.handle(request, reply), |_, _| ());
//!         }
//!     });
//!     let client = || -> Result<(), Box<dyn std::error::Error>> {
//!         let endpoint = node(1).endpoint("ring+shm")?;
//!         let store = Client::new(&endpoint, 0..1);
//!         let ada = Name::new(TableId::of("users")?, b"ada")?;
//!         let version = store.put(ada, Value::new(b"London")?, Condition::Always).wait()?;
//!         let found = store.get(ada).wait()?.expect("it was written");
//!         assert_eq!((found.version(), found.value()), (version, &b"London"[..]));
//!         // Only if nobody has changed it since:
//!         store.put(ada, Value::new(b"Paris")?, Condition::Version(version)).wait()?;
//!         let late = store.put(ada, Value::new(b"Rome")?, Condition::Version(version)).wait();
//!         assert!(matches!(late, Err(Failure::Store(WriteError::WrongVersion { .. }))));
//!         Ok(())
//!     };
//!     let outcome = client();
//!     is_over.store(true, Ordering::Relaxed);
//!     outcome
//! })
//! # }
//! ```
//!
//! # The store alone
//!
//! ```
//! use farcall_kv::store::{Condition, MEMORY_BYTES_MIN, Store};
//! use farcall_kv::{Name, Value};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut store = Store::new(MEMORY_BYTES_MIN)?;
//! let visits = Name::new(store.create_table("counts")?, b"visits")?;
//! assert_eq!(store.increment(visits, 1)?.1, 1);
//! store.put(visits, Value::new(b"41")?, Condition::Always)?;
//! assert_eq!(store.increment(visits, 1)?.1, 42);
//! # Ok(())
//! # }
//! ```

mod client;
pub mod daemon;
mod decimal;
pub mod durable;
mod guard;
mod limits;
mod memcached;
pub mod placement;
pub mod replicated;
pub mod resp;
mod shard;
mod shared;
pub mod slots;
pub mod store;
pub mod wire;

#[doc(hidden)]
pub use client::fuzz_answers;
pub use client::{
    Client, CreateTableAtError, Failure, FoundObject, FoundPart, Operation, Page, Receipt, ScanPosition,
};
#[doc(hidden)]
pub use durable::fuzz_log;
pub use guard::TableGuard;
pub use limits::{
    KEY_BYTES_MAX, LimitError, Name, TABLE_NAME_BYTES_MAX, TABLES_MAX, TableId, VALUE_BYTES_MAX, Value,
};
#[doc(hidden)]
pub use memcached::fuzz_memcached;
pub use shard::{Answer, Shard, ShardCounters};
pub use shared::SharedShard;

/// Compiles what the tutorial shows.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tutorial/table.md")]
struct Tutorial;
