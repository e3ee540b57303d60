//! From ranks and names to addresses: what an endpoint asks the directory.

use core::time::Duration;
use std::sync::Arc;

use farcall_base::{Address, AddressError, NO_RANK};

use crate::bootstrap::{Directory, PublishError, ResolveError, Server};
use crate::names::{Names, NamesBook};
use crate::transports::TransportKind;

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

/// The way of one endpoint to the others of its transport.
pub struct Directions {
    /// The ranks of its world.
    pub directory: Arc<Directory>,
    /// Where names are registered and looked up.
    pub names: Arc<NamesBook>,
    /// Its transport.
    pub kind: TransportKind,
    /// Its number within its process.
    pub endpoint: u32,
    /// The time that a peer may take to publish its endpoint.
    pub within: Duration,
    /// How long a name stays registered after the process was heard of last.
    pub lease: Duration,
    /// What it draws begins here.
    pub seed: [u8; 32],
    /// Whether its process is a host of a simulated fabric, which must not wait for others.
    pub is_simulated: bool,
}

impl Directions {
    /// Makes the endpoint known to the other ranks.
    pub fn publish(&self, address: Address) -> Result<(), PublishError> {
        self.directory.publish(&self.key(), address)
    }

    /// The time that a peer may take to publish its endpoint.
    pub fn within(&self) -> Duration {
        self.within
    }

    /// The address of an endpoint, and the incarnation of its process; waits for it at most `within`.
    pub fn find(&self, rank: u32, endpoint: u32, within: Duration) -> Result<(Address, u64), ResolveError> {
        self.directory.resolve(rank, &key_of(self.transport(), endpoint), within)
    }

    /// The endpoint's name in the directory and in the counters.
    pub fn key(&self) -> String {
        key_of(self.transport(), self.endpoint)
    }

    /// The name under which the endpoint's transport is known to others.
    pub fn transport(&self) -> &'static str {
        self.kind.known_as()
    }

    /// Where names are registered and looked up.
    pub fn names(&self) -> &NamesBook {
        &self.names
    }

    /// Registers the endpoint under a name.
    pub fn register(&self, names: &dyn Names, name: &str, address: Address) -> Result<(), PublishError> {
        names.register(name, &self.key(), address, self.lease)
    }

    /// A number that differs between endpoints.
    pub fn draw(&self) -> u64 {
        let (first, _) = self.seed.split_first_chunk().expect("32 bytes are more than 8");
        u64::from_le_bytes(*first)
    }

    /// Whether its process is a host of a simulated fabric.
    pub fn is_simulated(&self) -> bool {
        self.is_simulated
    }

    /// The rank of a server in the world of this process: without a world there is none.
    pub fn rank_of(&self, server: &Server) -> u32 {
        if server.rank < self.directory.size() { server.rank } else { NO_RANK }
    }
}

fn key_of(transport: &str, endpoint: u32) -> String {
    format!("{transport}#{endpoint}")
}
