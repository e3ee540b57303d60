//! Tagged messages at the seam: their names, and what becomes of sends and receives.

use farcall_protocol::matching::{Source, Tag};

use crate::{DownReason, Kept, SessionId};

/// The caller's name for a send or a receive; comes back with its end. Different from that of every send and
/// receive that has not ended, in its low 16 bits too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub u32);

/// From whom a receive wants its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The endpoint. Its messages count whichever session they take: there are two when both sides have
    /// connected.
    pub source: Source,
    /// A session to it. When that has ended no message is waited for.
    pub session: SessionId,
}

/// What is known of a message besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// Where it came from.
    pub session: SessionId,
    pub tag: Tag,
    pub bytes: usize,
}

/// Why a message was not accepted for sending. Nothing was sent, and nothing will complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendRefused {
    /// Longer than the session carries: send less, or in pieces.
    #[error("a message of {bytes} bytes is over the limit of {bytes_max}")]
    TooLong {
        /// The payload's length.
        bytes: usize,
        /// The session's limit.
        bytes_max: usize,
    },
    /// The session is down: connect again.
    #[error("the session to the peer is down")]
    Down,
}

/// What became of a receive that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It waits in the posted-receive queue; [`Sink::received`](crate::Sink::received) follows unless it is
    /// cancelled.
    Waiting,
    /// Its message was here and was given to the caller. Nothing else is reported.
    Delivered,
    /// It asked for messages of a session that has ended, and none of them are left. Nothing else is
    /// reported.
    Down,
}

/// A message that was here when its receive was posted.
#[derive(Debug)]
pub enum Arrived<'a> {
    /// It was deferred, and lies where it came, until the call returns.
    InPlace(&'a [u8]),
    /// It was kept in the unexpected queue.
    Kept(Kept),
}

impl Arrived<'_> {
    /// The bytes of the message.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::InPlace(bytes) => bytes,
            Self::Kept(kept) => kept,
        }
    }
}

/// How a send ended that was queued.
pub type SendOutcome = Result<(), DownReason>;
