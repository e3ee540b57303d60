//! Payloads that wait for room.

use farcall_driver::Loan;

use crate::{Outgoing, Payload};

/// The payload of a message that waits for room or for its session.
pub enum WaitingPayload {
    Bytes(Vec<u8>),
    Loan(Loan),
    Shared(Payload),
}

impl WaitingPayload {
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Loan(loan) => loan.len(),
            Self::Shared(payload) => payload.len(),
        }
    }

    /// Offers the payload once more to whoever sends it: `send` gives it back if it cannot take it.
    pub fn offer(self, send: impl FnOnce(Outgoing<'_>) -> Result<(), Outgoing<'_>>) -> Result<(), Self> {
        match self {
            // Given back, they are still the same vector, or in a loan by now.
            Self::Bytes(bytes) => match send(Outgoing::Slice(&bytes)) {
                Ok(()) => Ok(()),
                Err(Outgoing::Loan(loan)) => Err(Self::Loan(loan)),
                Err(_) => Err(Self::Bytes(bytes)),
            },
            Self::Loan(loan) => send(Outgoing::Loan(loan)).map_err(Self::from),
            Self::Shared(payload) => send(Outgoing::Shared(payload)).map_err(Self::from),
        }
    }
}

impl From<Outgoing<'_>> for WaitingPayload {
    fn from(payload: Outgoing<'_>) -> Self {
        match payload {
            Outgoing::Slice(bytes) => Self::Bytes(bytes.to_vec()),
            Outgoing::Loan(loan) => Self::Loan(loan),
            Outgoing::Shared(payload) => Self::Shared(payload),
        }
    }
}

/// The end of the wait; bytes that were copied once are not copied again.
impl From<WaitingPayload> for Outgoing<'_> {
    fn from(payload: WaitingPayload) -> Self {
        match payload {
            WaitingPayload::Bytes(bytes) => Self::Shared(bytes.into()),
            WaitingPayload::Loan(loan) => Self::Loan(loan),
            WaitingPayload::Shared(payload) => Self::Shared(payload),
        }
    }
}
