//! The `tcp` transport: calls and tagged messages over connections of the kernel's TCP.
//!
//! What farcall adds to messages (sessions, limits, deadlines, signs of life) is the `library` transport of
//! `farcall-transport`; this crate makes a [`Library`](farcall_transport::Library) of connections.
//!
//! - What is sent between two polls leaves in one system call for each connection, and what has come is read
//!   in one. Connections that were busy a moment ago are read without asking which have something.
//! - A session leads over one connection, which its opener has opened: who answers need not reach the opener
//!   by itself. Who connects is a stranger until it has asked for a session, and strangers are bounded.
//! - Long messages leave in pieces between which short ones leave, and arrive where they stay.
//! - The kernel knows at once when a process ends, and within the limit of silence when a machine does.
//!
//! An endpoint has no thread: it accepts, connects, reads and writes in its polls.
#![allow(unsafe_code, reason = "a fabric: the kernel writes to memory that is not initialised")]

mod arrival;
mod config;
mod connection;
mod doors;
mod endpoint;
mod frame;
mod fuzz;
mod inbound;
mod leaving;
mod library;
mod outbound;
mod poller;
mod reading;
mod secured;
mod slab;
mod socket;
mod strangers;

pub use arrival::TcpArrival;
pub use config::{TcpConfig, TcpCounters};
pub use endpoint::Tcp;
pub use fuzz::fuzz_connection;
pub use secured::{ServerFiles, TlsClient, TlsConfig, TlsError, TlsServer};
pub use socket::ListenError;

use core::net::SocketAddr;
use farcall_base::{Address, SocketFormat};

/// How the transport's addresses are written.
const FORMAT: SocketFormat = SocketFormat { driver: "tcp", tag_v4: b"tcp4", tag_v6: b"tcp6" };

/// The address under which a TCP endpoint bound to `socket` is reached.
pub fn address_of(socket: SocketAddr) -> Address {
    FORMAT.address_of(socket)
}
