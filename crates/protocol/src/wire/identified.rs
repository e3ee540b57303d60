//! OPEN and RETRY where both sides prove who they are, as far as they differ from those with a cluster key.
//!
//! OPEN ends with a code under the cluster key, so that a stranger is known before anything costly is done,
//! and always has room for a cookie, so that it is never shorter than what answers it. RETRY says for which
//! public key OPEN is to be made.

use farcall_base::PublicKey;

use crate::keys::{CLEAR_BYTES, CODE_BYTES, IDENTIFIED_HELLO_BYTES, IdentityId, KeyId, StatelessKey};

use super::header::CHECKSUM_BYTES;
use super::keyed::{clear_part, start};
use super::session::{COOKIE_BYTES, cookie_at, put_cookie, reply_session};
use super::{Cookie, HEADER_BYTES, Head, Malformed, Opcode, WireSession, bytes_at, malformed};

/// The version of OPEN and ACCEPT with identities.
pub const IDENTIFIED_VERSION: u8 = 5;

const IDENTITY_AT: usize = HEADER_BYTES + CLEAR_BYTES;
const HELLO_AT: usize = IDENTITY_AT + 8;
const COOKIE_AT: usize = HELLO_AT + IDENTIFIED_HELLO_BYTES;
const CODE_AT: usize = COOKIE_AT + COOKIE_BYTES;
const OPEN_BYTES: usize = CODE_AT + CODE_BYTES;
const RETRY_KEY_AT: usize = HEADER_BYTES + COOKIE_BYTES;
const RETRY_BYTES: usize = RETRY_KEY_AT + PublicKey::BYTES;

/// What stands in place of the first message in an OPEN that asks for the acceptor's key.
const NO_HELLO: [u8; IDENTIFIED_HELLO_BYTES] = [0; IDENTIFIED_HELLO_BYTES];

/// An OPEN whose opener is not known yet.
pub(crate) struct IdentifiedOpen<'a> {
    pub(crate) clear: [u8; CLEAR_BYTES],
    pub(crate) key: KeyId,
    pub(crate) reply_session: WireSession,
    /// For whom it is made.
    pub(crate) identity: IdentityId,
    pub(crate) hello: [u8; IDENTIFIED_HELLO_BYTES],
    pub(crate) cookie: Cookie,
    covered: &'a [u8],
    code: [u8; CODE_BYTES],
}

impl<'a> IdentifiedOpen<'a> {
    pub(crate) fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        if packet.len() != OPEN_BYTES {
            return malformed("an OPEN with identities of another length");
        }
        Ok(Self {
            clear: bytes_at(packet, HEADER_BYTES)?,
            key: KeyId(bytes_at(packet, HEADER_BYTES + 10)?),
            reply_session: reply_session(packet)?,
            identity: IdentityId(bytes_at(packet, IDENTITY_AT)?),
            hello: bytes_at(packet, HELLO_AT)?,
            cookie: cookie_at(packet, COOKIE_AT)?,
            covered: &packet[CHECKSUM_BYTES..CODE_AT],
            code: bytes_at(packet, CODE_AT)?,
        })
    }

    /// Whether its sender has this cluster key.
    pub(crate) fn is_vouched_by(&self, key: &StatelessKey) -> bool {
        key.vouches(self.covered, &self.code)
    }

    /// What an OPEN says in clear.
    pub(crate) fn clear(protocol: u8, number: WireSession, key: KeyId) -> [u8; CLEAR_BYTES] {
        clear_part(IDENTIFIED_VERSION, protocol, number, key)
    }
}

/// Writes an OPEN for the holder of a key; without a message it asks for that key.
pub(crate) fn put_identified_open(
    clear: [u8; CLEAR_BYTES],
    made: Option<(IdentityId, &[u8])>,
    cookie: Cookie,
    key: &StatelessKey,
    head: &mut Head,
) {
    let (identity, hello) = made.unwrap_or((IdentityId::UNKNOWN, &NO_HELLO));
    start(Opcode::Open, WireSession::NONE, head);
    head.put(clear);
    head.put(identity.0);
    head.put_slice(hello);
    put_cookie(cookie, head);
    let code = key.code::<CODE_BYTES>(&head.as_bytes()[CHECKSUM_BYTES..]);
    head.put(code);
    head.seal(&[]);
}

/// Writes a RETRY: the same OPEN is wanted again, with this cookie and made for this key.
pub(crate) fn put_identified_retry(
    session: WireSession,
    cookie: Cookie,
    own: &PublicKey,
    key: &StatelessKey,
    head: &mut Head,
) {
    start(Opcode::Retry, session, head);
    put_cookie(cookie, head);
    head.put(own.0);
    let code = key.code::<CODE_BYTES>(&head.as_bytes()[CHECKSUM_BYTES..]);
    head.put(code);
    head.seal(&[]);
}

/// What a RETRY says of which the code was taken off.
pub(crate) fn parse_identified_retry(said: &[u8]) -> Result<(Cookie, PublicKey), Malformed> {
    if said.len() != RETRY_BYTES {
        return malformed("a RETRY with identities of another length");
    }
    Ok((cookie_at(said, HEADER_BYTES)?, PublicKey(bytes_at(said, RETRY_KEY_AT)?)))
}

const _: () = assert!(RETRY_BYTES + CODE_BYTES <= OPEN_BYTES, "a stranger is sent no more than it sent");
