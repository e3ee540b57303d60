//! The asking side: single probes, and the search for the longest.

use core::time::Duration;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use farcall::bootstrap::random_incarnation;
use rustix::io::Errno;

use super::wire::{DATAGRAM_BYTES_MAX, HEADER_BYTES, Header, Kind};
use super::without_fragments;

/// The shortest time that an echo may take before its probe counts as lost, and the longest.
const ECHO_WITHIN_MIN: Duration = Duration::from_millis(100);
const ECHO_WITHIN_MAX: Duration = Duration::from_secs(1);

/// How many times the usual round trip an echo may take.
const PATIENCE: u32 = 10;

/// How often a length is tried before it is said not to pass.
const TRIES: usize = 3;

/// Without any echo so far it is not worth to go on.
const GIVE_UP_AFTER: usize = 3;

/// Payloads of the packets that networks are set up for, with headers of 28 bytes: 576, 1280, 1400, 1450,
/// 1500, 9000 and the longest.
const USUAL: [usize; 7] = [548, 1252, 1372, 1422, 1472, 8972, DATAGRAM_BYTES_MAX];

/// The longest payloads that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Longest {
    /// That this machine sends at all.
    pub sent: usize,
    /// That arrive at the peer.
    pub there: usize,
    /// That come back from it.
    pub back: usize,
}

/// What became of one probe.
enum Fate {
    Echoed(Duration),
    Lost,
    /// This machine does not send packets of that length.
    TooLong,
    /// The peer's machine says that nothing listens.
    Refused,
}

/// Sends probes to one place.
pub struct Prober {
    socket: UdpSocket,
    asker: u64,
    number: u32,
    sent: usize,
    echoed: usize,
    refused: bool,
    within: Duration,
    datagram: Vec<u8>,
}

impl Prober {
    /// A prober of the path to a place.
    pub fn to(place: SocketAddr) -> io::Result<Self> {
        let any: IpAddr =
            if place.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(place)?;
        without_fragments(&socket)?;
        Ok(Self {
            socket,
            asker: random_incarnation(),
            number: 0,
            sent: 0,
            echoed: 0,
            refused: false,
            within: ECHO_WITHIN_MAX,
            datagram: vec![0; DATAGRAM_BYTES_MAX],
        })
    }

    /// The address that packets come from.
    pub fn local(&self) -> String {
        self.socket.local_addr().map_or_else(|error| error.to_string(), |place| place.ip().to_string())
    }

    /// How many short probes were sent.
    pub fn sent(&self) -> usize {
        self.sent
    }

    /// Whether the peer's machine said that nothing listens there.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Sends a short probe and gives the time of its echo, if it comes; `None` when there is no use in more.
    pub fn time_of_one(&mut self) -> Option<Option<Duration>> {
        if self.refused || (self.echoed == 0 && self.sent >= GIVE_UP_AFTER) {
            return None;
        }
        self.sent += 1;
        match self.probe(HEADER_BYTES, HEADER_BYTES) {
            Fate::Echoed(time) => {
                self.echoed += 1;
                self.within = (time * PATIENCE).clamp(ECHO_WITHIN_MIN, ECHO_WITHIN_MAX);
                Some(Some(time))
            }
            Fate::Refused => {
                self.refused = true;
                None
            }
            Fate::Lost | Fate::TooLong => Some(None),
        }
    }

    /// Looks for the longest packets each way. What comes back is not longer than what arrives there.
    pub fn longest(&mut self) -> Longest {
        let sent = search(&USUAL, DATAGRAM_BYTES_MAX, |bytes| !matches!(self.probe(bytes, 0), Fate::TooLong));
        let there = search(&USUAL, sent, |bytes| self.passes(bytes, 0));
        let back = search(&USUAL, there, |bytes| self.passes(bytes, bytes));
        Longest { sent, there, back }
    }

    fn passes(&mut self, bytes: usize, wanted: usize) -> bool {
        (0..TRIES).any(|_| matches!(self.probe(bytes, wanted), Fate::Echoed(_)))
    }

    /// Sends a probe of some bytes that wants an echo of some.
    fn probe(&mut self, bytes: usize, wanted: usize) -> Fate {
        self.number += 1;
        let header =
            Header { kind: Kind::Probe, bytes: wanted as u16, number: self.number, asker: self.asker };
        self.datagram.fill(0);
        self.datagram[..HEADER_BYTES].copy_from_slice(&header.encode());
        let begun = Instant::now();
        // The first error may be that of an earlier packet, which the path refused.
        let sent = self.socket.send(&self.datagram[..bytes]);
        if let Err(error) = sent.or_else(|_| self.socket.send(&self.datagram[..bytes])) {
            return match Errno::from_io_error(&error) {
                Some(Errno::MSGSIZE) => Fate::TooLong,
                Some(Errno::CONNREFUSED) => Fate::Refused,
                _ => Fate::Lost,
            };
        }
        loop {
            let Some(left) = self.within.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) else {
                return Fate::Lost;
            };
            if self.socket.set_read_timeout(Some(left)).is_err() {
                return Fate::Lost;
            }
            match self.socket.recv(&mut self.datagram) {
                Ok(length) if self.is_echo(length, bytes, wanted) => return Fate::Echoed(begun.elapsed()),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Fate::Lost,
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::ConnectionRefused => return Fate::Refused,
                    // A router reports that it does not pass packets of this length.
                    _ => return Fate::Lost,
                },
            }
        }
    }

    fn is_echo(&self, length: usize, bytes: usize, wanted: usize) -> bool {
        let expected =
            Header { kind: Kind::Echo, bytes: bytes as u16, number: self.number, asker: self.asker };
        length == wanted.max(HEADER_BYTES) && Header::decode(&self.datagram[..length]) == Some(expected)
    }
}

/// The longest length up to `most` that passes: first among the usual ones, then between the last that does
/// and the first that does not.
fn search(usual: &[usize], most: usize, mut passes: impl FnMut(usize) -> bool) -> usize {
    let (mut good, mut bad) = (HEADER_BYTES, None);
    for length in usual.iter().copied().filter(|length| *length < most).chain([most]) {
        if passes(length) {
            good = length;
        } else {
            bad = Some(length);
            break;
        }
    }
    let Some(mut bad) = bad else { return good };
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if passes(middle) { good = middle } else { bad = middle }
    }
    good
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_finds_every_length_with_few_probes() {
        for longest in [24, 25, 548, 1372, 1373, 1471, 1472, 3000, 8972, 65_506, 65_507] {
            let mut probes = 0;
            let found = search(&USUAL, DATAGRAM_BYTES_MAX, |length| {
                probes += 1;
                length <= longest
            });
            assert_eq!(found, longest);
            assert!(probes <= 25, "{probes} probes for {longest}");
        }
        assert_eq!(search(&USUAL, 1472, |_| true), 1472, "what this machine sends is the most");
    }

    #[test]
    fn a_port_without_a_listener_refuses() {
        let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let place = taken.local_addr().expect("bound");
        drop(taken);
        let mut prober = Prober::to(place).expect("loopback is there");
        while prober.time_of_one().is_some() {}
        assert!(prober.is_refused());
    }
}
