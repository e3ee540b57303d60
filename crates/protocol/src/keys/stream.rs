//! The same keys for a connection, on which messages arrive in order or not at all.
//!
//! The two messages of the handshake are the first frame of each side. Afterwards each frame is sealed like a
//! packet without a header: the number in front, the tag behind. A message that is left out, repeated or out
//! of its order ends the connection.

use farcall_base::Entropy;

use super::TAG_BYTES;
use super::cluster::{KeyId, Keyring};
use super::handshake::{Acceptor, CLEAR_BYTES, HELLO_BYTES, OFFER_BYTES, Opener};
use super::phases::{Opening, Sealing};
use crate::wire::HEADER_BYTES;

/// What a frame is for, in front of the key's name. OPEN begins with its version in this place.
const PURPOSE: &[u8; CLEAR_BYTES - KEY_ID_BYTES] = b"connection";

/// How much longer a sealed message is.
pub const SEALED_BYTES: usize = NUMBER_BYTES + TAG_BYTES;

const KEY_ID_BYTES: usize = 8;
const NUMBER_BYTES: usize = 4;

/// The length of the opener's first frame.
const STREAM_HELLO_BYTES: usize = CLEAR_BYTES + HELLO_BYTES;

/// The side that connects, until it is answered.
pub struct StreamOpener(Opener);

impl StreamOpener {
    /// Begins, by the first key of the ring.
    pub fn new(ring: &Keyring, entropy: &mut Entropy) -> Self {
        let mut clear = [0; CLEAR_BYTES];
        clear[..PURPOSE.len()].copy_from_slice(PURPOSE);
        clear[PURPOSE.len()..].copy_from_slice(&ring.own().id.0);
        Self(Opener::of_cluster(ring, clear, &[0; OFFER_BYTES], entropy))
    }

    /// What to send first.
    pub fn hello(&self) -> Vec<u8> {
        [&self.0.clear[..], &self.0.hello].concat()
    }

    /// The keys, when this is the answer of a process that has the cluster key.
    pub fn finish(mut self, reply: &[u8]) -> Option<(StreamSealing, StreamOpening)> {
        let (_, keys) = self.0.finish(reply.try_into().ok()?)?;
        Some(keys.split())
    }
}

/// Answers an opener: what to send first, and the keys. `None` when it does not have one of the keys.
pub fn accept_stream(
    ring: &Keyring,
    hello: &[u8],
    entropy: &mut Entropy,
) -> Option<(Vec<u8>, StreamSealing, StreamOpening)> {
    if hello.len() != STREAM_HELLO_BYTES || !hello.starts_with(PURPOSE) {
        return None;
    }
    let (clear, hello) = hello.split_first_chunk::<CLEAR_BYTES>()?;
    let key = ring.by_id(KeyId(*clear.last_chunk()?))?;
    let (acceptor, _) = Acceptor::of_cluster(ring, key, clear, hello.try_into().ok()?, entropy)?;
    let (reply, keys) = acceptor.answer(&[0; OFFER_BYTES])?;
    let (sealing, opening) = keys.split();
    Some((reply.to_vec(), sealing, opening))
}

/// Seals what one side sends.
pub struct StreamSealing(pub(super) Sealing);

/// Opens what the other one sends.
pub struct StreamOpening(pub(super) Opening);

impl StreamSealing {
    /// A message as a frame, 20 bytes longer.
    pub fn seal(&mut self, message: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; HEADER_BYTES];
        packet.extend_from_slice(message);
        self.0.seal(&mut packet);
        packet.drain(NUMBER_BYTES..HEADER_BYTES);
        packet
    }
}

impl StreamOpening {
    /// The message of a frame; `None` when the connection is to end.
    pub fn open(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let (number, sealed) = frame.split_first_chunk::<NUMBER_BYTES>()?;
        if u32::from_le_bytes(*number) != self.0.next() as u32 {
            return None;
        }
        let mut packet = vec![0; HEADER_BYTES];
        packet[..NUMBER_BYTES].copy_from_slice(number);
        packet.extend_from_slice(sealed);
        self.0.open(&mut packet).ok()?;
        packet.drain(..HEADER_BYTES);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use farcall_base::ClusterKey;

    use super::super::REPLY_BYTES;
    use super::*;

    fn ring(keys: &[u8]) -> Keyring {
        let keys = keys.iter().map(|key| ClusterKey::new([*key; 32])).collect();
        Keyring::new(keys).expect("one to eight keys")
    }

    #[test]
    fn both_sides_read_each_other_in_order_and_nothing_else() {
        let mut entropy = Entropy::repeatable(1);
        let opener = StreamOpener::new(&ring(&[1]), &mut entropy);
        let accepted = accept_stream(&ring(&[2, 1]), &opener.hello(), &mut entropy);
        let (reply, mut there, mut from_here) = accepted.expect("it has the key");
        let (mut here, mut from_there) = opener.finish(&reply).expect("it is the answer");
        let frames: Vec<_> = [&b"one"[..], b"", b"three"].map(|message| here.seal(message)).into();
        assert_eq!(from_here.open(&frames[1]), None, "one is missing");
        assert_eq!(from_here.open(&frames[0]).as_deref(), Some(&b"one"[..]));
        assert_eq!(from_here.open(&frames[0]), None, "it came before");
        let mut altered = frames[1].clone();
        altered[7] ^= 1;
        assert_eq!(from_here.open(&altered), None);
        assert_eq!(from_here.open(&frames[1]).as_deref(), Some(&b""[..]));
        assert_eq!(from_there.open(&there.seal(b"back")).as_deref(), Some(&b"back"[..]));
        assert_eq!(from_there.open(b"abc"), None);
    }

    #[test]
    fn who_has_another_key_gets_no_answer_and_believes_none() {
        let mut entropy = Entropy::repeatable(2);
        let opener = StreamOpener::new(&ring(&[1]), &mut entropy);
        assert!(accept_stream(&ring(&[3]), &opener.hello(), &mut entropy).is_none());
        let mut hello = opener.hello();
        hello[40] ^= 1;
        assert!(accept_stream(&ring(&[1]), &hello, &mut entropy).is_none());
        assert!(accept_stream(&ring(&[1]), b"connection", &mut entropy).is_none());
        assert!(opener.finish(&[7; REPLY_BYTES]).is_none());
    }
}
