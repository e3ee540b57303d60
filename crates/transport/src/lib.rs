//! Transports: remote calls over a driver.
//!
//! `ring` runs the ring protocol over lanes; `packet` runs packet protocols over datagrams. Both implement the one
//! seam of this crate, [`Transport`].

mod outcome;
mod packet;
mod payload;
mod ring;
mod seam;

pub use outcome::{CallRefused, DownReason, Status};
pub use packet::{PacketConfig, PacketCounters, PacketTransport};
pub use payload::{Incoming, Outgoing, Payload};
pub use ring::{Ring, RingConfig, RingCounters};
pub use seam::*;
