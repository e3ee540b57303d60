//! The packets that open, keep and end sessions.
//!
//! The first fields of OPEN and the whole of REFUSE stay where they are in every version, so that versions
//! which do not know each other can say so. These packets always carry a checksum.

use farcall_base::{Identity, SipKey};

use super::{
    CallKey, Flags, HEADER_BYTES, Head, Header, IDENTIFIED_VERSION, Malformed, Opcode, WireSession, bytes_at,
    malformed, u16_at, u32_at, u64_at,
};

/// The version of the packets described here.
pub const VERSION: u8 = 3;

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

/// What an acceptor gives to an address, and gets back from there: proof that its owner can read what is
/// sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// When it was given, by the acceptor's clock, in nanoseconds.
    pub issued_at_nanos: u64,
    /// A code that only the acceptor can make.
    pub code: u64,
}

impl Cookie {
    /// What stands in an OPEN that brings none.
    pub const NONE: Self = Self { issued_at_nanos: 0, code: 0 };
}

/// OPEN and ACCEPT have one layout: the sender, how to number the answer, the limits, and where the sender's
/// process answers for it. OPEN may end with a cookie.
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
    /// Where the sender's process answers for it; `None` when it answers by polling alone.
    pub life: Option<LifePort>,
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
    /// The peer's cluster has fewer ranks: give both sides the same size.
    #[error("the peer's cluster has no such rank")]
    Rank,
    /// This side has a cluster key, and the peer has none.
    #[error("the peer has no cluster key and this side has one: set security.key_file on both sides")]
    Keyless,
    /// The peer has a cluster key, and this side has none.
    #[error("the peer wants a cluster key: set security.key_file to a copy of its file")]
    KeyWanted,
    /// Both sides have a cluster key, but not the same one.
    #[error("the peer has another cluster key: give both sides the same security.key_file")]
    OtherKey,
    /// The peer wants to know who this side is, and this side has no identity.
    #[error("the peer wants an identity: set security.identity_file and security.peers_file")]
    IdentityWanted,
    /// This side wants to know who the peer is, and the peer has no identity.
    #[error("the peer has no identity and this side has one: set security.identity_file on both sides")]
    Identityless,
    /// The peer does not know this side's public key.
    #[error(
        "the peer does not know this side's identity: add what farcall key show says of \
         security.identity_file to the peer's security.peers_file"
    )]
    IdentityUnknown,
}

/// A packet about a session, ready for use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionPacket {
    /// Somebody wants a session.
    Open(OfferPacket, Cookie),
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
    /// The peer wants the same OPEN again, with this cookie.
    Retry(Cookie),
    /// The peer ends the session that the header names.
    Close {
        /// The peer's incarnation, which must be the session's.
        incarnation: u64,
    },
    /// The peer does not know the session that the header names *by the peer's number*.
    Reset {
        /// [`life_code`] of the peer's incarnation: another one means that it was restarted.
        life_code: u64,
    },
    /// A sign of life is asked for; to be echoed in the pong.
    Ping {
        /// A number that nobody else can know.
        number: u64,
    },
    /// The sign of life.
    Pong {
        /// What the ping said.
        number: u64,
    },
    /// A packet that is as long as it is to find out whether it arrives; to be echoed.
    Probe {
        /// Which search it belongs to.
        number: u64,
    },
    /// Such a packet arrived.
    Probed {
        /// What the probe said.
        number: u64,
        /// How long the probe was, in bytes.
        bytes: u32,
    },
}

/// Where a process answers, by a thread of its own, that it lives and still has the endpoint of a session.
/// What the bytes mean is the business of those that ask and answer there (see `docs/protocol/life.md`), but
/// that they are never all 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LifePort(pub [u8; LIFE_PORT_BYTES]);

/// Shows nothing of the secret in it.
impl core::fmt::Debug for LifePort {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("LifePort")
    }
}

/// The length of a [`LifePort`].
pub const LIFE_PORT_BYTES: usize = 42;

/// What stands in place of a life port where there is none.
const NO_LIFE_PORT: [u8; LIFE_PORT_BYTES] = [0; LIFE_PORT_BYTES];

const LIFE_PORT_AT: usize = 64;
/// The length of an OPEN without a cookie, and of an ACCEPT.
pub const OFFER_PACKET_BYTES: usize = LIFE_PORT_AT + LIFE_PORT_BYTES;
pub(super) const COOKIE_BYTES: usize = 16;
const OPEN_WITH_COOKIE_BYTES: usize = OFFER_PACKET_BYTES + COOKIE_BYTES;
const RETRY_BYTES: usize = HEADER_BYTES + COOKIE_BYTES;
const PROBED_BYTES: usize = HEADER_BYTES + 4;
const OPTION_CHECKSUM: u16 = 1;

/// What a RESET says of its sender's life: whoever knows its incarnation can tell whether it is still the
/// same, and nobody else learns anything of it.
pub fn life_code(incarnation: u64, session: WireSession) -> u64 {
    SipKey([incarnation, u64::from_le_bytes(*b"farcall!")]).authenticate(&[session.0])
}

impl SessionPacket {
    /// Reads what follows `header`, whose opcode must be one of a session, in `packet`.
    pub fn parse(header: &Header, packet: &[u8]) -> Result<Self, Malformed> {
        if !header.flags.has(Flags::CHECKSUM) {
            return malformed("session packet without a checksum");
        }
        Self::parse_checked(header, packet)
    }

    /// The same of a packet that is known to be as its sender made it.
    pub(crate) fn parse_checked(header: &Header, packet: &[u8]) -> Result<Self, Malformed> {
        if header.flags.argument() != 0 {
            return malformed("unknown flags");
        }
        match header.opcode {
            Opcode::Open => match version(packet)? {
                VERSION => parse_open(packet),
                version => Ok(Self::OpenOfVersion { version, reply_session: reply_session(packet)? }),
            },
            Opcode::Accept => match version(packet)? {
                VERSION => Ok(Self::Accept(parse_offer(packet, OFFER_PACKET_BYTES)?)),
                _ => malformed("ACCEPT of another version"),
            },
            Opcode::Refuse => Ok(Self::Refuse(parse_refusal(packet)?)),
            Opcode::Retry => Ok(Self::Retry(parse_cookie(packet, HEADER_BYTES, RETRY_BYTES)?)),
            Opcode::Close => Ok(Self::Close { incarnation: u64_at(packet, HEADER_BYTES)? }),
            Opcode::Reset => Ok(Self::Reset { life_code: u64_at(packet, HEADER_BYTES)? }),
            Opcode::Ping | Opcode::Pong if packet.len() != HEADER_BYTES => malformed("a ping with a body"),
            Opcode::Ping => Ok(Self::Ping { number: header.call.to_wire() }),
            Opcode::Pong => Ok(Self::Pong { number: header.call.to_wire() }),
            Opcode::Probe => Ok(Self::Probe { number: header.call.to_wire() }),
            Opcode::Probed if packet.len() != PROBED_BYTES => {
                malformed("an answer to a probe of another length")
            }
            Opcode::Probed => {
                Ok(Self::Probed { number: header.call.to_wire(), bytes: u32_at(packet, HEADER_BYTES)? })
            }
            _ => malformed("not a packet of a session"),
        }
    }

    /// Writes the packet into `head`, complete with checksum. `session` is the number that its receiver
    /// knows.
    pub fn put(&self, session: WireSession, head: &mut Head) {
        self.put_flagged(Flags::CHECKSUM, session, head);
        head.seal(&[]);
    }

    /// The same without a checksum, for a session whose packets are sealed.
    pub(crate) fn put_unchecked(&self, session: WireSession, head: &mut Head) {
        self.put_flagged(Flags::NONE, session, head);
    }

    fn put_flagged(&self, flags: Flags, session: WireSession, head: &mut Head) {
        let call = match self {
            Self::Ping { number } | Self::Pong { number } => CallKey::from_wire(*number),
            Self::Probe { number } | Self::Probed { number, .. } => CallKey::from_wire(*number),
            _ => CallKey::NONE,
        };
        head.start(&Header { opcode: self.opcode(), flags, session, call });
        match self {
            Self::Open(packet, cookie) => {
                put_offer(packet, head);
                if *cookie != Cookie::NONE {
                    put_cookie(*cookie, head);
                }
            }
            Self::Accept(packet) => put_offer(packet, head),
            Self::Retry(cookie) => put_cookie(*cookie, head),
            Self::OpenOfVersion { version, reply_session } => {
                head.put([*version, 0]);
                head.put(reply_session.0.to_le_bytes());
            }
            Self::Refuse(reason) => put_refusal(*reason, head),
            Self::Close { incarnation: word } | Self::Reset { life_code: word } => {
                head.put(word.to_le_bytes())
            }
            Self::Probed { bytes, .. } => head.put(bytes.to_le_bytes()),
            Self::Ping { .. } | Self::Pong { .. } | Self::Probe { .. } => {}
        }
    }

    const fn opcode(&self) -> Opcode {
        match self {
            Self::Open(..) | Self::OpenOfVersion { .. } => Opcode::Open,
            Self::Accept(_) => Opcode::Accept,
            Self::Refuse(_) => Opcode::Refuse,
            Self::Retry(_) => Opcode::Retry,
            Self::Close { .. } => Opcode::Close,
            Self::Reset { .. } => Opcode::Reset,
            Self::Ping { .. } => Opcode::Ping,
            Self::Pong { .. } => Opcode::Pong,
            Self::Probe { .. } => Opcode::Probe,
            Self::Probed { .. } => Opcode::Probed,
        }
    }
}

fn version(packet: &[u8]) -> Result<u8, Malformed> {
    bytes_at::<1>(packet, HEADER_BYTES).map(|[version]| version)
}

pub(super) fn reply_session(packet: &[u8]) -> Result<WireSession, Malformed> {
    match u64_at(packet, 24)? {
        0 => malformed("a session numbered 0"),
        number => Ok(WireSession(number)),
    }
}

fn parse_open(packet: &[u8]) -> Result<SessionPacket, Malformed> {
    if packet.len() == OFFER_PACKET_BYTES {
        return Ok(SessionPacket::Open(parse_offer(packet, OFFER_PACKET_BYTES)?, Cookie::NONE));
    }
    let offer = parse_offer(packet, OPEN_WITH_COOKIE_BYTES)?;
    let cookie = parse_cookie(packet, OFFER_PACKET_BYTES, OPEN_WITH_COOKIE_BYTES)?;
    Ok(SessionPacket::Open(offer, cookie))
}

pub(super) fn parse_cookie(packet: &[u8], at: usize, bytes: usize) -> Result<Cookie, Malformed> {
    if packet.len() != bytes {
        return malformed("a packet with a cookie of another length");
    }
    cookie_at(packet, at)
}

pub(super) fn cookie_at(packet: &[u8], at: usize) -> Result<Cookie, Malformed> {
    Ok(Cookie { issued_at_nanos: u64_at(packet, at)?, code: u64_at(packet, at + 8)? })
}

pub(super) fn put_cookie(cookie: Cookie, head: &mut Head) {
    head.put(cookie.issued_at_nanos.to_le_bytes());
    head.put(cookie.code.to_le_bytes());
}

pub(super) fn parse_offer(packet: &[u8], bytes: usize) -> Result<OfferPacket, Malformed> {
    if packet.len() != bytes {
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
    let life = bytes_at(packet, LIFE_PORT_AT)?;
    let life = (life != NO_LIFE_PORT).then_some(LifePort(life));
    Ok(OfferPacket { protocol: packet[23], reply_session: reply_session(packet)?, sender, offer, life })
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
    head.put(packet.life.map_or(NO_LIFE_PORT, |LifePort(bytes)| bytes));
}

fn parse_refusal(packet: &[u8]) -> Result<RefuseReason, Malformed> {
    let theirs = u16_at(packet, 22)?.to_le_bytes();
    match u16_at(packet, 24)? {
        1 if theirs[0] == IDENTIFIED_VERSION => Ok(RefuseReason::IdentityWanted),
        1 => Ok(RefuseReason::Version { theirs: theirs[0] }),
        2 => Ok(RefuseReason::Protocol { theirs: theirs[1] }),
        3 => Ok(RefuseReason::Full),
        4 => Ok(RefuseReason::Limits),
        5 => Ok(RefuseReason::Rank),
        6 => Ok(RefuseReason::Keyless),
        7 => Ok(RefuseReason::KeyWanted),
        8 => Ok(RefuseReason::OtherKey),
        9 => Ok(RefuseReason::Identityless),
        10 => Ok(RefuseReason::IdentityUnknown),
        _ => malformed("unknown reason of refusal"),
    }
}

fn put_refusal(reason: RefuseReason, head: &mut Head) {
    let (version, protocol, code) = match reason {
        RefuseReason::Version { theirs } => (theirs, 0, 1_u16),
        RefuseReason::Protocol { theirs } => (VERSION, theirs, 2),
        RefuseReason::Full => (VERSION, 0, 3),
        RefuseReason::Limits => (VERSION, 0, 4),
        RefuseReason::Rank => (VERSION, 0, 5),
        RefuseReason::Keyless => (VERSION, 0, 6),
        RefuseReason::KeyWanted => (VERSION, 0, 7),
        RefuseReason::OtherKey => (VERSION, 0, 8),
        // Openers that are older than identities understand that, too.
        RefuseReason::IdentityWanted => (IDENTIFIED_VERSION, 0, 1),
        RefuseReason::Identityless => (VERSION, 0, 9),
        RefuseReason::IdentityUnknown => (VERSION, 0, 10),
    };
    head.put([version, protocol]);
    head.put(code.to_le_bytes());
}
