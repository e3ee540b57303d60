//! Entries: what a call, a response or a message is in a record, and how its payload gets there.
//!
//! Most payloads are a word or two. Written in place, without the call of a function that copies, they leave
//! their callers nothing to come back to, so that these keep no registers.

use farcall_driver::{BlockDescriptor, LaneSender, RECORD_HEADER_BYTES};
use farcall_protocol::matching::Tag;
use farcall_protocol::ring::{EntryHeader, EntryKind, WORD_BYTES, padded};

use super::session::SendHalf;

/// Payloads up to this are copied in place: two words.
pub const BRIEF_BYTES: usize = 2 * WORD_BYTES;

/// Payloads from this on may go to their place at once, if the driver knows that this is faster.
const LONG_BYTES_MIN: usize = 512;

/// What the header of an entry says of its message.
#[derive(Clone, Copy, Debug)]
pub struct EntryHead {
    pub direction: Direction,
    /// The call's number or the tag.
    pub call: u32,
    /// The service or the status; 0 with a tag.
    pub selector: u16,
}

/// Whether a message asks, answers or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Request,
    Response,
    OneWay,
}

impl EntryHead {
    /// Of a message with a tag.
    #[inline]
    pub fn tagged(tag: Tag) -> Self {
        Self { direction: Direction::OneWay, call: tag.0, selector: 0 }
    }

    /// The header of its entry when the payload is inside. Always inlined: its kind is known where it is
    /// made.
    #[inline(always)]
    pub fn inline_header(self, length: usize) -> u64 {
        let Self { direction, call, selector } = self;
        let kind = match direction {
            Direction::Request => EntryKind::Request,
            Direction::Response => EntryKind::Response,
            Direction::OneWay => EntryKind::Message,
        };
        EntryHeader { kind, call, selector, length: length as u32 }.to_word()
    }

    /// The header of its entry when that names a block.
    pub fn block_header(self) -> u64 {
        let Self { direction, call, selector } = self;
        let kind = match direction {
            Direction::Request => EntryKind::RequestBlock,
            Direction::Response => EntryKind::ResponseBlock,
            Direction::OneWay => EntryKind::MessageBlock,
        };
        EntryHeader { kind, call, selector, length: DESCRIPTOR_BYTES as u32 }.to_word()
    }
}

/// Bytes of a block's descriptor in an entry.
pub const DESCRIPTOR_BYTES: usize = 2 * WORD_BYTES;

/// A descriptor as the payload of an entry.
pub fn encode_descriptor(block: BlockDescriptor) -> [u8; DESCRIPTOR_BYTES] {
    let mut bytes = [0; DESCRIPTOR_BYTES];
    bytes[..WORD_BYTES].copy_from_slice(&block.offset.to_le_bytes());
    bytes[WORD_BYTES..].copy_from_slice(&block.length.to_le_bytes());
    bytes
}

impl<S> SendHalf<S> {
    /// Whether something has to be sent for which there was no room.
    #[inline]
    pub fn waits_for_room(&self) -> bool {
        !self.backlog.is_empty() || !self.messages.waiting.is_empty()
    }

    /// Whether a call or a response with this payload goes into records, and none waits that must go before
    /// it.
    #[inline]
    pub fn may_append(&self, payload: &[u8]) -> bool {
        payload.len() <= self.inline_bytes && self.backlog.is_empty()
    }

    /// Payloads up to this travel inside the ring.
    #[inline]
    pub fn inline_bytes_of(&self, direction: Direction) -> usize {
        match direction {
            Direction::Request | Direction::Response => self.inline_bytes,
            Direction::OneWay => self.message_inline_bytes,
        }
    }
}

impl<S: LaneSender> SendHalf<S> {
    /// Writes an entry into the open record; false when none is open, or it has no room.
    #[inline]
    pub fn put(&mut self, header: u64, payload: &[u8]) -> bool {
        self.put_as::<false>(header, payload)
    }

    /// As [`SendHalf::put`], without the call of a function that copies; false also when the payload is too
    /// long for that.
    #[inline(always)]
    pub fn put_brief(&mut self, header: u64, payload: &[u8]) -> bool {
        payload.len() <= BRIEF_BYTES && self.put_as::<true>(header, payload)
    }

    #[inline(always)]
    fn put_as<const IS_BRIEF: bool>(&mut self, header: u64, payload: &[u8]) -> bool {
        let open = &mut self.record;
        let end = open.used + WORD_BYTES + padded(payload.len());
        if end > open.room {
            return false;
        }
        let sender = self.sender.as_mut().expect("sessions with an open record are up");
        // No further than it is filled now: one bound less than of all that it may hold.
        let record = sender.record(open.offset, end);
        let at = open.used - RECORD_HEADER_BYTES;
        let (word, place) =
            record[at..].split_first_chunk_mut::<WORD_BYTES>().expect("it begins with its header");
        *word = header.to_le_bytes();
        if IS_BRIEF {
            copy_brief(place, payload);
        } else if payload.len() < LONG_BYTES_MIN {
            place[..payload.len()].copy_from_slice(payload);
        } else {
            sender.write_payload(open.offset, at + WORD_BYTES, payload);
        }
        open.used = end;
        open.entries += 1;
        true
    }
}

/// Copies up to [`BRIEF_BYTES`] to a place of as many whole words: two pieces that are the same, or overlap,
/// or meet.
#[inline(always)]
fn copy_brief(place: &mut [u8], payload: &[u8]) {
    match payload.len() {
        0 => {}
        1..4 => {
            for at in [0, payload.len() / 2, payload.len() - 1] {
                place[at] = payload[at];
            }
        }
        4..8 => copy_ends::<4>(place, payload),
        _ => copy_ends::<8>(place, payload),
    }
}

/// Copies the first `N` bytes and the last.
#[inline(always)]
fn copy_ends<const N: usize>(place: &mut [u8], payload: &[u8]) {
    let place = &mut place[..payload.len()];
    let (Some(first), Some(last)) = (payload.first_chunk::<N>(), payload.last_chunk::<N>()) else { return };
    place[..N].copy_from_slice(first);
    place[payload.len() - N..].copy_from_slice(last);
}
