//! What a caller can choose about the driver.

use core::net::IpAddr;

/// The configuration of an [`OfiDatagram`](crate::datagram::OfiDatagram).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfiDatagramConfig {
    /// The provider's name; without it libfabric's first choice.
    pub provider: Option<String>,
    /// The address of this machine by which others reach it.
    pub local: Option<IpAddr>,
    /// The longest packet without the sender's address, in bytes; all peers should choose the same. `None`
    /// takes what the provider says it carries.
    pub mtu_bytes: Option<usize>,
    /// Packets that are queued or with the provider, at most.
    pub tx_depth: usize,
    /// Buffers that wait for packets; three times as many more can be held by the caller.
    pub rx_depth: usize,
    /// The longest packet that is given to the provider to copy, in bytes; less where the provider copies
    /// less.
    pub inject_bytes: usize,
    /// Whether its user may block until something arrives.
    pub may_sleep: bool,
}
