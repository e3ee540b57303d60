//! Why something could not be learnt from, or told to, the directory.

use std::time::Duration;

use farcall_driver::KeyFileError;

use super::super::limits::{BARRIER_WAITS_MAX, KEYS_PER_RANK_MAX, NAME_BYTES_MAX, WAITS_MAX};
use super::super::refusal::Refusal;

/// Why a process is not a member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Nothing answered in time, in spite of retries.
    #[error(
        "the rendezvous at {address} cannot be reached within {within:?}: {reason}; \
         check the address and that the process that serves it runs"
    )]
    Unreachable {
        /// Where it should be.
        address: String,
        /// The time limit.
        within: Duration,
        /// What the last attempt ran into.
        reason: String,
    },
    /// The processes of this machine cannot find each other: `ip link set lo up`.
    #[error(
        "the loopback interface is down, so that {address} cannot be reached; bring it up (ip link set lo up)"
    )]
    NoLoopback {
        /// Where the rendezvous should be.
        address: String,
    },
    /// The rendezvous does not want this process.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The cluster key that `FARCALL_SECURITY_KEY_FILE` names cannot be used.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The arguments do not describe a process of a cluster.
    #[error("rank {rank} of {size} with incarnation {incarnation} cannot be; see the bounds of each")]
    Identity {
        /// The rank given: it must be less than the size.
        rank: u32,
        /// The size given: 1 to `RANKS_MAX`.
        size: u32,
        /// The incarnation given: not 0.
        incarnation: u64,
    },
    /// No thread or descriptor is left.
    #[error(
        "cannot keep in touch with the rendezvous: {reason}; end other processes or raise the limits of this one"
    )]
    Resources {
        /// The system's own words.
        reason: String,
    },
}

/// Why an address was not published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Not a possible key.
    #[error("a key has 1 to {NAME_BYTES_MAX} bytes, not {bytes}; choose another")]
    KeyLength {
        /// The length given.
        bytes: usize,
    },
    /// There is no registry to tell.
    #[error("names that are written down cannot be registered; name a registry in FARCALL_NAMES")]
    NoRegistry,
    /// This rank has published all that one rank may.
    #[error("this process has published {KEYS_PER_RANK_MAX} addresses, the limit; use fewer endpoints")]
    TooManyKeys,
    /// The rendezvous refused this process when it came back after a lost connection.
    #[error("this process is no member of the cluster any more: {0}")]
    Refused(#[from] Refusal),
}

/// Why an address is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The rank has not published the key, or has ended and nothing took its place.
    #[error(
        "rank {rank} did not publish `{key}` within {within:?}; check that it runs and uses the same transport"
    )]
    TimedOut {
        /// The rank asked for.
        rank: u32,
        /// The key asked for.
        key: String,
        /// The time limit.
        within: Duration,
    },
    /// The rendezvous is gone, and the address had not been resolved before.
    #[error(
        "the rendezvous did not come back within {within:?}, so `{key}` of rank {rank} is unknown; start it again"
    )]
    Unreachable {
        /// The rank asked for.
        rank: u32,
        /// The key asked for.
        key: String,
        /// The time limit.
        within: Duration,
    },
    /// Not a rank of the cluster.
    #[error("rank {rank} does not exist; the cluster has {size} ranks, counted from 0")]
    NoSuchRank {
        /// The rank asked for.
        rank: u32,
        /// The number of ranks.
        size: u32,
    },
    /// Not a possible key.
    #[error("a key has 1 to {NAME_BYTES_MAX} bytes, not {bytes}; use the key that the rank publishes")]
    KeyLength {
        /// The length given.
        bytes: usize,
    },
    /// Too many threads of this process wait.
    #[error("{WAITS_MAX} threads of this process wait for the directory, the limit; let some finish first")]
    TooManyWaits,
    /// The registry has no room for the request.
    #[error("the registry stores as much as it may; use fewer endpoints and names, or another registry")]
    RegistryFull,
    /// The rendezvous refused this process when it came back after a lost connection.
    #[error("this process is no member of the cluster any more: {0}")]
    Refused(#[from] Refusal),
}

/// The ranks that are not at a barrier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingRanks {
    /// How many; 0 when the registry did not say.
    pub count: u32,
    /// The first of them.
    pub first: Vec<u32>,
}

impl core::fmt::Display for MissingRanks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names: Vec<String> = self.first.iter().map(u32::to_string).collect();
        match (&names[..], self.count as usize - names.len().min(self.count as usize)) {
            ([], _) => f.write_str("some ranks"),
            ([one], 0) => write!(f, "rank {one}"),
            ([most @ .., last], 0) => write!(f, "ranks {} and {last}", most.join(", ")),
            (named, others) => write!(f, "ranks {} and {others} others", named.join(", ")),
        }
    }
}

/// Why a barrier did not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BarrierError {
    /// Some rank did not arrive.
    #[error("{missing} did not reach barrier `{name}` within {within:?}; check that all ranks run")]
    TimedOut {
        /// The barrier.
        name: String,
        /// The time limit.
        within: Duration,
        /// Who is not there.
        missing: MissingRanks,
    },
    /// This process is in no world.
    #[error("this process has no rank, and only ranks meet at barriers; start it in a world")]
    NoWorld,
    /// Not a possible name.
    #[error("the name of a barrier has 1 to {NAME_BYTES_MAX} bytes, not {bytes}; choose another")]
    NameLength {
        /// The length given.
        bytes: usize,
    },
    /// Another thread of this process waits at it.
    #[error("this process waits at barrier `{name}` already; only one thread of a process may")]
    Occupied {
        /// The barrier.
        name: String,
    },
    /// Too many threads of this process wait.
    #[error("{BARRIER_WAITS_MAX} threads of this process wait at barriers, the limit; let some finish first")]
    TooManyWaits,
    /// The registry has no room for the request.
    #[error("the registry stores as much as it may; use fewer endpoints and names, or another registry")]
    RegistryFull,
    /// The rendezvous refused this process when it came back after a lost connection.
    #[error("this process is no member of the cluster any more: {0}")]
    Refused(#[from] Refusal),
}
