//! How a call ends.

use core::fmt;
use core::ops::Deref;

use farcall_driver::Block;
use farcall_transport::{CallRefused, DownReason, Incoming, Status};

/// A call's end: an answer, or the one reason why there is none.
pub type Outcome<'a> = Result<Answer<'a>, CallError>;

/// The answer to a call, read where it lies: in the peer's memory, the driver's, or a buffer.
#[derive(Debug)]
pub struct Answer<'a> {
    pub(super) payload: Incoming<'a>,
}

impl Answer<'_> {
    pub(super) fn from_payload(payload: Payload) -> Self {
        let payload = match payload {
            Payload::Bytes(bytes) => Incoming::Assembled(bytes),
            Payload::Block(block) => Incoming::Block(block),
        };
        Self { payload }
    }

    /// The answer as memory of one's own: a large one that lies in the peer's memory is not copied.
    pub fn take(self) -> Payload {
        match self.payload {
            Incoming::Borrowed(bytes) => Payload::Bytes(bytes.to_vec()),
            Incoming::Assembled(bytes) => Payload::Bytes(bytes),
            Incoming::Block(block) => Payload::Block(block),
        }
    }
}

impl Deref for Answer<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.payload.as_slice()
    }
}

/// A received payload that its holder owns.
pub enum Payload {
    /// Bytes in this process.
    Bytes(Vec<u8>),
    /// The sender's memory; the sender has it back when this is dropped.
    Block(Block),
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Block(block) => block,
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.len())
    }
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No answer came before the deadline. The request may have run, may still run, or may be lost.
    #[error("no answer came before the deadline")]
    TimedOut,
    /// The caller cancelled it. The request may have run or may still run.
    #[error("the call was cancelled")]
    Cancelled,
    /// The session to the peer ended. The request may have run; connect again before calling again.
    #[error("the call has no answer: {0}")]
    PeerDown(DownReason),
    /// Nobody serves this service at the peer.
    #[error("the peer does not serve this service")]
    UnknownService,
    /// The peer's handler let go of the request without an answer.
    #[error("the peer's handler gave no answer")]
    Abandoned,
    /// The peer's handler ran, but its answer was longer than the session carries.
    #[error("the peer's answer was longer than the session's limit")]
    AnswerTooLong,
    /// The peer's handler refused with a code of its own.
    #[error("the peer's handler refused with code {code}")]
    Refused {
        /// The handler's code.
        code: u8,
    },
    /// The call was not accepted for sending; nothing ran.
    #[error(transparent)]
    NotSent(#[from] CallRefused),
    /// The endpoint has its maximum of calls under way; complete some first. Nothing ran.
    #[error("{calls_max} calls of this endpoint are under way, the limit; complete some first")]
    TooManyCalls {
        /// The limit.
        calls_max: usize,
    },
}

/// The outcome that a response means.
pub(super) fn outcome_of(status: Status, payload: Incoming<'_>) -> Outcome<'_> {
    match status {
        Status::Ok => Ok(Answer { payload }),
        Status::UnknownService => Err(CallError::UnknownService),
        Status::Abandoned => Err(CallError::Abandoned),
        Status::AnswerTooLong => Err(CallError::AnswerTooLong),
        Status::Refused(code) => Err(CallError::Refused { code }),
    }
}
