//! Tagged messages at the seam: their names, and what becomes of sends and receives.

use core::num::NonZeroU64;

use farcall_protocol::matching::{Source, Tag};

use crate::{DownReason, Kept, SessionId};

/// The caller's name for a send or a receive; comes back with its end. Different from that of every send and
/// receive that has not ended, in its low 16 bits too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub u32);

/// From whom a receive wants its message: an endpoint, and a session to it.
///
/// A single word, as an option too: every receive takes it through the seam, in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(NonZeroU64);

impl Origin {
    /// That endpoint, and a session to it. The session numbered [`u32::MAX`] there never is.
    #[inline]
    pub fn new(source: Source, session: SessionId) -> Self {
        debug_assert!(session.0 != u32::MAX, "there is such a session");
        // Not the session itself: zero is one.
        let word = u64::from(!session.0) << 32 | u64::from(source.0);
        Self(NonZeroU64::new(word).unwrap_or(NonZeroU64::MIN))
    }

    /// The endpoint. Its messages count whichever session they take: there are two when both sides have
    /// connected.
    #[inline]
    pub fn source(self) -> Source {
        Source(self.0.get() as u32)
    }

    /// The session. When it has ended no message is waited for.
    #[inline]
    pub fn session(self) -> SessionId {
        SessionId(!((self.0.get() >> 32) as u32))
    }
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
