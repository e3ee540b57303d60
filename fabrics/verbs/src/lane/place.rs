//! Where a lane driver is called: a TCP port and a cookie, as an address.

use core::net::{IpAddr, SocketAddr};

use farcall_base::{Address, AddressError};

use super::handshake::COOKIE_BYTES;

/// The name of the driver.
pub const NAME: &str = "verbs";

const TAG_V4: &[u8] = b"vbR4";
const TAG_V6: &[u8] = b"vbR6";

/// A listening driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its socket.
    pub socket: SocketAddr,
    /// What tells it from others that had or will have the same socket.
    pub cookie: [u8; COOKIE_BYTES],
}

/// The address of a place.
pub fn address_of(place: Place) -> Address {
    let mut bytes = Vec::new();
    match place.socket.ip() {
        IpAddr::V4(ip) => {
            bytes.extend(TAG_V4);
            bytes.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.extend(TAG_V6);
            bytes.extend(ip.octets());
        }
    }
    bytes.extend(place.socket.port().to_be_bytes());
    bytes.extend(place.cookie);
    Address::new(bytes).expect("far shorter than the limit")
}

/// The inverse of [`address_of`].
pub fn parse(address: &Address) -> Result<Place, AddressError> {
    parse_bytes(address.as_bytes()).ok_or(AddressError::WrongKind { driver: NAME })
}

fn parse_bytes(bytes: &[u8]) -> Option<Place> {
    let (ip, rest) = if let Some(rest) = bytes.strip_prefix(TAG_V4) {
        let (ip, rest) = rest.split_first_chunk::<4>()?;
        (IpAddr::from(*ip), rest)
    } else {
        let (ip, rest) = bytes.strip_prefix(TAG_V6)?.split_first_chunk::<16>()?;
        (IpAddr::from(*ip), rest)
    };
    let (port, cookie) = rest.split_first_chunk::<2>()?;
    let (port, cookie) = (u16::from_be_bytes(*port), cookie.try_into().ok()?);
    (port != 0 && !ip.is_unspecified()).then_some(Place { socket: SocketAddr::new(ip, port), cookie })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_journey() {
        for text in ["10.1.2.3:4000", "[2001:db8::1]:1"] {
            let place = Place { socket: text.parse().expect("a socket address"), cookie: [5; COOKIE_BYTES] };
            assert_eq!(parse(&address_of(place)), Ok(place), "{text}");
        }
    }

    #[test]
    fn what_no_driver_made_is_refused() {
        let good =
            address_of(Place { socket: "10.1.2.3:4000".parse().expect("a socket address"), cookie: [5; 8] });
        let good = good.as_bytes();
        let wrong: [&[u8]; 5] =
            [b"", b"vbR4", &good[..good.len() - 1], &[good, b"0"].concat(), b"vbR4\0\0\0\0\x01\x01cookie00"];
        for bytes in wrong {
            let address = Address::new(bytes).expect("short enough");
            assert_eq!(parse(&address), Err(AddressError::WrongKind { driver: "verbs" }), "{address:?}");
        }
    }
}
