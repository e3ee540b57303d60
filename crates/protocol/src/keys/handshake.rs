//! The two messages by which two processes that have the same cluster key agree on the keys of a session:
//! `Noise_NNpsk0_25519_ChaChaPoly_SHA256` (The Noise Protocol Framework, revision 34).
//!
//! The prologue is what OPEN says in clear: version, protocol, the opener's number and which cluster key. So
//! none of it can be altered.

use farcall_base::Entropy;
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

use super::cluster::{KeyId, Keyring, StatelessKey};
use super::phases::SessionKeys;

const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

/// Says what the handshake is for, in front of the clear part.
const PURPOSE: &[u8; 14] = b"farcall keys 4";

/// What OPEN says in clear behind its header: version, protocol, number, key.
pub(crate) const CLEAR_BYTES: usize = 18;

/// What OPEN and ACCEPT say behind their headers: what is agreed on.
pub(crate) const OFFER_BYTES: usize = 84;

/// A public key, and an offer with its tag.
pub(crate) const HELLO_BYTES: usize = 32 + OFFER_BYTES + 16;

/// The same, of the acceptor.
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

/// A handshake of one side, which will draw `private` once.
fn noise(key: &[u8; 32], prologue: &[u8], private: Zeroizing<[u8; 32]>, opens: bool) -> HandshakeState {
    let build = || -> Result<HandshakeState, snow::Error> {
        let pattern: NoiseParams = NOISE.parse()?;
        let builder = Builder::with_resolver(pattern, Box::new(Resolver(private)));
        let builder = builder.psk(0, key)?.prologue(prologue)?;
        if opens { builder.build_initiator() } else { builder.build_responder() }
    };
    build().expect("the pattern needs nothing but the key that it was given")
}

fn begin(
    key: &StatelessKey,
    clear: &[u8; CLEAR_BYTES],
    entropy: &mut Entropy,
    opens: bool,
) -> HandshakeState {
    let mut private = Zeroizing::new([0; 32]);
    private.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&entropy.bits().to_le_bytes()));
    noise(key.cluster.expose(), &[&PURPOSE[..], clear].concat(), private, opens)
}

/// The keys of both directions: the opener's first.
fn split(state: &mut HandshakeState, cluster: KeyId, phase_packets: u64) -> SessionKeys {
    let (of_opener, of_acceptor) = state.dangerously_get_raw_split();
    let (of_opener, of_acceptor) = (Zeroizing::new(of_opener), Zeroizing::new(of_acceptor));
    if state.is_initiator() {
        SessionKeys::new(cluster, &of_opener, &of_acceptor, phase_packets)
    } else {
        SessionKeys::new(cluster, &of_acceptor, &of_opener, phase_packets)
    }
}

/// The side that asks.
pub(crate) struct Opener {
    state: HandshakeState,
    cluster: KeyId,
    phase_packets: u64,
    /// What OPEN says behind its header: the clear part and the first message.
    pub(crate) clear: [u8; CLEAR_BYTES],
    pub(crate) hello: [u8; HELLO_BYTES],
}

impl Opener {
    /// Begins, with an offer for the acceptor alone.
    pub(crate) fn new(
        ring: &Keyring,
        clear: [u8; CLEAR_BYTES],
        offer: &[u8; OFFER_BYTES],
        entropy: &mut Entropy,
    ) -> Self {
        let mut state = begin(ring.own(), &clear, entropy, true);
        let mut hello = [0; HELLO_BYTES];
        let written = state.write_message(offer, &mut hello);
        debug_assert_eq!(written, Ok(HELLO_BYTES));
        Self { state, cluster: ring.own().id, phase_packets: ring.phase_packets(), clear, hello }
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
        Some((offer, Box::new(split(&mut self.state, self.cluster, self.phase_packets))))
    }
}

/// The side that is asked.
pub(crate) struct Acceptor {
    state: HandshakeState,
    cluster: KeyId,
    phase_packets: u64,
}

impl Acceptor {
    /// Reads an opener's offer, if it was made with this key. Costs a few hashes: nothing has been agreed on
    /// yet.
    pub(crate) fn read(
        ring: &Keyring,
        key: &StatelessKey,
        clear: &[u8; CLEAR_BYTES],
        hello: &[u8; HELLO_BYTES],
        entropy: &mut Entropy,
    ) -> Option<(Self, [u8; OFFER_BYTES])> {
        let mut state = begin(key, clear, entropy, false);
        let mut offer = [0; OFFER_BYTES];
        let read = state.read_message(hello, &mut offer);
        let this = Self { state, cluster: key.id, phase_packets: ring.phase_packets() };
        (read == Ok(OFFER_BYTES)).then_some((this, offer))
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
        Some((reply, Box::new(split(&mut self.state, self.cluster, self.phase_packets))))
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

    /// From the public vectors of the implementation `cacophony`.
    #[test]
    fn both_sides_say_what_the_public_vectors_of_noise_say() {
        let key = secret("54686973206973206d7920417573747269616e20706572737065637469766521");
        let prologue = bytes("4a6f686e2047616c74");
        let opener = secret("893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a");
        let acceptor = secret("bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b");
        let mut sides = [noise(&key, &prologue, opener, true), noise(&key, &prologue, acceptor, false)];
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
        for (turn, (payload, message)) in messages.into_iter().enumerate() {
            let (payload, message) = (bytes(payload), bytes(message));
            let (mut said, mut heard) = ([0; 128], [0; 128]);
            let length = sides[turn].write_message(&payload, &mut said).expect("it is its turn");
            assert_eq!(said[..length], message);
            let length = sides[1 - turn].read_message(&said[..length], &mut heard).expect("it is authentic");
            assert_eq!(heard[..length], payload);
        }
        let hash = bytes("f4d03dc34495c95729ea6de9e1b59004b59733102488b3e24bc441e0be208eaf");
        assert!(sides.iter().all(|side| side.get_handshake_hash() == hash));
        let [opener, acceptor] = &mut sides;
        assert_eq!(opener.dangerously_get_raw_split(), acceptor.dangerously_get_raw_split());
    }
}
