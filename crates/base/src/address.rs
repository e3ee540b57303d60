//! Where an endpoint can be reached: an address is bytes that only its own driver can read.
//!
//! The bootstrap carries addresses between processes without understanding them, so that a new fabric needs
//! no change there. A driver that meets an address of another kind must refuse it with [`AddressError`].

use core::fmt;

/// The longest address, in bytes. Most are short: a socket address, a socket's name, a GID with a queue pair
/// number. Libraries that choose among several networks by themselves pack an address on each of them into
/// one.
pub const ADDRESS_BYTES_MAX: usize = 3072;

/// An opaque address: what a driver's `address()` returned in some process.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(Vec<u8>);

impl Address {
    /// Wraps the bytes of an address, at most [`ADDRESS_BYTES_MAX`] of them.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, AddressError> {
        let bytes = bytes.into();
        if bytes.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError::TooLong { bytes: bytes.len() });
        }
        Ok(Self(bytes))
    }

    /// The bytes, to be sent to another process.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.0.escape_ascii())
    }
}

/// Why an address cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Longer than any driver's address: the sender is not a farcall process of this version.
    #[error("an address of {bytes} bytes is longer than the {ADDRESS_BYTES_MAX} allowed")]
    TooLong {
        /// The length met.
        bytes: usize,
    },
    /// The transport has no place for another peer: close some sessions first.
    #[error("this endpoint already has {peers_max} peers, the limit")]
    TooManyPeers {
        /// The limit.
        peers_max: usize,
    },
    /// Of the right fabric, but nothing leads there from here.
    #[error("nothing leads to the address: {why}")]
    OutOfReach {
        /// What would have to be different.
        why: &'static str,
    },
    /// Of an endpoint over several fabrics, none of which leads there from here.
    #[error("no way leads to the address: {why}")]
    NoWay {
        /// Each way, and what is in the way.
        why: String,
    },
    /// Of another fabric, or damaged: use the transport that the peer uses.
    #[error("the address is not one of driver `{driver}`")]
    WrongKind {
        /// The driver that refused.
        driver: &'static str,
    },
}
