//! The two shapes of a driver, and what both sides of the seam have in common.

mod datagram;
mod lane;
mod peers;
mod record;
mod wait;

pub use datagram::{Datagram, DatagramLimits, Destination, Packet, SendError, SendQueueFull};
pub use lane::{
    HELLO_BYTES_MAX, LaneDriver, LaneEvent, LaneFault, LaneId, LaneLimits, LaneReceiver, LaneSender,
    RECORD_ALIGN, RECORD_HEADER_BYTES, RUNWAY_BYTES, RecordKind,
};
pub use peers::{Peers, STRANGERS_MAX};
pub use record::{Record, Words};
pub use wait::Wait;
