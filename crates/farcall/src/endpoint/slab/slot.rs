//! A slot of the slab: the stage of an operation, and what is attached to it.

use core::task::Waker;

use farcall_transport::{CallId, SessionId, Short, Tag};

use crate::endpoint::completion::{Callback, Completes, Completion, Ended, OfCall, OfReceive, OfSend};
use crate::endpoint::message::Envelope;
use crate::endpoint::sessions::Peer;

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Call,
    Send,
    Receive,
}

/// The session of operations that do not end with any.
pub const NO_SESSION: SessionId = SessionId(u32::MAX);

/// The stage of a slot. Vacant → one of those that are pending → Vacant; with a future, before that one of
/// those that are done. Those that are pending come first, and of them that of posted calls: as zero it costs
/// them nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Stage {
    /// The operation becomes an event; nothing is attached.
    PendingEvent,
    /// A future waits for it that was never polled; nothing is attached.
    PendingFuture,
    /// A receive whose callback is next to the slot; nothing is attached.
    PendingReceiveCallback,
    /// A callback or the waker of a future is attached.
    Pending,
    Vacant,
    /// The result for a future is attached.
    Done,
    /// The result for a future is a short message or answer, which is in the slot itself.
    DoneShort,
    /// The result for a future is a message or an answer that was copied into the buffer next to the slot.
    DoneCopy,
}

/// What a slot holds apart from its numbers. Most operations never touch it.
pub enum Attachment {
    Nothing,
    /// A future that was polled waits for the end.
    Waker(Waker),
    Call(Callback<OfCall>),
    Send(Callback<OfSend>),
    Receive(Callback<OfReceive>),
    /// The end has no taker.
    Nobody,
    /// The end, for the future.
    Ended(Ended),
}

impl Attachment {
    /// How an operation in flight completes that has this attached.
    pub fn into_completion<O: Completes>(self) -> Completion<O> {
        match self {
            Self::Waker(waker) => Completion::Future(Some(waker)),
            Self::Nobody => Completion::Nobody,
            other => Completion::Callback(O::callback(other).expect("a callback takes the end of its kind")),
        }
    }
}

/// One cache line.
#[repr(align(64))]
pub struct Slot {
    pub stage: Stage,
    pub kind: Kind,
    /// Of a call: its service.
    pub service: u16,
    /// The number of its operation, or of its next one: the generation in the upper half, the slot in the
    /// lower.
    pub id: CallId,
    pub session: SessionId,
    /// Of a receive: the most bytes that it takes.
    pub bytes_max: u32,
    /// Of a send: its parts that have not ended.
    pub parts: u32,
    /// Of a vacant slot: the next one that is vacant, or [`NO_SLOT`](super::NO_SLOT).
    pub next_vacant: u32,
    /// Of an operation that becomes an event.
    pub token: u64,
    /// A short message or answer that was received.
    pub short: Short,
    /// The sender of the message that was received, and its tag.
    pub envelope: Envelope,
}

const _: () = assert!(size_of::<Slot>() == 64);

impl Slot {
    /// The slot of that number, in front of `next_vacant` among those that are vacant.
    pub fn vacant(index: u16, next_vacant: u32) -> Self {
        Self {
            stage: Stage::Vacant,
            kind: Kind::Call,
            service: 0,
            id: CallId(u32::from(index)),
            session: SessionId(0),
            bytes_max: 0,
            parts: 0,
            next_vacant,
            token: 0,
            short: Short::default(),
            envelope: Envelope::new(Peer { session: NO_SESSION, rank: 0, endpoint: 0 }, Tag(0)),
        }
    }

    #[inline]
    pub fn is_pending(&self) -> bool {
        self.stage <= Stage::Pending
    }

    /// Whether this is the receive of that number, in that stage, and takes this many bytes.
    #[inline]
    pub fn takes(&self, receive: CallId, stage: Stage, bytes: usize) -> bool {
        self.stage == stage && self.id == receive && bytes <= self.bytes_max as usize
    }

    /// Ends the use of the slot, which becomes the first of those that are vacant.
    #[inline]
    pub fn vacate(&mut self, first_vacant: &mut u32) {
        self.stage = Stage::Vacant;
        self.next_vacant = core::mem::replace(first_vacant, self.id.0 & 0xffff);
        self.renew();
    }

    /// The number was used and is not used again.
    #[inline]
    pub fn renew(&mut self) {
        self.id.0 = self.id.0.wrapping_add(1 << 16);
    }
}
