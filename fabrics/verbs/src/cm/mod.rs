//! rdma_cm: queue pairs connected by IP address, through librdmacm.
//!
//! Every call here returns at once; what the network answers comes as an event of a channel, whose descriptor
//! is waited for with others.

mod channel;
mod identifier;
mod reach;

pub use channel::{CmEvent, EventChannel, Happening};
pub use identifier::CmId;
pub use reach::address_on;
