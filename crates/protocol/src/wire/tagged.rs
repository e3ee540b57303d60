//! Tagged messages over a library that carries messages.
//!
//! A packet is a [`Header`] alone, whose eight bytes for a call hold two numbers instead. What was sent is
//! counted from 0 in every session, because libraries let short messages overtake long ones. Short messages
//! share a packet: a batch has them behind each other, each with its tag and length in front. One that
//! travels alone has a [`BriefHead`], if its receiver reads them, so that a few bytes more of it fit the
//! first line of the memory through which it travels.

use super::{
    CallKey, Flags, HEADER_BYTES, Head, Header, Malformed, Opcode, WireSession, malformed, put_bare,
};
use crate::matching::Tag;
use crate::ring::padded;
use crate::words_of;

/// The bit in the argument of a CREDIT whose sender reads a [`BriefHead`].
const READS_BRIEF: u8 = 1;

/// The bit in the argument of a CREDIT whose sender reads [notices](crate::matching::Notice).
const READS_NOTICES: u8 = 2;

/// Bytes in front of each message of a batch.
pub const BATCH_ENTRY_BYTES: usize = 8;

const CUT_SHORT: &str = "a batch that ends in the middle of a message";

/// The length of a [`BriefHead`], by which it is known: all other heads are longer.
pub const BRIEF_HEAD_BYTES: usize = 16;

/// What a head has to say of a message that travels alone: TAGGED without what is the same in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BriefHead {
    /// The session, as the packet's receiver numbered it.
    pub session: WireSession,
    /// The packet's number in its session.
    pub number: u32,
    /// The message's tag.
    pub tag: Tag,
}

impl BriefHead {
    /// The head, if it is of this kind.
    #[inline]
    pub fn parse(head: &[u8]) -> Option<Self> {
        let bytes = u128::from_le_bytes(*head.first_chunk::<BRIEF_HEAD_BYTES>()?);
        let (session, number, tag) = (bytes as u64, (bytes >> 64) as u32, (bytes >> 96) as u32);
        (head.len() == BRIEF_HEAD_BYTES).then_some(Self {
            session: WireSession(session),
            number,
            tag: Tag(tag),
        })
    }

    /// The head's bytes.
    #[inline]
    pub fn to_bytes(self) -> [u8; BRIEF_HEAD_BYTES] {
        let Self { session, number, tag } = self;
        (u128::from(tag.0) << 96 | u128::from(number) << 64 | u128::from(session.0)).to_le_bytes()
    }

    /// The header of the TAGGED that says the same.
    #[inline]
    pub const fn header(&self) -> Header {
        let both = (self.tag.0 as u64) << 32 | self.number as u64;
        let call = CallKey::from_wire(both);
        Header { opcode: Opcode::Tagged, flags: Flags::NONE, session: self.session, call }
    }
}

/// A packet about tagged messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaggedPacket {
    /// One message.
    One {
        /// The packet's number in its session.
        number: u32,
        /// The message's tag.
        tag: Tag,
    },
    /// What is said of messages that the window holds up. The payload are its lines, if it has any.
    Notice {
        /// The packet's number in its session.
        number: u32,
        /// The notice's code, from 1 to 15.
        code: u8,
        /// Its tag.
        tag: Tag,
    },
    /// A [`Batch`] of messages.
    Batch {
        /// The packet's number in its session.
        number: u32,
    },
    /// What may be sent. Has no number and is never out of date: counts only grow.
    Credit {
        /// Whether its sender reads a [`BriefHead`]; the same in all credits of a session.
        reads_brief: bool,
        /// Whether its sender reads notices; the same in all credits of a session.
        reads_notices: bool,
        /// Lines of messages that were consumed in all, modulo 2³².
        consumed: u32,
        /// How many lines may be sent beyond that; the same in all credits of a session, and not 0.
        limit: u32,
    },
}

impl TaggedPacket {
    /// Reads a packet whose header is `header`; `None` when it is about something else.
    #[inline]
    pub fn parse(header: &Header, packet: &[u8]) -> Result<Option<Self>, Malformed> {
        let both = header.call.to_wire();
        let (low, high) = (both as u32, (both >> 32) as u32);
        let argument = header.flags.argument();
        let parsed = match header.opcode {
            Opcode::Tagged if argument == 0 => Self::One { number: low, tag: Tag(high) },
            Opcode::Tagged => Self::Notice { number: low, code: argument, tag: Tag(high) },
            Opcode::TaggedBatch if high == 0 => Self::Batch { number: low },
            Opcode::TaggedCredit if high != 0 => {
                let reads = |bit| argument & bit != 0;
                let (reads_brief, reads_notices) = (reads(READS_BRIEF), reads(READS_NOTICES));
                Self::Credit { reads_brief, reads_notices, consumed: low, limit: high }
            }
            Opcode::TaggedBatch | Opcode::TaggedCredit => return malformed("a batch or a credit of nothing"),
            _ => return Ok(None),
        };
        if packet.len() != HEADER_BYTES {
            return malformed("a length that its opcode does not have");
        }
        Ok(Some(parsed))
    }
}

/// Writes a packet about tagged messages.
#[inline]
pub fn put_tagged(head: &mut Head, session: WireSession, packet: TaggedPacket) {
    let bit = |is_set, bit| if is_set { bit } else { 0 };
    let (opcode, argument, low, high) = match packet {
        TaggedPacket::One { number, tag } => (Opcode::Tagged, 0, number, tag.0),
        TaggedPacket::Notice { number, code, tag } => (Opcode::Tagged, code, number, tag.0),
        TaggedPacket::Batch { number } => (Opcode::TaggedBatch, 0, number, 0),
        TaggedPacket::Credit { reads_brief, reads_notices, consumed, limit } => {
            let argument = bit(reads_brief, READS_BRIEF) | bit(reads_notices, READS_NOTICES);
            (Opcode::TaggedCredit, argument, consumed, limit)
        }
    };
    let flags = Flags::NONE.with_argument(argument);
    let both = u64::from(high) << 32 | u64::from(low);
    put_bare(head, opcode, flags, session, CallKey::from_wire(both));
}

/// Appends a message to a batch. Messages start at multiples of eight bytes.
///
/// # Panics
/// With more than 4 GiB.
#[inline]
pub fn put_entry(batch: &mut Vec<u8>, tag: Tag, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("batches hold short messages");
    let header = (u64::from(length) << 32 | u64::from(tag.0)).to_le_bytes();
    // Most are a word or two. Of a length that is known they are stored, and not copied by a function.
    if let Some(words) = words_of(payload) {
        let [first, second] = words.map(u64::to_le_bytes);
        return match payload.len() {
            0 => batch.extend_from_slice(&header),
            1..=BATCH_ENTRY_BYTES => batch.extend_from_slice([header, first].as_flattened()),
            _ => batch.extend_from_slice([header, first, second].as_flattened()),
        };
    }
    batch.extend_from_slice(&header);
    batch.extend_from_slice(payload);
    let padding = padded(payload.len()) - payload.len();
    batch.extend_from_slice(&[0; BATCH_ENTRY_BYTES][..padding]);
}

/// The messages of a batch, in order.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a>(&'a [u8]);

impl<'a> Batch<'a> {
    /// The messages in `bytes`; what is wrong with them shows when they are read.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How many bytes have not been read.
    #[inline]
    pub const fn unread(&self) -> usize {
        self.0.len()
    }
}

impl<'a> Iterator for Batch<'a> {
    type Item = Result<(Tag, &'a [u8]), Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let bytes = core::mem::take(&mut self.0);
        let Some((header, rest)) = bytes.split_first_chunk::<BATCH_ENTRY_BYTES>() else {
            return if bytes.is_empty() { None } else { Some(malformed(CUT_SHORT)) };
        };
        let header = u64::from_le_bytes(*header);
        let (tag, length) = (Tag(header as u32), (header >> 32) as usize);
        let Some((padded, rest)) = rest.split_at_checked(padded(length)) else {
            return Some(malformed(CUT_SHORT));
        };
        self.0 = rest;
        Some(Ok((tag, &padded[..length])))
    }
}
