//! Packets as bytes, for the protocols that run on datagrams.
//!
//! Every packet starts with the same [`Header`]. It is parsed once, here, into types that can only hold what
//! a correct peer may send; the state machines never look at raw bytes again. All numbers are little-endian.

mod buffer;
mod cutoffs;
mod header;
mod identified;
mod keyed;
mod message;
mod part;
mod session;
mod tagged;
#[cfg(test)]
pub(crate) mod tests;

pub use buffer::{HEAD_BYTES_MAX, Head};
pub use cutoffs::{CUTOFFS_VERSION_MAX, Cutoffs, PRIORITIES_MAX};
pub(crate) use header::checksum_of;
pub use header::{CallKey, Flags, HEADER_BYTES, Header, Opcode, SEQUENCE_MAX, WireSession, checksum_matches};
pub use identified::IDENTIFIED_VERSION;
pub(crate) use identified::{
    IdentifiedOpen, parse_identified_retry, put_identified_open, put_identified_retry,
};
pub use keyed::KEYED_VERSION;
pub(crate) use keyed::{
    KeyedOpen, announced_offer, offer_bytes, parse_keyed_accept, parse_opened, put_coded, put_keyed_accept,
    put_keyed_open, split_coded, with_identity,
};
pub use message::{
    CALLS_PER_ACK_MAX, FRAGMENT_HEADER_BYTES, KeyList, MessagePacket, RANGES_PER_RESEND_MAX, RangeList,
    WHOLE_HEADER_BYTES, parse_whole, put_acknowledge, put_bare, put_cutoffs, put_fragment, put_grant,
    put_resend, put_whole,
};
pub(crate) use part::{PART_HEADER_BYTES, PARTS_MAX, Part, put_part};
pub use session::{
    Cookie, LIFE_PORT_BYTES, LifePort, OFFER_PACKET_BYTES, Offer, OfferPacket, Protocol, RefuseReason,
    SessionPacket, VERSION, life_code,
};
pub use tagged::{
    BATCH_ENTRY_BYTES, BRIEF_HEAD_BYTES, Batch, BriefHead, TaggedPacket, put_entry, put_tagged,
};

/// A packet, or a part of one, that no correct peer sends. Drop the packet and count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed packet: {what}")]
pub struct Malformed {
    /// What was wrong.
    pub what: &'static str,
}

pub(crate) const fn malformed<T>(what: &'static str) -> Result<T, Malformed> {
    Err(Malformed { what })
}

/// The `N` bytes at `offset`, when there are that many.
pub(crate) fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], Malformed> {
    match bytes.get(offset..).and_then(|rest| rest.first_chunk::<N>()) {
        Some(found) => Ok(*found),
        None => malformed("too short"),
    }
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Result<u16, Malformed> {
    bytes_at(bytes, offset).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Result<u32, Malformed> {
    bytes_at(bytes, offset).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Result<u64, Malformed> {
    bytes_at(bytes, offset).map(u64::from_le_bytes)
}
