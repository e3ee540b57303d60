//! The packets that open, keep and end sessions.
//!
//! The first fields of OPEN and the whole of REFUSE stay where they are in every version, so that versions
//! which do not know each other can say so. These packets always carry a checksum.

use farcall_base::Identity;

use super::{
    CallKey, Flags, HEADER_BYTES, Head, Header, Malformed, Opcode, WireSession, bytes_at, malformed, u16_at,
    u32_at, u64_at,
};

/// The version of the packets described here.
pub const VERSION: u8 = 1;

/// Which protocol moves the messages of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Protocol {
    /// Unscheduled bytes, then grants to all.
    Basic = 1,
    /// Receiver-driven, shortest remaining first, by priorities.
    Homa = 2,
    /// Whole messages, carried by a library that loses none.
    Library = 3,
}

/// What one side of a session proposes, or what both agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The longest request or response, in bytes.
    pub message_bytes_max: u32,
    /// The longest packet, in bytes.
    pub mtu_bytes: u32,
    /// How much of a message is sent before its receiver grants more, in bytes.
    pub unscheduled_bytes: u32,
    /// The most unanswered calls, each way.
    pub calls_max: u16,
    /// Whether every packet carries a checksum.
    pub checksum: bool,
}

/// OPEN and ACCEPT have one layout: who speaks, how to number the answer, and the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferPacket {
    /// Which protocol is spoken.
    pub protocol: u8,
    /// The number that packets to the sender must carry.
    pub reply_session: WireSession,
    /// Who the sender is.
    pub sender: Identity,
    /// In OPEN the sender's own limits, in ACCEPT the agreed ones.
    pub offer: Offer,
}

/// Why a session was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefuseReason {
    /// The two sides have no version in common: upgrade the older one.
    #[error("the peer speaks version {theirs} of the packet format, this process version {VERSION}")]
    Version {
        /// The refusing side's version.
        theirs: u8,
    },
    /// The peer runs another protocol on this driver: choose the same transport on both sides.
    #[error("the peer runs another protocol on this address (number {theirs})")]
    Protocol {
        /// The refusing side's protocol.
        theirs: u8,
    },
    /// The peer has its maximum of sessions: close some, or raise its limit.
    #[error("the peer has its maximum of sessions")]
    Full,
    /// The smaller of both sides' limits leave nothing to work with: raise them.
    #[error("the limits of both sides together are unusable")]
    Limits,
}

/// A packet about a session, ready for use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionPacket {
    /// Somebody wants a session.
    Open(OfferPacket),
    /// Somebody of another version wants a session.
    OpenOfVersion {
        /// Which version.
        version: u8,
        /// The number that the refusal must carry.
        reply_session: WireSession,
    },
    /// The peer agrees to the session that the header names.
    Accept(OfferPacket),
    /// The peer declines the session that the header names.
    Refuse(RefuseReason),
    /// The peer ends the session that the header names.
    Close {
        /// The peer's incarnation, which must be the session's.
        incarnation: u64,
    },
    /// The peer does not know the session that the header names *by the peer's number*.
    Reset {
        /// The peer's incarnation: another one means that it was restarted.
        incarnation: u64,
    },
    /// A sign of life is asked for; to be echoed in the pong.
    Ping {
        /// When it was sent, by the sender's clock, in nanoseconds.
        sent_at_nanos: u64,
    },
    /// The sign of life.
    Pong {
        /// What the ping said.
        sent_at_nanos: u64,
    },
}

const OFFER_PACKET_BYTES: usize = 64;
const OPTION_CHECKSUM: u16 = 1;

impl SessionPacket {
    /// Reads what follows `header`, whose opcode must be one of a session, in `packet`.
    pub fn parse(header: &Header, packet: &[u8]) -> Result<Self, Malformed> {
        if !header.flags.has(Flags::CHECKSUM) {
            return malformed("session packet without a checksum");
        }
        if header.flags.argument() != 0 {
            return malformed("unknown flags");
        }
        let incarnation = || u64_at(packet, HEADER_BYTES);
        match header.opcode {
            Opcode::Open => match version(packet)? {
                VERSION => Ok(Self::Open(parse_offer(packet)?)),
                version => Ok(Self::OpenOfVersion { version, reply_session: reply_session(packet)? }),
            },
            Opcode::Accept => match version(packet)? {
                VERSION => Ok(Self::Accept(parse_offer(packet)?)),
                _ => malformed("ACCEPT of another version"),
            },
            Opcode::Refuse => Ok(Self::Refuse(parse_refusal(packet)?)),
            Opcode::Close => Ok(Self::Close { incarnation: incarnation()? }),
            Opcode::Reset => Ok(Self::Reset { incarnation: incarnation()? }),
            Opcode::Ping => Ok(Self::Ping { sent_at_nanos: header.call.to_wire() }),
            Opcode::Pong => Ok(Self::Pong { sent_at_nanos: header.call.to_wire() }),
            _ => malformed("not a packet of a session"),
        }
    }

    /// Writes the packet into `head`, complete with checksum. `session` is the number that its receiver
    /// knows.
    pub fn put(&self, session: WireSession, head: &mut Head) {
        let call = match self {
            Self::Ping { sent_at_nanos } | Self::Pong { sent_at_nanos } => CallKey::from_wire(*sent_at_nanos),
            _ => CallKey::NONE,
        };
        head.start(&Header { opcode: self.opcode(), flags: Flags::CHECKSUM, session, call });
        match self {
            Self::Open(packet) | Self::Accept(packet) => put_offer(packet, head),
            Self::OpenOfVersion { version, reply_session } => {
                head.put([*version, 0]);
                head.put(reply_session.0.to_le_bytes());
            }
            Self::Refuse(reason) => put_refusal(*reason, head),
            Self::Close { incarnation } | Self::Reset { incarnation } => head.put(incarnation.to_le_bytes()),
            Self::Ping { .. } | Self::Pong { .. } => {}
        }
        head.seal(&[]);
    }

    const fn opcode(&self) -> Opcode {
        match self {
            Self::Open(_) | Self::OpenOfVersion { .. } => Opcode::Open,
            Self::Accept(_) => Opcode::Accept,
            Self::Refuse(_) => Opcode::Refuse,
            Self::Close { .. } => Opcode::Close,
            Self::Reset { .. } => Opcode::Reset,
            Self::Ping { .. } => Opcode::Ping,
            Self::Pong { .. } => Opcode::Pong,
        }
    }
}

fn version(packet: &[u8]) -> Result<u8, Malformed> {
    bytes_at::<1>(packet, HEADER_BYTES).map(|[version]| version)
}

fn reply_session(packet: &[u8]) -> Result<WireSession, Malformed> {
    match u64_at(packet, 24)? {
        0 => malformed("a session numbered 0"),
        number => Ok(WireSession(number)),
    }
}

fn parse_offer(packet: &[u8]) -> Result<OfferPacket, Malformed> {
    if packet.len() != OFFER_PACKET_BYTES {
        return malformed("an OPEN or ACCEPT of another length");
    }
    let sender = Identity {
        incarnation: u64_at(packet, 32)?,
        rank: u32_at(packet, 40)?,
        endpoint: u32_at(packet, 44)?,
    };
    if sender.incarnation == 0 {
        return malformed("incarnation 0");
    }
    let offer = Offer {
        message_bytes_max: u32_at(packet, 48)?,
        mtu_bytes: u32_at(packet, 52)?,
        unscheduled_bytes: u32_at(packet, 56)?,
        calls_max: u16_at(packet, 60)?,
        checksum: u16_at(packet, 62)? & OPTION_CHECKSUM != 0,
    };
    Ok(OfferPacket { protocol: packet[23], reply_session: reply_session(packet)?, sender, offer })
}

fn put_offer(packet: &OfferPacket, head: &mut Head) {
    head.put([VERSION, packet.protocol]);
    head.put(packet.reply_session.0.to_le_bytes());
    head.put(packet.sender.incarnation.to_le_bytes());
    head.put(packet.sender.rank.to_le_bytes());
    head.put(packet.sender.endpoint.to_le_bytes());
    head.put(packet.offer.message_bytes_max.to_le_bytes());
    head.put(packet.offer.mtu_bytes.to_le_bytes());
    head.put(packet.offer.unscheduled_bytes.to_le_bytes());
    head.put(packet.offer.calls_max.to_le_bytes());
    head.put(if packet.offer.checksum { OPTION_CHECKSUM } else { 0 }.to_le_bytes());
}

fn parse_refusal(packet: &[u8]) -> Result<RefuseReason, Malformed> {
    let theirs = u16_at(packet, 22)?.to_le_bytes();
    match u16_at(packet, 24)? {
        1 => Ok(RefuseReason::Version { theirs: theirs[0] }),
        2 => Ok(RefuseReason::Protocol { theirs: theirs[1] }),
        3 => Ok(RefuseReason::Full),
        4 => Ok(RefuseReason::Limits),
        _ => malformed("unknown reason of refusal"),
    }
}

fn put_refusal(reason: RefuseReason, head: &mut Head) {
    let (version, protocol, code) = match reason {
        RefuseReason::Version { theirs } => (theirs, 0, 1_u16),
        RefuseReason::Protocol { theirs } => (VERSION, theirs, 2),
        RefuseReason::Full => (VERSION, 0, 3),
        RefuseReason::Limits => (VERSION, 0, 4),
    };
    head.put([version, protocol]);
    head.put(code.to_le_bytes());
}
