//! Keys for packets: whoever lacks the cluster's key reads nothing, changes nothing and opens nothing.
//!
//! A cluster key is 32 bytes that all processes have. Two of them agree on the keys of a session by the
//! handshake `NNpsk0` of the Noise framework, whose two messages ride in OPEN and ACCEPT: the cluster key is
//! mixed in first, so that a stranger's OPEN is known as one before anything costly is done, and both sides
//! add a key that nobody can find again, so that recorded sessions stay closed if the cluster key is lost.
//! From then on every packet of the session is sealed by AES-128-GCM: the header in front stays readable and
//! what follows does not, and neither can be altered.
//!
//! - Packets have numbers of 64 bits, of which the lower half stands in place of the checksum. A window of
//!   [`WINDOW_PACKETS`] tells what came before.
//! - The number also says with which key a packet is sealed: each 2²² packets have a key of their own, made
//!   from the one before, which is forgotten. No bit says so, and so none can be flipped.
//! - What belongs to no session yet or any more (REFUSE, RETRY, RESET) carries a code under the cluster key.
//! - Connections are sealed by the same keys, frame by frame and in order ([`StreamOpener`]).
//! - Where a process also has an identity ([`Identities`]), the handshake is `IKpsk1`: both sides prove by a
//!   key pair of their own who they are, and a peer is let in only if its public key is known.
//! - An endpoint with a key neither sends nor takes a session without: there is nothing to fall back to.
//!
//! Here is what is computed; [`crate::session`] decides when.

mod cluster;
mod handshake;
mod identities;
mod phases;
mod stream;
mod window;

pub(crate) use cluster::{CODE_BYTES, KeyId, RESET_CODE_BYTES, StatelessKey};
pub use cluster::{Keyring, name_of_key};
pub(crate) use handshake::{
    Acceptor, CLEAR_BYTES, HELLO_BYTES, IDENTIFIED_HELLO_BYTES, OFFER_BYTES, Opener, REPLY_BYTES, Unread,
};
pub(crate) use identities::IdentityId;
pub use identities::{BadPeers, Identities, KnownPeer, public_half};
pub(crate) use phases::{SessionKeys, Unsealed};
pub use stream::{SEALED_BYTES, StreamOpener, StreamOpening, StreamSealing, accept_stream};
pub use window::WINDOW_PACKETS;

/// How much longer a packet is by being sealed.
pub const TAG_BYTES: usize = 16;

/// Reads `bytes` as what an attacker without a key does to sessions with keys.
#[doc(hidden)]
pub fn fuzz_keyed(bytes: &[u8]) {
    crate::session::fuzz_keyed(bytes);
}
