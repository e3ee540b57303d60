//! Addresses of datagram drivers as bytes: a tag, the kind of link, the port's identifiers and the queue
//! pair's number.

use farcall_base::{Address, AddressError};

use crate::device::Port;
use crate::gid::Gid;

/// The name of the driver.
pub const NAME: &str = "verbs";

const TAG: &[u8; 4] = b"vbUD";
const ETHERNET: u8 = b'E';
const INFINIBAND: u8 = b'I';
const ADDRESS_BYTES: usize = TAG.len() + 1 + 2 + 16 + 4;

/// The largest number of a queue pair.
const NUMBER_MAX: u32 = (1 << 24) - 1;

/// Where a queue pair is on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The port's address; unset in packets that stayed within an InfiniBand subnet, which only name the
    /// local one.
    pub gid: Gid,
    /// The port's local identifier on InfiniBand; 0 on Ethernet.
    pub lid: u16,
    /// The queue pair.
    pub number: u32,
}

/// The address under which a queue pair at `port` is reached.
pub fn address_of(port: &Port, number: u32) -> Address {
    let mut bytes = Vec::with_capacity(ADDRESS_BYTES);
    bytes.extend(TAG);
    bytes.push(if port.ethernet { ETHERNET } else { INFINIBAND });
    bytes.extend(port.lid.to_be_bytes());
    bytes.extend(port.gid.0);
    bytes.extend(number.to_be_bytes());
    Address::new(bytes).expect("far shorter than the limit")
}

/// The inverse of [`address_of`]. Refuses what nobody can be reached at from `port`.
pub fn parse(address: &Address, port: &Port) -> Result<Place, AddressError> {
    parse_bytes(address.as_bytes(), port).ok_or(AddressError::WrongKind { driver: NAME })
}

fn parse_bytes(bytes: &[u8], port: &Port) -> Option<Place> {
    let rest = bytes.strip_prefix(TAG)?;
    let (link, rest) = rest.split_first()?;
    let (lid, rest) = rest.split_first_chunk::<2>()?;
    let (gid, number) = rest.split_first_chunk::<16>()?;
    let place = Place {
        gid: Gid(*gid),
        lid: u16::from_be_bytes(*lid),
        number: u32::from_be_bytes(number.try_into().ok()?),
    };
    let own_link = if port.ethernet { ETHERNET } else { INFINIBAND };
    let reachable = *link == own_link && (port.ethernet || place.lid != 0);
    (reachable && place.gid.is_set() && (1..=NUMBER_MAX).contains(&place.number)).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: Port =
        Port { number: 1, ethernet: true, routable: true, lid: 0, gid: Gid([9; 16]), gid_index: 1, mtu: 5 };

    #[test]
    fn addresses_survive_the_journey() {
        let place = Place { gid: PORT.gid, lid: 0, number: 17 };
        assert_eq!(parse(&address_of(&PORT, 17), &PORT), Ok(place));
        let infiniband = Port { ethernet: false, lid: 7, ..PORT };
        let place = Place { gid: PORT.gid, lid: 7, number: NUMBER_MAX };
        assert_eq!(parse(&address_of(&infiniband, NUMBER_MAX), &infiniband), Ok(place));
    }

    #[test]
    fn what_cannot_be_reached_is_refused() {
        let infiniband = Port { ethernet: false, lid: 7, ..PORT };
        let nobody = Port { gid: Gid::default(), ..PORT };
        let refused = Err(AddressError::WrongKind { driver: "verbs" });
        for address in [
            address_of(&infiniband, 17),
            address_of(&nobody, 17),
            address_of(&PORT, 0),
            address_of(&PORT, NUMBER_MAX + 1),
        ] {
            assert_eq!(parse(&address, &PORT), refused, "{address:?}");
        }
        let unnumbered = Port { lid: 0, ..infiniband };
        assert_eq!(parse(&address_of(&unnumbered, 17), &infiniband), refused, "no local identifier");
    }
}
