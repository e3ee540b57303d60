//! libfabric's addresses in an envelope of ours.
//!
//! A provider takes any bytes for an address, so it must not see those of another provider or damaged ones. The envelope is
//! four bytes that say whose it is, the CRC-32C of what follows, the sender's number in tags, and the provider's name.

use farcall_driver::{Address, AddressError};

const MAGIC: [u8; 4] = *b"fOFI";
const WRONG_KIND: AddressError = AddressError::WrongKind { driver: "ofi" };

/// What an address says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The number of the endpoint in the tags of long payloads.
    pub number: u32,
    pub provider: &'a str,
    /// The provider's own address.
    pub name: &'a [u8],
}

impl<'a> Place<'a> {
    pub fn to_address(self) -> Result<Address, AddressError> {
        let length = [self.provider.len() as u8];
        let inner = [&self.number.to_le_bytes()[..], &length, self.provider.as_bytes(), self.name].concat();
        Address::new([&MAGIC[..], &crc32c::crc32c(&inner).to_le_bytes(), &inner].concat())
    }

    pub fn parse(address: &'a Address) -> Result<Self, AddressError> {
        Self::parse_bytes(address.as_bytes()).ok_or(WRONG_KIND)
    }

    fn parse_bytes(bytes: &'a [u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (sum, inner) = rest.split_first_chunk::<4>()?;
        if *magic != MAGIC || u32::from_le_bytes(*sum) != crc32c::crc32c(inner) {
            return None;
        }
        let (number, rest) = inner.split_first_chunk::<4>()?;
        let (&length, rest) = rest.split_first()?;
        let (provider, name) = rest.split_at_checked(usize::from(length))?;
        let provider = core::str::from_utf8(provider).ok()?;
        Some(Self { number: u32::from_le_bytes(*number), provider, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_whole_and_unaltered_is_an_address() {
        let place = Place { number: 77, provider: "tcp;ofi_rxm", name: b"somewhere" };
        let address = place.to_address().expect("short");
        assert_eq!(Place::parse(&address), Ok(place));
        let bytes = address.as_bytes();
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1;
            assert!(Place::parse(&Address::new(damaged).expect("short")).is_err(), "byte {at}");
            assert!(Place::parse(&Address::new(&bytes[..at]).expect("short")).is_err(), "cut at {at}");
        }
    }
}
