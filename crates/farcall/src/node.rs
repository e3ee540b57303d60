//! A process of a cluster.
//!
//! A [`Node`] knows this process's rank and how to find the others, and hands out endpoints, one for each thread that
//! wants to send and receive. It can be shared between threads; endpoints cannot.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Arc;

use farcall_base::Identity;
use farcall_driver::CounterFile;
use farcall_driver::clock::Clock;
use farcall_sim::Host;

use crate::bootstrap::{BarrierError, Bootstrap, BootstrapError, PublishError};
use crate::connect::Directions;
use crate::endpoint::{Endpoint, EndpointCounters, Idler};
use crate::parameters::{EndpointSettings, Settings, SettingsError};
use crate::transports::{Builder, Site, TransportKind, UnknownTransport};

/// This process as a member of its cluster.
pub struct Node {
    bootstrap: Bootstrap,
    settings: Settings,
    /// How many endpoints of each kind there have been.
    endpoints: [AtomicU32; TransportKind::COUNT],
    /// The host that it is, if the cluster is a simulated one.
    host: Option<Host>,
}

impl Node {
    /// A process of the cluster that the environment describes (a rendezvous address, a list of hosts, or a launcher such as
    /// `mpirun`), with the settings of the environment; alone when it describes none.
    pub fn from_env() -> Result<Self, NodeError> {
        Ok(Self::new(Bootstrap::from_env()?, Settings::load([])?))
    }

    /// One of `size` processes of this program on this machine, with the settings of the environment.
    ///
    /// The first process starts the others, which run the same program with the same arguments and get their ranks
    /// from this same call. They end with the first.
    pub fn local(size: u32) -> Result<Self, NodeError> {
        Ok(Self::new(Bootstrap::local(size)?, Settings::load([])?))
    }

    /// A cluster of this process only, with the settings of the environment.
    pub fn alone() -> Result<Self, NodeError> {
        Ok(Self::new(Bootstrap::alone(), Settings::load([])?))
    }

    /// A process with the given place in a cluster, and these settings for its endpoints.
    pub fn new(bootstrap: Bootstrap, settings: Settings) -> Self {
        Self { bootstrap, settings, endpoints: Default::default(), host: None }
    }

    /// A host of a simulated cluster.
    pub(crate) fn simulated(bootstrap: Bootstrap, settings: Settings, host: Host) -> Self {
        Self { host: Some(host), ..Self::new(bootstrap, settings) }
    }

    /// The simulated host that this node is on; `None` when it is a process.
    pub fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// This process's rank, from 0.
    pub fn rank(&self) -> u32 {
        self.bootstrap.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.bootstrap.size
    }

    /// The settings of its endpoints.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns when every rank has called it with the same name.
    pub fn barrier(&self, name: &str, within: Duration) -> Result<(), BarrierError> {
        self.bootstrap.directory.barrier(name, within)
    }

    /// A new endpoint over the transport of that name, such as `ring+shm`, and known to the other ranks.
    pub fn endpoint(&self, transport: &str) -> Result<Endpoint, EndpointError> {
        self.endpoint_with(transport.parse()?, &self.settings)
    }

    /// A new endpoint with settings of its own.
    pub fn endpoint_with(&self, kind: TransportKind, settings: &Settings) -> Result<Endpoint, EndpointError> {
        let endpoint = self.endpoints[kind.index()].fetch_add(1, Ordering::Relaxed);
        let Bootstrap { rank, incarnation, directory, .. } = &self.bootstrap;
        let identity = Identity { incarnation: *incarnation, rank: *rank, endpoint };
        // Simulated hosts take their turns in one thread: to wait for another one would be to wait for ever.
        let within = if self.host.is_some() { Duration::ZERO } else { settings.endpoint.resolve_timeout };
        let directions = Directions::new(Arc::clone(directory), kind.name(), within);
        let site = match &self.host {
            Some(host) => Site::Simulated(host),
            None => Site::Machine(directory.local_ip()),
        };
        let EndpointSettings { idle, spin_time, call_timeout, message_timeout, .. } = settings.endpoint;
        let (clock, idler) = match &self.host {
            Some(host) => (host.clock(), Idler::forbidden()),
            None => (Clock::new(), Idler::new(idle, spin_time)),
        };
        let label = self.label(&directions.key(endpoint));
        let seed = site.seed(identity);
        let builder = Builder { identity, settings, ranks: self.size(), clock: &clock, label: &label, seed };
        let transport = builder
            .build(kind, &site)
            .map_err(|error| EndpointError::Resources { transport: kind, reason: error.to_string() })?;
        directions.publish(endpoint, transport.address())?;
        let counters = EndpointCounters::new(CounterFile::process(), &label);
        Ok(Endpoint::new(
            transport,
            call_timeout,
            message_timeout,
            clock,
            idler,
            counters,
            Arc::new(directions),
        ))
    }

    /// Under which name an endpoint counts: simulated hosts share a process and its counters.
    fn label(&self, key: &str) -> String {
        if self.host.is_some() { format!("{}/{key}", self.rank()) } else { key.to_owned() }
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

/// Why this process is no node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A parameter has an unusable value.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The process has no place in its cluster.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
}
