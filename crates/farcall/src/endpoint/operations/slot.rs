//! A slot of the slab: where an operation stands, and what is attached to it.

use core::task::Waker;

use farcall_transport::{CallId, Kept, SessionId, Short, Tag};

use super::readings::Since;
use super::standing::Standing;
use crate::endpoint::callback::{CallCallback, ReceiveCallback, SendCallback};
use crate::endpoint::label::Label;
use crate::endpoint::messages::{KeptMessage, ReceiveError, SendError};
use crate::endpoint::outcome::CallError;
use crate::endpoint::sessions::Peer;

/// What happens when an operation completes.
pub enum Completion {
    /// A future waits for it; whom to wake, once it has been polled.
    Future(Option<Waker>),
    /// The callback of a call gets it.
    Callback(CallCallback),
    /// The callback of a send gets it.
    Sent(SendCallback),
    /// The callback of a receive gets it.
    Received(ReceiveCallback),
    /// It becomes an event with this token.
    Event(u64),
    /// Nobody is interested any more.
    Nobody,
}

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Call,
    Send,
    Receive,
}

/// The session of operations that do not end with any.
pub const NO_SESSION: SessionId = SessionId(u32::MAX);

/// Where a slot stands. Vacant → one of those that are pending → Vacant; with a future, before that one of those that are
/// done. Those that are pending come first, and of them that of posted calls: as zero it costs them nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Stage {
    /// The operation becomes an event; nothing is attached.
    PendingEvent,
    /// A future waits for it that was never polled; nothing is attached.
    PendingFuture,
    /// A receive whose callback is beside the slot; nothing is attached.
    PendingReceiveCallback,
    /// A callback or the waker of a future is attached.
    Pending,
    Vacant,
    /// The result for a future is attached.
    Done,
    /// The result for a future is a short message, which is in the slot itself.
    DoneShort,
    /// The result for a future is a message that was copied into the buffer beside the slot.
    DoneCopy,
}

/// What a slot holds beside its numbers. Most operations never touch it.
pub enum Attachment {
    Nothing,
    Completion(Completion),
    Result(Result<Kept, CallError>),
    Sent(Result<(), SendError>),
    Received(Result<KeptMessage, ReceiveError>),
}

/// One cache line.
#[repr(align(64))]
pub struct Slot {
    pub standing: Standing,
    /// The number of its operation, or of its next one: the generation in the upper half, the slot in the lower. A word of
    /// its own, because it is read right after its neighbours were written.
    pub id: CallId,
    pub session: SessionId,
    /// Of a receive the most bytes, of a send the parts that have not ended, of a vacant slot the next one that is vacant.
    pub number: u32,
    /// The operation's own timeout, if it has one; its deadline when that is settled.
    pub nanos: u64,
    pub token: u64,
    /// A short message that was received.
    pub short: Short,
    /// Who sent the message that was received, and its tag.
    pub label: Label,
}

impl Slot {
    /// The slot of that number, in front of `next` among those that are vacant.
    pub fn vacant(index: u16, next: u32) -> Self {
        Self {
            standing: Standing::new(Stage::Vacant, Kind::Call, Since::SETTLED),
            id: CallId(u32::from(index)),
            session: SessionId(0),
            number: next,
            nanos: 0,
            token: 0,
            short: Short::default(),
            label: Label::new(Peer { session: NO_SESSION, rank: 0, endpoint: 0 }, Tag(0)),
        }
    }

    #[inline(always)]
    pub fn stage(&self) -> Stage {
        self.standing.stage()
    }

    #[inline(always)]
    pub fn set_stage(&mut self, stage: Stage) {
        self.standing.set_stage(stage);
    }

    #[inline(always)]
    pub fn kind(&self) -> Kind {
        self.standing.kind()
    }

    #[inline]
    pub fn is_pending(&self) -> bool {
        self.stage() <= Stage::Pending
    }

    /// Ends the use of the slot, which becomes the first of those that are vacant.
    #[inline]
    pub fn vacate(&mut self, first_vacant: &mut u32) {
        self.set_stage(Stage::Vacant);
        self.number = core::mem::replace(first_vacant, self.id.0 & 0xffff);
        self.renew();
    }

    /// The number was used and is not again.
    #[inline]
    pub fn renew(&mut self) {
        self.id.0 = self.id.0.wrapping_add(1 << 16);
    }
}
