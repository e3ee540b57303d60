//! How a call ends.

use core::ops::Deref;

use farcall_transport::{CallRefused, DownReason, Incoming, Payload, Status};

/// A call's end: an answer, or the one reason why there is none.
pub type Outcome<'a> = Result<Answer<'a>, CallError>;

/// The answer to a call, read where it lies: in the peer's memory, the driver's, or a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    pub(super) payload: &'a Incoming<'a>,
}

impl Answer<'_> {
    /// The response as an owned buffer: a large one that lies in the peer's memory is not copied.
    pub fn take(self) -> Payload {
        self.payload.take()
    }
}

impl Deref for Answer<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.payload.as_slice()
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
    /// The server is about to stop and takes no more requests; call another one. Nothing ran.
    #[error("the server is leaving")]
    Leaving,
    /// The peer's handler dropped the request without an answer.
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
    /// The endpoint has its maximum of calls in flight; complete some first. Nothing ran.
    #[error("{calls_max} calls of this endpoint are in flight, the limit; complete some first")]
    TooManyCalls {
        /// The limit.
        calls_max: usize,
    },
}

/// The outcome that a response means. Nearly all are answers, for which a jump through a table would take
/// longer than the rest.
#[inline]
pub(super) fn outcome_of<'a>(status: Status, payload: &'a Incoming<'a>) -> Outcome<'a> {
    if status == Status::Ok { Ok(Answer { payload }) } else { outcome_of_other(status, payload) }
}

#[cold]
fn outcome_of_other<'a>(status: Status, payload: &'a Incoming<'a>) -> Outcome<'a> {
    match status {
        Status::Ok => Ok(Answer { payload }),
        Status::UnknownService => Err(CallError::UnknownService),
        Status::Abandoned => Err(CallError::Abandoned),
        Status::AnswerTooLong => Err(CallError::AnswerTooLong),
        Status::Leaving => Err(CallError::Leaving),
        Status::Refused(code) => Err(CallError::Refused { code }),
    }
}
