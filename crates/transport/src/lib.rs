//! Transports: remote calls over a driver.
//!
//! `ring` runs the ring protocol over lanes; `packet` runs packet protocols over datagrams; `library` makes calls out of
//! the messages of other people's libraries. All implement the one seam of this crate, [`Transport`].

mod library;
mod outcome;
mod packet;
mod payload;
mod ring;
mod seam;
pub mod trace;

#[cfg(feature = "conformance")]
pub use library::conformance;
pub use library::{
    ARRIVAL_HEAD_BYTES_MAX, Arrival, Library, LibraryConfig, LibraryCounters, LibraryTransport, Presence,
};
pub(crate) use outcome::down_reason;
pub use outcome::{CallRefused, DownReason, Status};
pub use packet::{PacketConfig, PacketCounters, PacketTransport};
pub use payload::{Incoming, Outgoing, Payload};
pub use ring::{Ring, RingConfig, RingCounters};
pub use seam::*;
