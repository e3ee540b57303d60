//! The transports that this program has, by name.

mod build;
mod config;
mod identity;
mod security;
mod table;
mod ways;

use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;

use farcall_base::Address;

pub(crate) use build::{Builder, Site};
pub use config::host_access;
pub use farcall_transport::Presence;
pub use identity::{create_identity_file, public_key_of};
pub use security::{create_key_file, names_of_keys};

use crate::parameters::Settings;
use crate::parameters::quantity::show_size;
use table::{Row, TABLE};
pub use ways::Ways;
pub(crate) use ways::address_for;

/// A transport: a protocol over a fabric, or a library that carries whole messages. The constants are all
/// there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportKind {
    /// One of farcall's protocols over one of its drivers. Not all of them fit together.
    #[non_exhaustive]
    Pair {
        /// What is spoken.
        protocol: Protocol,
        /// What carries it.
        fabric: Fabric,
    },
    /// Messages over connections of the kernel's TCP.
    #[non_exhaustive]
    Tcp {
        /// Whether TLS is between messages and connections.
        secured: bool,
    },
    /// Messages of a library made by others.
    Library(LibraryKind),
    /// The best that both ends of a session have, by the rule of `docs/ways.md`.
    Auto,
    /// The first of these that both ends of a session have.
    Listed(Ways),
}

/// A protocol of farcall's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Batches of records in rings of the peers' memory.
    Ring,
    /// Packets, granted by their receiver.
    Basic,
    /// Packets, granted by their receiver to the shortest messages first.
    Homa,
}

/// A fabric that farcall has a driver for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fabric {
    /// Memory that the processes of one machine share.
    Shm,
    /// The kernel's UDP sockets.
    Udp,
    /// RDMA devices.
    Verbs,
    /// Datagrams of libfabric.
    Ofi,
    /// A simulated fabric.
    Sim,
}

/// A library that carries whole messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LibraryKind {
    /// UCX.
    Ucx,
    /// MPI.
    Mpi,
    /// libfabric.
    Ofi,
}

impl TransportKind {
    /// How many there are of all sorts.
    pub(crate) const COUNT: usize = TABLE.len();

    /// All of them, of every sort.
    pub fn every() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.kind)
    }

    /// Its place among all of them, below [`TransportKind::COUNT`]. Lists have that of `auto`.
    pub(crate) fn index(self) -> usize {
        let kind = if let Self::Listed(_) = self { Self::Auto } else { self };
        TABLE.iter().position(|row| row.kind == kind).expect("every transport has a row of the table")
    }

    fn row(self) -> &'static Row {
        &TABLE[self.index()]
    }

    /// Whether what carries it is on this machine; `None` where it needs nothing but the machine.
    pub fn presence(self) -> Option<Presence> {
        if let Self::Listed(ways) = self {
            return ways.kinds().find_map(|kind| match kind.presence() {
                Some(Presence::Absent { why }) => Some(Presence::Absent { why: format!("{kind}: {why}") }),
                None | Some(Presence::Here { .. }) => None,
            });
        }
        self.row().presence.map(|presence| presence())
    }

    /// Which payloads are copied with their messages and which are lent, with these settings on this machine;
    /// `None` where nothing is lent, or a library decides by itself.
    pub fn copied_and_lent(self, settings: &Settings) -> Option<String> {
        let (ring_bytes, config) = match self {
            Self::RING_SHM => (config::shm_ring_bytes(settings), config::ring_config(settings, true)),
            Self::RING_VERBS => (config::verbs_ring_bytes(settings), config::ring_config(settings, false)),
            _ => return None,
        };
        let size = |bytes: usize| show_size(bytes as u64);
        let (of_calls, of_messages) = config.inline_bytes_in(ring_bytes);
        Some(format!(
            "payloads of calls up to {} and of messages up to {} bytes are copied through rings of {} bytes; longer ones are \
             lent",
            size(of_calls),
            size(of_messages),
            size(ring_bytes)
        ))
    }

    /// Whether it needs a simulated fabric.
    pub fn is_simulated(self) -> bool {
        match self {
            Self::Pair { fabric, .. } => fabric == Fabric::Sim,
            Self::Listed(ways) => ways.kinds().any(Self::is_simulated),
            Self::Library(_) | Self::Tcp { .. } | Self::Auto => false,
        }
    }

    /// Whether it reaches processes of its own machine only.
    pub(crate) fn is_of_one_machine(self) -> bool {
        matches!(self, Self::Pair { fabric: Fabric::Shm, .. })
    }

    /// Whether it stands for several.
    pub(crate) fn is_several(self) -> bool {
        matches!(self, Self::Auto | Self::Listed(_))
    }

    /// The name under which its endpoints are known to others: all that are over several transports share
    /// one, because their addresses say which.
    pub(crate) fn known_as(self) -> &'static str {
        if let Self::Listed(_) = self { Self::Auto.name() } else { self.name() }
    }

    /// Whether an endpoint is reached at an IP address and a port, which can be written down.
    pub(crate) fn has_places(self) -> bool {
        matches!(self, Self::Pair { fabric: Fabric::Udp, .. } | Self::Tcp { .. })
    }

    /// Where an endpoint at that IP address and port is reached.
    pub(crate) fn address_of_place(self, place: SocketAddr) -> Option<Address> {
        match self {
            Self::Tcp { .. } => Some(farcall_tcp::address_of(place)),
            Self::Pair { fabric: Fabric::Udp, .. } => Some(farcall_udp::address_of(place)),
            Self::Pair { .. } | Self::Library(_) | Self::Auto | Self::Listed(_) => None,
        }
    }

    /// The name: protocol and fabric, library, `auto`, or a list with slashes.
    pub fn name(self) -> &'static str {
        if let Self::Listed(ways) = self { ways.name() } else { self.row().name }
    }

    /// One line for people.
    pub fn description(self) -> &'static str {
        self.row().description
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TransportKind {
    type Err = UnknownTransport;

    fn from_str(name: &str) -> Result<Self, UnknownTransport> {
        if name.contains([',', '/']) {
            return Ways::parse(name).map(Self::Listed).map_err(|why| UnknownTransport { why });
        }
        let known = Self::every().find(|kind| kind.name() == name);
        known.ok_or_else(|| {
            let names: Vec<_> = Self::every().map(Self::name).collect();
            let why = format!("unknown transport `{name}`; the transports here are {}", names.join(", "));
            UnknownTransport { why }
        })
    }
}

/// A transport's name that means nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTransport {
    why: String,
}

impl fmt::Display for UnknownTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl core::error::Error for UnknownTransport {}
