//! The bytes of messages, in whatever memory they are.

use core::ops::Deref;
use std::sync::Arc;

use farcall_driver::{Block, Loan};

/// A payload on its way out.
#[derive(Debug)]
pub enum Outgoing<'a> {
    /// Bytes that are copied before the call returns.
    Slice(&'a [u8]),
    /// Memory of the transport's own driver, sent without a copy where the driver can.
    Loan(Loan),
    /// Memory that its holders share, such as a payload that is passed on to several peers. Packets are made of it in
    /// place; rings get a copy.
    Shared(Payload),
}

impl<'a> Outgoing<'a> {
    /// Bytes that are only borrowed, or else the payload again. Nothing is left then that would have to be dropped, which the
    /// compiler does not see by itself.
    #[inline(always)]
    pub fn into_slice(self) -> Result<&'a [u8], Self> {
        match self {
            Self::Slice(bytes) => {
                core::mem::forget(self);
                Ok(bytes)
            }
            other => Err(other),
        }
    }
}

impl Outgoing<'_> {
    /// The payload's length in bytes.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether the payload has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Slice(bytes) => bytes,
            Self::Loan(loan) => loan,
            Self::Shared(payload) => payload,
        }
    }
}

/// A payload that arrived, in whatever memory it arrived in.
///
/// It is handed on by reference: on the path of small messages even a copy of these few words would be felt.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// In the driver's memory, valid while the sink looks at it.
    Borrowed(&'a [u8]),
    /// In memory that can be kept.
    Owned(Payload),
}

impl Incoming<'_> {
    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(payload) => payload,
        }
    }

    /// The payload in memory that can be kept; copied only if it lies in the driver's.
    pub fn take(&self) -> Payload {
        match self {
            Self::Borrowed(bytes) => Payload::from(bytes.to_vec()),
            Self::Owned(payload) => payload.clone(),
        }
    }
}

/// A received payload in memory that its holders keep; clones share it.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Bytes in this process.
    Bytes(Arc<Vec<u8>>),
    /// The sender's memory; the sender has it back when the last clone is dropped.
    Block(Arc<Block>),
}

impl Payload {
    /// The bytes as a vector, without a copy: when they are bytes of this process and nobody else holds them. So memory
    /// that was given to a send comes back when the send is complete.
    pub fn into_vec(self) -> Result<Vec<u8>, Self> {
        match self {
            Self::Bytes(bytes) => Arc::try_unwrap(bytes).map_err(Self::Bytes),
            Self::Block(_) => Err(self),
        }
    }
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

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Arc::new(bytes))
    }
}

impl From<Block> for Payload {
    fn from(block: Block) -> Self {
        Self::Block(Arc::new(block))
    }
}

/// The most bytes of a [`Short`].
const SHORT_BYTES_MAX: usize = 15;

/// The bytes of a short payload themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Short {
    length: u8,
    bytes: [u8; SHORT_BYTES_MAX],
}

impl Short {
    /// A copy of the bytes; `None` when they are too many.
    #[inline]
    pub fn new(payload: &[u8]) -> Option<Self> {
        let mut short = Self::default();
        short.set(payload).then_some(short)
    }

    /// Copies the bytes here; false when they are too many.
    #[inline]
    pub fn set(&mut self, payload: &[u8]) -> bool {
        let length = payload.len();
        if length > SHORT_BYTES_MAX {
            return false;
        }
        // Two copies that overlap, of a length that is known, are less than a call of one that is not.
        if let (Some(head), Some(tail)) = (payload.first_chunk::<8>(), payload.last_chunk::<8>()) {
            self.bytes[..8].copy_from_slice(head);
            self.bytes[length - 8..length].copy_from_slice(tail);
        } else if let (Some(head), Some(tail)) = (payload.first_chunk::<4>(), payload.last_chunk::<4>()) {
            self.bytes[..4].copy_from_slice(head);
            self.bytes[length - 4..length].copy_from_slice(tail);
        } else {
            for (to, from) in self.bytes.iter_mut().zip(payload) {
                *to = *from;
            }
        }
        self.length = length as u8;
        true
    }
}

impl Deref for Short {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A received payload that is kept until somebody asks for it.
#[derive(Debug)]
pub enum Kept {
    /// A copy that needs no memory of its own.
    Short(Short),
    /// A copy.
    Copy(Vec<u8>),
    /// Memory that could be kept as it was.
    Shared(Payload),
}

impl Kept {
    /// The payload as it comes in events.
    #[inline]
    pub fn as_incoming(&self) -> Incoming<'_> {
        match self {
            Self::Short(short) => Incoming::Borrowed(short),
            Self::Copy(bytes) => Incoming::Borrowed(bytes),
            Self::Shared(payload) => Incoming::Owned(payload.clone()),
        }
    }
}

impl Deref for Kept {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(short) => short,
            Self::Copy(bytes) => bytes,
            Self::Shared(payload) => payload,
        }
    }
}

impl From<&Incoming<'_>> for Kept {
    #[inline]
    fn from(payload: &Incoming<'_>) -> Self {
        match payload {
            Incoming::Borrowed(bytes) => match Short::new(bytes) {
                Some(short) => Self::Short(short),
                None => Self::Copy(bytes.to_vec()),
            },
            Incoming::Owned(payload) => Self::Shared(payload.clone()),
        }
    }
}

impl From<Kept> for Payload {
    fn from(kept: Kept) -> Self {
        match kept {
            Kept::Short(short) => short.to_vec().into(),
            Kept::Copy(bytes) => bytes.into(),
            Kept::Shared(payload) => payload,
        }
    }
}

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

impl<'a> From<&'a [u8]> for Outgoing<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Slice(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Outgoing<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Slice(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Outgoing<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Slice(bytes)
    }
}

impl From<Payload> for Outgoing<'_> {
    fn from(payload: Payload) -> Self {
        Self::Shared(payload)
    }
}

impl From<Loan> for Outgoing<'_> {
    fn from(loan: Loan) -> Self {
        Self::Loan(loan)
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
