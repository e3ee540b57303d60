//! How calls and sessions end.

use farcall_protocol::session::EndReason;

use crate::SendRefused;

/// How a request was answered; travels with the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The handler answered; the payload is its answer.
    Ok,
    /// Nobody serves that service at the peer.
    UnknownService,
    /// The handler dropped the request without an answer.
    Abandoned,
    /// The handler's answer was longer than the session's limit.
    AnswerTooLong,
    /// The server is about to stop and takes no more requests: this one did not run.
    Leaving,
    /// The server's policy does not let the caller call this service: it did not run. The payload says more.
    NotAllowed,
    /// The handler refused with a code of its own; the payload may say more.
    Refused(u8),
}

impl Status {
    /// The status as two bytes of a packet.
    pub const fn to_wire(self) -> u16 {
        // In two steps, of which neither is a jump through a table.
        if let Self::Refused(code) = self {
            return 0x100 | code as u16;
        }
        match self {
            Self::Ok | Self::Refused(_) => 0,
            Self::UnknownService => 1,
            Self::Abandoned => 2,
            Self::AnswerTooLong => 3,
            Self::Leaving => 5,
            Self::NotAllowed => 6,
        }
    }

    /// The status in its place, without a payload, where the payload is over the session's limit. What a
    /// refusal says more can be left out; an answer cannot.
    pub const fn without_payload(self) -> Self {
        match self {
            Self::Refused(_) | Self::NotAllowed => self,
            _ => Self::AnswerTooLong,
        }
    }

    /// The status that two bytes of a packet mean; `None` for bytes that no correct peer sends.
    pub const fn from_wire(wire: u16) -> Option<Self> {
        match wire {
            0 => Some(Self::Ok),
            1 => Some(Self::UnknownService),
            2 => Some(Self::Abandoned),
            3 => Some(Self::AnswerTooLong),
            5 => Some(Self::Leaving),
            6 => Some(Self::NotAllowed),
            0x100..=0x1ff => Some(Self::Refused(wire as u8)),
            _ => None,
        }
    }
}

/// What became of a request or message that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Submitted {
    /// Its bytes were copied or handed over, and it leaves with the next poll. Of a message nothing else is
    /// reported.
    Sent,
    /// It waits for room, for the session or for an acknowledgement. Of a message
    /// [`Sink::sent`](crate::Sink::sent) follows.
    Queued,
    /// Nothing was sent, and nothing will complete.
    Refused(Refused),
}

/// Why a request or message was not accepted, in two words, which travel in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Longer than the session carries.
    TooLong {
        /// The session's limit.
        bytes_max: usize,
    },
    /// The session has its maximum of unanswered calls.
    TooManyCalls {
        /// The session's limit.
        calls_max: usize,
    },
    /// The session is down.
    Down,
}

impl Submitted {
    /// The session is down.
    pub(crate) const DOWN: Self = Self::Refused(Refused::Down);
}

impl Refused {
    /// Why a call with so long a payload was not accepted.
    pub fn of_call(self, bytes: usize) -> CallRefused {
        match self {
            Self::TooLong { bytes_max } => CallRefused::TooLong { bytes, bytes_max },
            Self::TooManyCalls { calls_max } => CallRefused::TooManyCalls { calls_max },
            Self::Down => CallRefused::Down,
        }
    }

    /// Why a message with so long a payload was not accepted.
    pub fn of_message(self, bytes: usize) -> SendRefused {
        match self {
            Self::TooLong { bytes_max } => SendRefused::TooLong { bytes, bytes_max },
            Self::Down => SendRefused::Down,
            Self::TooManyCalls { .. } => unreachable!("messages do not count as calls"),
        }
    }
}

/// Why a call was not accepted. Nothing was sent, and nothing will complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallRefused {
    /// Longer than the session carries: send less, or in pieces.
    #[error("a message of {bytes} bytes is over the limit of {bytes_max}")]
    TooLong {
        /// The payload's length.
        bytes: usize,
        /// The session's limit.
        bytes_max: usize,
    },
    /// The session has its maximum of unanswered calls: poll until some complete.
    #[error("{calls_max} calls to this peer are unanswered, the limit; complete some first")]
    TooManyCalls {
        /// The session's limit.
        calls_max: usize,
    },
    /// The session is down: connect again.
    #[error("the session to the peer is down")]
    Down,
}

/// Why a session ended, and with it every unanswered call. Unless its reason says otherwise, a request that
/// was called over it may have run. A call to a name goes to another server by itself where the session never
/// came up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DownReason {
    /// Nobody answers at the peer's address. The request did not run.
    #[error("nobody answers at the peer's address")]
    Unreachable,
    /// The peer's process ended, or neither it nor its endpoint was heard for longer than the limit. The
    /// request may have run.
    #[error("the peer is dead: its process ended or it was silent for longer than the limit")]
    Dead,
    /// The peer's process lives, but its endpoint was not polled for longer than `endpoint.poll_timeout`.
    /// The request may have run, and may still run when the peer polls.
    #[error(
        "the peer's process lives, but its endpoint was not polled for longer than endpoint.poll_timeout"
    )]
    NotPolled,
    /// The peer started again: this session belonged to its former life, in which the request may have run.
    #[error("the peer was restarted")]
    Restarted,
    /// The peer closed the session. The request may have run.
    #[error("the peer closed the session")]
    Closed,
    /// The way to the peer is broken: a device, a port or the network. The request may have run.
    #[error("the fabric gave the session up: {why}")]
    Fabric {
        /// What the fabric reported.
        why: &'static str,
    },
    /// The way to the peer broke, and the session goes on over another one. Requests and messages that were
    /// in flight may have arrived, and are not sent again.
    #[error("the way to the peer broke while this was in flight; the session goes on over another one")]
    Moved,
    /// The peer sent what no correct peer sends. The request may have run.
    #[error("the peer broke the protocol: {what}")]
    Violation {
        /// What was wrong.
        what: &'static str,
    },
    /// The peer sent a message, which the policy of this endpoint does not allow. The request may have run.
    #[error("the policy does not let the peer send messages")]
    NotAllowed,
    /// The peer refused us, or we it: another version, another user, unusable limits. Mostly before the
    /// session came up: then the request did not run.
    #[error("the session was refused: {why}")]
    Refused {
        /// In words.
        why: String,
    },
}

/// What the end of a session of the protocol's means for those above.
pub(crate) fn down_reason(reason: EndReason) -> DownReason {
    match reason {
        EndReason::Unreachable => DownReason::Unreachable,
        EndReason::Dead => DownReason::Dead,
        EndReason::NotPolled => DownReason::NotPolled,
        EndReason::Restarted => DownReason::Restarted,
        EndReason::Closed => DownReason::Closed,
        EndReason::Violation { what } => DownReason::Violation { what },
        EndReason::NotAllowed => DownReason::NotAllowed,
        EndReason::Refused(_)
        | EndReason::PeerUnknown
        | EndReason::OtherPeer
        | EndReason::WaitingCallTooLong { .. } => DownReason::Refused { why: reason.to_string() },
    }
}
