//! Which address of this machine leads rdma_cm to a device.
//!
//! rdma_cm knows devices by the IP addresses of their network interfaces only, and nothing says directly
//! which those are: the address of an iWARP port is that of its Ethernet port. So addresses are tried, until
//! one belongs to the device.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::channel::EventChannel;
use super::identifier::CmId;
use crate::sys::Library;

/// The address by which rdma_cm reaches a port of a device: one of `first`, else any of this machine's.
pub fn address_on(
    channel: &Arc<EventChannel>,
    library: &Library,
    device: &str,
    port: u8,
    first: impl IntoIterator<Item = IpAddr>,
) -> Option<IpAddr> {
    let leads_there = |address: &IpAddr| {
        let id = CmId::new(channel).ok();
        id.is_some_and(|id| id.bind(*address).is_ok() && id.is_on(library, device, port))
    };
    first.into_iter().chain(own_addresses()).filter(is_usable).find(leads_there)
}

/// Every device answers to loopback addresses, and one of a single link says nothing to peers without that
/// link's number.
fn is_usable(address: &IpAddr) -> bool {
    let of_one_link = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    !address.is_loopback() && !address.is_unspecified() && !of_one_link
}

/// The addresses of this machine's network interfaces.
fn own_addresses() -> Vec<IpAddr> {
    let mut list = core::ptr::null_mut();
    // SAFETY: the C library writes the list, or fails.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let (mut addresses, mut entry) = (Vec::new(), list);
    while !entry.is_null() {
        // SAFETY: an entry of the list, which lives until it is freed; an address is null or as long as its
        // family says.
        unsafe {
            let address = (*entry).ifa_addr;
            if !address.is_null() {
                match i32::from((*address).sa_family) {
                    libc::AF_INET => {
                        let bits = (*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr;
                        addresses.push(Ipv4Addr::from(bits.to_ne_bytes()).into());
                    }
                    libc::AF_INET6 => {
                        let octets = (*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr;
                        addresses.push(Ipv6Addr::from(octets).into());
                    }
                    _ => {}
                }
            }
            entry = (*entry).ifa_next;
        }
    }
    // SAFETY: the list came from the C library, and nothing refers to it.
    unsafe { libc::freeifaddrs(list) };
    addresses
}
