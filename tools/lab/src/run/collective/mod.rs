//! Measures collective operations: the all-to-all shuffle, broadcasts, gathers, and what pairs of ranks
//! reach.
//!
//! The operations are those of `farcall_collective`. Every rank runs the same [`Member`]; rank 0 also runs
//! the [`Root`], which starts operations at one instant everywhere and takes the time of the slowest rank.
//! The same code runs on hosts of a simulated fabric ([`simulated`]), and over real transports in threads
//! ([`threads`]) and in processes ([`processes`]).

mod inbox;
pub mod launches;
mod member;
mod orders;
pub mod processes;
mod published;
mod root;
pub mod simulated;
mod summary;
pub mod threads;
mod work;

use farcall::Service;
pub use farcall_collective::{PushLimits, PushPolicy};
use serde::{Deserialize, Serialize};

pub use member::{Member, MemberError};
pub use published::Series;
pub use root::{OperationTime, Root};
pub use summary::{Summary, throughput_gbps};
pub use work::{Collective, WorkError};

/// Starts an operation; answered when the rank is done with its part.
const START: Service = Service(1);

/// Lets a rank go: there are no more operations.
const END: Service = Service(2);

/// What is measured: operations of one kind, size and number of ranks, one after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectivePlan {
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
    /// How the chunks of shuffles are pushed, but for their seed; chunks of other operations are as long.
    pub limits: PushLimits,
    /// Decides the order of random pushes.
    pub seed: u64,
    /// Whether chunks are traced.
    pub trace: bool,
}
