//! How requests of a client fail.

use super::slot::Stopped;
use crate::endpoint::CallError;
use crate::names::{NamedCallError, NoServer, WatchError};

/// Why a call of a client has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The client has its maximum of operations in flight, and none ended in time. Nothing ran.
    #[error("{calls_max} operations of this client are in flight, the limit; await some first")]
    Full {
        /// The client's limit.
        calls_max: usize,
    },
    /// The thread that owns the endpoint has ended, or the endpoint is gone. The request may have run.
    #[error("the client was stopped")]
    Stopped,
    /// The name is none, or cannot be looked up. Nothing ran.
    #[error(transparent)]
    Name(#[from] WatchError),
    /// No server of the name could be called before the deadline. Nothing ran.
    #[error(transparent)]
    NoServer(#[from] NoServer),
    /// The call ended without an answer.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl From<NamedCallError> for ClientError {
    fn from(error: NamedCallError) -> Self {
        match error {
            NamedCallError::NoServer(error) => Self::NoServer(error),
            NamedCallError::Call(error) => Self::Call(error),
        }
    }
}

impl<T> Stopped for Result<T, ClientError> {
    fn stopped() -> Self {
        Err(ClientError::Stopped)
    }
}
