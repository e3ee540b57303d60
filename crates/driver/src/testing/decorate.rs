//! Decorators: drivers around drivers, which count, trace, capture or disturb what passes through.
//!
//! Each wraps any implementation of its seam and is one itself, so that they can be stacked. Those for
//! packets are [`Fault`] and, with the feature `testing`, `Count`, `Trace` and `Pcap`; for lanes there is
//! [`LaneDelay`].

#[cfg(any(test, feature = "testing"))]
mod count;
mod delegate;
mod fault;
mod held;
mod lane_delay;
#[cfg(any(test, feature = "testing"))]
mod pcap;
#[cfg(any(test, feature = "testing"))]
mod pcapng;
#[cfg(any(test, feature = "testing"))]
mod trace;

#[cfg(any(test, feature = "testing"))]
pub use count::{Count, PacketCounters};
pub use fault::{Fault, FaultConfig, FaultCounters};
pub use held::HELD_PACKETS_MAX;
pub use lane_delay::{DelayingSender, LaneDelay, LaneDelayConfig};
#[cfg(any(test, feature = "testing"))]
pub use pcap::Pcap;
#[cfg(any(test, feature = "testing"))]
pub use trace::{DRIVER_EVENTS, Trace, event};

#[cfg(test)]
mod lane_scripted;
#[cfg(test)]
mod loopback;
