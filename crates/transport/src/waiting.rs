//! Payloads that wait for room.

use farcall_driver::Loan;

use crate::{Outgoing, Payload, Spares};

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

    /// As [`From`], in a spare buffer if bytes have to be copied. Where a thousand messages wait, to allocate for each costs as
    /// much as to copy it.
    pub fn in_spare(payload: Outgoing<'_>, spares: &mut Spares) -> Self {
        match payload {
            Outgoing::Slice(bytes) => {
                let mut buffer = spares.take(bytes.len());
                buffer.extend_from_slice(bytes);
                Self::Bytes(buffer)
            }
            other => other.into(),
        }
    }

    /// Offers the payload once more to whoever sends it: `send` gives it back if it cannot take it. What is left of one that was
    /// sent is a buffer to use again.
    pub fn offer(self, send: impl FnOnce(Outgoing<'_>) -> Result<(), Outgoing<'_>>) -> Result<Vec<u8>, Self> {
        let refused = match self {
            // Given back, they are still the same vector, or in a loan by now.
            Self::Bytes(bytes) => match send(Outgoing::Slice(&bytes)) {
                Ok(()) => return Ok(bytes),
                Err(Outgoing::Loan(loan)) => Self::Loan(loan),
                Err(_) => Self::Bytes(bytes),
            },
            Self::Loan(loan) => match send(Outgoing::Loan(loan)) {
                Ok(()) => return Ok(Vec::new()),
                Err(refused) => refused.into(),
            },
            Self::Shared(payload) => match send(Outgoing::Shared(payload)) {
                Ok(()) => return Ok(Vec::new()),
                Err(refused) => refused.into(),
            },
        };
        Err(refused)
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
