//! Payloads that outlive the poll in which they arrived.

use core::ops::Deref;

use crate::{Incoming, Payload};

/// The most bytes of a [`Short`].
const SHORT_BYTES_MAX: usize = 15;

/// The bytes of a short payload themselves. They come first: what was moved a moment ago is read from there without a stall,
/// and from an odd place in it is not.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Short {
    bytes: [u8; SHORT_BYTES_MAX],
    length: u8,
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
