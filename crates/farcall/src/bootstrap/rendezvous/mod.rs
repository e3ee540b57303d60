//! The registry of a cluster: one address that all processes know, where they learn all others.

mod connection;
mod fuzz;
mod names;
mod registry;
mod server;
mod strangers;
mod values;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use farcall_base::explained;
use farcall_driver::{KeyFile, KeyFileError};
use rustix::event::{EventfdFlags, eventfd};

pub use self::fuzz::fuzz_rendezvous;
use self::registry::Registry;
use self::server::Server;
use super::RANKS_MAX;
use super::hosts::HostPort;
use super::stream;

/// How many connections the kernel completes before they are accepted.
const BACKLOG: i32 = 4096;

/// A running registry. Dropping it closes the service; members keep what they have learnt.
#[derive(Debug)]
pub struct Rendezvous {
    address: SocketAddr,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// Whether an address is on a loopback interface that is down. No packet is sent.
fn is_cut_off(address: &SocketAddr) -> bool {
    let route = || UdpSocket::bind((address.ip(), 0))?.connect(address);
    address.ip().is_loopback()
        && route().is_err_and(|error| error.kind() == io::ErrorKind::NetworkUnreachable)
}

/// Why a registry cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RendezvousError {
    /// The address is not this machine's, or another process listens there.
    #[error(
        "cannot serve the rendezvous at {address}: {reason}; choose an address of this machine with a free port"
    )]
    Listen {
        /// Where it should listen.
        address: String,
        /// The system's own words.
        reason: String,
    },
    /// A cluster that cannot be.
    #[error("a cluster has 1 to {RANKS_MAX} ranks, not {size}")]
    Size {
        /// The size asked for.
        size: u32,
    },
    /// The cluster key that `FARCALL_SECURITY_KEY_FILE` names cannot be used.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// Nobody would reach it: `ip link set lo up`.
    #[error(
        "the loopback interface is down, so that {address} cannot be reached; bring it up (ip link set lo up)"
    )]
    NoLoopback {
        /// Where it would listen.
        address: SocketAddr,
    },
    /// No thread, descriptor or memory is left.
    #[error("cannot start the rendezvous: {reason}; end other processes or raise the limits of this one")]
    Resources {
        /// The system's own words.
        reason: String,
    },
}

/// What the rendezvous knows, of which there may be more than memory.
fn registry(size: u32, hosts_fingerprint: u64) -> Result<Registry, RendezvousError> {
    let no_memory = io::Error::from_raw_os_error(rustix::io::Errno::NOMEM.raw_os_error());
    Registry::new(size, hosts_fingerprint)
        .map_err(|_| RendezvousError::Resources { reason: explained(&no_memory) })
}

impl Rendezvous {
    /// Serves a cluster of `size` ranks at `address`; port 0 takes any free port.
    pub fn bind(address: impl ToSocketAddrs + ToString, size: u32) -> Result<Self, RendezvousError> {
        if !(1..=RANKS_MAX).contains(&size) {
            return Err(RendezvousError::Size { size });
        }
        Self::listen(&address, address.to_string(), registry(size, 0)?)
    }

    /// Serves processes without ranks at `address`: names alone. Port 0 takes any free port.
    pub fn bind_open(address: impl ToSocketAddrs + ToString) -> Result<Self, RendezvousError> {
        Self::listen(&address, address.to_string(), registry(0, 0)?)
    }

    /// As [`Rendezvous::bind`], at the place that a launch names, for members whose host list has the given
    /// fingerprint.
    pub(super) fn bind_for(
        place: &HostPort,
        size: u32,
        hosts_fingerprint: u64,
    ) -> Result<Self, RendezvousError> {
        let refused = |error: io::Error| RendezvousError::Listen {
            address: place.to_string(),
            reason: error.to_string(),
        };
        let addresses = place.addresses_to_listen_at().map_err(refused)?;
        Self::listen(&addresses[..], place.to_string(), registry(size, hosts_fingerprint)?)
    }

    fn listen(at: impl ToSocketAddrs, address: String, registry: Registry) -> Result<Self, RendezvousError> {
        let refused = |error: io::Error| RendezvousError::Listen { address, reason: error.to_string() };
        let keys = stream::file_of_environment().map(|path| KeyFile::open(&path)).transpose()?;
        let listener = TcpListener::bind(at).map_err(refused)?;
        if let Some(address) = listener.local_addr().ok().filter(is_cut_off) {
            return Err(RendezvousError::NoLoopback { address });
        }
        Self::serve(listener, registry, keys)
            .map_err(|error| RendezvousError::Resources { reason: explained(&error) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where processes of this machine reach it: loopback where it listens on all interfaces.
    pub fn address_from_here(&self) -> SocketAddr {
        let loopback: IpAddr = match self.address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let ip = if self.address.ip().is_unspecified() { loopback } else { self.address.ip() };
        SocketAddr::new(ip, self.address.port())
    }

    fn serve(listener: TcpListener, registry: Registry, keys: Option<KeyFile>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        // Many may come at once; the queue that the library asks for is short.
        rustix::net::listen(&listener, BACKLOG)?;
        let address = listener.local_addr()?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let server = Server::new(listener, stop.try_clone()?, registry, keys)?;
        let thread = std::thread::Builder::new().name("rendezvous".to_owned()).spawn(|| server.run())?;
        Ok(Self { address, stop, thread: Some(thread) })
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        // An eventfd takes the number 1 unless it is about to overflow, and then it is readable already.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
