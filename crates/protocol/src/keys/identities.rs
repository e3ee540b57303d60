//! Who a process is and whom it knows: its own key pair, and the public keys of peers with their names.
//!
//! A name may have several keys, so that a key is exchanged while both of them count. A key has one name.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use farcall_base::{PrivateKey, PublicKey};
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::Dh;

use super::cluster::derive;

/// The public half of a key pair.
pub fn public_half(private: &PrivateKey) -> PublicKey {
    let mut public = PublicKey([0; PublicKey::BYTES]);
    public.0.copy_from_slice(x25519(private.expose()).pubkey());
    public
}

fn x25519(private: &[u8; 32]) -> Box<dyn Dh> {
    let mut pair = DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("snow is built with X25519");
    pair.set(private);
    pair
}

/// The points of small order, in each way of writing them down that fits 255 bits (the same list is in
/// libsodium, `x25519_ref10.c`): what is agreed on with one of them everybody knows.
const SMALL_ORDER: [[u8; 32]; 7] = [
    [0; 32],
    ends(1, [0; 31]),
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda,
        0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04,
        0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57,
    ],
    ends(0xec, PRIME_REST),
    ends(0xed, PRIME_REST),
    ends(0xee, PRIME_REST),
];

/// The prime 2²⁵⁵ − 19 behind its lowest byte.
const PRIME_REST: [u8; 31] = {
    let mut rest = [0xff; 31];
    rest[30] = 0x7f;
    rest
};

const fn ends(first: u8, rest: [u8; 31]) -> [u8; 32] {
    let mut bytes = [first; 32];
    let (_, place) = bytes.split_at_mut(1);
    place.copy_from_slice(&rest);
    bytes
}

/// Whether anybody could use a key: it is of no pair. The topmost bit of a key says nothing.
fn is_of_small_order(public: &PublicKey) -> bool {
    let mut bytes = public.0;
    bytes[31] &= 0x7f;
    SMALL_ORDER.contains(&bytes)
}

/// Says which public key an OPEN is made for, and nothing else about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdentityId(pub(crate) [u8; 8]);

impl IdentityId {
    /// What an opener says that does not know the acceptor's key.
    pub(crate) const UNKNOWN: Self = Self([0; 8]);

    pub(crate) fn of(public: &PublicKey) -> Self {
        Self(*derive(&public.0, b"farcall identity id"))
    }
}

/// A peer that is known by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPeer {
    /// What it is called here.
    pub name: Arc<str>,
    /// Its public key.
    pub key: PublicKey,
}

/// Why keys are not taken for those of peers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPeers {
    /// One key would prove two names.
    #[error("the key of `{name}` is also that of `{other}`: a key has one name")]
    TwoNames {
        /// The name that comes first.
        name: Arc<str>,
        /// The other one.
        other: Arc<str>,
    },
    /// Anybody could stand for a peer with this key.
    #[error("the key of `{name}` is none that farcall key generate makes: anybody could use it")]
    Weak {
        /// Whose key it would be.
        name: Arc<str>,
    },
}

/// The identity of a process, and the peers that it speaks with.
pub struct Identities {
    own: PrivateKey,
    public: PublicKey,
    id: IdentityId,
    /// In the order in which they were given.
    peers: Vec<KnownPeer>,
    names: BTreeMap<PublicKey, Arc<str>>,
}

impl Identities {
    /// A process with this private key, which knows these peers.
    pub fn new(own: PrivateKey, peers: Vec<KnownPeer>) -> Result<Self, BadPeers> {
        let mut names: BTreeMap<PublicKey, Arc<str>> = BTreeMap::new();
        for KnownPeer { name, key } in &peers {
            if is_of_small_order(key) {
                return Err(BadPeers::Weak { name: Arc::clone(name) });
            }
            match names.insert(*key, Arc::clone(name)) {
                Some(former) if former != *name => {
                    return Err(BadPeers::TwoNames { name: former, other: Arc::clone(name) });
                }
                _ => {}
            }
        }
        let public = public_half(&own);
        Ok(Self { id: IdentityId::of(&public), own, public, peers, names })
    }

    pub(super) fn own(&self) -> &PrivateKey {
        &self.own
    }

    /// What peers know this process by.
    pub(crate) fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn id(&self) -> IdentityId {
        self.id
    }

    /// What the holder of a key is called; `None` of a stranger.
    pub(crate) fn name_of(&self, key: &PublicKey) -> Option<&Arc<str>> {
        self.names.get(key)
    }

    /// Whether a peer is called so.
    fn knows(&self, name: &str) -> bool {
        self.peers.iter().any(|peer| &*peer.name == name)
    }

    /// Who must answer where `expected` is asked for: a peer of that name, if there is one.
    pub(crate) fn must_be<'n>(&self, expected: Option<&'n str>) -> Option<&'n str> {
        expected.filter(|name| self.knows(name))
    }

    /// The key that whoever answers most likely has: the first one of the peer that must answer, or that of
    /// the only peer there is.
    pub(crate) fn guess(&self, must_be: Option<&str>) -> Option<PublicKey> {
        match (must_be, &self.peers[..]) {
            (Some(name), peers) => peers.iter().find(|peer| &*peer.name == name).map(|peer| peer.key),
            (None, [only]) => Some(only.key),
            (None, _) => None,
        }
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identities({}, {} peers)", self.public, self.peers.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, key: PublicKey) -> KnownPeer {
        KnownPeer { name: name.into(), key }
    }

    /// From the public vectors of the implementation `cacophony`.
    #[test]
    fn a_public_half_is_that_of_the_public_vectors() {
        let private = b"4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893";
        let public = "31e0303fd6418d2f8c0e78b91f22e8caed0fbe48656dcf4767e4834f701b8f62";
        let private = PrivateKey::from_digits(private).expect("it is a key");
        assert_eq!(public_half(&private).to_string(), public);
    }

    #[test]
    fn a_name_may_have_keys_and_a_key_one_name() {
        let keys = [1, 2, 3].map(|byte| public_half(&PrivateKey::new([byte; 32])));
        let own = PrivateKey::new([9; 32]);
        let peers = vec![peer("a", keys[0]), peer("a", keys[1]), peer("b", keys[2])];
        let known = Identities::new(own.clone(), peers).expect("they are keys");
        assert_eq!(known.name_of(&keys[1]).map(|name| &**name), Some("a"));
        assert_eq!(known.name_of(&PublicKey([7; 32])), None);
        assert_eq!((known.must_be(Some("b")), known.must_be(Some("c"))), (Some("b"), None));
        assert_eq!((known.guess(Some("a")), known.guess(None)), (Some(keys[0]), None));
        let twice = vec![peer("a", keys[0]), peer("b", keys[0])];
        assert!(matches!(Identities::new(own.clone(), twice), Err(BadPeers::TwoNames { .. })));
        let only = Identities::new(own, vec![peer("a", keys[0])]).expect("it is a key");
        assert_eq!(only.guess(None), Some(keys[0]));
    }

    #[test]
    fn a_key_with_which_anybody_could_agree_is_none() {
        for mut bytes in SMALL_ORDER {
            let mut agreed = [9; 32];
            x25519(&[7; 32]).dh(&bytes, &mut agreed).expect("it is as long as a key");
            assert_eq!(agreed, [0; 32]);
            bytes[31] |= 0x80;
            let key = PublicKey(bytes);
            let made = Identities::new(PrivateKey::new([9; 32]), vec![peer("a", key)]);
            assert_eq!(made.err(), Some(BadPeers::Weak { name: "a".into() }));
        }
    }
}
