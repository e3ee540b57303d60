//! The two messages by which two processes that have the same cluster key agree on the keys of a session:
//! `Noise_NNpsk0_25519_ChaChaPoly_SHA256`, and `Noise_IKpsk1_25519_ChaChaPoly_SHA256` where both have to
//! prove who they are (The Noise Protocol Framework, revision 34).
//!
//! The prologue is what OPEN says in clear: version, protocol, the opener's number and which cluster key. So
//! none of it can be altered. `psk1` mixes the cluster key in before the offer of the first message is
//! sealed, so that it is needed to read one, too.

use std::sync::Arc;

use farcall_base::{Entropy, PrivateKey, PublicKey};
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

use super::cluster::{Keyring, StatelessKey};
use super::identities::Identities;
use super::phases::SessionKeys;

const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
const NOISE_OF_IDENTITIES: &str = "Noise_IKpsk1_25519_ChaChaPoly_SHA256";

/// Says what the handshake is for, in front of the clear part.
const PURPOSE: &[u8; 14] = b"farcall keys 4";
const PURPOSE_OF_IDENTITIES: &[u8; 14] = b"farcall keys 5";

/// What OPEN says in clear behind its header: version, protocol, number, key.
pub(crate) const CLEAR_BYTES: usize = 18;

/// What OPEN and ACCEPT say behind their headers: what is agreed on.
pub(crate) const OFFER_BYTES: usize = 84;

/// A public key, and an offer with its tag.
pub(crate) const HELLO_BYTES: usize = 32 + OFFER_BYTES + 16;

/// The same with a sealed public key between, by which the opener is known.
pub(crate) const IDENTIFIED_HELLO_BYTES: usize = HELLO_BYTES + 32 + 16;

/// A public key, and an offer with its tag: what the acceptor says in either case.
pub(crate) const REPLY_BYTES: usize = HELLO_BYTES;

/// Snow's own functions, and 32 random bytes of ours: the one private key that a side draws.
struct Resolver(Zeroizing<[u8; 32]>);

struct Drawn(Zeroizing<[u8; 32]>);

impl Random for Drawn {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        if bytes.len() != self.0.len() {
            return Err(snow::Error::Rng);
        }
        bytes.copy_from_slice(&*self.0);
        Ok(())
    }
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Drawn(self.0.clone())))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

/// The static keys that a side puts into a handshake.
#[derive(Clone, Copy)]
enum Static<'k> {
    /// None: the cluster key is all.
    None,
    /// Its own.
    Own(&'k PrivateKey),
    /// Its own, and that of the acceptor, which it must know before.
    Both(&'k PrivateKey, &'k PublicKey),
}

/// A handshake of one side, which will draw `private` once.
fn noise(
    key: &[u8; 32],
    prologue: &[u8],
    statics: Static<'_>,
    private: Zeroizing<[u8; 32]>,
    opens: bool,
) -> HandshakeState {
    let build = || -> Result<HandshakeState, snow::Error> {
        let (pattern, place) = match statics {
            Static::None => (NOISE, 0),
            Static::Own(_) | Static::Both(..) => (NOISE_OF_IDENTITIES, 1),
        };
        let pattern: NoiseParams = pattern.parse()?;
        let builder = Builder::with_resolver(pattern, Box::new(Resolver(private)));
        let builder = builder.psk(place, key)?.prologue(prologue)?;
        let builder = match statics {
            Static::None => builder,
            Static::Own(own) => builder.local_private_key(own.expose())?,
            Static::Both(own, peer) => builder.local_private_key(own.expose())?.remote_public_key(&peer.0)?,
        };
        if opens { builder.build_initiator() } else { builder.build_responder() }
    };
    build().expect("the pattern needs nothing but the keys that it was given")
}

fn begin(
    key: &StatelessKey,
    clear: &[u8; CLEAR_BYTES],
    statics: Static<'_>,
    entropy: &mut Entropy,
    opens: bool,
) -> HandshakeState {
    let mut private = Zeroizing::new([0; 32]);
    private.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&entropy.bits().to_le_bytes()));
    let purpose = match statics {
        Static::None => PURPOSE,
        Static::Own(_) | Static::Both(..) => PURPOSE_OF_IDENTITIES,
    };
    noise(key.cluster.expose(), &[&purpose[..], clear].concat(), statics, private, opens)
}

/// What a side knows beside the handshake itself.
struct Terms {
    key: StatelessKey,
    phase_packets: u64,
    /// What the peer is called, where it has to prove who it is.
    peer: Option<Arc<str>>,
}

impl Terms {
    /// The keys of both directions: the opener's first.
    fn split(&self, state: &mut HandshakeState) -> SessionKeys {
        let (of_opener, of_acceptor) = state.dangerously_get_raw_split();
        let (of_opener, of_acceptor) = (Zeroizing::new(of_opener), Zeroizing::new(of_acceptor));
        let (sealing, opening) = match state.is_initiator() {
            true => (of_opener, of_acceptor),
            false => (of_acceptor, of_opener),
        };
        let keys = SessionKeys::new(self.key.id, &sealing, &opening, self.phase_packets);
        keys.of_peer(self.peer.clone())
    }
}

/// The side that asks.
pub(crate) struct Opener {
    state: HandshakeState,
    terms: Terms,
    /// Whose answer is wanted, where the acceptor has to prove who it is.
    acceptor: Option<PublicKey>,
    /// What OPEN says behind its header: the clear part and the first message.
    pub(crate) clear: [u8; CLEAR_BYTES],
    pub(crate) hello: Box<[u8]>,
}

impl Opener {
    /// Begins by the first cluster key of the ring, with an offer for the acceptor alone.
    pub(crate) fn of_cluster(
        ring: &Keyring,
        clear: [u8; CLEAR_BYTES],
        offer: &[u8; OFFER_BYTES],
        entropy: &mut Entropy,
    ) -> Self {
        let terms = Terms { key: ring.own().clone(), phase_packets: ring.phase_packets(), peer: None };
        let state = begin(&terms.key, &clear, Static::None, entropy, true);
        Self::say::<HELLO_BYTES>(state, terms, None, clear, offer)
    }

    /// The same with the holder of that public key, which is called `peer` and to which this side proves who
    /// it is.
    pub(crate) fn of_identity(
        (ring, identities): (&Keyring, &Identities),
        (acceptor, peer): (PublicKey, Arc<str>),
        clear: [u8; CLEAR_BYTES],
        offer: &[u8; OFFER_BYTES],
        entropy: &mut Entropy,
    ) -> Self {
        let terms = Terms { key: ring.own().clone(), phase_packets: ring.phase_packets(), peer: Some(peer) };
        let statics = Static::Both(identities.own(), &acceptor);
        let state = begin(&terms.key, &clear, statics, entropy, true);
        Self::say::<IDENTIFIED_HELLO_BYTES>(state, terms, Some(acceptor), clear, offer)
    }

    fn say<const N: usize>(
        mut state: HandshakeState,
        terms: Terms,
        acceptor: Option<PublicKey>,
        clear: [u8; CLEAR_BYTES],
        offer: &[u8; OFFER_BYTES],
    ) -> Self {
        let mut hello = [0; N];
        let written = state.write_message(offer, &mut hello);
        debug_assert_eq!(written, Ok(N));
        Self { state, terms, acceptor, clear, hello: Box::new(hello) }
    }

    /// The cluster key by which it asks.
    pub(crate) fn key(&self) -> &StatelessKey {
        &self.terms.key
    }

    /// What the acceptor is called, where it has to prove who it is.
    pub(crate) fn peer(&self) -> Option<&str> {
        self.terms.peer.as_deref()
    }

    /// Whose answer is wanted, where the acceptor has to prove who it is.
    pub(crate) fn acceptor(&self) -> Option<&PublicKey> {
        self.acceptor.as_ref()
    }

    /// The acceptor's offer and the keys, if its answer is one to this very handshake. A forged one changes
    /// nothing.
    pub(crate) fn finish(
        &mut self,
        reply: &[u8; REPLY_BYTES],
    ) -> Option<([u8; OFFER_BYTES], Box<SessionKeys>)> {
        let mut offer = [0; OFFER_BYTES];
        let read = self.state.read_message(reply, &mut offer);
        if read != Ok(OFFER_BYTES) {
            return None;
        }
        Some((offer, Box::new(self.terms.split(&mut self.state))))
    }
}

/// The side that is asked.
pub(crate) struct Acceptor {
    state: HandshakeState,
    terms: Terms,
}

/// Why an opener that has made its message for this side is not answered.
pub(crate) enum Unread {
    /// The message was made by other keys, or altered.
    Forged,
    /// The opener has proved to have a key that nobody here knows.
    Stranger,
}

impl Acceptor {
    /// Reads an opener's offer, if it was made with this key. Costs a few hashes: nothing has been agreed on
    /// yet.
    pub(crate) fn of_cluster(
        ring: &Keyring,
        key: &StatelessKey,
        clear: &[u8; CLEAR_BYTES],
        hello: &[u8; HELLO_BYTES],
        entropy: &mut Entropy,
    ) -> Option<(Self, [u8; OFFER_BYTES])> {
        let state = begin(key, clear, Static::None, entropy, false);
        Self::hear(ring, key, state, hello)
    }

    /// The same of one that proves who it is. Costs two agreements on keys: see that not everybody can have
    /// them made.
    pub(crate) fn of_identity(
        (ring, identities): (&Keyring, &Identities),
        key: &StatelessKey,
        clear: &[u8; CLEAR_BYTES],
        hello: &[u8; IDENTIFIED_HELLO_BYTES],
        entropy: &mut Entropy,
    ) -> Result<(Self, [u8; OFFER_BYTES]), Unread> {
        let state = begin(key, clear, Static::Own(identities.own()), entropy, false);
        let (mut this, offer) = Self::hear(ring, key, state, hello).ok_or(Unread::Forged)?;
        let opener = this.state.get_remote_static().and_then(|key| key.try_into().ok()).map(PublicKey);
        let name = opener.and_then(|key| identities.name_of(&key)).ok_or(Unread::Stranger)?;
        this.terms.peer = Some(Arc::clone(name));
        Ok((this, offer))
    }

    fn hear(
        ring: &Keyring,
        key: &StatelessKey,
        mut state: HandshakeState,
        hello: &[u8],
    ) -> Option<(Self, [u8; OFFER_BYTES])> {
        let mut offer = [0; OFFER_BYTES];
        let read = state.read_message(hello, &mut offer);
        let terms = Terms { key: key.clone(), phase_packets: ring.phase_packets(), peer: None };
        (read == Ok(OFFER_BYTES)).then_some((Self { state, terms }, offer))
    }

    /// The second message, with this side's offer, and the keys. `None` for a public key that gives none.
    pub(crate) fn answer(
        mut self,
        offer: &[u8; OFFER_BYTES],
    ) -> Option<([u8; REPLY_BYTES], Box<SessionKeys>)> {
        let mut reply = [0; REPLY_BYTES];
        let written = self.state.write_message(offer, &mut reply);
        if written != Ok(REPLY_BYTES) {
            return None;
        }
        Some((reply, Box::new(self.terms.split(&mut self.state))))
    }
}

/// Shows nothing of the keys.
impl core::fmt::Debug for Opener {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Opener")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(digits: &str) -> Vec<u8> {
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
        (0..digits.len()).step_by(2).map(byte).collect()
    }

    fn secret(digits: &str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(bytes(digits).try_into().expect("32 bytes"))
    }

    const OPENER: &str = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a";
    const ACCEPTOR: &str = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b";

    fn key_of_vectors() -> Zeroizing<[u8; 32]> {
        secret("54686973206973206d7920417573747269616e20706572737065637469766521")
    }

    /// Has both sides say the messages of a vector: payload and bytes of each.
    fn check(mut sides: [HandshakeState; 2], messages: [(&str, &str); 2], hash: &str) {
        for (turn, (payload, message)) in messages.into_iter().enumerate() {
            let (payload, message) = (bytes(payload), bytes(message));
            let (mut said, mut heard) = ([0; 256], [0; 256]);
            let length = sides[turn].write_message(&payload, &mut said).expect("it is its turn");
            assert_eq!(said[..length], message);
            let length = sides[1 - turn].read_message(&said[..length], &mut heard).expect("it is authentic");
            assert_eq!(heard[..length], payload);
        }
        assert!(sides.iter().all(|side| side.get_handshake_hash() == bytes(hash)));
        let [opener, acceptor] = &mut sides;
        assert_eq!(opener.dangerously_get_raw_split(), acceptor.dangerously_get_raw_split());
    }

    /// From the public vectors of the implementation `cacophony`.
    #[test]
    fn both_sides_say_what_the_public_vectors_of_noise_say() {
        let (key, prologue) = (key_of_vectors(), bytes("4a6f686e2047616c74"));
        let side = |private, opens| noise(&key, &prologue, Static::None, secret(private), opens);
        let messages = [
            (
                "4c756477696720766f6e204d69736573",
                "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c794479b962b8aff8485742ac32f905ba4\
                 5369e2465fb59e138a93d67a0d1266b6a54",
            ),
            (
                "4d757272617920526f746862617264",
                "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843d6062704d5a9c422a8e834423f8c1\
                 feada7e8d0d910a1a2cd030fb584221e3",
            ),
        ];
        let hash = "f4d03dc34495c95729ea6de9e1b59004b59733102488b3e24bc441e0be208eaf";
        check([side(OPENER, true), side(ACCEPTOR, false)], messages, hash);
    }

    /// From the same vectors.
    #[test]
    fn with_identities_they_say_what_the_public_vectors_say_too() {
        let (key, prologue) = (key_of_vectors(), bytes("4a6f686e2047616c74"));
        let own = |digits: &str| PrivateKey::from_digits(digits.as_bytes()).expect("a key");
        let opener = own("e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1");
        let acceptor = own("4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893");
        let known = super::super::identities::public_half(&acceptor);
        let sides = [
            noise(&key, &prologue, Static::Both(&opener, &known), secret(OPENER), true),
            noise(&key, &prologue, Static::Own(&acceptor), secret(ACCEPTOR), false),
        ];
        let messages = [
            (
                "4c756477696720766f6e204d69736573",
                "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944ac58a6c31948ce200911c5b27b\
                 67f1c4d1bed490532dd94ed17164fcc5784d3730fc302b70cc0f19beedaeb56bd974c0e57d747d11534c746eb2\
                 a32ac3fde3e4cdf6c3a4705762a6c6ca664b3bc89490",
            ),
            (
                "4d757272617920526f746862617264",
                "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843846a944a0652fb390d213d0700d5a\
                 e8fef7aad0ecc79a9216d15de5d7f3ee4",
            ),
        ];
        let hash = "3ad252ed6f724c52da3450383b7d8b806c183e1ef157bbe0465ad24997ec4717";
        check(sides, messages, hash);
    }
}
