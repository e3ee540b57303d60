//! The handshake of a ring session: who we are, which versions we speak, and how much we take.
//!
//! Each side sends one [`Hello`] when the lane comes up, and each takes the smaller of the two values of
//! every limit.

use farcall_base::Identity;

/// The version of the ring protocol that this code speaks.
pub const VERSION: u8 = 3;

/// Bytes of a [`Hello`] on the wire.
pub const HELLO_BYTES: usize = 40;

/// The bit of a hello whose sender reads notices.
const READS_NOTICES: u8 = 1;

const MAGIC: [u8; 4] = *b"fRNG";

/// One side's offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The identity of the sender.
    pub identity: Identity,
    /// The longest message that it takes, in bytes.
    pub message_bytes_max: u64,
    /// The most unanswered calls that it takes.
    pub calls_max: u32,
    /// How much of the peer's tagged messages may wait here for a receive, in lines as
    /// [`matching::lines`](crate::matching::lines) counts them; 0 takes no messages.
    pub unexpected_lines: u32,
    /// Whether it reads notices: see [`matching::Notice`](crate::matching::Notice).
    pub reads_notices: bool,
}

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Not a hello of this protocol at all.
    #[error("the peer does not speak the ring protocol")]
    Malformed,
    /// The peer speaks only versions that we do not.
    #[error(
        "the peer speaks versions {oldest} to {newest} of the ring protocol, this program version {VERSION}"
    )]
    Version {
        /// The peer's oldest version.
        oldest: u8,
        /// The peer's newest version.
        newest: u8,
    },
    /// The peer claims a rank that the world does not have.
    #[error("the peer calls itself rank {rank}; the world has {ranks}, counted from 0")]
    Rank {
        /// The rank claimed.
        rank: u32,
        /// The number of ranks.
        ranks: u32,
    },
}

impl Hello {
    /// The hello on the wire.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION; // the oldest version that we speak
        bytes[5] = VERSION; // the newest
        bytes[6] = if self.reads_notices { READS_NOTICES } else { 0 };
        bytes[8..16].copy_from_slice(&self.identity.incarnation.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.identity.rank.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.identity.endpoint.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.message_bytes_max.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.calls_max.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.unexpected_lines.to_le_bytes());
        bytes
    }

    /// The hello that the bytes mean. Bytes beyond those of this version are ignored.
    pub fn decode(bytes: &[u8]) -> Result<Self, HelloError> {
        let bytes = bytes.first_chunk::<HELLO_BYTES>().ok_or(HelloError::Malformed)?;
        if bytes[..4] != MAGIC {
            return Err(HelloError::Malformed);
        }
        let (oldest, newest) = (bytes[4], bytes[5]);
        if !(oldest..=newest).contains(&VERSION) {
            return Err(HelloError::Version { oldest, newest });
        }
        let word32 = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let word64 = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let identity = Identity { incarnation: word64(8), rank: word32(16), endpoint: word32(20) };
        let hello = Self {
            identity,
            message_bytes_max: word64(24),
            calls_max: word32(32),
            unexpected_lines: word32(36),
            reads_notices: bytes[6] & READS_NOTICES != 0,
        };
        if identity.incarnation == 0 || hello.calls_max == 0 {
            return Err(HelloError::Malformed);
        }
        Ok(hello)
    }

    /// The limits that hold between this side and `peer`: (longest message in bytes, most unanswered calls).
    pub fn limits_with(&self, peer: &Self) -> (u64, u32) {
        (self.message_bytes_max.min(peer.message_bytes_max), self.calls_max.min(peer.calls_max))
    }
}
