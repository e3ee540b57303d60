//! The two shapes of a driver, and what both sides of the seam have in common.

mod datagram;
mod lane;
mod peers;
mod record;

use std::os::fd::RawFd;

pub use datagram::{Datagram, DatagramLimits, Destination, Packet, SendError, SendQueueFull};
pub use lane::{
    HELLO_BYTES_MAX, LaneDriver, LaneEvent, LaneFault, LaneId, LaneLimits, LaneReceiver, LaneSender,
    RECORD_ALIGN, RECORD_HEADER_BYTES, RUNWAY_BYTES, RecordKind,
};
pub use peers::{Peers, STRANGERS_MAX};
pub use record::{Record, Words};

/// How a thread that has nothing to do sleeps until there is: drivers, libraries and transports can be waited
/// for, each for what is below it.
///
/// The order is announce, poll once more, block, end the announcement. Without the poll between, what arrived
/// just before the announcement would be slept over.
pub trait Wait {
    /// Announces that the caller is about to block: what arrives from now on makes one of the
    /// `wait_descriptors` readable. Those whose descriptors are readable for as long as something waits do
    /// nothing here; those that cannot wake anybody ask for short naps by their deadline instead.
    fn prepare_wait(&mut self);

    /// Ends what `prepare_wait` announced.
    fn finish_wait(&mut self);

    /// File descriptors that become readable when a poll may find something.
    fn wait_descriptors(&self) -> Vec<RawFd>;
}
