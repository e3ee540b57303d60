//! Failures as exceptions of `farcall.errors`, whose classes say what a program can do about them.

use std::fmt::Display;

use farcall::bootstrap::{BarrierError, CompareError};
use farcall::{
    CallError, CallRefused, ConnectError, DownReason, EndpointError, ListenError, LoanError, NamedCallError,
    NodeError, ReceiveError, SendError, SendRefused, WatchError,
};
use farcall_collective::{CollectiveError as GroupFailure, GroupError};
use farcall_kv::daemon::{SlotFailure, SlotRefusal};
use farcall_kv::slots::AttachError;
use farcall_kv::store::{CreateTableError, IncrementError, ReadError, WriteError};
use farcall_kv::wire::NotReplicated;
use farcall_kv::{CreateTableAtError, Failure};
use pyo3::prelude::*;

/// The code with which a handler of Python that raised refuses.
pub const HANDLER_FAILED: u8 = 255;

/// The classes of the package; each is imported when it is first raised.
mod classes {
    use pyo3::import_exception;

    import_exception!(farcall.errors, AbandonedError);
    import_exception!(farcall.errors, CancelledError);
    import_exception!(farcall.errors, ClosedError);
    import_exception!(farcall.errors, ClusterError);
    import_exception!(farcall.errors, CollectiveError);
    import_exception!(farcall.errors, ForkedError);
    import_exception!(farcall.errors, HandlerError);
    import_exception!(farcall.errors, InHandlerError);
    import_exception!(farcall.errors, LeavingError);
    import_exception!(farcall.errors, LevelRefusedError);
    import_exception!(farcall.errors, NoServerError);
    import_exception!(farcall.errors, NotAllowedError);
    import_exception!(farcall.errors, NotConnectedError);
    import_exception!(farcall.errors, PeerClosedError);
    import_exception!(farcall.errors, PeerDeadError);
    import_exception!(farcall.errors, PeerDownError);
    import_exception!(farcall.errors, PeerRestartedError);
    import_exception!(farcall.errors, RefusedError);
    import_exception!(farcall.errors, ResourceError);
    import_exception!(farcall.errors, SettingsError);
    import_exception!(farcall.errors, StoreError);
    import_exception!(farcall.errors, StoreFullError);
    import_exception!(farcall.errors, TimedOutError);
    import_exception!(farcall.errors, TooLongError);
    import_exception!(farcall.errors, TooManyError);
    import_exception!(farcall.errors, TruncatedError);
    import_exception!(farcall.errors, UnknownServiceError);
    import_exception!(farcall.errors, UnknownTableError);
    import_exception!(farcall.errors, UnreachableError);
    import_exception!(farcall.errors, UsageError);
    import_exception!(farcall.errors, WrongThreadError);
    import_exception!(farcall.errors, WrongVersionError);
}

use classes::*;
pub use classes::{
    ClosedError, ClusterError, ForkedError, InHandlerError, ResourceError, UsageError, WrongThreadError,
};

/// A failure of the library as the exception that it is in Python.
pub trait Raise {
    fn raise(self) -> PyErr;
}

/// The outcome of the library as that of a function of Python.
pub fn raised<T, E: Raise>(outcome: Result<T, E>) -> PyResult<T> {
    outcome.map_err(Raise::raise)
}

fn text(error: impl Display) -> String {
    error.to_string()
}

fn ended(reason: &DownReason, sentence: String) -> PyErr {
    match reason {
        DownReason::Dead => PeerDeadError::new_err(sentence),
        DownReason::Closed => PeerClosedError::new_err(sentence),
        DownReason::Restarted => PeerRestartedError::new_err(sentence),
        DownReason::Unreachable => UnreachableError::new_err(sentence),
        _ => PeerDownError::new_err(sentence),
    }
}

impl Raise for CallError {
    fn raise(self) -> PyErr {
        let sentence = text(&self);
        match self {
            Self::TimedOut => TimedOutError::new_err(sentence),
            Self::Cancelled => CancelledError::new_err(sentence),
            Self::PeerDown(reason) => ended(&reason, sentence),
            Self::UnknownService => UnknownServiceError::new_err(sentence),
            Self::Leaving => LeavingError::new_err(sentence),
            Self::NotAllowed { .. } => NotAllowedError::new_err(sentence),
            Self::Abandoned => AbandonedError::new_err(sentence),
            Self::Refused { code: HANDLER_FAILED, why } => {
                let sentence = format!("the peer's handler raised an exception{why}");
                HandlerError::new_err((sentence, HANDLER_FAILED, String::from(&*why)))
            }
            Self::Refused { code, why } => RefusedError::new_err((sentence, code, String::from(&*why))),
            Self::AnswerTooLong | Self::NotSent(CallRefused::TooLong { .. }) => {
                TooLongError::new_err(sentence)
            }
            Self::NotSent(CallRefused::Down) => NotConnectedError::new_err(sentence),
            Self::NotSent(CallRefused::TooManyCalls { .. }) | Self::TooManyCalls { .. } => {
                TooManyError::new_err(sentence)
            }
        }
    }
}

impl Raise for SendError {
    fn raise(self) -> PyErr {
        let sentence = text(&self);
        match self {
            Self::TimedOut => TimedOutError::new_err(sentence),
            Self::Cancelled => CancelledError::new_err(sentence),
            Self::PeerDown(reason) => ended(&reason, sentence),
            Self::NotSent(SendRefused::TooLong { .. }) => TooLongError::new_err(sentence),
            Self::NotSent(SendRefused::Down) => NotConnectedError::new_err(sentence),
            Self::TooMany { .. } => TooManyError::new_err(sentence),
        }
    }
}

impl Raise for ReceiveError {
    fn raise(self) -> PyErr {
        let sentence = text(&self);
        match self {
            Self::TimedOut => TimedOutError::new_err(sentence),
            Self::Cancelled => CancelledError::new_err(sentence),
            Self::Truncated { .. } => TruncatedError::new_err(sentence),
            Self::PeerDown(reason) => ended(&reason, sentence),
            Self::TooMany { .. } => TooManyError::new_err(sentence),
        }
    }
}

impl Raise for NamedCallError {
    fn raise(self) -> PyErr {
        match self {
            Self::NoServer(error) => NoServerError::new_err(text(error)),
            Self::Call(error) => error.raise(),
        }
    }
}

impl Raise for farcall::NoServer {
    fn raise(self) -> PyErr {
        NamedCallError::NoServer(self).raise()
    }
}

impl Raise for NodeError {
    fn raise(self) -> PyErr {
        let sentence = text(&self);
        match self {
            Self::Settings(_) => SettingsError::new_err(sentence),
            Self::Registry { .. } | Self::Names(_) | Self::Bootstrap(_) => ClusterError::new_err(sentence),
        }
    }
}

impl Raise for EndpointError {
    fn raise(self) -> PyErr {
        let sentence = text(&self);
        match self {
            Self::Unknown(_) | Self::NoInterface { .. } | Self::Policy(_) => SettingsError::new_err(sentence),
            Self::Resources { .. } => ResourceError::new_err(sentence),
            Self::Publish(_) => ClusterError::new_err(sentence),
        }
    }
}

impl Raise for LoanError {
    fn raise(self) -> PyErr {
        match self {
            Self::TooLong { .. } => TooLongError::new_err(text(self)),
            Self::Exhausted => ResourceError::new_err(text(self)),
        }
    }
}

impl Raise for std::io::Error {
    fn raise(self) -> PyErr {
        ResourceError::new_err(format!("the system refused: {self}"))
    }
}

impl Raise for GroupFailure {
    fn raise(self) -> PyErr {
        CollectiveError::new_err(text(self))
    }
}

/// Failures of which a program can only read the sentence.
macro_rules! raise_as {
    ($class:ident: $($error:ty),+) => {$(
        impl Raise for $error {
            fn raise(self) -> PyErr {
                $class::new_err(text(self))
            }
        }
    )+};
}

raise_as!(ClusterError: BarrierError, CompareError, ListenError, WatchError);
raise_as!(NotConnectedError: ConnectError);
raise_as!(SettingsError: farcall::UnknownTransport, farcall::parameters::SettingsError);
raise_as!(CollectiveError: GroupError);
raise_as!(StoreError: farcall_kv::LimitError);

impl<E: Raise + core::error::Error> Raise for Failure<E> {
    fn raise(self) -> PyErr {
        match self {
            Self::Store(error) => error.raise(),
            Self::NoAnswer(error) => error.raise(),
            Self::NotConnected(error) => error.raise(),
            Self::Busy => TooManyError::new_err(text(self)),
            Self::NotAllowed { .. } => NotAllowedError::new_err(text(self)),
            // It may have happened.
            Self::NotReplicated(NotReplicated::LevelNotReached) => TimedOutError::new_err(text(self)),
            Self::WrongShard | Self::Misunderstood | Self::Forgotten | Self::NotReplicated(_) => {
                StoreError::new_err(text(self))
            }
        }
    }
}

impl Raise for ReadError {
    fn raise(self) -> PyErr {
        match self {
            Self::UnknownTable => UnknownTableError::new_err(text(self)),
            Self::DiskFailed | Self::Collection | Self::TooLong => StoreError::new_err(text(self)),
        }
    }
}

impl Raise for WriteError {
    fn raise(self) -> PyErr {
        match self {
            Self::UnknownTable => UnknownTableError::new_err(text(self)),
            Self::WrongVersion { version } => WrongVersionError::new_err((text(self), version)),
            Self::OutOfMemory | Self::LogFull => StoreFullError::new_err(text(self)),
            Self::DiskFailed | Self::SameHash | Self::TooLong => StoreError::new_err(text(self)),
        }
    }
}

impl Raise for IncrementError {
    fn raise(self) -> PyErr {
        match self {
            Self::Write(error) => error.raise(),
            Self::NotANumber | Self::Overflow => StoreError::new_err(text(self)),
        }
    }
}

impl Raise for CreateTableError {
    fn raise(self) -> PyErr {
        match self {
            Self::TooMany => StoreFullError::new_err(text(self)),
            Self::Limit(_) | Self::SameNumber => StoreError::new_err(text(self)),
        }
    }
}

impl Raise for CreateTableAtError {
    fn raise(self) -> PyErr {
        match self {
            Self::Table(error) => error.raise(),
            Self::NoLog | Self::WeakLog | Self::WeakTable | Self::OlderStore => {
                LevelRefusedError::new_err(text(self))
            }
            Self::LogFull => StoreFullError::new_err(text(self)),
            Self::DiskFailed => StoreError::new_err(text(self)),
        }
    }
}

impl Raise for AttachError {
    fn raise(self) -> PyErr {
        match self {
            Self::NotThere => NoServerError::new_err(text(self)),
            Self::Refused { .. } | Self::Unusable { .. } => ResourceError::new_err(text(self)),
        }
    }
}

impl Raise for SlotFailure<SlotRefusal> {
    fn raise(self) -> PyErr {
        match self {
            Self::Store(SlotRefusal::Read(error)) => error.raise(),
            Self::Store(SlotRefusal::Write(error)) => error.raise(),
            Self::RequestTooLong { .. } | Self::AnswerTooLong => TooLongError::new_err(text(self)),
            Self::Full { .. } | Self::Busy => TooManyError::new_err(text(self)),
            Self::NotAllowed => NotAllowedError::new_err(text(self)),
            // It may have happened.
            Self::TimedOut { .. } | Self::NoAnswer | Self::NotReplicated(NotReplicated::LevelNotReached) => {
                TimedOutError::new_err(text(self))
            }
            Self::DaemonGone(_) => PeerDeadError::new_err(text(self)),
            Self::NotPassedOn => NotConnectedError::new_err(text(self)),
            Self::NotReplicated(_) | Self::Misunderstood => StoreError::new_err(text(self)),
        }
    }
}
