//! The messages that set up a lane, over a TCP connection that then stays to tell of the peer's end.
//!
//! The caller sends its offer; the called side connects its queue pair and answers with its own; the caller connects and
//! says that it is ready. Where rdma_cm connects, the called side only answers, and the caller asks the other's rdma_cm for a
//! connection before it says that it is ready. Each message is a length, a kind and a body; all numbers are little-endian.

#[cfg(test)]
mod tests;

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use farcall_driver::{HELLO_BYTES_MAX, LaneFault};

use crate::device::Network;
use crate::gid::Gid;

const MAGIC: [u8; 4] = *b"fVRB";
const VERSION: u8 = 2;
/// Bytes of an offer before the hello.
const OFFER_BYTES: usize = 4 + 4 + 2 + 16 + 4 + 4 + 2 * (8 + 4 + 8) + 2 + 16;
/// Bytes of a message before its body.
const FRAME_BYTES: usize = 3;
/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = FRAME_BYTES + COOKIE_BYTES + OFFER_BYTES + HELLO_BYTES_MAX;
/// Bytes of what a caller must know of the called driver, so that a driver that took over its port is not mistaken for it.
pub const COOKIE_BYTES: usize = 8;

/// The smallest ring, in bytes.
pub const RING_BYTES_MIN: usize = 4096;
/// The largest ring, in bytes: a write carries a whole ring at most, and cards carry 2 GB.
pub const RING_BYTES_MAX: usize = 1 << 30;
/// The largest block memory, in bytes.
pub const BLOCK_BYTES_MAX: usize = 1 << 40;

/// What a peer may reach of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerMemory {
    /// Where its ring lies, which we write.
    pub ring_address: u64,
    /// The key to it.
    pub ring_key: u32,
    /// Its length; a power of two.
    pub ring_bytes: u64,
    /// Where its blocks lie, which we read.
    pub blocks_address: u64,
    /// The key to them.
    pub blocks_key: u32,
    /// Their length.
    pub blocks_bytes: u64,
}

/// The networks, by the numbers that offers give them.
const NETWORKS: [Network; 3] = [Network::InfiniBand, Network::Roce, Network::Iwarp];

/// What one side offers to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer<'a> {
    /// What its port is connected to.
    pub network: Network,
    /// The longest packet of its link, as verbs number it.
    pub mtu: u8,
    /// Its port's local identifier.
    pub lid: u16,
    /// Its port's address.
    pub gid: Gid,
    /// Its queue pair.
    pub number: u32,
    /// Where that begins to count packets.
    pub sequence: u32,
    /// Its memory.
    pub memory: PeerMemory,
    /// Where its rdma_cm listens, if that is to connect the queue pairs.
    pub manager: Option<SocketAddr>,
    /// The hello or welcome of the layer above.
    pub hello: &'a [u8],
}

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

impl<'a> Offer<'a> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(MAGIC);
        let network = NETWORKS.iter().position(|network| *network == self.network).expect("all are there");
        bytes.extend([VERSION, network as u8, self.mtu, u8::from(self.manager.is_some())]);
        bytes.extend(self.lid.to_le_bytes());
        bytes.extend(self.gid.0);
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        let PeerMemory { ring_address, ring_key, ring_bytes, blocks_address, blocks_key, blocks_bytes } =
            self.memory;
        for (address, key, length) in
            [(ring_address, ring_key, ring_bytes), (blocks_address, blocks_key, blocks_bytes)]
        {
            bytes.extend(address.to_le_bytes());
            bytes.extend(key.to_le_bytes());
            bytes.extend(length.to_le_bytes());
        }
        let (port, ip) = self.manager.map_or((0, Ipv6Addr::UNSPECIFIED), |place| {
            let ip = match place.ip() {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            (place.port(), ip)
        });
        bytes.extend(port.to_le_bytes());
        bytes.extend(ip.octets());
        bytes.extend(self.hello);
    }

    fn decode(bytes: &'a [u8]) -> Result<Self, LaneFault> {
        let (offer, hello) = bytes.split_at_checked(OFFER_BYTES).ok_or_else(|| refuse("a short offer"))?;
        if offer[..4] != MAGIC {
            return Err(refuse("it does not speak farcall's verbs handshake"));
        }
        if offer[4] != VERSION {
            return Err(refuse(format!(
                "it speaks version {} of the handshake, this program {VERSION}",
                offer[4]
            )));
        }
        let word = |at: usize| u64::from_le_bytes(offer[at..at + 8].try_into().expect("eight bytes"));
        let gid_at = |at: usize| Gid(offer[at..at + 16].try_into().expect("sixteen bytes"));
        let half = |at: usize| u32::from_le_bytes(offer[at..at + 4].try_into().expect("four bytes"));
        let offer = Self {
            network: *NETWORKS.get(usize::from(offer[5])).ok_or_else(|| refuse("a damaged offer"))?,
            mtu: offer[6],
            lid: u16::from_le_bytes([offer[8], offer[9]]),
            gid: gid_at(10),
            number: half(26),
            sequence: half(30),
            memory: PeerMemory {
                ring_address: word(34),
                ring_key: half(42),
                ring_bytes: word(46),
                blocks_address: word(54),
                blocks_key: half(62),
                blocks_bytes: word(66),
            },
            manager: match offer[7] {
                0 if offer[74..].iter().all(|byte| *byte == 0) => None,
                1 => Some(SocketAddr::new(gid_at(76).ip(), u16::from_le_bytes([offer[74], offer[75]]))),
                _ => return Err(refuse("a damaged offer")),
            },
            hello,
        };
        offer.check()?;
        Ok(offer)
    }

    fn check(&self) -> Result<(), LaneFault> {
        let ring_bytes = usize::try_from(self.memory.ring_bytes).unwrap_or(usize::MAX);
        if !ring_bytes.is_power_of_two() || !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(&ring_bytes) {
            return Err(refuse(format!(
                "its ring of {ring_bytes} bytes is not a power of two from 4K to 1G"
            )));
        }
        if self.memory.blocks_bytes > BLOCK_BYTES_MAX as u64 {
            return Err(refuse("its block memory is larger than 1T"));
        }
        if !(1..=5).contains(&self.mtu) || self.number > NUMBER_MAX || self.sequence > NUMBER_MAX {
            return Err(refuse("a damaged offer"));
        }
        if self.manager.is_some_and(|place| place.port() == 0 || place.ip().is_unspecified()) {
            return Err(refuse("rdma_cm does not listen there"));
        }
        if self.hello.len() > HELLO_BYTES_MAX {
            return Err(refuse("its hello is too long"));
        }
        Ok(())
    }
}

/// The largest number of a queue pair or packet.
const NUMBER_MAX: u32 = (1 << 24) - 1;

fn refuse(why: impl ToString) -> LaneFault {
    LaneFault::Unacceptable { why: why.to_string() }
}
