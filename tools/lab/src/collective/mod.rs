//! Collective operations: the all-to-all shuffle, broadcasts, gathers, and what pairs of ranks reach.
//!
//! An operation is a [`Schedule`]: which messages each rank sends, and which of those wait for messages that must have
//! arrived first. Every rank runs the same [`Member`], which cuts messages into chunks and pushes them by calls; rank 0
//! also runs the [`Root`], which starts operations at one instant everywhere and takes the time of the slowest rank.
//! The same code runs on hosts of a simulated fabric ([`simulated`]), and over real transports in threads ([`threads`])
//! and in processes ([`processes`]).

mod inbox;
pub mod launches;
mod member;
mod orders;
pub mod processes;
mod published;
mod push;
mod root;
mod schedule;
mod sending;
pub mod simulated;
mod summary;
pub mod threads;

use farcall::Service;
use serde::{Deserialize, Serialize};

pub use member::{Member, MemberError};
pub use published::Series;
pub use push::Push;
pub use root::{OperationTime, Root};
pub use schedule::{Collective, Schedule};
pub use sending::PushLimits;
pub use summary::{Summary, throughput_gbps};

/// Starts an operation; answered when the rank is done with its part.
const START: Service = Service(1);

/// Carries a chunk.
const CHUNK: Service = Service(2);

/// Lets a rank go: there are no more operations.
const END: Service = Service(3);

/// What is measured: operations of one kind, size and number of ranks, one after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What the ranks do.
    pub collective: Collective,
    /// How many of them there are.
    pub ranks: u32,
    /// Bytes of each message.
    pub message_bytes: usize,
    /// Operations before those that count.
    pub warmup: u32,
    /// Operations that count.
    pub operations: u32,
    /// How chunks are pushed.
    pub limits: PushLimits,
    /// Decides the order of random pushes.
    pub seed: u64,
    /// Whether chunks are traced.
    pub trace: bool,
}
