//! UCX's addresses in an envelope of ours.
//!
//! UCX reads an address without knowing where it ends, so it must not see one that was damaged, cut off, or made by somebody
//! else. The envelope is four bytes that say whose it is, the CRC-32C of what follows, and the number of the machine.

use std::fs;
use std::sync::OnceLock;

use farcall_driver::{Address, AddressError};

const MAGIC: [u8; 4] = *b"fUCX";

/// A machine, by what its system drew when it started; 0 where it does not tell.
type Machine = [u8; 16];

fn this_machine() -> Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    *MACHINE.get_or_init(|| {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        u128::from_str_radix(&digits, 16).unwrap_or_default().to_le_bytes()
    })
}

/// What an address leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwrapped<'a> {
    /// The address as UCX gave it.
    pub inner: &'a [u8],
    /// Whether it was made on this machine.
    pub is_near: bool,
}

/// An address of UCX as it is made known to others.
pub fn wrap(inner: &[u8]) -> Result<Address, AddressError> {
    let content = [&this_machine(), inner].concat();
    Address::new([&MAGIC[..], &crc32c::crc32c(&content).to_le_bytes(), &content].concat())
}

/// The address of UCX inside.
pub fn unwrap(address: &Address) -> Result<Unwrapped<'_>, AddressError> {
    let wrong_kind = AddressError::WrongKind { driver: "ucx" };
    let (magic, rest) = address.as_bytes().split_first_chunk::<4>().ok_or(wrong_kind.clone())?;
    let (sum, content) = rest.split_first_chunk::<4>().ok_or(wrong_kind.clone())?;
    let (machine, inner) = content.split_first_chunk().ok_or(wrong_kind.clone())?;
    let is_whole =
        *magic == MAGIC && u32::from_le_bytes(*sum) == crc32c::crc32c(content) && !inner.is_empty();
    is_whole.then_some(Unwrapped { inner, is_near: *machine == this_machine() }).ok_or(wrong_kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_wrapped_and_is_unaltered_is_unwrapped() {
        let address = wrap(b"somewhere").expect("short");
        assert_eq!(unwrap(&address), Ok(Unwrapped { inner: b"somewhere", is_near: true }));
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
