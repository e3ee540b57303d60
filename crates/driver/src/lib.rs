//! The driver seam: how farcall's protocols reach a fabric.
//!
//! Fabrics come in two shapes, because the hardware has two. A [`Datagram`] driver moves unreliable packets; a
//! [`LaneDriver`] gives each peer a reliable byte ring in the other's memory. Protocols are written against these
//! traits only, and decorators (count, trace, capture, fault) wrap any implementation without it knowing.

mod block;
mod block_memory;
mod buddy;
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod copying;
pub mod counters;
mod datagram;
pub mod decorate;
mod descriptors;
mod heap_loan;
mod landed;
mod lane;
mod loan;
mod peers;
mod prefetch;
mod record;
mod resting;
mod returns;
mod spare_loans;
pub mod trace;
mod wait;

pub use block::{Block, BlockDescriptor, BlockHome};
pub use block_memory::{BlockMemory, LoanMemory};
pub use buddy::BLOCK_BYTES_MIN;
pub use copying::copy_to_hot;
pub use counters::{
    Counter, CounterDescription, CounterFile, CounterGroup, CounterReadError, CounterSnapshot, GroupSnapshot,
    Snapshot,
};
pub use datagram::{Datagram, DatagramLimits, Destination, Packet, SendError, SendQueueFull};
pub use descriptors::kept_from_children;
pub use heap_loan::HeapLoans;
pub use lane::{
    HELLO_BYTES_MAX, LaneDriver, LaneEvent, LaneFault, LaneId, LaneLimits, LaneReceiver, LaneSender,
    RECORD_ALIGN, RECORD_HEADER_BYTES, RUNWAY_BYTES, RecordKind,
};
pub use loan::{Loan, LoanError, LoanHome};
pub use peers::{Peers, STRANGERS_MAX};
pub use prefetch::{FETCH_BYTES_MAX, prefetch_lines};
pub use record::{Record, Words};
pub use returns::Returns;
pub use wait::wait_readable;
