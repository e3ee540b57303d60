//! What sends and receives come to: messages, and the reasons why there are none.

use core::fmt;
use core::ops::Deref;

use farcall_transport::{DownReason, Incoming, Kept, Payload, SendRefused, SessionId, Tag};

use crate::endpoint::Endpoint;
use crate::endpoint::sessions::Peer;

/// A receive's end: a message, or the one reason why there is none.
pub type ReceiveOutcome<'a> = Result<Received<'a>, ReceiveError>;

/// A message, read where it lies: in the ring, in the driver's memory, or in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    pub(in crate::endpoint) peer: Peer,
    pub(in crate::endpoint) tag: Tag,
    /// By value: its bytes are found at once then.
    pub(in crate::endpoint) payload: Incoming<'a>,
}

impl Received<'_> {
    /// The sender.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Its tag.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// The message as an owned buffer: a large one that lies in the sender's memory is not copied.
    pub fn take(self) -> Payload {
        self.payload.take()
    }
}

impl Deref for Received<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.payload.as_slice()
    }
}

/// The sender of a message, and its tag.
///
/// They are held as two words, which travel in registers from the slot to the future: the four numbers would
/// be stored and loaded again at each step.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// The peer's session, and its rank in the upper half.
    session_and_rank: u64,
    /// The peer's endpoint, and the tag in the upper half.
    endpoint_and_tag: u64,
}

impl Envelope {
    /// The envelope of a message from `peer`.
    #[inline]
    pub const fn new(peer: Peer, tag: Tag) -> Self {
        let Peer { session, rank, endpoint } = peer;
        Self {
            session_and_rank: session.0 as u64 | (rank as u64) << 32,
            endpoint_and_tag: endpoint as u64 | (tag.0 as u64) << 32,
        }
    }

    /// The sender.
    pub const fn peer(self) -> Peer {
        Peer {
            session: SessionId(self.session_and_rank as u32),
            rank: (self.session_and_rank >> 32) as u32,
            endpoint: self.endpoint_and_tag as u32,
        }
    }

    /// Its tag.
    pub const fn tag(self) -> Tag {
        Tag((self.endpoint_and_tag >> 32) as u32)
    }
}

/// A message that the endpoint keeps for the receive that will ask for it.
#[derive(Debug)]
pub struct KeptMessage {
    pub(in crate::endpoint) envelope: Envelope,
    pub(in crate::endpoint) payload: Kept,
}

impl KeptMessage {
    /// The message as callbacks and events get it.
    #[inline]
    pub(in crate::endpoint) fn received(&self) -> Received<'_> {
        Received { peer: self.envelope.peer(), tag: self.envelope.tag(), payload: self.payload.as_incoming() }
    }
}

/// A message that a future has received, kept until it is dropped.
pub struct Message<'e> {
    envelope: Envelope,
    /// Empty once it was taken.
    payload: Kept,
    endpoint: &'e Endpoint,
}

impl<'e> Message<'e> {
    #[inline]
    pub(super) fn new(message: KeptMessage, endpoint: &'e Endpoint) -> Self {
        Self { envelope: message.envelope, payload: message.payload, endpoint }
    }

    /// The sender.
    pub fn peer(&self) -> Peer {
        self.envelope.peer()
    }

    /// Its tag.
    pub fn tag(&self) -> Tag {
        self.envelope.tag()
    }

    /// The message as an owned buffer, independent of the endpoint.
    pub fn take(mut self) -> Payload {
        core::mem::take(&mut self.payload).into()
    }
}

impl Deref for Message<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.payload
    }
}

impl Drop for Message<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Kept::Copy(copy) = &mut self.payload {
            self.endpoint.recycle(core::mem::take(copy));
        }
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({:?}, {} bytes)", self.tag(), self.len())
    }
}

/// Why a send did not complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The peer did not make room before the deadline. The message may have left.
    #[error("the message could not be sent before the deadline")]
    TimedOut,
    /// The sender cancelled it, and it has not left. Of a message to several peers some may have it.
    #[error("the message was cancelled")]
    Cancelled,
    /// The session to the peer ended. The message may have arrived.
    #[error("the message may not have arrived: {0}")]
    PeerDown(DownReason),
    /// The message was not accepted for sending.
    #[error(transparent)]
    NotSent(#[from] SendRefused),
    /// The endpoint has its maximum of operations in flight; complete some first.
    #[error("{operations_max} operations of this endpoint are in flight, the limit; complete some first")]
    TooMany {
        /// The limit.
        operations_max: usize,
    },
}

/// Why a receive has no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// No message came before the deadline.
    #[error("no message came before the deadline")]
    TimedOut,
    /// The receiver cancelled it. No message was lost.
    #[error("the receive was cancelled")]
    Cancelled,
    /// The message was longer than the receive allows; it is gone. Ask for more, or agree on less.
    #[error("a message of {bytes} bytes came to a receive of at most {bytes_max}")]
    Truncated {
        /// The sender of the message.
        peer: Peer,
        /// Its tag.
        tag: Tag,
        /// Its length.
        bytes: usize,
        /// The most that the receive takes.
        bytes_max: usize,
    },
    /// The session to the peer that it asked for ended, and no message of it is left.
    #[error("no message can come: {0}")]
    PeerDown(DownReason),
    /// The endpoint has its maximum of operations in flight; complete some first.
    #[error("{operations_max} operations of this endpoint are in flight, the limit; complete some first")]
    TooMany {
        /// The limit.
        operations_max: usize,
    },
}

/// What a wish to cancel came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// The operation has completed as cancelled. What a call asked for may still happen at the peer; a
    /// message has not been sent or received.
    Cancelled,
    /// The message is on its way; the send will complete when it has arrived.
    TooLate,
    /// The operation had completed before.
    Over,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_says_what_it_was_made_of() {
        for number in [0, 1, u32::MAX] {
            let peer = Peer { session: SessionId(number), rank: !number, endpoint: number ^ 5 };
            let envelope = Envelope::new(peer, Tag(!number ^ 9));
            assert_eq!((envelope.peer(), envelope.tag()), (peer, Tag(!number ^ 9)));
        }
    }
}
