//! How operations of a client fail.

use farcall::{CallError, CallRefused, ConnectError, Reason};

use crate::store::{CreateTableError, IncrementError, ReadError, WriteError};
use crate::wire::{Code, Malformed, NotReplicated};

/// Why an operation did not do what it should; `E` is what the store has to say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure<E> {
    /// The store refused. Nothing was changed.
    #[error(transparent)]
    Store(E),
    /// The shard that was asked does not have such objects: this client counts the shards differently than
    /// they do themselves, or the object's hash slot is on its way to another one for longer than an
    /// operation follows it. Nothing was changed. An operation with a callback follows nothing: the next one
    /// does.
    #[error("the object belongs to another shard; give the client all shards, in their order")]
    WrongShard,
    /// Too much waits at the shard: requests of this client, or writes for the disk. Nothing was changed: ask
    /// again, with fewer in flight.
    #[error("too much waits at the shard; ask again, with fewer in flight")]
    Busy,
    /// The shard does not know this client (any more), which wants a write to happen once: it was silent for
    /// ten minutes, or the shard's log is another one. The write may have happened.
    #[error("the shard has forgotten this client; whether the write has happened is not known")]
    Forgotten,
    /// The store's policy does not let this process do it. Nothing was changed: ask whoever keeps the policy.
    #[error("the store's policy does not allow it{why}")]
    NotAllowed {
        /// What is not allowed, and who the store takes this process for.
        why: Reason,
    },
    /// The shard's replicas do not allow it. See there whether something was changed.
    #[error(transparent)]
    NotReplicated(NotReplicated),
    /// There is no session to the shard. Nothing was changed.
    #[error("the shard cannot be reached: {0}")]
    NotConnected(#[from] ConnectError),
    /// There is no answer. Whether the shard did what it was asked to is known when nothing was sent, and
    /// unknown otherwise.
    #[error(transparent)]
    NoAnswer(CallError),
    /// The shard speaks another version of the protocol, or refused the request as none.
    #[error("the shard and this client do not understand each other")]
    Misunderstood,
}

impl<E> Failure<E> {
    /// Whether the operation certainly did not happen because the session was down before it was sent.
    pub(super) fn was_not_sent(&self) -> bool {
        matches!(self, Self::NoAnswer(CallError::NotSent(CallRefused::Down)))
    }

    /// Whether nothing was changed, and the same may succeed a little later.
    pub(super) fn passes(&self) -> bool {
        let refused = matches!(self, Self::NotReplicated(why) if why.passes());
        refused || self.was_not_sent() || matches!(self, Self::NotConnected(_) | Self::Busy)
    }

    /// Whether the session to the shard is down.
    pub(super) fn session_is_down(&self) -> bool {
        self.was_not_sent() || matches!(self, Self::NoAnswer(CallError::PeerDown(_)))
    }
}

impl<E> Failure<E> {
    /// The same, of an operation whose refusals are others.
    pub(super) fn with<F: From<E>>(self) -> Failure<F> {
        match self {
            Self::Store(refusal) => Failure::Store(refusal.into()),
            Self::WrongShard => Failure::WrongShard,
            Self::Busy => Failure::Busy,
            Self::Forgotten => Failure::Forgotten,
            Self::NotAllowed { why } => Failure::NotAllowed { why },
            Self::NotReplicated(why) => Failure::NotReplicated(why),
            Self::NotConnected(why) => Failure::NotConnected(why),
            Self::NoAnswer(error) => Failure::NoAnswer(error),
            Self::Misunderstood => Failure::Misunderstood,
        }
    }
}

impl<E> From<Malformed> for Failure<E> {
    fn from(Malformed: Malformed) -> Self {
        Self::Misunderstood
    }
}

/// What a shard's refusal means to the operation that it refused.
pub trait FromCode: core::error::Error + Sized {
    /// `None` for codes that this operation does not get. `version` is that which comes with a wrong version.
    fn from_code(code: Code, version: u64) -> Option<Self>;
}

impl FromCode for ReadError {
    fn from_code(code: Code, _: u64) -> Option<Self> {
        match code {
            Code::UnknownTable => Some(Self::UnknownTable),
            Code::DiskFailed => Some(Self::DiskFailed),
            Code::Collection => Some(Self::Collection),
            Code::TooLong => Some(Self::TooLong),
            _ => None,
        }
    }
}

impl FromCode for WriteError {
    fn from_code(code: Code, version: u64) -> Option<Self> {
        match code {
            Code::UnknownTable => Some(Self::UnknownTable),
            Code::OutOfMemory => Some(Self::OutOfMemory),
            Code::SameHash => Some(Self::SameHash),
            Code::LogFull => Some(Self::LogFull),
            Code::DiskFailed => Some(Self::DiskFailed),
            Code::WrongVersion => Some(Self::WrongVersion { version }),
            _ => None,
        }
    }
}

impl FromCode for IncrementError {
    fn from_code(code: Code, version: u64) -> Option<Self> {
        match code {
            Code::NotANumber => Some(Self::NotANumber),
            Code::Overflow => Some(Self::Overflow),
            code => WriteError::from_code(code, version).map(Self::Write),
        }
    }
}

impl FromCode for CreateTableError {
    fn from_code(code: Code, _: u64) -> Option<Self> {
        match code {
            Code::SameNumber => Some(Self::SameNumber),
            Code::TooManyTables => Some(Self::TooMany),
            _ => None,
        }
    }
}

/// The failure that a code means.
pub fn refused<E: FromCode>(code: Code, version: u64) -> Failure<E> {
    match code {
        Code::WrongShard | Code::SlotsMoving => Failure::WrongShard,
        Code::Busy => Failure::Busy,
        Code::NotAllowed => Failure::NotAllowed { why: Reason::default() },
        Code::ClientForgotten => Failure::Forgotten,
        code => match NotReplicated::from_code(code) {
            Some(refusal) => Failure::NotReplicated(refusal),
            None => E::from_code(code, version).map_or(Failure::Misunderstood, Failure::Store),
        },
    }
}

/// The failure of a call that was refused when it was to begin: whatever the reason, the shard has not seen
/// it.
pub fn not_sent<E: FromCode>(error: CallError) -> Failure<E> {
    match error {
        CallError::PeerDown(_) => Failure::NoAnswer(CallError::NotSent(CallRefused::Down)),
        error => no_answer(error),
    }
}

/// The failure of a call that was sent.
pub fn no_answer<E: FromCode>(error: CallError) -> Failure<E> {
    match error {
        CallError::Refused { code, why } => match Code::from_wire(code) {
            Some(Code::NotAllowed) => Failure::NotAllowed { why },
            code => code.map_or(Failure::Misunderstood, |code| refused(code, 0)),
        },
        error => Failure::NoAnswer(error),
    }
}
