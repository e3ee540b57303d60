//! The transports that this program has, by name.

mod build;
mod config;
mod processor;

use core::fmt;
use core::str::FromStr;

pub(crate) use build::{Builder, Site};
pub use farcall_transport::Presence;

use crate::parameters::Settings;
use crate::parameters::quantity::show_size;

/// A transport and the driver or library that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportKind {
    /// The ring protocol over shared memory.
    RingShm,
    /// The basic protocol over UDP.
    BasicUdp,
    /// The homa protocol over UDP.
    HomaUdp,
    /// The ring protocol over RDMA connections.
    RingVerbs,
    /// The basic protocol over RDMA datagrams.
    BasicVerbs,
    /// The homa protocol over RDMA datagrams.
    HomaVerbs,
    /// The ring protocol over a simulated fabric.
    RingSim,
    /// The basic protocol over a simulated fabric.
    BasicSim,
    /// The homa protocol over a simulated fabric.
    HomaSim,
    /// Messages of UCX.
    Ucx,
    /// Messages of MPI.
    Mpi,
    /// Messages of libfabric.
    Ofi,
    /// The basic protocol over libfabric's datagrams.
    BasicOfi,
    /// The homa protocol over libfabric's datagrams.
    HomaOfi,
}

impl TransportKind {
    /// All that connect processes on every machine.
    pub const ALL: &'static [Self] = &[Self::RingShm, Self::BasicUdp, Self::HomaUdp];

    /// All that connect hosts of a simulated fabric.
    pub const SIMULATED: &'static [Self] = &[Self::RingSim, Self::BasicSim, Self::HomaSim];

    /// All that connect processes of machines with RDMA devices: see [`TransportKind::presence`].
    pub const VERBS: &'static [Self] = &[Self::RingVerbs, Self::BasicVerbs, Self::HomaVerbs];

    /// All that connect processes by a library of others, which may be absent: see [`TransportKind::presence`].
    pub const LIBRARIES: &'static [Self] = &[Self::Ucx, Self::Mpi, Self::Ofi];

    /// All that connect processes over the packets of a library that may be absent: see [`TransportKind::presence`].
    pub const OFI: &'static [Self] = &[Self::BasicOfi, Self::HomaOfi];

    /// How many there are of all sorts.
    pub(crate) const COUNT: usize =
        Self::ALL.len() + Self::VERBS.len() + Self::OFI.len() + Self::LIBRARIES.len() + Self::SIMULATED.len();

    /// All of them, of every sort.
    pub fn every() -> impl Iterator<Item = Self> {
        [Self::ALL, Self::VERBS, Self::OFI, Self::LIBRARIES, Self::SIMULATED].into_iter().flatten().copied()
    }

    /// Whether what carries it is on this machine; `None` where it needs nothing but the machine.
    pub fn presence(self) -> Option<Presence> {
        match self {
            Self::RingVerbs | Self::BasicVerbs | Self::HomaVerbs => Some(verbs_presence()),
            Self::Ucx => Some(farcall_ucx::presence()),
            Self::Mpi => Some(farcall_mpi::presence()),
            Self::Ofi => Some(farcall_ofi::messages::presence()),
            Self::BasicOfi | Self::HomaOfi => Some(ofi_datagram_presence()),
            _ => None,
        }
    }

    /// Which payloads are copied with their messages and which are lent, with these settings on this machine; `None` where nothing
    /// is lent, or a library decides by itself.
    pub fn copied_and_lent(self, settings: &Settings) -> Option<String> {
        let (ring_bytes, config) = match self {
            Self::RingShm => (config::shm_config(settings).ring_bytes, config::ring_config(settings, true)),
            Self::RingVerbs => (config::verbs_ring_bytes(settings), config::ring_config(settings, false)),
            _ => return None,
        };
        let size = |bytes: usize| show_size(bytes as u64);
        let (of_calls, of_messages) = config.inline_bytes_in(ring_bytes);
        let ahead = if config.fetch_ahead && self == Self::RingShm { ", fetched part by part" } else { "" };
        Some(format!(
            "payloads of calls up to {} and of messages up to {} bytes are copied through rings of {} bytes; longer ones are \
             lent{ahead}",
            size(of_calls),
            size(of_messages),
            size(ring_bytes)
        ))
    }

    /// Whether it needs a simulated fabric.
    pub fn is_simulated(self) -> bool {
        Self::SIMULATED.contains(&self)
    }

    /// The name: protocol and driver, or library.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RingShm => "ring+shm",
            Self::BasicUdp => "basic+udp",
            Self::HomaUdp => "homa+udp",
            Self::RingVerbs => "ring+verbs",
            Self::BasicVerbs => "basic+verbs",
            Self::HomaVerbs => "homa+verbs",
            Self::RingSim => "ring+sim",
            Self::BasicSim => "basic+sim",
            Self::HomaSim => "homa+sim",
            Self::Ucx => "ucx",
            Self::Mpi => "mpi",
            Self::Ofi => "ofi",
            Self::BasicOfi => "basic+ofi",
            Self::HomaOfi => "homa+ofi",
        }
    }

    /// One line for people.
    pub const fn description(self) -> &'static str {
        match self {
            Self::RingShm => "rings in shared memory, between processes of one machine",
            Self::BasicUdp => "receiver-granted packets over the kernel's UDP sockets",
            Self::HomaUdp => "packets granted to the shortest messages first, over the kernel's UDP sockets",
            Self::RingVerbs => "rings in the peers' memory, written over RDMA's reliable connections",
            Self::BasicVerbs => "receiver-granted packets over RDMA's unreliable datagrams",
            Self::HomaVerbs => {
                "packets granted to the shortest messages first, over RDMA's unreliable datagrams"
            }
            Self::RingSim => "rings in the peers' memory, on a simulated fabric",
            Self::BasicSim => "receiver-granted packets on a simulated fabric",
            Self::HomaSim => "packets granted to the shortest messages first, on a simulated fabric",
            Self::Ucx => "messages of UCX, which chooses shared memory, RDMA or TCP by itself",
            Self::Mpi => "messages of MPI, between processes that one launcher started together",
            Self::Ofi => "messages of libfabric, over the provider that ofi.provider names",
            Self::BasicOfi => "receiver-granted packets over libfabric's datagrams",
            Self::HomaOfi => "packets granted to the shortest messages first, over libfabric's datagrams",
        }
    }
}

fn ofi_datagram_presence() -> Presence {
    match farcall_ofi::datagram::providers() {
        Ok(found) => Presence::Here { found },
        Err(error) => Presence::Absent { why: error.to_string() },
    }
}

fn verbs_presence() -> Presence {
    match farcall_verbs::devices() {
        Ok(devices) => {
            let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
            Presence::Here { found: names.join(", ") }
        }
        Err(error) => Presence::Absent { why: error.to_string() },
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
        let known = Self::every().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownTransport { name: name.into() })
    }
}

/// A transport's name that means nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTransport {
    name: String,
}

impl fmt::Display for UnknownTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = TransportKind::every().map(TransportKind::name).collect();
        write!(f, "unknown transport `{}`; the transports here are {}", self.name, names.join(", "))
    }
}

impl core::error::Error for UnknownTransport {}
