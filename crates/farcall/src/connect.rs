//! From ranks to addresses: what an endpoint asks the directory.

use core::time::Duration;
use std::sync::Arc;

use farcall_base::{Address, AddressError};

use crate::bootstrap::{Directory, PublishError, ResolveError};

/// Why there is no session to a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The directory does not know the peer.
    #[error(transparent)]
    Unknown(#[from] ResolveError),
    /// What the directory knows is of no use here.
    #[error(transparent)]
    Address(#[from] AddressError),
}

/// The way to the other endpoints of one transport.
pub struct Directions {
    directory: Arc<Directory>,
    transport: &'static str,
    within: Duration,
}

impl Directions {
    /// Directions for endpoints of `transport`; a peer may take `within` to publish its own.
    pub fn new(directory: Arc<Directory>, transport: &'static str, within: Duration) -> Self {
        Self { directory, transport, within }
    }

    /// Makes one of this process's endpoints known.
    pub fn publish(&self, endpoint: u32, address: Address) -> Result<(), PublishError> {
        self.directory.publish(&self.key(endpoint), address)
    }

    /// The time that a peer may take to publish its endpoint.
    pub fn within(&self) -> Duration {
        self.within
    }

    /// The address of an endpoint; waits for it at most `within`.
    pub fn find(&self, rank: u32, endpoint: u32, within: Duration) -> Result<Address, ResolveError> {
        let (address, _incarnation) = self.directory.resolve(rank, &self.key(endpoint), within)?;
        Ok(address)
    }

    /// The endpoint's name in the directory and in the counters.
    pub fn key(&self, endpoint: u32) -> String {
        format!("{}#{endpoint}", self.transport)
    }
}
