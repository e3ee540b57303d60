//! Parts: what the members contribute, whose lengths may differ, and bundles of them that travel together.

use core::fmt;
use core::ops::{Deref, Range};
use std::rc::Rc;

use farcall::Message;

use crate::error::CollectiveError;
use crate::group::Group;

/// What one member contributed, read where it was received: parts that came in one message share its memory.
#[derive(Clone)]
pub struct Part<'e> {
    memory: Memory<'e>,
    range: Range<usize>,
}

#[derive(Clone)]
enum Memory<'e> {
    Message(Rc<Message<'e>>),
    Bytes(Rc<Vec<u8>>),
}

impl Memory<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Message(message) => message,
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl<'e> Part<'e> {
    pub(crate) fn of_message(message: Message<'e>) -> Self {
        Self { range: 0..message.len(), memory: Memory::Message(Rc::new(message)) }
    }

    pub(crate) fn of_bytes(bytes: Vec<u8>) -> Self {
        Self { range: 0..bytes.len(), memory: Memory::Bytes(Rc::new(bytes)) }
    }

    /// The parts of a bundle; `None` when it is not one of `count` parts.
    fn unbundle(&self, count: usize) -> Option<Vec<Self>> {
        let (lengths, _) = self.split_at_checked(count.checked_mul(LENGTH_BYTES)?)?;
        let mut start = self.range.start + lengths.len();
        let mut parts = Vec::with_capacity(count);
        for length in lengths.as_chunks().0 {
            let end = start.checked_add(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            if end > self.range.end {
                return None;
            }
            parts.push(Self { memory: self.memory.clone(), range: start..end });
            start = end;
        }
        (start == self.range.end).then_some(parts)
    }
}

impl Deref for Part<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory.bytes()[self.range.clone()]
    }
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Part({} bytes)", self.len())
    }
}

const LENGTH_BYTES: usize = size_of::<u64>();

/// A bundle: the lengths of its parts, 8 bytes each, and then the parts.
fn bundle<'p>(parts: impl Iterator<Item = &'p [u8]> + Clone) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.clone().map(|part| LENGTH_BYTES + part.len()).sum());
    for part in parts.clone() {
        bytes.extend((part.len() as u64).to_le_bytes());
    }
    parts.for_each(|part| bytes.extend(part));
    bytes
}

impl<'e> Group<'e> {
    /// The next message of a member, whatever its length.
    pub(crate) async fn receive(&self, from: u32) -> Result<Part<'e>, CollectiveError> {
        let segment_bytes = self.algorithms().segment_bytes;
        let first = self.receive_segment(from).await?;
        if first.len() < segment_bytes {
            return Ok(Part::of_message(first));
        }
        let mut bytes = first.to_vec();
        drop(first);
        loop {
            let segment = self.receive_segment(from).await?;
            bytes.extend(&segment[..]);
            if segment.len() < segment_bytes {
                return Ok(Part::of_bytes(bytes));
            }
        }
    }

    /// The next message of a member, which fills the buffer.
    pub(crate) async fn receive_into(&self, from: u32, buffer: &mut [u8]) -> Result<(), CollectiveError> {
        let (segment_bytes, expected) = (self.algorithms().segment_bytes, buffer.len());
        let mut bytes = 0;
        loop {
            let segment = self.receive_segment(from).await?;
            let place = buffer.get_mut(bytes..bytes + segment.len());
            bytes += segment.len();
            let Some(place) = place else {
                return Err(CollectiveError::Mismatch { member: from, bytes, expected });
            };
            place.copy_from_slice(&segment);
            if segment.len() < segment_bytes {
                break;
            }
        }
        if bytes == expected {
            Ok(())
        } else {
            Err(CollectiveError::Mismatch { member: from, bytes, expected })
        }
    }

    pub(crate) async fn send_bundle<'p>(
        &self,
        to: u32,
        parts: impl Iterator<Item = &'p [u8]> + Clone,
    ) -> Result<(), CollectiveError> {
        self.send(to, &bundle(parts)).await
    }

    pub(crate) async fn receive_bundle(
        &self,
        from: u32,
        count: usize,
    ) -> Result<Vec<Part<'e>>, CollectiveError> {
        let message = self.receive(from).await?;
        message.unbundle(count).ok_or(CollectiveError::Mismatch {
            member: from,
            bytes: message.len(),
            expected: count * LENGTH_BYTES,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_come_back_and_damaged_ones_are_refused() {
        let parts: [&[u8]; 4] = [b"one", b"", b"three", b"x"];
        let bytes = bundle(parts.iter().copied());
        let back = Part::of_bytes(bytes.clone()).unbundle(4).expect("a bundle of four");
        assert!(back.iter().zip(parts).all(|(part, expected)| **part == *expected));
        for count in [0, 3, 5, usize::MAX] {
            assert!(Part::of_bytes(bytes.clone()).unbundle(count).is_none(), "{count} parts");
        }
        for end in 0..bytes.len() {
            assert!(Part::of_bytes(bytes[..end].to_vec()).unbundle(4).is_none(), "{end} bytes");
        }
        let mut long = bytes.clone();
        long[7] = 0xff;
        assert!(Part::of_bytes(long).unbundle(4).is_none(), "a length beyond all memory");
    }
}
