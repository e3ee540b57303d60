//! Why an operation has no result.

use farcall::{CallError, ConnectError, DownReason, ReceiveError, SendError};

/// Why a collective operation failed. The member at fault is named by its rank in the group.
///
/// The first error breaks the group at this member; it is reported to all others, and every later operation
/// of the group fails with the same error. A group of the remaining members needs a new id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectiveError {
    /// The session to a member ended: its process died, was silent for longer than the limit, or closed its
    /// endpoint.
    #[error("member {member} is down: {reason}")]
    MemberDown {
        /// The member.
        member: u32,
        /// Why its session ended.
        reason: DownReason,
    },
    /// There is no session to a member.
    #[error("member {member} cannot be reached: {error}")]
    Unreachable {
        /// The member.
        member: u32,
        /// Why.
        error: ConnectError,
    },
    /// The deadline passed. A member that waits for another one names it.
    #[error("the operation did not end before its deadline{}", waiting_for(*.member))]
    TimedOut {
        /// The member whose message was missing, if it was one.
        member: Option<u32>,
    },
    /// Another member gave up, and said so.
    #[error("member {by} gave up{}", because_of(*.failed))]
    Aborted {
        /// The member that gave up first, as far as is known.
        by: u32,
        /// The member at fault in its eyes.
        failed: Option<u32>,
    },
    /// A member sent a message of another length than this member expects: the arguments differ.
    #[error("member {member} sent {bytes} bytes where {expected} were expected")]
    Mismatch {
        /// The member.
        member: u32,
        /// The length of its message.
        bytes: usize,
        /// The length that the arguments of this member ask for.
        expected: usize,
    },
    /// A message to a member could not be sent.
    #[error("a message to member {member} was not sent: {error}")]
    Send {
        /// The member.
        member: u32,
        /// Why.
        error: SendError,
    },
    /// No message of a member could be received.
    #[error("no message of member {member} was received: {error}")]
    Receive {
        /// The member.
        member: u32,
        /// Why.
        error: ReceiveError,
    },
    /// A chunk of an exchange was not delivered.
    #[error("a chunk was not delivered to member {member}: {error}")]
    Chunk {
        /// The member.
        member: u32,
        /// Why.
        error: CallError,
    },
    /// The future of an operation was dropped before its end.
    #[error("an operation of the group was dropped before its end")]
    Dropped,
}

impl CollectiveError {
    /// The rank in the group of the member at fault, if it is known.
    pub fn member(&self) -> Option<u32> {
        match self {
            Self::MemberDown { member, .. }
            | Self::Unreachable { member, .. }
            | Self::Mismatch { member, .. }
            | Self::Send { member, .. }
            | Self::Receive { member, .. }
            | Self::Chunk { member, .. } => Some(*member),
            Self::TimedOut { member } => *member,
            Self::Aborted { by, failed } => failed.or(Some(*by)),
            Self::Dropped => None,
        }
    }

    pub(crate) fn of_send(member: u32, error: SendError) -> Self {
        match error {
            SendError::PeerDown(reason) => Self::MemberDown { member, reason },
            SendError::TimedOut => Self::TimedOut { member: Some(member) },
            error => Self::Send { member, error },
        }
    }

    pub(crate) fn of_receive(member: u32, error: ReceiveError) -> Self {
        match error {
            ReceiveError::PeerDown(reason) => Self::MemberDown { member, reason },
            error => Self::Receive { member, error },
        }
    }

    pub(crate) fn of_call(member: u32, error: CallError) -> Self {
        match error {
            CallError::PeerDown(reason) => Self::MemberDown { member, reason },
            CallError::TimedOut => Self::TimedOut { member: Some(member) },
            error => Self::Chunk { member, error },
        }
    }
}

fn waiting_for(member: Option<u32>) -> String {
    member.map_or_else(String::new, |member| format!(": it waits for member {member}"))
}

fn because_of(failed: Option<u32>) -> String {
    failed.map_or_else(String::new, |failed| format!(" because of member {failed}"))
}

/// Why there is no group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The own rank is not among the members.
    #[error("rank {own} is not among the members of the group")]
    NotAMember {
        /// The own rank.
        own: u32,
    },
    /// A rank is there twice.
    #[error("rank {rank} is in the group twice")]
    Twice {
        /// The rank.
        rank: u32,
    },
}
