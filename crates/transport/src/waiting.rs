//! Payloads that wait for room.
//!
//! **What waits for room in a ring holds no block**, neither of our own memory nor of a peer's: its bytes are
//! copied ([`WaitingPayload::without_block`]). Messages of a session leave in their order, so the first that
//! waits may need a block that those behind it would hold; and two ends that pass on what the other lent
//! would each hold the block that the other waits for. So block memory is held by users, and by peers until
//! these have read it, which waits for nothing of ours.

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

    /// As [`From`], in a spare buffer if bytes have to be copied. Where a thousand messages wait, to allocate
    /// for each costs as much as to copy it.
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

    /// As [`WaitingPayload::in_spare`], for what waits in a ring: the bytes of a loan or of a peer's block
    /// are copied too.
    pub fn without_block(payload: Outgoing<'_>, spares: &mut Spares) -> Self {
        match payload {
            Outgoing::Shared(Payload::Bytes(_)) => payload.into(),
            _ => Self::in_spare(Outgoing::Slice(payload.as_slice()), spares),
        }
    }

    /// Offers the payload to `send` once more. One that is given back stays as it was, whatever it was copied
    /// into meanwhile. Of one that was sent the buffer is returned, to be used again.
    pub fn offer(self, send: impl FnOnce(Outgoing<'_>) -> Result<(), Outgoing<'_>>) -> Result<Vec<u8>, Self> {
        let refused = match self {
            Self::Bytes(bytes) => match send(Outgoing::Slice(&bytes)) {
                Ok(()) => return Ok(bytes),
                Err(_) => Self::Bytes(bytes),
            },
            Self::Loan(loan) => match send(Outgoing::Loan(loan)) {
                Ok(()) => return Ok(Vec::new()),
                Err(refused) => refused.into(),
            },
            Self::Shared(payload) => match send(Outgoing::Shared(payload.clone())) {
                Ok(()) => return Ok(Vec::new()),
                Err(_) => Self::Shared(payload),
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
