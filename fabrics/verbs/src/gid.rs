//! Global identifiers: the address of a port on the network, and the sender of a packet.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes before a datagram's payload in its receive buffer: the global route header, or what stands in its
/// place.
pub const GRH_BYTES: usize = 40;

/// Where the IPv4 header of a RoCE packet lies in those bytes; the ones before it mean nothing then.
const IPV4_OFFSET: usize = 20;

/// A port's global identifier; of a RoCE port, its IP address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The IP address that it is on Ethernet; an IPv4 address is mapped into IPv6.
    pub fn ip(self) -> IpAddr {
        let v6 = Ipv6Addr::from(self.0);
        v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
    }

    /// Whether it means anything: unused entries of a port's table are zero.
    pub fn is_set(self) -> bool {
        self.0 != [0; 16]
    }

    /// Whether it is reachable on its own link only.
    pub fn is_link_local(self) -> bool {
        self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80
    }

    /// The subnet of an InfiniBand port.
    pub fn subnet(self) -> [u8; 8] {
        self.0[..8].try_into().expect("eight of sixteen")
    }

    /// The lower half: which port of the subnet it is.
    pub fn interface(self) -> u64 {
        u64::from_be_bytes(self.0[8..].try_into().expect("eight of sixteen"))
    }

    /// The sender of a datagram that begins with `header`.
    ///
    /// The bytes do not say whether they hold an IPv6 header (or InfiniBand's, which has that form) or an
    /// IPv4 one at their end. As in libibverbs (`ibv_init_ah_from_wc`): they hold one of IPv4 when they do
    /// not begin as IPv6, or when the checksum of IPv4 is right.
    pub fn source_of(header: &[u8; GRH_BYTES]) -> Self {
        const VERSION_6: u8 = 6;
        let ipv4 = &header[IPV4_OFFSET..];
        if looks_like_ipv4(ipv4) && (header[0] >> 4 != VERSION_6 || checksum(ipv4) == u16::MAX) {
            let source: [u8; 4] = header[IPV4_OFFSET + 12..][..4].try_into().expect("four bytes");
            return Self(Ipv4Addr::from(source).to_ipv6_mapped().octets());
        }
        Self(header[8..24].try_into().expect("sixteen bytes"))
    }
}

fn looks_like_ipv4(header: &[u8]) -> bool {
    const VERSION_4_OF_5_WORDS: u8 = 0x45;
    header[0] == VERSION_4_OF_5_WORDS
}

/// The ones' complement sum of a header; all ones when the checksum in it is right (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 header of the textbook (RFC 1071 as in Wikipedia's example): 192.168.0.1 to 192.168.0.199.
    const IPV4: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
        0xa8, 0x00, 0xc7,
    ];

    #[test]
    fn the_source_of_an_ipv4_packet_is_its_mapped_address() {
        let mut header = [0xee; GRH_BYTES];
        header[IPV4_OFFSET..].copy_from_slice(&IPV4);
        assert_eq!(Gid::source_of(&header).ip(), IpAddr::from([192, 168, 0, 1]));
        // What lies before it may be anything, but then its checksum counts; packets that never left the
        // machine have none.
        header[0] = 0x60;
        assert_eq!(Gid::source_of(&header).ip(), IpAddr::from([192, 168, 0, 1]));
        header[0] = 0;
        header[IPV4_OFFSET + 10..IPV4_OFFSET + 12].fill(0);
        assert_eq!(Gid::source_of(&header).ip(), IpAddr::from([192, 168, 0, 1]));
    }

    #[test]
    fn the_source_of_any_other_packet_is_in_its_route_header() {
        let mut header = [0; GRH_BYTES];
        header[0] = 0x60;
        header[8..24].copy_from_slice(&[7; 16]);
        assert_eq!(Gid::source_of(&header), Gid([7; 16]));
        // The destination's bytes look like an IPv4 header whose checksum is wrong.
        header[IPV4_OFFSET..].copy_from_slice(&IPV4);
        header[IPV4_OFFSET + 10] ^= 1;
        let source: [u8; 16] = header[8..24].try_into().expect("sixteen bytes");
        assert_eq!(Gid::source_of(&header), Gid(source));
    }
}
