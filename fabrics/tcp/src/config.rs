//! What a caller can choose about a TCP endpoint.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::secured::TlsConfig;

/// The configuration of a [`Tcp`](crate::Tcp).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Where to listen: the address of one interface, not "all", because peers are told it. Port 0 takes a
    /// free one.
    pub bind: SocketAddr,
    /// The longest payload, in bytes.
    pub payload_bytes_max: usize,
    /// The silence after which a peer counts as dead. The kernel gives up a connection that acknowledges
    /// nothing for as long, and what still waits when an end is done may take as long without progress.
    pub peer_timeout: Duration,
    /// How long one who connected may take to introduce itself.
    pub introduction_timeout: Duration,
    /// The most connections at a time that have not introduced themselves; beyond, the oldest makes room.
    pub strangers_max: usize,
    /// The most of those from one host; beyond, its oldest makes room.
    pub strangers_per_host: usize,
    /// The most bytes that wait for one peer to read; one that lets more pile up loses its connection.
    pub queue_bytes_max: usize,
    /// How connections are secured; `None` where frames are sent as they are.
    pub tls: Option<TlsConfig>,
    /// Bytes of a long message that leave in one piece: other messages leave in between.
    pub piece_bytes: usize,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            bind: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            payload_bytes_max: 8 << 20,
            peer_timeout: Duration::from_secs(1),
            introduction_timeout: Duration::from_secs(2),
            strangers_max: 1024,
            strangers_per_host: 256,
            queue_bytes_max: 1 << 30,
            tls: None,
            piece_bytes: 64 << 10,
        }
    }
}
