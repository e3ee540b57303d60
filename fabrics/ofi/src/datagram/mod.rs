//! Packets over libfabric's datagram endpoints, for the packet protocols: `basic+ofi` and `homa+ofi`.
//!
//! Every packet begins with its sender's address, because libfabric names the sender only of packets from
//! addresses that the receiver knows already. What is queued is gathered into slots and given to the provider
//! at a flush: short packets to copy at once, others until it reports them done. All memory is made at the
//! beginning; a packet that is received is lent from the buffer that the provider wrote it into.
//!
//! Not every provider can take memory that it has not registered; those that cannot are not offered (see
//! `crate::libfabric`). `docs/ofi.md` has the user's view.

use core::net::IpAddr;

mod driver;
mod receiving;
mod sending;

pub use crate::libfabric::OfiError;
pub use driver::{OfiDatagram, providers};

/// The configuration of an [`OfiDatagram`].
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

farcall_driver::declare_counters! {
    /// The counters of one driver, labelled `ofi PROVIDER`.
    pub struct OfiDatagramCounters {
        packets_sent: "packets" => "Packets that the provider took",
        bytes_sent: "bytes" => "Payload of the packets sent",
        packets_injected: "packets" => "Packets sent that the provider copied at once",
        provider_full: "times" => "Flushes that left packets because the provider had no room",
        queue_full: "times" => "Packets refused because the send queue was full",
        packets_unsendable: "packets" => "Packets lost because the provider cannot use the address or refused them",
        stale_destinations: "packets" => "Packets dropped because their destination had been replaced by another peer",
        packets_received: "packets" => "Packets handed to the caller",
        bytes_received: "bytes" => "Payload of the packets received",
        packets_malformed: "packets" => "Packets dropped because they were shorter than an address",
        receive_failures: "receives" => "Receives that the provider reported as failed",
        peers_replaced: "peers" => "Peers known only from their packets that made room for others",
    }
}

/// The longest address of a provider for datagrams, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// An address of a provider as packets carry it. All of a provider's have the same length, which is not
/// repeated in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    length: u8,
}

impl Name {
    /// The address of these bytes; `None` when they are too many.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut name = [0; NAME_BYTES_MAX];
        name.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { bytes: name, length: bytes.len() as u8 })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}
