//! Socket addresses in the kernel's form.

use core::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use farcall_driver::Peers;

/// The peers of a driver, each with its name.
pub type KnownPeers = Peers<SocketAddr, Name>;

/// A socket address as the kernel reads and writes it, of either family.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Name {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

/// Room for either family.
pub const NAME_BYTES_MAX: libc::socklen_t = mem::size_of::<Name>() as libc::socklen_t;

impl Name {
    /// An empty name, for the kernel to fill in.
    pub const fn empty() -> Self {
        // SAFETY: all fields are integers and arrays of them, for which zeros are valid.
        unsafe { mem::zeroed() }
    }

    /// The length that the kernel must be told, by family.
    pub fn bytes(&self) -> libc::socklen_t {
        // SAFETY: every variant begins with the family, and the whole is always initialised.
        let v6 = i32::from(unsafe { self.family }) == libc::AF_INET6;
        let bytes =
            if v6 { mem::size_of::<libc::sockaddr_in6>() } else { mem::size_of::<libc::sockaddr_in>() };
        bytes as libc::socklen_t
    }

    /// The address; `None` for a family that this driver never uses.
    pub fn to_socket_address(self) -> Option<SocketAddr> {
        // SAFETY: every variant begins with the family, and the whole is always initialised.
        match i32::from(unsafe { self.family }) {
            libc::AF_INET => {
                // SAFETY: the family says so, and any bytes are a valid `sockaddr_in`.
                let v4 = unsafe { self.v4 };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: the family says so, and any bytes are a valid `sockaddr_in6`.
                let v6 = unsafe { self.v6 };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), 0, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

impl From<SocketAddr> for Name {
    fn from(socket_address: SocketAddr) -> Self {
        let mut name = Self::empty();
        match socket_address {
            SocketAddr::V4(v4) => {
                name.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
            }
            SocketAddr::V6(v6) => {
                name.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
            }
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_socket_addresses_are_the_same_thing() {
        for text in ["127.0.0.1:7000", "255.254.1.2:65535", "[::1]:1", "[fe80::1%7]:4791"] {
            let socket_address: SocketAddr = text.parse().expect("a socket address");
            assert_eq!(Name::from(socket_address).to_socket_address(), Some(socket_address));
        }
        assert_eq!(Name::empty().to_socket_address(), None);
    }
}
