//! A process of a cluster.
//!
//! A [`Node`] knows this process's rank and how to find the others, and hands out endpoints, one for each thread that
//! wants to send and receive. It can be shared between threads; endpoints cannot.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use farcall_driver::CounterFile;
use farcall_protocol::Identity;

use crate::bootstrap::{BarrierError, Directory, PublishError};
use crate::connect::Directions;
use crate::endpoint::{Endpoint, EndpointCounters};
use crate::parameters::Settings;
use crate::transports::{TransportKind, UnknownTransport};

/// This process as a member of its cluster.
pub struct Node {
    directory: Arc<Directory>,
    settings: Settings,
    /// How many endpoints of each kind there have been.
    endpoints: [AtomicU32; TransportKind::ALL.len()],
}

impl Node {
    /// A member of the cluster that `directory` leads to, with these settings for its endpoints.
    pub fn new(directory: Directory, settings: Settings) -> Self {
        Self { directory: Arc::new(directory), settings, endpoints: Default::default() }
    }

    /// This process's rank, from 0.
    pub fn rank(&self) -> u32 {
        self.directory.rank()
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.directory.size()
    }

    /// The settings of its endpoints.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns when every rank has called it with the same name.
    pub fn barrier(&self, name: &str, within: Duration) -> Result<(), BarrierError> {
        self.directory.barrier(name, within)
    }

    /// A new endpoint over the transport of that name, such as `ring+shm`, and known to the other ranks.
    pub fn endpoint(&self, transport: &str) -> Result<Endpoint, EndpointError> {
        self.endpoint_with(transport.parse()?, &self.settings)
    }

    /// A new endpoint with settings of its own.
    pub fn endpoint_with(&self, kind: TransportKind, settings: &Settings) -> Result<Endpoint, EndpointError> {
        let endpoint = self.endpoints[kind as usize].fetch_add(1, Ordering::Relaxed);
        let identity = Identity { incarnation: self.directory.incarnation(), rank: self.rank(), endpoint };
        let within = settings.endpoint.resolve_timeout;
        let directions = Directions::new(Arc::clone(&self.directory), kind.name(), within);
        let label = directions.key(endpoint);
        let transport = kind
            .build(identity, settings, &label)
            .map_err(|error| EndpointError::Resources { transport: kind, reason: error.to_string() })?;
        directions.publish(endpoint, transport.address())?;
        let counters = EndpointCounters::new(CounterFile::process(), &label);
        Ok(Endpoint::new(transport, &settings.endpoint, counters, Arc::new(directions)))
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node(rank {} of {})", self.rank(), self.size())
    }
}

/// Why there is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// No such transport.
    #[error(transparent)]
    Unknown(#[from] UnknownTransport),
    /// The operating system refused something that the transport needs.
    #[error("cannot set up {transport}: {reason}")]
    Resources {
        /// The transport.
        transport: TransportKind,
        /// The system's own words.
        reason: String,
    },
    /// The other ranks cannot be told.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl From<EndpointError> for io::Error {
    fn from(error: EndpointError) -> Self {
        io::Error::other(error)
    }
}
