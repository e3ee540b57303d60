//! Payloads that outlive the poll in which they arrived.

use core::ops::{Deref, RangeInclusive};

use farcall_driver::copy_to_hot;
use farcall_protocol::words_of;
use zerocopy::{Immutable, IntoBytes};

use crate::{Incoming, Payload, Spare, Spares};

/// What is shorter or longer is copied as the C library does. Down to 4 KiB, futures between near cores would
/// take a fifth less time, but between far ones a twelfth more: their sender is the slower side, and a
/// receiver that comes close to it takes its lines away. What is longer does not lie in the nearest cache,
/// together with its copy.
const HOT_COPY_BYTES: RangeInclusive<usize> = 8 << 10..=24 << 10;

const LENGTH_SHIFT: u32 = u64::BITS - 8;

/// The bytes of a short payload themselves.
///
/// They are held as two words, which travel in registers while futures and messages are moved about. Bytes,
/// or an array, would be written in one form and read in another each time, for which a processor stalls.
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
pub struct Short {
    first: u64,
    /// The other bytes, clear ones, and in the last byte how many there are in all.
    second: u64,
}

impl Short {
    /// The most bytes: two words but for the length.
    pub const BYTES_MAX: usize = 15;

    /// A copy of the bytes; `None` when they are too many.
    #[inline]
    pub fn new(payload: &[u8]) -> Option<Self> {
        let length = payload.len();
        if length > Self::BYTES_MAX {
            return None;
        }
        let [first, second] = words_of(payload)?;
        let second = second | (length as u64) << LENGTH_SHIFT;
        Some(Self { first: first.to_le(), second: second.to_le() })
    }

    #[inline]
    fn length(&self) -> usize {
        (u64::from_le(self.second) >> LENGTH_SHIFT) as usize
    }
}

impl Deref for Short {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.as_bytes()[..self.length()]
    }
}

/// A copy of a payload that is too long to be a [`Short`].
///
/// It is a single word: a vector is three, which would be stored and loaded again, with stalls, at each of
/// the moves from the poll that makes the copy to the spares that get its memory back.
#[derive(Debug, Default)]
pub struct Copied(
    /// Nothing until something was copied.
    #[expect(clippy::box_collection, reason = "as said above")]
    Option<Box<Vec<u8>>>,
);

impl Copied {
    /// Makes it a copy of `payload`, in its own memory, which may have been in use a moment ago.
    #[inline]
    fn fill(&mut self, payload: &[u8], is_hot: bool) {
        let bytes = self.0.get_or_insert_default();
        if is_hot && HOT_COPY_BYTES.contains(&payload.len()) {
            return copy_to_hot(bytes, payload);
        }
        bytes.clear();
        bytes.extend_from_slice(payload);
    }

    /// The bytes, without another copy.
    pub fn into_vec(self) -> Vec<u8> {
        self.0.map_or_else(Vec::new, |bytes| *bytes)
    }
}

impl From<Vec<u8>> for Copied {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Some(Box::new(bytes)))
    }
}

impl Deref for Copied {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl Spare for Copied {
    #[inline]
    fn capacity(&self) -> usize {
        self.0.as_ref().map_or(0, |bytes| bytes.capacity())
    }

    #[inline]
    fn clear(&mut self) {
        if let Some(bytes) = &mut self.0 {
            bytes.clear();
        }
    }
}

impl Spares<Copied> {
    /// A copy of a payload in spare memory, if there is some.
    #[inline]
    pub fn copy(&mut self, payload: &[u8]) -> Copied {
        let is_hot = self.is_next_hot(payload.len());
        let mut copy = self.take(payload.len());
        copy.fill(payload, is_hot);
        copy
    }
}

/// A received payload that is kept until somebody asks for it.
#[derive(Debug)]
pub enum Kept {
    /// A copy that needs no memory of its own.
    Short(Short),
    /// A copy.
    Copy(Copied),
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
            Self::Shared(payload) => Incoming::Owned(payload),
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
                None => Self::Copy(Copied::from(bytes.to_vec())),
            },
            Incoming::Owned(payload) => Self::Shared(Payload::clone(payload)),
        }
    }
}

impl Default for Kept {
    /// Nothing.
    fn default() -> Self {
        Self::Short(Short::default())
    }
}

impl From<Kept> for Payload {
    fn from(kept: Kept) -> Self {
        match kept {
            Kept::Short(short) => short.to_vec().into(),
            Kept::Copy(copied) => copied.into_vec().into(),
            Kept::Shared(payload) => payload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_whole_whether_their_memory_was_in_use_a_moment_ago_or_not() {
        let mut spares = Spares::<Copied>::default();
        for bytes in [1, 8191, 8192, 24 << 10, (24 << 10) + 1, 10_000, 300] {
            let payload: Vec<u8> = (0..bytes).map(|at: usize| (at % 251) as u8 + 1).collect();
            let (first, second) = (spares.copy(&payload), spares.copy(&payload));
            assert_eq!((&first[..], &second[..]), (&payload[..], &payload[..]));
            spares.keep(second);
            spares.keep(first);
        }
    }

    #[test]
    fn short_payloads_are_kept_as_they_are() {
        let bytes: Vec<u8> = (1..=Short::BYTES_MAX as u8).map(|byte| byte.wrapping_mul(113)).collect();
        for length in 0..=Short::BYTES_MAX {
            let short = Short::new(&bytes[..length]).expect("it fits");
            assert_eq!(&*short, &bytes[..length]);
        }
        assert!(Short::new(&[0; Short::BYTES_MAX + 1]).is_none());
        assert!(Short::default().is_empty());
    }
}
