//! What a caller can choose about a UDP driver. The defaults suit a cluster of trusted machines.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The longest packet that any configuration gives: what fits an IPv4 packet after its header and UDP's.
pub const BIND_MTU_BYTES_MAX: usize = 65_535 - 20 - 8;

/// The configuration of a [`UdpDriver`](crate::UdpDriver).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpConfig {
    /// The local address, which peers must be able to reach: one interface's, not "all". Port 0 picks a free
    /// one.
    pub bind: SocketAddr,
    /// The longest packet, in bytes, headers of UDP and IP not counted. All peers should choose the same.
    /// `None` takes what the interface carries in one frame, at most [`BIND_MTU_BYTES_MAX`].
    pub mtu_bytes: Option<usize>,
    /// Packets that wait for a flush at most.
    pub send_queue_packets: usize,
    /// Packets up to this length are copied to the queue and leave in bursts; longer ones leave at once from
    /// the caller's memory. On loopback a stream of 8000-byte packets runs half as fast again when they are
    /// copied, because they then leave in segmented bursts.
    pub copy_bytes_max: usize,
    /// Receive buffers: how many received packets can be held before the socket's own buffer must take the
    /// rest.
    pub receive_buffers: usize,
    /// The most packets that one receive hands out, and that one system call sends.
    pub burst_packets: usize,
    /// What to ask of the kernel for each direction of the socket, in bytes. It may give less.
    pub socket_buffer_bytes: usize,
    /// Send equal packets to one peer as one buffer that the kernel or the network card cuts (`UDP_SEGMENT`).
    pub segmentation: bool,
    /// Receive several packets of one peer as one buffer (`UDP_GRO`). Serves bulk at small MTUs and costs
    /// small packets some 6 % of a loopback round trip. `None` turns it on except on loopback.
    pub coalescing: Option<bool>,
    /// How long a receive may poll the network card itself, in microseconds (`SO_BUSY_POLL`); best effort.
    pub busy_poll_us: u32,
    /// Connect a second socket to a peer from which all packets come: the kernel then need not search the way
    /// of each packet to it, which is a seventh of a small round trip on loopback.
    pub connect: bool,
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self {
            bind: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            mtu_bytes: None,
            send_queue_packets: 256,
            copy_bytes_max: 9216,
            receive_buffers: 1024,
            burst_packets: 64,
            socket_buffer_bytes: 8 << 20,
            segmentation: true,
            coalescing: None,
            busy_poll_us: 20,
            connect: true,
        }
    }
}
