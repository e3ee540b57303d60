//! The packets that carry messages and steer their flow.

use super::{
    CallKey, Cutoffs, Flags, HEADER_BYTES, Head, Header, Malformed, Opcode, PRIORITIES_MAX, Protocol,
    WireSession, malformed, u16_at, u32_at,
};

/// Bytes in front of the payload of a message that fits one packet.
pub const WHOLE_HEADER_BYTES: usize = HEADER_BYTES + 2;

/// Bytes in front of the payload of a piece of a longer message.
pub const FRAGMENT_HEADER_BYTES: usize = HEADER_BYTES + 10;

/// The most ranges that one RESEND asks for.
pub const RANGES_PER_RESEND_MAX: usize = 16;

/// The most calls that one ACKNOWLEDGE names.
pub const CALLS_PER_ACK_MAX: usize = 16;

/// A packet about a message, ready for use. `tag` is the service of a request or the status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagePacket<'a> {
    /// A message in one packet.
    Whole {
        /// Service or status.
        tag: u16,
        /// All of the message.
        payload: &'a [u8],
    },
    /// A piece of a longer message.
    Fragment {
        /// Service or status.
        tag: u16,
        /// Length of the whole message in bytes.
        total: u32,
        /// Where in it the piece starts.
        offset: u32,
        /// The piece; never empty, and it ends within the message.
        payload: &'a [u8],
    },
    /// Bytes before `offset` may be sent.
    Grant {
        /// Where the permission ends.
        offset: u32,
        /// The priority that they should have.
        priority: u8,
    },
    /// Bytes are wanted once more.
    Resend {
        /// Which.
        ranges: RangeList<'a>,
        /// The priority that they should have.
        priority: u8,
    },
    /// Alive, but not there yet.
    Busy,
    /// The caller is done with calls.
    Acknowledge {
        /// Which.
        calls: KeyList<'a>,
    },
    /// The priorities that the first bytes of messages to this peer should have.
    Cutoffs(Cutoffs),
    /// The server keeps a result and asks whether the caller is done with it.
    NeedAcknowledge,
}

impl<'a> MessagePacket<'a> {
    /// Reads what follows `header`, whose opcode must be one of a message, in `packet` of a session of
    /// `protocol`.
    pub fn parse(header: &Header, packet: &'a [u8], protocol: Protocol) -> Result<Self, Malformed> {
        check_argument(header, protocol)?;
        let argument = header.flags.argument();
        match header.opcode {
            Opcode::Whole => {
                let (tag, payload) = parse_whole(header, packet, protocol)?;
                Ok(Self::Whole { tag, payload })
            }
            Opcode::Fragment => parse_fragment(packet),
            Opcode::Grant if packet.len() == HEADER_BYTES + 4 => {
                Ok(Self::Grant { offset: u32_at(packet, HEADER_BYTES)?, priority: argument })
            }
            Opcode::Resend => {
                Ok(Self::Resend { ranges: RangeList::parse(&packet[HEADER_BYTES..])?, priority: argument })
            }
            Opcode::Busy if packet.len() == HEADER_BYTES => Ok(Self::Busy),
            Opcode::Acknowledge => Ok(Self::Acknowledge { calls: KeyList::parse(&packet[HEADER_BYTES..])? }),
            Opcode::Cutoffs if protocol == Protocol::Homa => {
                Cutoffs::parse(header.flags, packet).map(Self::Cutoffs)
            }
            Opcode::NeedAcknowledge if packet.len() == HEADER_BYTES => Ok(Self::NeedAcknowledge),
            _ => malformed("a length or a protocol that its opcode does not have"),
        }
    }
}

/// The tag and the payload of a message of one packet, whose opcode is [`Opcode::Whole`]. A way of its own
/// because most packets are such.
#[inline]
pub fn parse_whole<'a>(
    header: &Header,
    packet: &'a [u8],
    protocol: Protocol,
) -> Result<(u16, &'a [u8]), Malformed> {
    check_argument(header, protocol)?;
    Ok((u16_at(packet, HEADER_BYTES)?, &packet[WHOLE_HEADER_BYTES..]))
}

#[inline]
fn check_argument(header: &Header, protocol: Protocol) -> Result<(), Malformed> {
    let argument = header.flags.argument();
    if argument != 0 && !may_have_argument(protocol, header.opcode, argument) {
        return malformed("an argument that its opcode does not have");
    }
    Ok(())
}

/// Only homa has arguments: versions of cutoffs, and priorities.
fn may_have_argument(protocol: Protocol, opcode: Opcode, argument: u8) -> bool {
    match opcode {
        _ if protocol != Protocol::Homa => false,
        Opcode::Whole | Opcode::Fragment | Opcode::Cutoffs => true,
        Opcode::Grant | Opcode::Resend => argument < PRIORITIES_MAX,
        _ => false,
    }
}

fn parse_fragment(packet: &[u8]) -> Result<MessagePacket<'_>, Malformed> {
    let (tag, total, offset) = (u16_at(packet, 22)?, u32_at(packet, 24)?, u32_at(packet, 28)?);
    let payload = &packet[FRAGMENT_HEADER_BYTES..];
    if payload.is_empty() || u64::from(offset) + payload.len() as u64 > u64::from(total) {
        return malformed("a piece beyond the end of its message");
    }
    Ok(MessagePacket::Fragment { tag, total, offset, payload })
}

/// A list of `(offset, length)` in a RESEND, in the packet's own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeList<'a>(&'a [[u8; 8]]);

impl<'a> RangeList<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        parse_list(body, RANGES_PER_RESEND_MAX).map(Self)
    }

    /// The ranges, as offset and length in bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + 'a {
        self.0.iter().map(|entry| {
            let [offset @ .., _, _, _, _] = *entry;
            let [_, _, _, _, length @ ..] = *entry;
            (u32::from_le_bytes(offset), u32::from_le_bytes(length))
        })
    }
}

/// A list of calls in an ACKNOWLEDGE, in the packet's own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyList<'a>(&'a [[u8; 8]]);

impl<'a> KeyList<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        parse_list(body, CALLS_PER_ACK_MAX).map(Self)
    }

    /// The calls.
    pub fn iter(&self) -> impl Iterator<Item = CallKey> + 'a {
        self.0.iter().map(|entry| CallKey::from_wire(u64::from_le_bytes(*entry)))
    }
}

fn parse_list(body: &[u8], entries_max: usize) -> Result<&[[u8; 8]], Malformed> {
    match body.as_chunks::<8>() {
        (entries, []) if (1..=entries_max).contains(&entries.len()) => Ok(entries),
        _ => malformed("a list of impossible length"),
    }
}

fn start(head: &mut Head, opcode: Opcode, flags: Flags, session: WireSession, call: CallKey) {
    head.start(&Header { opcode, flags, session, call });
}

/// Writes the head of a message that fits one packet.
#[inline]
pub fn put_whole(head: &mut Head, flags: Flags, session: WireSession, call: CallKey, tag: u16) {
    start(head, Opcode::Whole, flags, session, call);
    head.put(tag.to_le_bytes());
}

/// Writes the head of a piece of a longer message: `place` is its total length and the piece's offset.
pub fn put_fragment(
    head: &mut Head,
    flags: Flags,
    session: WireSession,
    call: CallKey,
    tag: u16,
    place: (u32, u32),
) {
    start(head, Opcode::Fragment, flags, session, call);
    head.put(tag.to_le_bytes());
    head.put(place.0.to_le_bytes());
    head.put(place.1.to_le_bytes());
}

/// Writes a GRANT up to `offset`.
pub fn put_grant(head: &mut Head, flags: Flags, session: WireSession, call: CallKey, offset: u32) {
    start(head, Opcode::Grant, flags, session, call);
    head.put(offset.to_le_bytes());
}

/// Writes a RESEND for the first [`RANGES_PER_RESEND_MAX`] of `ranges`, of which there must be one at least.
pub fn put_resend(
    head: &mut Head,
    flags: Flags,
    session: WireSession,
    call: CallKey,
    ranges: impl IntoIterator<Item = (u32, u32)>,
) {
    start(head, Opcode::Resend, flags, session, call);
    for (offset, length) in ranges.into_iter().take(RANGES_PER_RESEND_MAX) {
        head.put(offset.to_le_bytes());
        head.put(length.to_le_bytes());
    }
}

/// Writes CUTOFFS.
pub fn put_cutoffs(head: &mut Head, flags: Flags, session: WireSession, cutoffs: &Cutoffs) {
    start(head, Opcode::Cutoffs, flags.with_argument(cutoffs.version()), session, CallKey::NONE);
    head.put([cutoffs.top()]);
    for length in cutoffs.lengths() {
        head.put(length.to_le_bytes());
    }
}

/// Writes a packet that is only a header, such as BUSY.
pub fn put_bare(head: &mut Head, opcode: Opcode, flags: Flags, session: WireSession, call: CallKey) {
    start(head, opcode, flags, session, call);
}

/// Writes an ACKNOWLEDGE of the first [`CALLS_PER_ACK_MAX`] of `calls`, of which there must be one at least.
pub fn put_acknowledge(
    head: &mut Head,
    flags: Flags,
    session: WireSession,
    calls: impl IntoIterator<Item = CallKey>,
) {
    start(head, Opcode::Acknowledge, flags, session, CallKey::NONE);
    for call in calls.into_iter().take(CALLS_PER_ACK_MAX) {
        head.put(call.to_wire().to_le_bytes());
    }
}
