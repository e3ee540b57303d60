//! The driver seam: how farcall's protocols reach a fabric.
//!
//! Fabrics come in two shapes, because the hardware has two. A [`Datagram`] driver moves unreliable packets;
//! a [`LaneDriver`] gives each peer a reliable byte ring in the other's memory. Protocols are written against
//! these traits only, and decorators (count, trace, capture, fault) wrap any implementation without it
//! knowing.
//!
//! `seam` has the traits, `memory` the loans and blocks that pass through them, `telemetry` counters, traces
//! and the clock, `testing` the conformance suites and decorators.

mod descriptors;
mod identity_file;
mod key_file;
mod memory;
mod peers_file;
mod process;
mod seam;
mod telemetry;
mod testing;
mod watched_file;

pub use descriptors::{ReadableSet, kept_from_children, memory_file, wait_readable};
pub use identity_file::{IdentityFile, IdentityFileError};
pub use key_file::{KeyFile, KeyFileError};
pub use memory::{
    BLOCK_BYTES_MIN, Block, BlockDescriptor, BlockHome, BlockMemory, FETCH_BYTES_MAX, HeapLoans, Loan,
    LoanError, LoanHome, LoanMemory, Returns, copy_to_hot, prefetch_lines,
};
pub use peers_file::{PEER_NAME_BYTES_MAX, PEERS_MAX, PeersFile, PeersFileError, fuzz_peers};
pub use process::ProcessMark;
pub use seam::{
    Datagram, DatagramLimits, Destination, HELLO_BYTES_MAX, LaneDriver, LaneEvent, LaneFault, LaneId,
    LaneLimits, LaneReceiver, LaneSender, Packet, Peers, RECORD_ALIGN, RECORD_HEADER_BYTES, RUNWAY_BYTES,
    Record, RecordKind, STRANGERS_MAX, SendError, SendQueueFull, Wait, Words,
};
pub use telemetry::counters::{
    Counter, CounterDescription, CounterFile, CounterGroup, CounterReadError, CounterReader, CounterSnapshot,
    GroupSnapshot, Snapshot,
};
pub use telemetry::{clock, counters, probes, trace};
#[cfg(feature = "testing")]
pub use testing::conformance;
pub use testing::decorate;
pub use watched_file::{FileContent, FileError, FileRules, FileStamp, WatchedFile};
