//! Addresses of a provider as packets carry them.

/// The longest address of a provider for datagrams, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// One address. All of a provider's have the same length, which is not repeated in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    length: u8,
}

impl Name {
    /// The address of these bytes; `None` when they are too many.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut name = [0; NAME_BYTES_MAX];
        name.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { bytes: name, length: bytes.len() as u8 })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}
