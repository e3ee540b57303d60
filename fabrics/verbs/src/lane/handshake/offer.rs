//! What each side offers to the other: where it is to be reached, and what of its memory.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use farcall_driver::{HELLO_BYTES_MAX, LaneFault};

use super::refuse;
use crate::device::Network;
use crate::gid::Gid;

const MAGIC: [u8; 4] = *b"fVRB";
const VERSION: u8 = 2;
/// Bytes of an offer before the hello.
pub const OFFER_BYTES: usize = 4 + 4 + 2 + 16 + 4 + 4 + 2 * (8 + 4 + 8) + 2 + 16;

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

impl<'a> Offer<'a> {
    /// Appends the offer as bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
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

    /// The offer that bytes mean, if it is one that can be taken.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, LaneFault> {
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
pub const NUMBER_MAX: u32 = (1 << 24) - 1;
