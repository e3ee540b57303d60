//! Where a driver listens: an abstract Unix socket with a random name, and the addresses made of such names.

use std::io;
use std::os::fd::OwnedFd;

use farcall_base::{Address, AddressError};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::rand::{GetRandomFlags, getrandom};

/// How many callers may wait for the conductor to accept them.
const BACKLOG: i32 = 128;

const PREFIX: &[u8] = b"farcall-";

/// Random digits after the prefix.
const DIGITS: usize = 32;

/// A listening socket with a random abstract name, and its address: `tag`, which tells one kind of driver
/// from another, and the name. It is in no directory, so a killed process leaves no file.
pub fn listen_somewhere(tag: u8) -> io::Result<(OwnedFd, Address)> {
    let mut random = [0; 16];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let name = format!("farcall-{:032x}", u128::from_le_bytes(random));
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    listen(&socket, BACKLOG)?;
    let address = Address::new([&[tag], name.as_bytes()].concat()).map_err(io::Error::other)?;
    Ok((socket, address))
}

/// The name of the socket in an address with this tag.
pub fn name_in(address: &Address, tag: u8) -> Result<&[u8], AddressError> {
    match address.as_bytes() {
        [first, name @ ..] if *first == tag && is_name(name) => Ok(name),
        _ => Err(AddressError::WrongKind { driver: "shm" }),
    }
}

/// Whether `name` can be that of a driver's socket.
fn is_name(name: &[u8]) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.strip_prefix(PREFIX).is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(is_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_tag_and_a_name_and_nothing_more() {
        let (_socket, address) = listen_somewhere(b'X').expect("a socket");
        assert_eq!(name_in(&address, b'X').map(<[u8]>::len), Ok(PREFIX.len() + DIGITS));
        let refusal = Err(AddressError::WrongKind { driver: "shm" });
        assert_eq!(name_in(&address, b'Y'), refusal, "of another kind of driver");
        let bytes = address.as_bytes();
        for wrong in [&bytes[..bytes.len() - 1], &[bytes, b"0"].concat(), &bytes.to_ascii_uppercase(), b""] {
            assert_eq!(name_in(&Address::new(wrong).expect("short"), b'X'), refusal, "{wrong:?}");
        }
    }
}
