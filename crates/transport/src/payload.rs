//! The bytes of messages, in whatever memory they are.

use core::ops::Deref;
use std::sync::Arc;

use farcall_driver::{Block, Loan};

use crate::home::Home;

/// A payload on its way out.
#[derive(Debug)]
pub enum Outgoing<'a> {
    /// Bytes that are copied before the call returns.
    Slice(&'a [u8]),
    /// Memory of the transport's own driver, sent without a copy where the driver can.
    Loan(Loan),
    /// Memory that its holders share, such as a payload that is passed on to several peers. Packets are made
    /// of it in place; rings get a copy.
    Shared(Payload),
}

/// A payload on its way out that is given away.
#[derive(Debug)]
pub enum Owned {
    /// As [`Outgoing::Loan`].
    Loan(Loan),
    /// As [`Outgoing::Shared`].
    Shared(Payload),
}

impl Owned {
    /// The payload's length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Loan(loan) => loan.len(),
            Self::Shared(payload) => payload.len(),
        }
    }

    /// Whether the payload has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Owned> for Outgoing<'_> {
    fn from(owned: Owned) -> Self {
        match owned {
            Owned::Loan(loan) => Self::Loan(loan),
            Owned::Shared(payload) => Self::Shared(payload),
        }
    }
}

impl<'a> Outgoing<'a> {
    /// Bytes that are only borrowed, or else memory that is given away. Of borrowed bytes nothing is left
    /// that would have to be dropped, which the compiler does not see by itself.
    #[inline(always)]
    pub fn into_slice(self) -> Result<&'a [u8], Owned> {
        match self {
            Self::Slice(bytes) => {
                core::mem::forget(self);
                Ok(bytes)
            }
            Self::Loan(loan) => Err(Owned::Loan(loan)),
            Self::Shared(payload) => Err(Owned::Shared(payload)),
        }
    }
}

impl Outgoing<'_> {
    /// Memory that outlives the caller's: borrowed bytes are copied.
    pub fn into_owned(self) -> Owned {
        match self.into_slice() {
            Ok(bytes) => Owned::Shared(Payload::from(bytes.to_vec())),
            Err(owned) => owned,
        }
    }

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

impl<'a> From<&'a [u8]> for Outgoing<'a> {
    #[inline]
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

impl<'a> From<&'a str> for Outgoing<'a> {
    fn from(text: &'a str) -> Self {
        Self::Slice(text.as_bytes())
    }
}

impl<'a> From<&'a String> for Outgoing<'a> {
    fn from(text: &'a String) -> Self {
        Self::Slice(text.as_bytes())
    }
}

impl From<Vec<u8>> for Outgoing<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Shared(Payload::from(bytes))
    }
}

impl From<String> for Outgoing<'_> {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<Box<[u8]>> for Outgoing<'_> {
    fn from(bytes: Box<[u8]>) -> Self {
        bytes.into_vec().into()
    }
}

/// Without a copy if no other holder shares the bytes.
#[cfg(feature = "bytes")]
impl From<bytes::Bytes> for Outgoing<'_> {
    fn from(bytes: bytes::Bytes) -> Self {
        Vec::from(bytes).into()
    }
}

#[cfg(feature = "bytes")]
impl<'a> From<&'a bytes::Bytes> for Outgoing<'a> {
    fn from(bytes: &'a bytes::Bytes) -> Self {
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

/// A payload that arrived, in whatever memory it arrived in.
///
/// It owns nothing, so that nothing has to be dropped, and is two words. Still it is handed on by reference
/// where it passes through layers: on the path of small messages even copies of two words would be felt.
#[derive(Clone, Copy, Debug)]
pub enum Incoming<'a> {
    /// In the driver's memory, valid while the sink looks at it.
    Borrowed(&'a [u8]),
    /// In memory that can be kept.
    Owned(&'a Payload),
}

impl<'a> Incoming<'a> {
    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &'a [u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(payload) => payload,
        }
    }

    /// The payload in memory that can be kept; copied only if it lies in the driver's.
    pub fn take(&self) -> Payload {
        match self {
            Self::Borrowed(bytes) => Payload::from(bytes.to_vec()),
            Self::Owned(payload) => Payload::clone(payload),
        }
    }
}

/// A received payload in memory that its holders keep; clones share it.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Bytes in this process.
    Bytes(Arc<HeapBytes>),
    /// The sender's memory; the sender has it back when the last clone is dropped.
    Block(Block),
}

impl Payload {
    /// Bytes of a long message, whose memory goes back to this home.
    pub(crate) fn with_home(home: &Arc<Home>, bytes: Vec<u8>) -> Self {
        Self::Bytes(Arc::new(HeapBytes { bytes, home: Some(Arc::clone(home)) }))
    }

    /// The bytes as a vector, without a copy: when they are bytes of this process and nobody else holds them.
    /// So memory that was given to a send comes back when the send is complete.
    pub fn into_vec(self) -> Result<Vec<u8>, Self> {
        match self {
            Self::Bytes(bytes) => Arc::try_unwrap(bytes).map(HeapBytes::into_vec).map_err(Self::Bytes),
            Self::Block(_) => Err(self),
        }
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => &bytes.bytes,
            Self::Block(block) => block,
        }
    }
}

/// Bytes in this process. The memory of a long message goes back to the transport that it came from, unless
/// it is taken.
#[derive(Debug)]
pub struct HeapBytes {
    bytes: Vec<u8>,
    home: Option<Arc<Home>>,
}

impl HeapBytes {
    fn into_vec(mut self) -> Vec<u8> {
        self.home = None;
        core::mem::take(&mut self.bytes)
    }
}

impl Drop for HeapBytes {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give_back(core::mem::take(&mut self.bytes));
        }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Arc::new(HeapBytes { bytes, home: None }))
    }
}

impl From<Block> for Payload {
    #[inline]
    fn from(block: Block) -> Self {
        Self::Block(block)
    }
}
