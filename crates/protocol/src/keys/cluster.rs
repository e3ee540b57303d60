//! The cluster keys that a process has, what is derived from them, and codes by which a process is known
//! without a session.

use core::fmt;
use std::sync::Arc;

use farcall_base::{ClusterKey, KeyName};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use ring::hmac;
use zeroize::Zeroizing;

use super::identities::Identities;
use super::phases::PHASE_PACKETS;

/// The length of the code of REFUSE and RETRY.
pub(crate) const CODE_BYTES: usize = 16;

/// That of RESET, which must not be longer than the shortest packet that it answers.
pub(crate) const RESET_CODE_BYTES: usize = 8;

/// 32 bytes that nobody else knows.
pub(super) type Secret = Zeroizing<[u8; 32]>;

/// How many bytes to derive.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// Bytes for a purpose, from which neither the secret nor what it gives for other purposes can be found:
/// HKDF-Expand with SHA-256 (RFC 5869).
pub(super) fn derive<const N: usize>(secret: &[u8; 32], purpose: &[u8]) -> Zeroizing<[u8; N]> {
    let mut derived = Zeroizing::new([0; N]);
    let secret = Prk::new_less_safe(HKDF_SHA256, secret);
    secret
        .expand(&[purpose], Bytes(N))
        .and_then(|bytes| bytes.fill(&mut *derived))
        .expect("HKDF gives up to 8160 bytes, and as many as were asked for");
    derived
}

/// Says which key an OPEN is sealed with, and nothing else about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyId(pub(crate) [u8; 8]);

/// One key with what is derived from it once.
#[derive(Clone)]
pub(crate) struct StatelessKey {
    pub(super) cluster: ClusterKey,
    pub(crate) id: KeyId,
    code: hmac::Key,
}

impl StatelessKey {
    fn new(cluster: ClusterKey) -> Self {
        let id = KeyId(name_of_key(&cluster).0);
        let code = derive::<32>(cluster.expose(), b"farcall code");
        Self { id, code: hmac::Key::new(hmac::HMAC_SHA256, &*code), cluster }
    }

    /// A code over a packet that belongs to no session.
    pub(crate) fn code<const N: usize>(&self, packet: &[u8]) -> [u8; N] {
        let tag = hmac::sign(&self.code, packet);
        *tag.as_ref().first_chunk().expect("a code is at most 32 bytes")
    }
}

/// Shows which key it is, and nothing of it.
impl fmt::Debug for StatelessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatelessKey({})", KeyName(self.id.0))
    }
}

/// What a cluster key is called.
pub fn name_of_key(key: &ClusterKey) -> KeyName {
    KeyName(*derive(key.expose(), b"farcall key id"))
}

/// The keys of a cluster that a process has: it begins sessions with the first one, and takes sessions by any
/// of them, so that keys are exchanged without a stop. Beside them its identity, if peers must prove theirs.
#[derive(Clone)]
pub struct Keyring {
    keys: Vec<StatelessKey>,
    identities: Option<Arc<Identities>>,
    phase_packets: u64,
}

impl Keyring {
    /// A ring of at least one and at most [`ClusterKey::RING_MAX`] keys; `None` of fewer or more.
    pub fn new(keys: Vec<ClusterKey>) -> Option<Self> {
        if keys.is_empty() || keys.len() > ClusterKey::RING_MAX {
            return None;
        }
        let keys = keys.into_iter().map(StatelessKey::new).collect();
        Some(Self { keys, identities: None, phase_packets: PHASE_PACKETS })
    }

    /// The same keys, by which peers are let in that prove who they are beside.
    #[must_use]
    pub fn identified_by(self, identities: Arc<Identities>) -> Self {
        Self { identities: Some(identities), ..self }
    }

    /// The same keys, with so many packets for each key of a session. Both sides must have the same: this is
    /// for tests, which see many keys in little time.
    #[cfg(test)]
    pub(crate) fn with_phase_packets(self, phase_packets: u64) -> Self {
        Self { phase_packets, ..self }
    }

    /// What each key may be called by: it says nothing about the key but which one it is.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.keys.iter().map(|key| KeyName(key.id.0).to_string())
    }

    pub(crate) fn phase_packets(&self) -> u64 {
        self.phase_packets
    }

    /// The key that this side uses.
    pub(crate) fn own(&self) -> &StatelessKey {
        &self.keys[0]
    }

    /// Who this side is and whom it knows, if peers must prove who they are.
    pub(crate) fn identities(&self) -> Option<&Arc<Identities>> {
        self.identities.as_ref()
    }

    /// The key with that name.
    pub(crate) fn by_id(&self, id: KeyId) -> Option<&StatelessKey> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// Whether one of the keys gave this code to a packet.
    pub(crate) fn vouches<const N: usize>(&self, packet: &[u8], code: &[u8; N]) -> bool {
        self.keys.iter().any(|key| key.vouches(packet, code))
    }
}

impl StatelessKey {
    /// Whether this key gave this code to a packet.
    pub(crate) fn vouches<const N: usize>(&self, packet: &[u8], code: &[u8; N]) -> bool {
        equal(&self.code::<N>(packet), code)
    }
}

/// Compares in a time that says nothing about where two codes differ.
fn equal<const N: usize>(one: &[u8; N], other: &[u8; N]) -> bool {
    one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

/// Shows which keys they are, and nothing of them.
impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
