//! Packets over UDP sockets: the datagram driver that every Linux machine has.
//!
//! One non-blocking socket per driver that every peer reaches, and one more for a peer with which there is a
//! conversation. What is queued between two flushes leaves in one system call, and equal packets to one peer
//! as one segmented buffer where the kernel can; what arrived is fetched in bursts when it arrives in bursts,
//! and by the cheapest single call otherwise. No memory is allocated per packet.
#![allow(unsafe_code, reason = "a driver: socket calls on raw memory, each with its proof")]

mod arena;
mod config;
mod counters;
mod driver;
mod interface;
mod name;
mod receive;
mod refusals;
mod send;
mod socket;
mod sockets;

pub use config::{BIND_MTU_BYTES_MAX, UdpConfig};
pub use counters::UdpCounters;
pub use driver::UdpDriver;
pub use interface::{address_of_interface, outward_address};
pub use socket::BindError;

use core::net::SocketAddr;
use farcall_base::{Address, SocketFormat};

/// How the driver's addresses are written.
const FORMAT: SocketFormat = SocketFormat { driver: "udp", tag_v4: b"udp4", tag_v6: b"udp6" };

/// The address under which a UDP driver bound to `socket` is reached.
pub fn address_of(socket: SocketAddr) -> Address {
    FORMAT.address_of(socket)
}
