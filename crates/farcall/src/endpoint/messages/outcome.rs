//! How sends and receives end.

use core::fmt;
use core::ops::Deref;

use farcall_transport::{DownReason, Incoming, Kept, Payload, SendRefused, Tag};

use crate::endpoint::Endpoint;
use crate::endpoint::label::Label;
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

/// A message that the endpoint keeps for the receive that will ask for it.
#[derive(Debug)]
pub struct KeptMessage {
    pub(in crate::endpoint) label: Label,
    pub(in crate::endpoint) payload: Kept,
}

impl KeptMessage {
    /// The message as callbacks and events get it.
    #[inline]
    pub(in crate::endpoint) fn received(&self) -> Received<'_> {
        Received { peer: self.label.peer(), tag: self.label.tag(), payload: self.payload.as_incoming() }
    }
}

/// A message that a future has received, kept until it is dropped.
pub struct Message<'e> {
    label: Label,
    /// Empty once it was taken.
    payload: Kept,
    endpoint: &'e Endpoint,
}

impl<'e> Message<'e> {
    #[inline]
    pub(super) fn new(message: KeptMessage, endpoint: &'e Endpoint) -> Self {
        Self { label: message.label, payload: message.payload, endpoint }
    }

    /// The sender.
    pub fn peer(&self) -> Peer {
        self.label.peer()
    }

    /// Its tag.
    pub fn tag(&self) -> Tag {
        self.label.tag()
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

/// Why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The peer did not make room before the deadline. The message may have left.
    #[error("the message could not be sent before the deadline")]
    TimedOut,
    /// The sender cancelled it, and it has not left. Of a message to several peers some may have it.
    #[error("the message was cancelled")]
    Cancelled,
    /// The session to the peer ended. The message may have arrived.
    #[error("the message was not sent: {0}")]
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
