//! A process of a cluster.
//!
//! A [`Node`] knows this process's rank and how to find the others, and hands out endpoints, one for each
//! thread that wants to send and receive. It can be shared between threads; endpoints cannot.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use farcall_base::{Identity, SessionNumbers, explained};
use farcall_driver::CounterFile;
use farcall_driver::clock::Clock;
use farcall_sim::Host;

use crate::bootstrap::{
    BarrierError, Bootstrap, BootstrapError, CompareError, HostPort, JOIN_WITHIN, NamesPlace, PublishError,
    REGISTRY_DEFAULT, Rendezvous,
};
use crate::connect::Directions;
use crate::endpoint::{Endpoint, EndpointCounters, Guard, Idler};
use crate::names::{Compared, NamesBook, NamesSource, WrittenDown, WrittenDownError};
use crate::parameters::{EndpointSettings, Settings, SettingsError};
use crate::policy::{PolicyFile, PolicyFileError};
use crate::said;
use crate::transports::{Builder, Site, TransportKind, UnknownTransport};

/// This process as a member of its cluster.
pub struct Node {
    bootstrap: Bootstrap,
    settings: Settings,
    /// Where its endpoints register and look up names.
    names: Arc<NamesBook>,
    /// How many endpoints of each kind there have been.
    endpoints: [AtomicU32; TransportKind::COUNT],
    /// The host that it is, if the cluster is a simulated one.
    host: Option<Host>,
}

impl Node {
    /// A process of the cluster that the environment describes (a rendezvous address, a list of hosts, or a
    /// launcher such as `mpirun`), with the settings of the environment; alone when it describes none.
    pub fn from_env() -> Result<Self, NodeError> {
        Ok(Self::new(Bootstrap::from_env()?, Settings::load([])?))
    }

    /// One of `size` processes of this program on this machine, with the settings of the environment.
    ///
    /// The first process starts the others, which run the same program with the same arguments and get their
    /// ranks from this same call. They end with the first.
    pub fn local(size: u32) -> Result<Self, NodeError> {
        Ok(Self::new(Bootstrap::local(size)?, Settings::load([])?))
    }

    /// A cluster of this process only, with the settings of the environment.
    pub fn alone() -> Result<Self, NodeError> {
        Ok(Self::new(Bootstrap::alone(), Settings::load([])?))
    }

    /// A process with the given place in a cluster, and these settings for its endpoints.
    pub fn new(bootstrap: Bootstrap, settings: Settings) -> Self {
        let source = NamesSource::Joined(Arc::clone(&bootstrap.directory));
        Self::with_names(bootstrap, source, settings)
    }

    fn with_names(bootstrap: Bootstrap, source: NamesSource, settings: Settings) -> Self {
        let names = Arc::new(NamesBook::new(source, bootstrap.incarnation));
        said::heed(&settings);
        Self { bootstrap, settings, names, endpoints: Default::default(), host: None }
    }

    /// A process without a rank, that serves and calls by name and may come and go at any time, with the
    /// settings of the environment.
    ///
    /// Names are kept where `FARCALL_NAMES` says: by the registry at `host:port`, which must be there, or in
    /// a file that the user wrote (`file:PATH`), or in etcd (`etcd://host:port/prefix`). Without the variable
    /// it is the registry at [`REGISTRY_DEFAULT`](crate::bootstrap::REGISTRY_DEFAULT), which may start later.
    pub fn open() -> Result<Self, NodeError> {
        Self::open_with(NamesPlace::from_env().map_err(BootstrapError::from)?)
    }

    fn open_with(place: NamesPlace) -> Result<Self, NodeError> {
        let settings = Settings::load([])?;
        match place {
            NamesPlace::File(path) => {
                let written = Arc::new(WrittenDown::read(path)?);
                Ok(Self::with_names(Bootstrap::nowhere()?, NamesSource::Written(written), settings))
            }
            NamesPlace::Default => {
                let place = HostPort::parse(REGISTRY_DEFAULT).expect("a constant that is a host and a port");
                Ok(Self::with_names(Bootstrap::nowhere()?, NamesSource::Registry(place), settings))
            }
            NamesPlace::Etcd(place) => {
                Ok(Self::with_names(Bootstrap::nowhere()?, NamesSource::Etcd(place), settings))
            }
            NamesPlace::Registry(place) => Ok(Self::new(Bootstrap::open(&place, JOIN_WITHIN)?, settings)),
        }
    }

    /// As [`Node::open`], with the names at `host:port`, `farcall://host:port`, `etcd://host:port/prefix` or
    /// `file:PATH`, whatever the environment says.
    pub fn open_at(names: &str) -> Result<Self, NodeError> {
        let place = NamesPlace::parse(names).ok_or_else(|| NodeError::Registry { text: names.to_owned() })?;
        Self::open_with(place)
    }

    /// As [`Node::open`], serving the registry itself, at an address of this machine: `0.0.0.0:7117` and
    /// `[::]:7117` are all interfaces.
    pub fn serving_names(address: &str) -> Result<Self, NodeError> {
        Ok(Self::new(Bootstrap::serve_names(address)?, Settings::load([])?))
    }

    /// A host of a simulated cluster.
    pub(crate) fn simulated(bootstrap: Bootstrap, settings: Settings, host: Host) -> Self {
        Self { host: Some(host), ..Self::new(bootstrap, settings) }
    }

    /// The simulated host that this node is on; `None` when it is a process.
    pub fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// Where processes of this machine reach the registry that this one serves; `None` if it serves none.
    pub fn registry_address(&self) -> Option<SocketAddr> {
        self.bootstrap.rendezvous.as_ref().map(Rendezvous::address_from_here)
    }

    /// This process's rank, from 0; `u32::MAX` without one.
    pub fn rank(&self) -> u32 {
        self.bootstrap.rank
    }

    /// The number of ranks; 0 without a world.
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

    /// Sets a register of the registry if its revision is `expected`, 0 for one that does not exist: the
    /// smallest thing on which processes agree, such as which of them leads. Registers live as long as their
    /// registry.
    ///
    /// After a lost connection the attempt is repeated, so that the value that another process seems to have
    /// set may be this one's: let the values of processes differ.
    pub fn compare_and_set(
        &self,
        register: &str,
        expected: u64,
        value: &[u8],
        within: Duration,
    ) -> Result<Compared, CompareError> {
        self.names.own()?.compare_and_set(register, expected, value, within)
    }

    /// A new endpoint over the transport of that name, such as `ring+shm`, and known to the other ranks.
    /// `auto` is the best that both ends of each session have, and a list such as `ring+shm,basic+udp` the
    /// first.
    pub fn endpoint(&self, transport: &str) -> Result<Endpoint, EndpointError> {
        self.endpoint_with(transport.parse()?, &self.settings)
    }

    /// A new endpoint with settings of its own.
    pub fn endpoint_with(&self, kind: TransportKind, settings: &Settings) -> Result<Endpoint, EndpointError> {
        let numbers = &self.endpoints[kind.index()];
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        let made = self.numbered_endpoint(number, kind, settings);
        if made.is_err() {
            // Peers look for the first one by its number. If another was made meanwhile, the number is lost.
            let _ = numbers.compare_exchange(number + 1, number, Ordering::Relaxed, Ordering::Relaxed);
        }
        made
    }

    fn numbered_endpoint(
        &self,
        endpoint: u32,
        kind: TransportKind,
        settings: &Settings,
    ) -> Result<Endpoint, EndpointError> {
        let Bootstrap { rank, incarnation, directory, .. } = &self.bootstrap;
        let identity = Identity { incarnation: *incarnation, rank: *rank, endpoint };
        let site = match &self.host {
            Some(host) => Site::Simulated(host),
            None => Site::Machine(self.local_ip(settings)?),
        };
        let policy = settings.security.policy_file.map(|path| PolicyFile::open(Path::new(path.as_str())));
        let guard = policy.transpose()?.map(|policy| Guard::new(policy, self.host.is_none()));
        let seed = site.seed(identity);
        // Simulated hosts take their turns in one thread: to wait for another one would be to wait for ever.
        let is_simulated = self.host.is_some();
        let within = if is_simulated { Duration::ZERO } else { settings.endpoint.resolve_timeout };
        let directions = Directions {
            directory: Arc::clone(directory),
            names: Arc::clone(&self.names),
            kind,
            endpoint,
            within,
            lease: settings.names.lease,
            seed,
            is_simulated,
        };
        let EndpointSettings { idle, spin_time, spin_time_max, call_timeout, message_timeout, .. } =
            settings.endpoint;
        let (clock, idler) = match &self.host {
            Some(host) => (host.clock(), Idler::forbidden()),
            None => (Clock::new(), Idler::new(idle, spin_time, spin_time_max)),
        };
        let label = self.label(&directions.key());
        let builder = Builder {
            identity,
            settings,
            ranks: self.size(),
            clock: &clock,
            label: &label,
            site,
            seed,
            numbers: SessionNumbers::ALL,
        };
        let transport = builder
            .build(kind)
            .map_err(|error| EndpointError::Resources { transport: kind, reason: explained(&*error) })?;
        directions.publish(transport.address())?;
        let counters = EndpointCounters::new(CounterFile::process(), &label);
        counters.incarnation.set(identity.incarnation);
        let endpoint = Endpoint::new(
            transport,
            call_timeout,
            message_timeout,
            clock,
            idler,
            counters,
            Arc::new(directions),
        );
        Ok(endpoint.guarded_by(guard))
    }

    /// The address of this machine at which endpoints are reached: that of the interface that the settings
    /// name; else the one on the way to the registry; else the one on the way out of this machine.
    fn local_ip(&self, settings: &Settings) -> Result<IpAddr, EndpointError> {
        if let Some(name) = settings.net.interface {
            return farcall_udp::address_of_interface(name.as_str())
                .ok_or_else(|| EndpointError::NoInterface { name: name.as_str().to_owned() });
        }
        let outward = || farcall_udp::outward_address().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        Ok(self.bootstrap.directory.local_ip().unwrap_or_else(outward))
    }

    /// Under which name an endpoint counts: simulated hosts share a process and its counters.
    fn label(&self, key: &str) -> String {
        if self.host.is_some() { format!("{}/{key}", self.rank()) } else { key.to_owned() }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size() {
            0 => f.write_str("Node"),
            size => write!(f, "Node(rank {} of {size})", self.rank()),
        }
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
    /// The interface that `net.interface` names has no address.
    #[error(
        "the interface `{name}` has no address; set net.interface to one of those that `ip address` shows"
    )]
    NoInterface {
        /// The name.
        name: String,
    },
    /// The policy that `security.policy_file` names is of no use.
    #[error("security.policy_file: {0}")]
    Policy(#[from] PolicyFileError),
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
    /// The file of names is of no use.
    #[error(transparent)]
    Names(#[from] WrittenDownError),
    /// Names cannot be there.
    #[error(
        "`{text}` has no names; give host:port, farcall://host:port, etcd://host:port/prefix or file:PATH"
    )]
    Registry {
        /// The text given.
        text: String,
    },
    /// The process has no place in its cluster.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
}
