//! Host names with ports, and the list of hosts that all ranks must agree on.

use super::variables::URL_SCHEME;
use core::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// A `host:port` as it was written: a name or an IP address (IPv6 in brackets), and a port that is not 0.
///
/// The name is looked up again with every attempt to connect, because it may not be known yet while a cluster
/// starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort(String);

impl HostPort {
    /// Reads `host:port`; `None` when the text is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (host, port) = text.rsplit_once(':')?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        let host_is_fine =
            !host.is_empty() && (bracketed || !host.contains(':')) && !host.contains(char::is_whitespace);
        let port_is_fine = port.parse::<u16>().is_ok_and(|port| port != 0);
        (host_is_fine && port_is_fine).then(|| Self(text.to_owned()))
    }

    /// As [`HostPort::parse`], with or without `farcall://` in front.
    pub fn parse_url(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::parse(text.strip_prefix(URL_SCHEME).unwrap_or(text))
    }

    /// The socket addresses that the host has now, at least one.
    pub fn look_up(&self) -> io::Result<Vec<SocketAddr>> {
        let addresses: Vec<SocketAddr> = self.0.to_socket_addrs()?.collect();
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
        }
        Ok(addresses)
    }

    /// The name or address before the port, as it was written.
    pub(super) fn host(&self) -> &str {
        self.0.rsplit_once(':').expect("checked when it was read").0
    }

    /// Where this machine listens so that others reach it under this name: at the addresses that the name has
    /// here. Debian and others let a machine's own name lead to loopback, where no other machine arrives;
    /// then it is all interfaces.
    pub(super) fn addresses_to_listen_at(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(self.reachable_by_others(self.look_up()?))
    }

    fn reachable_by_others(&self, addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let (host, port) = self.0.rsplit_once(':').expect("checked when it was read");
        let means_loopback = self.0.parse::<SocketAddr>().is_ok() || host.eq_ignore_ascii_case("localhost");
        if means_loopback || !addresses.iter().all(|address| address.ip().is_loopback()) {
            return addresses;
        }
        let port = port.parse().expect("checked when it was read");
        vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]
    }
}

impl From<SocketAddr> for HostPort {
    fn from(address: SocketAddr) -> Self {
        Self(address.to_string())
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One entry for each rank, in order. The first one is where the rendezvous listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostList(Vec<HostPort>);

impl HostList {
    /// Reads `hostA:port,hostB:port,…`; the error is the first entry that is no `host:port`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let entry = |entry: &str| HostPort::parse(entry).ok_or_else(|| entry.trim().to_owned());
        text.split(',').map(entry).collect::<Result<_, _>>().map(Self)
    }

    /// How many ranks the list has, at least 1.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// The entries, in order.
    pub(super) fn places(&self) -> &[HostPort] {
        &self.0
    }

    /// Where the rendezvous listens.
    pub fn rendezvous(&self) -> &HostPort {
        &self.0[0]
    }

    /// A number by which two processes find that their lists differ; never 0. FNV-1a, 64 bits, over the
    /// entries joined by commas, so that it is the same in every build.
    pub fn fingerprint(&self) -> u64 {
        let joined = self.0.iter().map(HostPort::to_string).collect::<Vec<_>>().join(",");
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        joined.bytes().fold(0xcbf2_9ce4_8422_2325, step).max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_host_needs_a_name_and_a_port() {
        for text in ["a:1", "node-3.cluster:7000", "127.0.0.1:65535", "[::1]:7000", " a:1 "] {
            assert!(HostPort::parse(text).is_some(), "{text}");
        }
        for text in ["", "a", ":1", "a:", "a:0", "a:65536", "a:b", "::1:7000", "a b:1"] {
            assert!(HostPort::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_machine_listens_where_others_reach_it() {
        let at = |text: &str, leads_to: &str| {
            let place = HostPort::parse(text).expect("a place");
            let ip: IpAddr = leads_to.parse().expect("an address");
            let addresses = place.reachable_by_others(vec![(ip, 7000).into()]);
            addresses.iter().map(SocketAddr::ip).collect::<Vec<_>>()
        };
        let everywhere = [IpAddr::from(Ipv6Addr::UNSPECIFIED), Ipv4Addr::UNSPECIFIED.into()];
        assert_eq!(at("hosta:7000", "127.0.1.1"), everywhere, "as Debian has it");
        assert_eq!(at("hosta:7000", "::1"), everywhere);
        assert_eq!(at("hosta:7000", "192.0.2.1"), [IpAddr::from(Ipv4Addr::new(192, 0, 2, 1))]);
        for text in ["127.0.1.1:7000", "Localhost:7000", "[::1]:7000"] {
            assert_eq!(at(text, "127.0.0.1"), [IpAddr::from(Ipv4Addr::LOCALHOST)], "{text}");
        }
    }

    #[test]
    fn spaces_do_not_change_a_list_and_everything_else_does() {
        let list = HostList::parse("a:1,b:2").expect("a list");
        assert_eq!(list.fingerprint(), HostList::parse(" a:1 , b:2 ").expect("a list").fingerprint());
        assert_ne!(list.fingerprint(), HostList::parse("a:1,b:3").expect("a list").fingerprint());
        assert_ne!(list.fingerprint(), HostList::parse("b:2,a:1").expect("a list").fingerprint());
        assert_eq!((list.size(), list.rendezvous().to_string().as_str()), (2, "a:1"));
        assert_eq!(HostList::parse("a:1,,b:2"), Err(String::new()));
    }
}
