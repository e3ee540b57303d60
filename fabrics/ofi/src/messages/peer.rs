//! What is known of one peer.

use std::collections::VecDeque;

use farcall_base::Address;

/// One peer.
pub struct Peer {
    /// libfabric's number for its address.
    pub at: u64,
    pub address: Address,
    /// The number of its endpoint in tags.
    pub number: u32,
    /// Sends that the provider has not taken yet, oldest first.
    pub waiting: VecDeque<u32>,
    /// How many sends the provider has.
    pub posted: usize,
    pub standing: Standing,
    /// Whether it has been silent for too long, as far as the layer above knows.
    pub is_silent: bool,
}

/// What a peer is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Somebody may send to it.
    InUse,
    /// Forgotten; what was sent to it still leaves.
    Resting,
    /// Nothing reaches it any more, and it is not forgotten yet.
    Lost,
    /// Forgotten, and only what the provider has may still leave.
    GivenUp,
}

impl Peer {
    /// Whether the provider may still be given what waits.
    pub fn may_go_on(&self) -> bool {
        matches!(self.standing, Standing::InUse | Standing::Resting)
    }

    /// Whether nothing is left of it.
    pub fn is_over(&self) -> bool {
        let is_forgotten = matches!(self.standing, Standing::Resting | Standing::GivenUp);
        is_forgotten && self.posted == 0 && self.waiting.is_empty()
    }
}
