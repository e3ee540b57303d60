//! Decorators: drivers around drivers, which count, trace, capture or disturb what passes through.
//!
//! Each wraps any implementation of its seam and is one itself, so that they can be stacked. Those for packets are
//! [`Count`], [`Trace`], [`Pcap`] and [`Fault`]; for lanes there is [`LaneDelay`].

mod count;
mod delegate;
mod fault;
mod held;
mod lane_delay;
mod pcap;
mod pcapng;
mod trace;

pub use count::{Count, PacketCounters};
pub use fault::{Fault, FaultConfig, FaultCounters};
pub use held::HELD_PACKETS_MAX;
pub use lane_delay::{DelayingSender, LaneDelay, LaneDelayConfig};
pub use pcap::Pcap;
pub use trace::{DRIVER_EVENTS, Trace, event};

#[cfg(test)]
mod lane_scripted;
#[cfg(test)]
mod loopback;
