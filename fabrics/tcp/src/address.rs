//! A TCP endpoint's addresses as bytes: `tcp4` or `tcp6`, the IP address, the port, and for IPv6 the scope.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use farcall_base::{Address, AddressError};

/// The name of the transport.
pub const NAME: &str = "tcp";

const TAG_V4: &[u8] = b"tcp4";
const TAG_V6: &[u8] = b"tcp6";

/// The address under which a TCP endpoint bound to `socket_address` is reached.
pub fn address_of(socket_address: SocketAddr) -> Address {
    let mut bytes = Vec::new();
    let port = socket_address.port().to_be_bytes();
    match socket_address {
        SocketAddr::V4(v4) => {
            bytes.extend_from_slice(TAG_V4);
            bytes.extend_from_slice(&v4.ip().octets());
            bytes.extend_from_slice(&port);
        }
        SocketAddr::V6(v6) => {
            bytes.extend_from_slice(TAG_V6);
            bytes.extend_from_slice(&v6.ip().octets());
            bytes.extend_from_slice(&port);
            bytes.extend_from_slice(&v6.scope_id().to_be_bytes());
        }
    }
    Address::new(bytes).expect("a socket address is far shorter than the limit")
}

/// The inverse of [`address_of`]. Refuses what nobody can be reached at.
pub fn parse(address: &Address) -> Result<SocketAddr, AddressError> {
    let bytes = address.as_bytes();
    let parsed = if let Some(rest) = bytes.strip_prefix(TAG_V4) {
        parse_v4(rest)
    } else {
        bytes.strip_prefix(TAG_V6).and_then(parse_v6)
    };
    parsed
        .filter(|socket_address| socket_address.port() != 0 && !socket_address.ip().is_unspecified())
        .ok_or(AddressError::WrongKind { driver: NAME })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_journey() {
        for text in ["127.0.0.1:7000", "10.1.2.3:65535", "[::1]:1", "[fe80::1%7]:4791"] {
            let socket_address: SocketAddr = text.parse().expect("a socket address");
            assert_eq!(parse(&address_of(socket_address)), Ok(socket_address), "{text}");
        }
    }

    #[test]
    fn what_no_driver_made_is_refused() {
        let wrong: [&[u8]; 8] = [
            b"",
            b"tcp",
            b"tcp4",
            b"tcp4\x7f\0\0\x01\x1b",
            b"tcp4\x7f\0\0\x01\x1b\x58\0",
            b"tcp4\0\0\0\0\x1b\x58",
            b"tcp4\x7f\0\0\x01\0\0",
            b"udp4\x7f\0\0\x01\x1b\x58",
        ];
        for bytes in wrong {
            let address = Address::new(bytes).expect("short enough");
            assert_eq!(parse(&address), Err(AddressError::WrongKind { driver: "tcp" }), "{address:?}");
        }
    }
}
