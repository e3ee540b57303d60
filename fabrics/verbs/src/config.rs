//! What a caller can choose about verbs drivers.

use core::net::IpAddr;

use farcall_driver::{BLOCK_BYTES_MIN, RECORD_ALIGN};

use crate::device::{Device, Network};
use crate::error::VerbsError;
use crate::lane::{BLOCK_BYTES_MAX, RING_BYTES_MAX, RING_BYTES_MIN};

/// The shortest MTU of a link.
const MTU_BYTES_MIN: usize = 256;
/// The longest one.
const MTU_BYTES_MAX: usize = 4096;
/// The most receive buffers that a configuration can ask for.
const PACKETS_MAX: usize = 1 << 16;
/// The most packets of a burst that a configuration can ask for.
const BURST_PACKETS_MAX: usize = 1024;

/// Which device, port and address to use. What is `None` is chosen by how peers reach this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceChoice {
    /// The device's name, such as `mlx5_0`.
    pub device: Option<String>,
    /// The number of its port, from 1.
    pub port: Option<u8>,
    /// The place of the address in the port's table.
    pub gid_index: Option<u8>,
    /// The address at which the cluster reaches this machine: a port with this address is preferred.
    pub local: Option<IpAddr>,
}

/// What connects the queue pairs of lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectBy {
    /// rdma_cm where the device cannot do without, else the handshake.
    #[default]
    Auto,
    /// The handshake, whose two sides tell each other the numbers of their queue pairs.
    Bootstrap,
    /// rdma_cm, by IP address.
    Cm,
}

/// The configuration of a [`VerbsDatagram`](crate::VerbsDatagram).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbsDatagramConfig {
    /// Where to send and receive.
    pub device: DeviceChoice,
    /// The longest packet, in bytes. All peers should choose the same. `None` takes what the link carries.
    pub mtu_bytes: Option<usize>,
    /// Packets that wait for a flush at most, and as many more that the card may have.
    pub send_queue_packets: usize,
    /// Receive buffers: how many packets can be held and expected together.
    pub receive_buffers: usize,
    /// How many of them are kept with the card, as far as packets are not held.
    pub receive_queue_packets: usize,
    /// The most packets that one receive hands out, and that one doorbell sends.
    pub burst_packets: usize,
    /// Every this many packets the card is asked to report that it is done; one report frees all before it.
    pub signal_period: usize,
    /// Packets up to this length travel inside their request, so that the card need not fetch them.
    pub inline_bytes: usize,
    /// Put the buffers into huge pages, if the system has some.
    pub huge_pages: bool,
}

impl Default for VerbsDatagramConfig {
    fn default() -> Self {
        Self {
            device: DeviceChoice::default(),
            mtu_bytes: None,
            send_queue_packets: 128,
            receive_buffers: 1024,
            receive_queue_packets: 512,
            burst_packets: 32,
            signal_period: 16,
            inline_bytes: 200,
            huge_pages: true,
        }
    }
}

impl VerbsDatagramConfig {
    /// Whether the device can do this.
    pub(crate) fn check(&self, device: &Device) -> Result<(), VerbsError> {
        let depth_max = limit(device.attributes.max_qp_wr.min(device.attributes.max_cqe));
        let mtu_max = device.port.mtu_bytes();
        let range = |parameter, value, least, most| in_range(device, parameter, value, least, most, false);
        range("mtu_bytes", self.mtu_bytes.unwrap_or(mtu_max), MTU_BYTES_MIN, mtu_max)?;
        range("send_queue_packets", self.send_queue_packets, 1, depth_max)?;
        range("receive_buffers", self.receive_buffers, 1, PACKETS_MAX)?;
        range("receive_queue_packets", self.receive_queue_packets, 1, depth_max)?;
        range("burst_packets", self.burst_packets, 1, BURST_PACKETS_MAX)
    }
}

/// The configuration of [`VerbsLanes`](crate::VerbsLanes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbsLaneConfig {
    /// Where to connect from.
    pub device: DeviceChoice,
    /// What connects the queue pairs. Both sides must do the same.
    pub connect_by: ConnectBy,
    /// Bytes in the ring that each peer writes into; a power of two from 4K to 1G.
    pub ring_bytes: usize,
    /// The longest ring of a peer: as much is pinned for what leaves to it.
    pub peer_ring_bytes_max: usize,
    /// The most bytes that the process may have pinned when a peer connects.
    pub pinned_bytes_max: usize,
    /// Bytes of memory for loans, shared by all peers, and as many again for the blocks that peers lend; a
    /// power of two from 4K to 1T. All of it is pinned.
    pub block_bytes: usize,
    /// The longest packet, in bytes: a power of two from 256 to 4096. `None` takes what the link carries.
    pub mtu_bytes: Option<usize>,
    /// Writes of peers that can arrive before they are looked at, over all lanes; more wait at their senders.
    pub receives: usize,
    /// Every this many writes the card is asked to report that it is done; one report frees all before it.
    pub signal_period: usize,
    /// Records up to this many bytes travel inside their request, so that the card need not fetch them.
    pub inline_bytes: usize,
    /// Put rings and blocks into huge pages, if the system has some.
    pub huge_pages: bool,
}

impl Default for VerbsLaneConfig {
    fn default() -> Self {
        Self {
            device: DeviceChoice::default(),
            connect_by: ConnectBy::Auto,
            ring_bytes: 256 << 10,
            peer_ring_bytes_max: 4 << 20,
            pinned_bytes_max: 8 << 30,
            block_bytes: 32 << 20,
            mtu_bytes: None,
            receives: 1024,
            signal_period: 16,
            inline_bytes: 200,
            huge_pages: true,
        }
    }
}

impl VerbsLaneConfig {
    /// Whether the device can do this.
    pub(crate) fn check(&self, device: &Device) -> Result<(), VerbsError> {
        let receives_max = limit(device.attributes.max_srq_wr.min(device.attributes.max_cqe / 2));
        let mtu_bytes = self.mtu_bytes.unwrap_or(MTU_BYTES_MIN);
        let ring_bytes_max = match device.network {
            Network::InfiniBand | Network::Roce => RING_BYTES_MAX,
            // Each line has a receive there.
            Network::Iwarp => RING_BYTES_MAX.min(limit(device.attributes.max_qp_wr) * RECORD_ALIGN),
        };
        in_range(device, "ring_bytes", self.ring_bytes, RING_BYTES_MIN, ring_bytes_max, true)?;
        in_range(device, "block_bytes", self.block_bytes, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, true)?;
        in_range(device, "mtu_bytes", mtu_bytes, MTU_BYTES_MIN, MTU_BYTES_MAX, true)?;
        in_range(device, "receives", self.receives, 1, receives_max, false)
    }
}

fn in_range(
    device: &Device,
    parameter: &'static str,
    value: usize,
    least: usize,
    most: usize,
    power_of_two: bool,
) -> Result<(), VerbsError> {
    if (least..=most).contains(&value) && (!power_of_two || value.is_power_of_two()) {
        return Ok(());
    }
    Err(VerbsError::OutOfRange { parameter, value, least, most, device: device.name.clone() })
}

/// A limit of a device; one that makes no sense allows nothing.
fn limit(value: i32) -> usize {
    usize::try_from(value).unwrap_or(0)
}
