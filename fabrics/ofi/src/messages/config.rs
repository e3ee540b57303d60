//! What a caller can choose about the transport.

use core::net::IpAddr;

/// How an instance is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfiConfig {
    /// The provider's name; without it libfabric's first choice for general use.
    pub provider: Option<String>,
    /// The address of this machine by which others reach it.
    pub local: Option<IpAddr>,
    /// The longest payload that is accepted, in bytes.
    pub payload_bytes_max: usize,
    /// The longest payload that travels whole, in bytes; longer ones are announced.
    pub eager_bytes: usize,
    /// The longest frame that is given to the provider to copy, in bytes; less where the provider copies
    /// less.
    pub inject_bytes: usize,
    /// The most sends that the provider is given at a time; less where the provider takes less. To a
    /// destination it is given as many as are left for others, and at least one.
    pub tx_depth: usize,
    /// How many buffers wait for frames, and how many payloads are fetched at a time; less where the provider
    /// takes less.
    pub rx_depth: usize,
    /// Whether its user may block until something arrives.
    pub may_sleep: bool,
    /// A number drawn at random, which tells the endpoint apart from others.
    pub drawn: u64,
}
