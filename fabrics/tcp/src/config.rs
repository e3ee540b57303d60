//! What a caller can choose about a TCP endpoint, and what that counts.
//!
//! The counters of strangers, malformed frames, refused handshakes and slow readers say what others tried; a
//! service in peace has zeros there. `send_calls` beside the messages of the transport says how many leave
//! together, and `send_blocked` whether the network, or the peer, is what is slow.

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
    /// The silence after which a peer counts as dead. What still waits when an end is done may take as long
    /// without progress.
    pub peer_timeout: Duration,
    /// How long one who connected may take to introduce itself.
    pub introduction_timeout: Duration,
    /// The most connections at a time that have not introduced themselves; beyond, the oldest makes room.
    pub strangers_max: usize,
    /// The most of those from one host; beyond, its oldest makes room.
    pub strangers_per_host: usize,
    /// The most bytes that wait for one peer to read, or two of the longest messages, if that is more. One
    /// that lets more pile up loses its connection.
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

farcall_driver::declare_counters! {
    /// The counters of one TCP endpoint, labelled `tcp ADDRESS`.
    pub struct TcpCounters {
        connections_opened: "connections" => "Connections that were opened from here",
        connections_accepted: "connections" => "Connections that others opened",
        connections_ended: "connections" => "Connections that were given up here and have ended",
        connections_lost: "connections" => "Connections whose peer ended or failed, or was presumed dead or too slow",
        strangers_displaced: "connections" => "Connections closed before they had introduced themselves, because others came",
        strangers_expired: "connections" => "Connections closed because they did not introduce themselves in time",
        accepts_failed: "times" => "Connections that could not be accepted, for want of descriptors or memory",
        malformed: "connections" => "Connections closed because of bytes that no correct peer sends",
        tls_refused: "connections" => "Connections closed because TLS failed: a wrong key or certificate, or no TLS",
        tls_not_renewed: "times" => "Changed keys or certificates that could not be read; the former stay in use",
        slow_readers: "connections" => "Connections closed because too much waited for a peer that does not read",
        send_calls: "calls" => "System calls that sent something",
        bytes_sent: "bytes" => "Bytes that the kernel took, frames included",
        send_blocked: "times" => "The kernel took less than there was, because its buffer was full",
        receive_calls: "calls" => "System calls that received something",
        bytes_received: "bytes" => "Bytes that came, frames included",
        reads_in_place: "calls" => "System calls that put bytes of a long message where they stay",
        messages_in_pieces: "messages" => "Long messages that were sent in pieces, between which short ones may leave",
    }
}
