//! Why the registry does not let a process in.

use super::messages::VERSION;

/// Why a process cannot be a member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Different builds meet.
    #[error(
        "the rendezvous speaks version {rendezvous} of its protocol and this process version {VERSION}; \
         run the same build everywhere"
    )]
    Version {
        /// What the rendezvous speaks.
        rendezvous: u16,
    },
    /// The processes were started for clusters of different sizes.
    #[error(
        "this process was started for {asked} ranks and the rendezvous for {size}; start all for the same number"
    )]
    Size {
        /// The number of ranks this process was started for.
        asked: u32,
        /// The number of ranks of the cluster.
        size: u32,
    },
    /// Another process that lives has the rank.
    #[error(
        "rank {rank} is already taken by process {process} on {host}; give each process a rank of its own"
    )]
    RankTaken {
        /// The rank.
        rank: u32,
        /// The holder's process id.
        process: u32,
        /// The holder's machine.
        host: String,
    },
    /// The processes were started with different host lists.
    #[error(
        "the host list of this process differs from that of rank 0; start all with the same FARCALL_HOSTS"
    )]
    Hosts,
    /// The rank's process lost its connection a moment ago and may come back.
    #[error(
        "rank {rank} is held for a moment for the process that had it; try again, or let that process leave"
    )]
    RankHeld {
        /// The rank.
        rank: u32,
    },
    /// The registry serves no world.
    #[error("the registry has no ranks; join it without one, or start a rendezvous for this world")]
    NoWorld,
    /// The registry stores as much as it may, for this process or for all.
    #[error("the registry stores as much as it may; use fewer endpoints and names, or another registry")]
    Full,
    /// The process says that it is another one, and cannot show it.
    #[error("another process has this incarnation; draw one at random")]
    Impostor,
    /// The registry has a cluster key, and the process none, or another one.
    #[error("the registry has a cluster key: set FARCALL_SECURITY_KEY_FILE to a copy of its file")]
    Key,
}

impl Refusal {
    /// Whether the same join may be taken a moment later.
    pub(super) fn passes(&self) -> bool {
        matches!(self, Self::RankHeld { .. } | Self::Full)
    }
}
