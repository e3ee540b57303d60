//! Where the bytes in front of a payload are put together.
//!
//! A packet leaves as two parts: its head, built here, and a piece of somebody's payload, which is not
//! copied. The checksum covers both and stands in front, so it is put in last.

use super::header::{CHECKSUM_BYTES, Header};

/// The longest head: an OPEN with identities.
pub const HEAD_BYTES_MAX: usize = 264;

/// A packet's head under construction. Kept by the caller and used again for every packet.
#[derive(Clone, Debug)]
pub struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    length: usize,
}

impl Default for Head {
    fn default() -> Self {
        Self::new()
    }
}

impl Head {
    /// An empty head.
    pub const fn new() -> Self {
        Self { bytes: [0; HEAD_BYTES_MAX], length: 0 }
    }

    /// The bytes so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Starts over with a packet's header; the checksum stays 0 until [`Head::seal`].
    #[inline]
    pub(crate) fn start(&mut self, header: &Header) {
        self.bytes[..CHECKSUM_BYTES].fill(0);
        self.length = CHECKSUM_BYTES;
        header.put(self);
    }

    /// Appends bytes.
    ///
    /// # Panics
    /// Beyond [`HEAD_BYTES_MAX`]; no packet of this crate has a longer head.
    #[inline]
    pub(crate) fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.length..self.length + N].copy_from_slice(&bytes);
        self.length += N;
    }

    /// Appends bytes of any number.
    ///
    /// # Panics
    /// As for [`Head::put`].
    pub(crate) fn put_slice(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// What was built is sealed now.
    ///
    /// # Panics
    /// Beyond [`HEAD_BYTES_MAX`]: only packets of sessions are sealed here.
    pub(crate) fn replace(&mut self, sealed: &[u8]) {
        self.bytes[..sealed.len()].copy_from_slice(sealed);
        self.length = sealed.len();
    }

    /// Puts in the checksum of everything after it, the payload included.
    #[inline]
    pub fn seal(&mut self, payload: &[u8]) {
        let mut sum = crc32c::crc32c(&self.bytes[CHECKSUM_BYTES..self.length]);
        if !payload.is_empty() {
            sum = crc32c::crc32c_append(sum, payload);
        }
        self.bytes[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    }
}
