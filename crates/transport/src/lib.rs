//! Transports: remote calls and tagged messages over a driver.
//!
//! `ring` runs the ring protocol over lanes; `packet` runs packet protocols over datagrams; `library` makes
//! both out of the messages of external libraries; `several` makes one of several. All implement the one seam
//! of this crate, [`Transport`].

mod batch;
mod home;
mod kept;
mod library;
mod life;
mod matcher;
mod message;
mod notices;
mod outcome;
mod packet;
mod payload;
mod ring;
mod seam;
mod several;
mod spares;
pub mod trace;
mod waiting;

pub use batch::{
    Matched, MatchedBatch, Message, MessageBatch, RequestBatch, Response, ResponseBatch, Together,
};
pub use farcall_protocol::keys::name_of_key;
pub use farcall_protocol::matching::{Source, Tag};
pub use kept::{Copied, Kept, Short};
#[cfg(feature = "conformance")]
pub use library::conformance;
#[cfg(feature = "conformance")]
#[doc(hidden)]
pub use library::post;
pub use library::{
    ARRIVAL_HEAD_BYTES_MAX, Arrival, Backlog, COMPOSED_FRONT_BYTES_MAX, Library, LibraryConfig,
    LibraryCounters, LibraryTransport, Presence, compose, split_composed,
};
pub(crate) use life::Watching;
pub use life::{LifeAnswer, LifeWatch};
pub(crate) use message::Envelope;
pub use message::{Arrived, MessageId, Origin, Posted, SendOutcome, SendRefused};
pub(crate) use outcome::down_reason;
pub use outcome::{CallRefused, DownReason, Refused, Status, Submitted};
pub use packet::{KeySource, PacketConfig, PacketCounters, PacketTransport};
pub use payload::{HeapBytes, Incoming, Outgoing, Owned, Payload};
pub use ring::{Ring, RingConfig, RingCounters};
pub use seam::*;
pub use several::{Reach, Several, SeveralConfig, WAYS_MAX, WayAddresses, WayConfig};
pub use spares::{Spare, Spares};
