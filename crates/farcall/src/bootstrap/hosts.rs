//! Host names with ports, and the list of hosts that all ranks must agree on.

use core::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

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

    /// The socket addresses that the host has now, at least one.
    pub fn look_up(&self) -> io::Result<Vec<SocketAddr>> {
        let addresses: Vec<SocketAddr> = self.0.to_socket_addrs()?.collect();
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
        }
        Ok(addresses)
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
    fn spaces_do_not_change_a_list_and_everything_else_does() {
        let list = HostList::parse("a:1,b:2").expect("a list");
        assert_eq!(list.fingerprint(), HostList::parse(" a:1 , b:2 ").expect("a list").fingerprint());
        assert_ne!(list.fingerprint(), HostList::parse("a:1,b:3").expect("a list").fingerprint());
        assert_ne!(list.fingerprint(), HostList::parse("b:2,a:1").expect("a list").fingerprint());
        assert_eq!((list.size(), list.rendezvous().to_string().as_str()), (2, "a:1"));
        assert_eq!(HostList::parse("a:1,,b:2"), Err(String::new()));
    }
}
