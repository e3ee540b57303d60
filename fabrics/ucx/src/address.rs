//! UCX's addresses in an envelope of ours.
//!
//! UCX reads an address without knowing where it ends, so it must not see one that was damaged, cut off, or
//! made by another library. The envelope is four bytes that say of which it is, and the CRC-32C of what
//! follows. That is no proof of its origin.

use farcall_base::{Address, AddressError};

const MAGIC: [u8; 4] = *b"fUCX";

/// An address of UCX as it is made known to others.
pub fn wrap(inner: &[u8]) -> Result<Address, AddressError> {
    Address::new([&MAGIC, &crc32c::crc32c(inner).to_le_bytes(), inner].concat())
}

/// The address of UCX inside.
pub fn unwrap(address: &Address) -> Result<&[u8], AddressError> {
    let wrong_kind = AddressError::WrongKind { driver: "ucx" };
    let (magic, rest) = address.as_bytes().split_first_chunk::<4>().ok_or(wrong_kind.clone())?;
    let (sum, inner) = rest.split_first_chunk::<4>().ok_or(wrong_kind.clone())?;
    let is_whole = *magic == MAGIC && u32::from_le_bytes(*sum) == crc32c::crc32c(inner) && !inner.is_empty();
    is_whole.then_some(inner).ok_or(wrong_kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_wrapped_and_is_unaltered_is_unwrapped() {
        let address = wrap(b"somewhere").expect("short");
        assert_eq!(unwrap(&address), Ok(&b"somewhere"[..]));
        let bytes = address.as_bytes();
        for place in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[place] ^= 1;
            assert!(unwrap(&Address::new(damaged).expect("short")).is_err(), "byte {place}");
            assert!(unwrap(&Address::new(&bytes[..place]).expect("short")).is_err(), "cut at {place}");
        }
        assert!(unwrap(&wrap(b"").expect("short")).is_err());
    }
}
