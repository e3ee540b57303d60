//! Packets of sessions with keys, as far as they differ from others.
//!
//! OPEN and ACCEPT carry the two messages of a handshake, in which the same offer is sealed that stands there
//! in clear without keys. REFUSE, RETRY and RESET end with a code. All others are sealed as a whole, so that
//! nothing is left to do here.

use farcall_base::Identity;

use crate::keys::{
    CLEAR_BYTES, CODE_BYTES, HELLO_BYTES, KeyId, OFFER_BYTES, REPLY_BYTES, RESET_CODE_BYTES, StatelessKey,
};

use super::session::{COOKIE_BYTES, parse_cookie, parse_offer, put_cookie, reply_session};
use super::{
    CallKey, Cookie, Flags, HEADER_BYTES, Head, Header, Malformed, OfferPacket, Opcode, SessionPacket,
    WireSession, bytes_at, malformed,
};

/// The version of OPEN and ACCEPT with keys.
pub const KEYED_VERSION: u8 = 4;

const OPEN_BYTES: usize = HEADER_BYTES + CLEAR_BYTES + HELLO_BYTES;
const REPLY_AT: usize = HEADER_BYTES + 2;
const ACCEPT_BYTES: usize = REPLY_AT + REPLY_BYTES;

/// An OPEN whose offer is still sealed.
pub(crate) struct KeyedOpen {
    pub(crate) clear: [u8; CLEAR_BYTES],
    pub(crate) hello: [u8; HELLO_BYTES],
    pub(crate) cookie: Cookie,
    pub(crate) reply_session: WireSession,
    pub(crate) key: KeyId,
}

impl KeyedOpen {
    pub(crate) fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let cookie = match packet.len() {
            OPEN_BYTES => Cookie::NONE,
            _ => parse_cookie(packet, OPEN_BYTES, OPEN_BYTES + COOKIE_BYTES)?,
        };
        Ok(Self {
            clear: bytes_at(packet, HEADER_BYTES)?,
            hello: bytes_at(packet, HEADER_BYTES + CLEAR_BYTES)?,
            cookie,
            reply_session: reply_session(packet)?,
            key: KeyId(bytes_at(packet, HEADER_BYTES + 10)?),
        })
    }

    /// What an OPEN says in clear.
    pub(crate) fn clear(protocol: u8, number: WireSession, key: KeyId) -> [u8; CLEAR_BYTES] {
        clear_part(KEYED_VERSION, protocol, number, key)
    }
}

/// What an OPEN says in clear.
pub(super) fn clear_part(version: u8, protocol: u8, number: WireSession, key: KeyId) -> [u8; CLEAR_BYTES] {
    let mut clear = [0; CLEAR_BYTES];
    clear[..2].copy_from_slice(&[version, protocol]);
    clear[2..10].copy_from_slice(&number.0.to_le_bytes());
    clear[10..].copy_from_slice(&key.0);
    clear
}

/// The offer of an OPEN, when it is the one that the clear part announced.
pub(crate) fn announced_offer(
    clear: &[u8; CLEAR_BYTES],
    reply_session: WireSession,
    opened: &[u8; OFFER_BYTES],
) -> Result<OfferPacket, Malformed> {
    let offer = parse_opened(opened)?;
    if offer.reply_session != reply_session || offer.protocol != clear[1] {
        return malformed("an OPEN that says one thing in clear and another one sealed");
    }
    Ok(offer)
}

/// The offer of an OPEN or ACCEPT, as it stands there without keys.
pub(crate) fn offer_bytes(packet: &SessionPacket) -> [u8; OFFER_BYTES] {
    let mut head = Head::new();
    packet.put(WireSession::NONE, &mut head);
    bytes_at(head.as_bytes(), HEADER_BYTES).unwrap_or([0; OFFER_BYTES])
}

/// Reads an offer that was sealed.
pub(crate) fn parse_opened(opened: &[u8; OFFER_BYTES]) -> Result<OfferPacket, Malformed> {
    let mut packet = [0; HEADER_BYTES + OFFER_BYTES];
    packet[HEADER_BYTES..].copy_from_slice(opened);
    parse_offer(&packet, packet.len())
}

/// Writes an OPEN.
pub(crate) fn put_keyed_open(clear: [u8; CLEAR_BYTES], hello: &[u8], cookie: Cookie, head: &mut Head) {
    start(Opcode::Open, WireSession::NONE, head);
    head.put(clear);
    head.put_slice(hello);
    if cookie != Cookie::NONE {
        put_cookie(cookie, head);
    }
    head.seal(&[]);
}

/// Writes an ACCEPT of a version.
pub(crate) fn put_keyed_accept(
    session: WireSession,
    [version, protocol]: [u8; 2],
    reply: &[u8; REPLY_BYTES],
    head: &mut Head,
) {
    start(Opcode::Accept, session, head);
    head.put([version, protocol]);
    head.put(*reply);
    head.seal(&[]);
}

/// The second message of an ACCEPT of that version and protocol.
pub(crate) fn parse_keyed_accept(packet: &[u8], of: [u8; 2]) -> Result<[u8; REPLY_BYTES], Malformed> {
    if packet.len() != ACCEPT_BYTES || packet[HEADER_BYTES..REPLY_AT] != of {
        return malformed("an ACCEPT without keys, or of another version or protocol");
    }
    bytes_at(packet, REPLY_AT)
}

pub(super) fn start(opcode: Opcode, session: WireSession, head: &mut Head) {
    head.start(&Header { opcode, flags: Flags::CHECKSUM, session, call: CallKey::NONE });
}

/// Writes a packet of no session, with a code under a cluster key behind it. That of a RESET also covers who
/// says it.
pub(crate) fn put_coded(
    packet: &SessionPacket,
    session: WireSession,
    key: &StatelessKey,
    sender: &Identity,
    head: &mut Head,
) {
    packet.put(session, head);
    let covered = &head.as_bytes()[super::header::CHECKSUM_BYTES..];
    if let SessionPacket::Reset { .. } = packet {
        head.put(key.code::<RESET_CODE_BYTES>(&with_identity(covered, sender)));
    } else {
        head.put(key.code::<CODE_BYTES>(covered));
    }
    head.seal(&[]);
}

/// What the code of a RESET covers: the packet, and which endpoint of which rank says it.
pub(crate) fn with_identity(covered: &[u8], sender: &Identity) -> Vec<u8> {
    [covered, &sender.rank.to_le_bytes(), &sender.endpoint.to_le_bytes()].concat()
}

/// What such a packet says, and its code; `vouches` has to say whether it is one.
pub(crate) fn split_coded<const N: usize>(packet: &[u8]) -> Option<(&[u8], &[u8], &[u8; N])> {
    let (said, code) = packet.split_last_chunk::<N>()?;
    Some((said, said.get(super::header::CHECKSUM_BYTES..)?, code))
}
