//! The messages that set up a lane, over a TCP connection that then stays open to report the peer's end.
//!
//! The caller sends its offer; the called side connects its queue pair and answers with its own; the caller
//! connects and says that it is ready. Where rdma_cm connects, the called side only answers, and the caller
//! asks the other's rdma_cm for a connection before it says that it is ready. Each message is a length, a
//! kind and a body; all numbers are little-endian.

mod offer;
#[cfg(test)]
mod tests;

use farcall_driver::{HELLO_BYTES_MAX, LaneFault};

use offer::OFFER_BYTES;
pub use offer::{BLOCK_BYTES_MAX, Offer, PeerMemory, RING_BYTES_MAX, RING_BYTES_MIN};

/// Bytes of a message before its body.
const FRAME_BYTES: usize = 3;
/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = FRAME_BYTES + COOKIE_BYTES + OFFER_BYTES + HELLO_BYTES_MAX;
/// Bytes of what a caller must know of the called driver, so that a driver that took over its port is not
/// mistaken for it.
pub const COOKIE_BYTES: usize = 8;

/// A message of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The caller's part, with the called driver's cookie.
    Call([u8; COOKIE_BYTES], Offer<'a>),
    /// The called side's part.
    Answer(Offer<'a>),
    /// The caller is connected.
    Ready,
    /// The lane is closed.
    Goodbye,
    /// The address belongs to another driver by now.
    Stranger,
    /// There will be no lane, for a reason in words.
    Refusal(&'a str),
}

const CALL: u8 = b'C';
const ANSWER: u8 = b'A';
const READY: u8 = b'R';
const GOODBYE: u8 = b'D';
const STRANGER: u8 = b'S';
const REFUSAL: u8 = b'N';

impl<'a> Message<'a> {
    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; FRAME_BYTES];
        bytes[2] = match self {
            Self::Call(cookie, offer) => {
                bytes.extend(cookie);
                offer.encode(&mut bytes);
                CALL
            }
            Self::Answer(offer) => {
                offer.encode(&mut bytes);
                ANSWER
            }
            Self::Ready => READY,
            Self::Goodbye => GOODBYE,
            Self::Stranger => STRANGER,
            Self::Refusal(why) => {
                let longest = why.len().min(HELLO_BYTES_MAX);
                let end = (0..=longest).rfind(|at| why.is_char_boundary(*at)).unwrap_or(0);
                bytes.extend(&why.as_bytes()[..end]);
                REFUSAL
            }
        };
        let length = bytes.len() as u16;
        bytes[..2].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    /// The first message in `bytes` and its length; `None` when it is not complete yet.
    pub fn decode(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, LaneFault> {
        let Some((length, _)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
        let length = usize::from(u16::from_le_bytes(*length));
        if !(FRAME_BYTES..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(refuse("it does not speak farcall's verbs handshake"));
        }
        let Some(message) = bytes.get(2..length) else { return Ok(None) };
        let (kind, body) = message.split_first().expect("a message has a kind");
        let message = match *kind {
            CALL => {
                let (cookie, offer) = body.split_first_chunk().ok_or_else(|| refuse("a short call"))?;
                Self::Call(*cookie, Offer::decode(offer)?)
            }
            ANSWER => Self::Answer(Offer::decode(body)?),
            READY => Self::Ready,
            GOODBYE => Self::Goodbye,
            STRANGER => Self::Stranger,
            REFUSAL => Self::Refusal(core::str::from_utf8(body).unwrap_or("it did not say why")),
            _ => return Err(refuse("it does not speak farcall's verbs handshake")),
        };
        Ok(Some((message, length)))
    }
}

/// Why there will be no lane.
fn refuse(why: impl ToString) -> LaneFault {
    LaneFault::Unacceptable { why: why.to_string() }
}
