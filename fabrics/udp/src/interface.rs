//! What the interface that owns a local address carries in one frame.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::config::BIND_MTU_BYTES_MAX;
use crate::name::Name;

/// Assumed for an interface that cannot be found: Ethernet's.
const MTU_BYTES_ASSUMED: usize = 1500;
const UDP_HEADER_BYTES: usize = 8;
const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;

/// The longest UDP payload that leaves from `local` in one frame.
///
/// On loopback that is the longest of all: there a packet costs nearly the same whatever its length, so that
/// bulk wants few long ones.
pub fn payload_bytes_max(local: IpAddr) -> usize {
    let name = if local.is_loopback() { Some("lo".to_owned()) } else { interface_of(local) };
    let mtu_bytes = name.as_deref().and_then(mtu_bytes).unwrap_or(MTU_BYTES_ASSUMED);
    let ip_header_bytes = if local.is_ipv4() { IPV4_HEADER_BYTES } else { IPV6_HEADER_BYTES };
    mtu_bytes.saturating_sub(ip_header_bytes + UDP_HEADER_BYTES).clamp(1, BIND_MTU_BYTES_MAX)
}

fn mtu_bytes(interface: &str) -> Option<usize> {
    std::fs::read_to_string(format!("/sys/class/net/{interface}/mtu")).ok()?.trim().parse().ok()
}

/// An address of this machine from which others are reached, by the way that packets take out of it; without
/// such a way, that of the first interface that is up and not loopback. IPv4 before IPv6. Nothing is sent.
pub fn outward_address() -> Option<IpAddr> {
    // Addresses for documentation (RFC 5737, RFC 3849): only the table of routes is asked.
    let outside: [SocketAddr; 2] =
        [(Ipv4Addr::new(192, 0, 2, 1), 9).into(), (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into()];
    outside.into_iter().find_map(address_towards).or_else(|| {
        let addresses = interface_addresses();
        let first = |v4: bool| addresses.iter().find(|(_, ip)| ip.is_ipv4() == v4 && reaches_others(*ip));
        first(true).or_else(|| first(false)).map(|(_, ip)| *ip)
    })
}

/// The address of an interface, IPv4 before IPv6.
pub fn address_of_interface(name: &str) -> Option<IpAddr> {
    let addresses = interface_addresses();
    let first = |v4: bool| {
        let is_wanted = |(interface, ip): &&(String, IpAddr)| {
            interface == name && ip.is_ipv4() == v4 && (v4 || name == "lo" || reaches_others(*ip))
        };
        addresses.iter().find(is_wanted)
    };
    first(true).or_else(|| first(false)).map(|(_, ip)| *ip)
}

/// The local address of packets to a place.
fn address_towards(place: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if place.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(place).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    reaches_others(ip).then_some(ip)
}

/// Whether others can send to the address without knowing an interface.
fn reaches_others(ip: IpAddr) -> bool {
    let is_link_local = matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    !ip.is_loopback() && !ip.is_unspecified() && !is_link_local
}

/// The name of the interface that has the address `local`.
fn interface_of(local: IpAddr) -> Option<String> {
    interface_addresses().into_iter().find(|(_, ip)| *ip == local).map(|(name, _)| name)
}

/// The addresses of all interfaces that are up.
fn interface_addresses() -> Vec<(String, IpAddr)> {
    let mut list = core::ptr::null_mut();
    // SAFETY: `list` is a valid place for the pointer.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: `next` is null or an element of the list, which is freed only below.
    while let Some(entry) = unsafe { next.as_ref() } {
        let is_up = entry.ifa_flags & libc::IFF_UP as libc::c_uint != 0;
        if let Some(at) = socket_name(entry).and_then(Name::to_socket_address).filter(|_| is_up) {
            // SAFETY: the list's names are strings that end with a zero.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
            found.push((name, at.ip()));
        }
        next = entry.ifa_next;
    }
    // SAFETY: `list` came from `getifaddrs`, and nothing borrowed from it lives on.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// Why packets from one local address do not arrive at another; `None` if they may.
pub fn out_of_reach(from: IpAddr, to: IpAddr) -> Option<&'static str> {
    if from.is_ipv4() != to.is_ipv4() {
        return Some("one side has an IPv4 address and the other one of IPv6; set udp.bind_address alike");
    }
    let is_own = || interface_addresses().iter().any(|(_, ip)| *ip == to);
    if from.is_loopback() && !to.is_loopback() && !is_own() {
        return Some(
            "this endpoint is bound to loopback, from which other machines are not reached; set udp.bind_address",
        );
    }
    None
}

/// The entry's address when it is an internet address.
fn socket_name(entry: &libc::ifaddrs) -> Option<Name> {
    // SAFETY: an entry's address is null or points to a socket address.
    let family = i32::from(unsafe { entry.ifa_addr.as_ref() }?.sa_family);
    let mut name = Name::empty();
    let bytes = match family {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => return None,
    };
    // SAFETY: an address of that family has that many bytes, which fit a name; the two do not overlap.
    unsafe { core::ptr::copy_nonoverlapping(entry.ifa_addr.cast::<u8>(), (&raw mut name).cast(), bytes) };
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_carries_the_longest_packets() {
        assert_eq!(payload_bytes_max(Ipv4Addr::LOCALHOST.into()), BIND_MTU_BYTES_MAX);
        assert_eq!(interface_of(Ipv4Addr::LOCALHOST.into()).as_deref(), Some("lo"));
    }

    #[test]
    fn what_others_are_reached_from_is_an_address_of_this_machine() {
        if let Some(ip) = outward_address() {
            assert!(reaches_others(ip) && interface_of(ip).is_some(), "{ip}");
        }
        assert_eq!(address_of_interface("lo"), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(address_of_interface("no such interface"), None);
    }

    #[test]
    fn ways_that_lead_nowhere_are_known_before_a_packet_is_sent() {
        let documentation: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
        let loopback: IpAddr = Ipv4Addr::LOCALHOST.into();
        assert_eq!(out_of_reach(loopback, Ipv4Addr::new(127, 0, 0, 2).into()), None);
        assert_eq!(out_of_reach(documentation, Ipv4Addr::new(192, 0, 2, 2).into()), None);
        assert!(out_of_reach(loopback, documentation).expect("no").contains("bound to loopback"));
        assert!(out_of_reach(loopback, Ipv6Addr::LOCALHOST.into()).expect("no").contains("IPv6"));
    }

    #[test]
    fn an_address_of_no_interface_gets_ethernets_size() {
        let documentation = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        assert_eq!(payload_bytes_max(documentation.into()), 1500 - 40 - 8);
        assert_eq!(payload_bytes_max(Ipv4Addr::new(192, 0, 2, 1).into()), 1500 - 20 - 8);
    }
}
