//! libfabric's addresses in an envelope of ours.
//!
//! A provider takes any bytes for an address, so it must not see those of another provider or damaged ones.
//! The envelope is four bytes that say whose it is, the CRC-32C of what follows, a number, and the provider's
//! name.

use farcall_base::{Address, AddressError};

/// Who an address is for: transports and drivers cannot use each other's.
pub type Kind = [u8; 4];

/// What an address says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// Whatever the kind of address has a number for.
    pub number: u32,
    /// The provider's name.
    pub provider: &'a str,
    /// The provider's own address.
    pub name: &'a [u8],
}

impl<'a> Place<'a> {
    /// The address to be told to others.
    pub fn to_address(self, kind: Kind) -> Result<Address, AddressError> {
        let length = [self.provider.len() as u8];
        let inner = [&self.number.to_le_bytes()[..], &length, self.provider.as_bytes(), self.name].concat();
        Address::new([&kind[..], &crc32c::crc32c(&inner).to_le_bytes(), &inner].concat())
    }

    /// What an address of that kind says to a user of `provider`.
    pub fn parse(address: &'a Address, kind: Kind, provider: &str) -> Result<Self, AddressError> {
        let place = Self::parse_bytes(address.as_bytes(), kind);
        let place = place.ok_or(AddressError::WrongKind { driver: "ofi" })?;
        if place.provider != provider {
            let why =
                "the peer uses another provider of libfabric; name the same one in ofi.provider everywhere";
            return Err(AddressError::OutOfReach { why });
        }
        Ok(place)
    }

    fn parse_bytes(bytes: &'a [u8], kind: Kind) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (sum, inner) = rest.split_first_chunk::<4>()?;
        if *magic != kind || u32::from_le_bytes(*sum) != crc32c::crc32c(inner) {
            return None;
        }
        let (number, rest) = inner.split_first_chunk::<4>()?;
        let (&length, rest) = rest.split_first()?;
        let (provider, name) = rest.split_at_checked(usize::from(length))?;
        let provider = core::str::from_utf8(provider).ok()?;
        Some(Self { number: u32::from_le_bytes(*number), provider, name })
    }
}

/// Reads `bytes` as what is in an address behind its checksum: no provider may be told what is not whole.
#[doc(hidden)]
pub fn fuzz_place(bytes: &[u8], kind: Kind) {
    let sealed = [&kind[..], &crc32c::crc32c(bytes).to_le_bytes(), bytes].concat();
    let Some(place) = Place::parse_bytes(&sealed, kind) else { return };
    let Ok(address) = place.to_address(kind) else { return };
    assert_eq!(address.as_bytes(), sealed, "an address has one encoding");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_whole_and_unaltered_is_an_address() {
        let place = Place { number: 77, provider: "tcp;ofi_rxm", name: b"somewhere" };
        let parse = |address: &Address| Place::parse(address, *b"here", place.provider).map(|_| ());
        let address = place.to_address(*b"here").expect("short");
        assert_eq!(Place::parse(&address, *b"here", place.provider), Ok(place));
        let refused = Err(AddressError::WrongKind { driver: "ofi" });
        assert_eq!(Place::parse(&address, *b"away", place.provider), refused);
        let elsewhere = Place::parse(&address, *b"here", "net");
        assert!(matches!(elsewhere, Err(AddressError::OutOfReach { .. })), "{elsewhere:?}");
        let bytes = address.as_bytes();
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1;
            assert!(parse(&Address::new(damaged).expect("short")).is_err(), "byte {at}");
            assert!(parse(&Address::new(&bytes[..at]).expect("short")).is_err(), "cut at {at}");
        }
    }
}
