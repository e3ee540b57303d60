//! Socket addresses as addresses of endpoints: a tag, the IP address, the port, and for IPv6 the scope.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::{Address, AddressError};

/// How a driver or library writes the sockets at which its endpoints are reached.
#[derive(Clone, Copy, Debug)]
pub struct SocketFormat {
    /// Its name, for errors.
    pub driver: &'static str,
    /// What begins an address of IPv4.
    pub tag_v4: &'static [u8],
    /// What begins an address of IPv6.
    pub tag_v6: &'static [u8],
}

impl SocketFormat {
    /// The address under which an endpoint bound to `socket` is reached.
    pub fn address_of(&self, socket: SocketAddr) -> Address {
        let mut bytes = Vec::new();
        let port = socket.port().to_be_bytes();
        match socket {
            SocketAddr::V4(v4) => {
                bytes.extend_from_slice(self.tag_v4);
                bytes.extend_from_slice(&v4.ip().octets());
                bytes.extend_from_slice(&port);
            }
            SocketAddr::V6(v6) => {
                bytes.extend_from_slice(self.tag_v6);
                bytes.extend_from_slice(&v6.ip().octets());
                bytes.extend_from_slice(&port);
                bytes.extend_from_slice(&v6.scope_id().to_be_bytes());
            }
        }
        Address::new(bytes).expect("a socket address is far shorter than the limit")
    }

    /// The inverse of [`address_of`](Self::address_of). Refuses what nobody can be reached at.
    pub fn parse(&self, address: &Address) -> Result<SocketAddr, AddressError> {
        let bytes = address.as_bytes();
        let parsed = match bytes.strip_prefix(self.tag_v4) {
            Some(rest) => parse_v4(rest),
            None => bytes.strip_prefix(self.tag_v6).and_then(parse_v6),
        };
        parsed
            .filter(|socket| socket.port() != 0 && !socket.ip().is_unspecified())
            .ok_or(AddressError::WrongKind { driver: self.driver })
    }
}

fn parse_v4(rest: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = rest.split_first_chunk::<4>()?;
    Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(*ip)), u16::from_be_bytes(port.try_into().ok()?)))
}

fn parse_v6(rest: &[u8]) -> Option<SocketAddr> {
    let (ip, rest) = rest.split_first_chunk::<16>()?;
    let (port, scope) = rest.split_first_chunk::<2>()?;
    let scope = u32::from_be_bytes(scope.try_into().ok()?);
    Some(SocketAddrV6::new(Ipv6Addr::from(*ip), u16::from_be_bytes(*port), 0, scope).into())
}

/// The host of an IP address, as a number that no other host has: an IPv4 address, or an IPv6 network of 64
/// bits, because one host has all of the addresses in it.
pub fn host_number(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(v4) => u64::from(v4.to_bits()),
        IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: SocketFormat = SocketFormat { driver: "udp", tag_v4: b"udp4", tag_v6: b"udp6" };

    #[test]
    fn addresses_survive_the_journey() {
        for text in ["127.0.0.1:7000", "10.1.2.3:65535", "[::1]:1", "[fe80::1%7]:4791"] {
            let socket: SocketAddr = text.parse().expect("a socket address");
            assert_eq!(FORMAT.parse(&FORMAT.address_of(socket)), Ok(socket), "{text}");
        }
    }

    #[test]
    fn what_no_driver_made_is_refused() {
        let wrong: [&[u8]; 8] = [
            b"",
            b"udp",
            b"udp4",
            b"udp4\x7f\0\0\x01\x1b",
            b"udp4\x7f\0\0\x01\x1b\x58\0",
            b"udp4\0\0\0\0\x1b\x58",
            b"udp4\x7f\0\0\x01\0\0",
            b"tcp4\x7f\0\0\x01\x1b\x58",
        ];
        for bytes in wrong {
            let address = Address::new(bytes).expect("short enough");
            assert_eq!(FORMAT.parse(&address), Err(AddressError::WrongKind { driver: "udp" }), "{address:?}");
        }
    }
}
