//! Packets over libfabric's datagram endpoints, for the packet protocols: `basic+ofi` and `homa+ofi`.
//!
//! Every packet begins with its sender's address, because libfabric names the sender only of packets from
//! addresses that the receiver knows already. What is queued is gathered into slots and given to the provider
//! at a flush: short packets to copy at once, others until it reports them done. All memory is made at the
//! beginning; a packet that is received is lent from the buffer that the provider wrote it into.
//!
//! Not every provider can take memory that it has not registered; those that cannot are not offered (see
//! `crate::libfabric`). `docs/ofi.md` has the user's view.

mod config;
mod counters;
mod driver;
mod name;
mod receiving;
mod sending;

pub use crate::libfabric::OfiError;
pub use config::OfiDatagramConfig;
pub use counters::OfiDatagramCounters;
pub use driver::{OfiDatagram, providers};
