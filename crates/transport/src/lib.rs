//! Transports: remote calls and tagged messages over a driver.
//!
//! `ring` runs the ring protocol over lanes; `packet` runs packet protocols over datagrams. Both implement the one
//! seam of this crate, [`Transport`].

mod message;
mod outcome;
mod packet;
mod payload;
mod ring;
mod seam;

pub use farcall_protocol::matching::{Source, Tag};
pub use message::{Envelope, MessageId, Origin, ReceiveProgress, SendOutcome, SendProgress, SendRefused};
pub use outcome::{CallRefused, DownReason, Status};
pub use packet::{PacketConfig, PacketCounters, PacketTransport};
pub use payload::{Incoming, Kept, Outgoing, Payload, Short};
pub use ring::{Ring, RingConfig, RingCounters};
pub use seam::*;
