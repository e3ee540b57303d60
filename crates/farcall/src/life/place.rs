//! What a [`LifePort`] says: where a process answers, as what, and which process it is.
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 16 | IPv6 address, or an IPv4 address mapped into it |
//! | 16 | 2 | TCP port, never 0 |
//! | 18 | 8 | number of the endpoint, drawn at random |
//! | 26 | 8 | key of the process, drawn at random: both sides must have it |
//! | 34 | 4 | number of the process, as its own system counts |
//! | 38 | 4 | when it started: the low 32 bits of that system's count of ticks |

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use farcall_base::SipKey;
use farcall_protocol::wire::{LIFE_PORT_BYTES, LifePort};

/// A life port, ready for use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub address: SocketAddr,
    pub endpoint: u64,
    pub key: Key,
    pub process: Process,
}

/// What a process tells its peers and nobody else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub u64);

/// Shows nothing of the key.
impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key")
    }
}

/// A process, as its own system names it. Other systems may have another one of that number, but hardly one
/// that started in the same tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub number: u32,
    pub started: u32,
}

impl Place {
    pub fn to_port(self) -> LifePort {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut bytes = [0; LIFE_PORT_BYTES];
        bytes[..16].copy_from_slice(&ip.octets());
        bytes[16..18].copy_from_slice(&self.address.port().to_le_bytes());
        bytes[18..26].copy_from_slice(&self.endpoint.to_le_bytes());
        bytes[26..34].copy_from_slice(&self.key.0.to_le_bytes());
        bytes[34..38].copy_from_slice(&self.process.number.to_le_bytes());
        bytes[38..].copy_from_slice(&self.process.started.to_le_bytes());
        LifePort(bytes)
    }

    /// What a peer said; `None` when nobody can be asked there.
    pub fn from_port(LifePort(bytes): LifePort) -> Option<Self> {
        let (ip, rest) = bytes.split_first_chunk::<16>()?;
        let (port, rest) = rest.split_first_chunk()?;
        let (endpoint, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (started, _) = rest.split_first_chunk()?;
        let (ip, port) = (Ipv6Addr::from(*ip).to_canonical(), u16::from_le_bytes(*port));
        let can_be_asked = port != 0 && !ip.is_unspecified() && !ip.is_multicast();
        can_be_asked.then(|| Self {
            address: SocketAddr::new(ip, port),
            endpoint: u64::from_le_bytes(*endpoint),
            key: Key(u64::from_le_bytes(*key)),
            process: Process { number: u32::from_le_bytes(*number), started: u32::from_le_bytes(*started) },
        })
    }
}

impl Key {
    /// Proves that the sender of these words has the key; `what` keeps questions and answers apart.
    pub fn prove(self, what: [u8; 8], words: &[u64]) -> u64 {
        SipKey([self.0, u64::from_le_bytes(what)]).authenticate(words)
    }
}

impl Process {
    /// This one; all 0 where the system does not say.
    pub fn current() -> Self {
        let number = std::process::id();
        let started = started_at(number).unwrap_or(0);
        Self { number, started }
    }

    /// Whether this system has the very process, running or stopped. False says nothing: it may be another
    /// system's.
    pub fn is_here(self) -> bool {
        self.started != 0 && started_at(self.number) == Some(self.started)
    }
}

/// When a process that has not ended started, from the fields of `/proc/NUMBER/stat` behind its name.
fn started_at(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse::<u64>().ok()?;
    (!matches!(state, "Z" | "X")).then_some(started as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(address: &str) -> Place {
        let process = Process { number: 77, started: 0x0102_0304 };
        Place { address: address.parse().expect("an address"), endpoint: 5, key: Key(6), process }
    }

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for address in ["127.0.0.1:7000", "[fe80::1]:1", "[::1]:65535"] {
            assert_eq!(Place::from_port(place(address).to_port()), Some(place(address)));
        }
    }

    #[test]
    fn nobody_is_asked_where_nobody_can_be() {
        for address in ["127.0.0.1:0", "0.0.0.0:7", "[::]:7", "224.0.0.1:7", "[ff02::1]:7"] {
            assert_eq!(Place::from_port(place(address).to_port()), None, "{address}");
        }
    }

    #[test]
    fn this_process_is_here_and_another_start_of_its_number_is_not() {
        let this = Process::current();
        assert!(this.is_here());
        assert!(!Process { started: this.started ^ 1, ..this }.is_here());
        assert!(!Process { number: u32::MAX, started: 1 }.is_here());
        assert!(!Process { number: this.number, started: 0 }.is_here(), "its system does not say");
    }
}
