//! Tagged messages at the seam: their names, and what becomes of sends and receives.

use farcall_protocol::matching::{Source, Tag};

use crate::{DownReason, Kept, SessionId};

/// The caller's name for a send or a receive; comes back with its end. Different from that of every send and receive
/// that has not ended, in its low 16 bits too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub u32);

/// From whom a receive wants its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The endpoint. Its messages count whichever session they take: there are two when both sides have connected.
    pub source: Source,
    /// A session to it. When that has ended no message is waited for.
    pub session: SessionId,
}

/// What is known of a message besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Where it came from.
    pub session: SessionId,
    /// Its tag.
    pub tag: Tag,
    /// How long it is, even where a transport can hand on only a part of it.
    pub bytes: usize,
}

/// What became of a send that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendProgress {
    /// It is done: its memory was copied or handed over, and it leaves with the next poll. Nothing else is reported.
    Done,
    /// It waits for room, for the session or for an acknowledgement; [`Sink::sent`](crate::Sink::sent) follows.
    Pending,
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

/// What became of a receive.
#[derive(Debug)]
pub enum ReceiveProgress {
    /// The message was there already. Nothing else is reported.
    Arrived(Envelope, Kept),
    /// It waits; [`Sink::received`](crate::Sink::received) follows unless it is cancelled.
    Posted,
    /// It asked for messages of a session that has ended, and none of them are left. Nothing else is reported.
    Down,
}

/// How a send ended that was pending.
pub type SendOutcome = Result<(), DownReason>;
