//! Parts of a packet that is too long for the path.
//!
//! All parts but the last are equally long, so that the packet's length, the number of parts and the index
//! say where a part belongs. A part has no checksum of its own: what they are put together to is checked like
//! any packet.

use super::{
    CallKey, Flags, HEADER_BYTES, Head, Header, Malformed, Opcode, WireSession, malformed, u16_at, u32_at,
};

/// How much of a part is not of the packet.
pub(crate) const PART_HEADER_BYTES: usize = HEADER_BYTES + 8;

/// The most parts of a packet. The longest one, of 64 KiB, has so many on a path of 542 bytes.
pub(crate) const PARTS_MAX: u16 = 128;

/// A part that lies within its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    /// Which of its sender's packets it is of.
    pub(crate) number: u64,
    /// The length of the whole packet.
    pub(crate) total: u32,
    /// How many parts there are.
    pub(crate) count: u16,
    /// Which one this is, from 0.
    pub(crate) index: u16,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Part<'a> {
    /// Reads what follows `header` in `packet`.
    pub(crate) fn parse(header: &Header, packet: &'a [u8]) -> Result<Self, Malformed> {
        let total = u32_at(packet, HEADER_BYTES)?;
        let (count, index) = (u16_at(packet, HEADER_BYTES + 4)?, u16_at(packet, HEADER_BYTES + 6)?);
        let bytes = packet.get(PART_HEADER_BYTES..).unwrap_or_default();
        if header.flags != Flags::NONE || !(2..=PARTS_MAX).contains(&count) || index >= count {
            return malformed("a part that is none of a packet");
        }
        let part = Self { number: header.call.to_wire(), total, count, index, bytes };
        let end = (part.offset() + part.length_max()).min(total as usize);
        if end.checked_sub(part.offset()) != Some(bytes.len()) || bytes.is_empty() {
            return malformed("a part of another length");
        }
        Ok(part)
    }

    /// Where it lies in the packet.
    pub(crate) fn offset(&self) -> usize {
        usize::from(self.index) * self.length_max()
    }

    /// The length of all parts but the last.
    pub(crate) fn length_max(&self) -> usize {
        self.total.div_ceil(u32::from(self.count)) as usize
    }
}

/// Writes what stands in front of a part.
pub(crate) fn put_part(head: &mut Head, session: WireSession, part: &Part<'_>) {
    let call = CallKey::from_wire(part.number);
    head.start(&Header { opcode: Opcode::Part, flags: Flags::NONE, session, call });
    head.put(part.total.to_le_bytes());
    head.put(part.count.to_le_bytes());
    head.put(part.index.to_le_bytes());
}
