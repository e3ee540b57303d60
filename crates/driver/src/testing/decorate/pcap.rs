//! Captures packets to a file that the usual tools open.
//!
//! Peers stand under addresses made up from their own: 10.x.y.z from a hash of the address, the same in every
//! process's capture, so that captures of several processes can be merged; 172.16.0.0/12 for a peer whose
//! address was never resolved here. The interface's description in the file is the driver's real address.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::decorate::delegate::{delegate_datagram, delegate_wait};
use crate::decorate::pcapng::{Direction, Ends, write_packet, write_start};
use crate::{Datagram, Destination, Packet, SendError, Wait};
use farcall_base::{Address, AddressError};

/// Nanoseconds since 1970.
type WallClock = Box<dyn FnMut() -> u64 + Send>;

/// A driver that captures what passes through it.
///
/// When the writer fails, the capture ends and the traffic goes on.
pub struct Pcap<D, W: Write> {
    inner: D,
    writer: BufWriter<W>,
    clock: WallClock,
    own: [u8; 4],
    /// Peers by destination. As many as the caller has resolved.
    resolved: HashMap<Destination, [u8; 4]>,
    failure: Option<io::Error>,
}

impl<D: Datagram, W: Write + Send> Pcap<D, W> {
    /// Captures what passes through `inner` to `writer`, with the system's time.
    pub fn new(inner: D, writer: W) -> io::Result<Self> {
        let wall = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_nanos() as u64);
        Self::with_clock(inner, writer, Box::new(wall))
    }

    /// The same with a clock that gives nanoseconds since 1970, such as a simulated one.
    pub fn with_clock(inner: D, writer: W, clock: WallClock) -> io::Result<Self> {
        let mut writer = BufWriter::new(writer);
        write_start(&mut writer, inner.name(), &format!("{:?}", inner.address()))?;
        let own = resolved_ip(&inner.address());
        Ok(Self { inner, writer, clock, own, resolved: HashMap::new(), failure: None })
    }

    /// Why the capture ended early, if it did.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Writes out what is buffered. Dropping the capture does the same, but cannot tell of failure.
    pub fn sync(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    fn capture(&mut self, direction: Direction, peer: Destination, parts: &[&[u8]]) {
        if self.failure.is_some() {
            return;
        }
        let peer = self.resolved.get(&peer).copied().unwrap_or_else(|| unresolved_ip(peer));
        let ends = match direction {
            Direction::Sent => Ends { source: self.own, destination: peer },
            Direction::Received => Ends { source: peer, destination: self.own },
        };
        let nanos = (self.clock)();
        self.failure = write_packet(&mut self.writer, nanos, direction, ends, parts).err();
    }
}

impl<D: Datagram, W: Write + Send> Wait for Pcap<D, W> {
    delegate_wait!();
}

impl<D: Datagram, W: Write + Send> Datagram for Pcap<D, W> {
    delegate_datagram!(inner: name, keep_peer, limits, address, send_room, flush, release, next_deadline, next_unreachable);

    fn resolve(&mut self, address: &Address) -> Result<Destination, AddressError> {
        let destination = self.inner.resolve(address)?;
        self.resolved.insert(destination, resolved_ip(address));
        Ok(destination)
    }

    fn send(&mut self, to: Destination, priority: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        self.inner.send(to, priority, parts)?;
        self.capture(Direction::Sent, to, parts);
        Ok(())
    }

    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize {
        let before = packets.len();
        let received = self.inner.receive(packets);
        for packet in &packets[before..] {
            self.capture(Direction::Received, packet.source(), &[packet]);
        }
        received
    }
}

/// 10.x.y.z by the FNV-1a hash of the address.
fn resolved_ip(address: &Address) -> [u8; 4] {
    let hash = address.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    [10, (hash >> 16) as u8, (hash >> 8) as u8, hash as u8]
}

fn unresolved_ip(peer: Destination) -> [u8; 4] {
    [172, 16 | (peer.0 >> 16) as u8 & 0x0f, (peer.0 >> 8) as u8, peer.0 as u8]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decorate::loopback::{Loopback, drain};

    /// Takes a number of bytes, then fails.
    struct Disk {
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.room = self.room.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_ends_the_capture_and_not_the_traffic() {
        let mut driver =
            Pcap::new(Loopback::with_room(1000), Disk { room: 20_000 }).expect("room for the start");
        let to = driver.resolve(&driver.address()).expect("its own address");
        for _ in 0..100 {
            driver.send(to, 0, &[&[7; 500]]).expect("room");
        }
        driver.flush();
        assert_eq!(drain(&mut driver).len(), 100);
        assert_eq!(driver.failure().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
    }

    #[test]
    fn the_same_traffic_at_the_same_times_gives_the_same_file() {
        let capture = || {
            let mut now = 0;
            let clock = Box::new(move || {
                now += 1_000;
                now
            });
            let mut driver = Pcap::with_clock(Loopback::with_room(9), Vec::new(), clock).expect("a vector");
            let to = driver.resolve(&driver.address()).expect("its own address");
            driver.send(to, 0, &[b"hello"]).expect("room");
            driver.flush();
            drain(&mut driver);
            driver.sync().expect("a vector");
            driver.writer.get_ref().clone()
        };
        let file = capture();
        assert_eq!(file, capture());
        assert_eq!(file.windows(5).filter(|window| window == b"hello").count(), 2, "sent and received");
    }
}
