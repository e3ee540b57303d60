//! The words of a record: one batch header, then entries.
//!
//! All are little-endian 64-bit words, so that a receiver reads each from shared memory exactly once.

use super::Violation;

/// Bytes of a word.
pub const WORD_BYTES: usize = 8;

/// Bits of a payload's length beside the kind of its entry.
const LENGTH_BITS: u32 = 13;

/// The longest payload of a call inside an entry, in bytes; longer ones travel as blocks. Of a tagged message
/// it is the longest whose length fits beside the kind of the entry: of a longer one the upper bits are where
/// calls have their selector.
pub const ENTRY_LENGTH_MAX: usize = (1 << LENGTH_BITS) - 1;

/// `length` rounded up to whole words: what a payload occupies in a record.
#[inline]
pub const fn padded(length: usize) -> usize {
    (length + WORD_BYTES - 1) & !(WORD_BYTES - 1)
}

/// The first word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The sender has read everything before this position of the other ring; in lines, low 32 bits.
    pub released_lines: u32,
    /// How many entries follow; 0 in a record that only returns credits.
    pub entries: u16,
    /// The next record is at the start of the ring; there are no entries.
    pub wrap: bool,
}

impl BatchHeader {
    /// The header as a word.
    #[inline]
    pub const fn to_word(self) -> u64 {
        self.released_lines as u64 | (self.entries as u64) << 32 | (self.wrap as u64) << 48
    }

    /// The lines released, if the word is the header of a record with a single entry.
    #[inline(always)]
    pub const fn of_single_entry(word: u64) -> Option<u32> {
        if word >> 32 == 1 { Some(word as u32) } else { None }
    }

    /// The header that a word means.
    #[inline]
    pub const fn from_word(word: u64) -> Result<Self, Violation> {
        let wrap = match word >> 48 {
            0 => false,
            1 => true,
            _ => return Err(Violation("unknown flags in a batch header")),
        };
        let entries = (word >> 32) as u16;
        if wrap && entries != 0 {
            return Err(Violation("a wrap record with entries"));
        }
        Ok(Self { released_lines: word as u32, entries, wrap })
    }
}

/// The selector of block returns. Selector 1 of their kind is reserved: version 2 had prefetch hints there.
const BLOCK_RETURN: u16 = 0;

/// What an entry carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A request with its payload.
    Request,
    /// A response with its payload.
    Response,
    /// A request whose payload is a block; the entry holds its descriptor.
    RequestBlock,
    /// A response whose payload is a block; the entry holds its descriptor.
    ResponseBlock,
    /// A block of the receiver's that the sender does not read any more; the entry holds its descriptor.
    BlockReturn,
    /// A tagged message with its payload.
    Message,
    /// A tagged message whose payload is a block; the entry holds its descriptor.
    MessageBlock,
    /// With selector 0 how much of the receiver's tagged messages the sender has consumed in all; with
    /// another one a [notice](crate::matching::Notice) of that code, about the tag that `call` is.
    MessageCredit,
}

impl EntryKind {
    /// Whether it asks for an answer.
    #[inline]
    pub const fn is_request(self) -> bool {
        matches!(self, Self::Request | Self::RequestBlock)
    }

    /// Whether it says what the other side may use again, and nothing else.
    #[inline]
    pub fn reports_room(self) -> bool {
        matches!(self, Self::BlockReturn | Self::MessageCredit)
    }
}

/// The kinds by their number.
const KINDS: [EntryKind; 8] = [
    EntryKind::Request,
    EntryKind::Response,
    EntryKind::RequestBlock,
    EntryKind::ResponseBlock,
    EntryKind::BlockReturn,
    EntryKind::Message,
    EntryKind::MessageBlock,
    EntryKind::MessageCredit,
];

/// What the headers of all requests for one service have in common, or those of all responses with one
/// status; or those of all tagged messages that are no longer than a call may be, which have no selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderSeries {
    /// The selector above kind and length, so that of any other series, and of a longer payload, what is left
    /// is out of bounds.
    first: u32,
}

impl HeaderSeries {
    /// Requests for a service, with their payloads.
    #[inline]
    pub const fn requests(service: u16) -> Self {
        Self::of(EntryKind::Request, service)
    }

    /// Responses with a status, with their payloads.
    #[inline]
    pub const fn responses(status: u16) -> Self {
        Self::of(EntryKind::Response, status)
    }

    #[inline(always)]
    const fn of(kind: EntryKind, selector: u16) -> Self {
        Self { first: Self::above_call(EntryHeader { kind, call: 0, selector, length: 0 }.to_word()) }
    }

    #[inline(always)]
    const fn above_call(word: u64) -> u32 {
        ((word >> 32) as u32).rotate_left(16)
    }

    /// Call and length, if the word is a header of this series, with a payload of at most this many bytes
    /// (which are at most [`ENTRY_LENGTH_MAX`]).
    #[inline(always)]
    pub const fn read(self, word: u64, bytes_max: usize) -> Option<(u32, usize)> {
        let length = Self::above_call(word).wrapping_sub(self.first) as usize;
        debug_assert!(bytes_max <= ENTRY_LENGTH_MAX);
        if length > bytes_max { None } else { Some((word as u32, length)) }
    }
}

/// The first word of an entry; the payload follows, padded to whole words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHeader {
    /// What follows.
    pub kind: EntryKind,
    /// The caller's number of the call, the tag of a message or notice, the lines consumed in a message
    /// credit; 0 otherwise.
    pub call: u32,
    /// The service of a request, the status of a response or the code of a notice; 0 otherwise.
    pub selector: u16,
    /// Bytes of payload, at most [`ENTRY_LENGTH_MAX`], but for tagged messages.
    pub length: u32,
}

impl EntryHeader {
    /// The header as a word. Always inlined: its kind is mostly known where it is made.
    #[inline(always)]
    pub const fn to_word(self) -> u64 {
        debug_assert!(self.length as usize <= ENTRY_LENGTH_MAX || matches!(self.kind, EntryKind::Message));
        let (kind, selector) = match self.kind {
            EntryKind::Request => (0, self.selector),
            EntryKind::Response => (1, self.selector),
            EntryKind::RequestBlock => (2, self.selector),
            EntryKind::ResponseBlock => (3, self.selector),
            EntryKind::BlockReturn => (4, BLOCK_RETURN),
            EntryKind::Message => (5, (self.length >> LENGTH_BITS) as u16),
            EntryKind::MessageBlock => (6, self.selector),
            EntryKind::MessageCredit => (7, self.selector),
        };
        let length = self.length as u64 & ENTRY_LENGTH_MAX as u64;
        self.call as u64 | (selector as u64) << 32 | length << 48 | kind << 61
    }

    /// Tag and length, if the word is the header of a tagged message with its payload, of at most this many
    /// bytes (which are at most [`ENTRY_LENGTH_MAX`]).
    #[inline(always)]
    pub const fn tagged_message(word: u64, bytes_max: usize) -> Option<(u32, usize)> {
        HeaderSeries::of(EntryKind::Message, 0).read(word, bytes_max)
    }

    /// The header, if the word is that of a request or a response with its payload.
    #[inline(always)]
    pub const fn of_call(word: u64) -> Option<Self> {
        // One branch for all that is neither, and none between the two.
        if word >> 62 != 0 {
            return None;
        }
        let kind = if word >> 61 == 0 { EntryKind::Request } else { EntryKind::Response };
        let length = (word >> 48) as u32 & ENTRY_LENGTH_MAX as u32;
        Some(Self { kind, call: word as u32, selector: (word >> 32) as u16, length })
    }

    /// The header that a word means.
    #[inline]
    pub const fn from_word(word: u64) -> Result<Self, Violation> {
        let mut selector = (word >> 32) as u16;
        // A table, because a jump for each entry would cost more.
        let kind = KINDS[(word >> 61) as usize];
        if matches!(kind, EntryKind::BlockReturn) && selector != BLOCK_RETURN {
            return Err(Violation("an entry of unknown kind"));
        }
        let mut length = (word >> 48) as u32 & ENTRY_LENGTH_MAX as u32;
        if let EntryKind::Message = kind {
            length |= (core::mem::replace(&mut selector, 0) as u32) << LENGTH_BITS;
        }
        Ok(Self { kind, call: word as u32, selector, length })
    }
}
