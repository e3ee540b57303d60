//! What the interface that owns a local address carries in one frame.

use std::ffi::CStr;
use std::net::IpAddr;

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

/// The name of the interface that has the address `local`.
fn interface_of(local: IpAddr) -> Option<String> {
    let mut list = core::ptr::null_mut();
    // SAFETY: `list` is a valid place for the pointer.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return None;
    }
    let mut found = None;
    let mut next = list;
    // SAFETY: `next` is null or an element of the list, which is freed only below.
    while let Some(entry) = unsafe { next.as_ref() } {
        if socket_name(entry).and_then(Name::to_socket_address).is_some_and(|at| at.ip() == local) {
            // SAFETY: the list's names are strings that end with a zero.
            found = unsafe { CStr::from_ptr(entry.ifa_name) }.to_str().ok().map(str::to_owned);
        }
        next = entry.ifa_next;
    }
    // SAFETY: `list` came from `getifaddrs`, and nothing borrowed from it lives on.
    unsafe { libc::freeifaddrs(list) };
    found
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
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn loopback_carries_the_longest_packets() {
        assert_eq!(payload_bytes_max(Ipv4Addr::LOCALHOST.into()), BIND_MTU_BYTES_MAX);
        assert_eq!(interface_of(Ipv4Addr::LOCALHOST.into()).as_deref(), Some("lo"));
    }

    #[test]
    fn an_address_of_no_interface_gets_ethernets_size() {
        let documentation = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        assert_eq!(payload_bytes_max(documentation.into()), 1500 - 40 - 8);
        assert_eq!(payload_bytes_max(Ipv4Addr::new(192, 0, 2, 1).into()), 1500 - 20 - 8);
    }
}
