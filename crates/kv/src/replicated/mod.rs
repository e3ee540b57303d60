//! Replicated logs over a network: a primary's messages to its backups, and a backup's answers.
//!
//! What is decided is decided in `farcall_replica`, which knows no network. Here its messages become calls of
//! an endpoint, and its questions to the registry those of a thread.

mod backups;
mod counters;
mod fetching;
mod images;
mod primary;
mod reading;
mod registry;
mod replicator;
mod segments;
mod spreading;
mod standing;
mod steps;

use farcall::{CallError, Outcome};
use farcall_replica::{NoAnswer, Refusal};

pub use backups::Backups;
pub use counters::{ReplicaCounters, TakeoverTimes};
pub use images::{images_in, log_without_replicas};
pub use primary::{Primary, PrimaryError, PrimaryPlan, Waits};
pub use reading::WayToBackups;
pub(crate) use reading::read_part;
pub use registry::{NoRegistry, OpenRegistry, RegistryPlace};
pub use replicator::Replicator;
#[doc(hidden)]
pub use segments::fuzz_segment_requests;
pub use spreading::{SpreadError, SpreadOutcome, watch};
#[doc(hidden)]
pub use steps::{MoverSteps, PartSteps, SpreadSteps, answer_segment};

/// Where backups listen: under this name, or with a number behind it, at a rendezvous or registry of names.
pub const BACKUP_NAME: &str = "farcall-kv.backup";

/// What the place of a backup is for `Endpoint::connect`: `HOST:PORT/NAME` leads to the name at that
/// registry.
fn target(backup: &str) -> String {
    format!("farcall://{backup}")
}

/// What the outcome of a call to a backup says.
fn answer<'a>(outcome: &'a Outcome<'_>) -> Result<&'a [u8], NoAnswer> {
    match outcome {
        Ok(answer) => Ok(answer),
        Err(CallError::Refused { code, .. }) => {
            Err(Refusal::from_wire(*code).map_or(NoAnswer::Silent, NoAnswer::Refused))
        }
        Err(_) => Err(NoAnswer::Silent),
    }
}
