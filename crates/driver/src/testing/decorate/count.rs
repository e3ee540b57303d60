//! Counts packets and bytes both ways.

use crate::decorate::delegate::{delegate_datagram, delegate_wait};
use crate::{CounterFile, Datagram, Destination, Packet, SendError, Wait};

crate::declare_counters! {
    /// What passed through a datagram driver.
    pub struct PacketCounters {
        packets_sent: "packets" => "Packets that the driver took for sending",
        bytes_sent: "bytes" => "Payload of the packets sent",
        packets_refused: "packets" => "Packets that the driver did not take: queue full or too long",
        flushes: "calls" => "Times that the queue was handed to the fabric",
        packets_received: "packets" => "Packets that arrived",
        bytes_received: "bytes" => "Payload of the packets that arrived",
        receives: "calls" => "Times that the driver was asked for packets",
        receives_empty: "calls" => "Times that it had none",
    }
}

/// A driver that counts.
pub struct Count<D> {
    inner: D,
    counters: PacketCounters,
}

impl<D: Datagram> Count<D> {
    /// Counts what passes through `inner` in this process's counter file, under `label`.
    pub fn new(inner: D, label: &str) -> Self {
        Self { inner, counters: PacketCounters::new(CounterFile::process(), label) }
    }

    /// The counts so far.
    pub fn counters(&self) -> &PacketCounters {
        &self.counters
    }

    /// The driver inside.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: Datagram> Wait for Count<D> {
    delegate_wait!();
}

impl<D: Datagram> Datagram for Count<D> {
    delegate_datagram!(inner: name, keep_peer, limits, address, resolve, send_room, release, next_deadline, next_unreachable);

    #[inline]
    fn send(&mut self, to: Destination, priority: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        let result = self.inner.send(to, priority, parts);
        if result.is_ok() {
            self.counters.packets_sent.increment();
            self.counters.bytes_sent.add(parts.iter().map(|part| part.len() as u64).sum());
        } else {
            self.counters.packets_refused.increment();
        }
        result
    }

    #[inline]
    fn flush(&mut self) {
        self.counters.flushes.increment();
        self.inner.flush();
    }

    #[inline]
    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize {
        let before = packets.len();
        let received = self.inner.receive(packets);
        self.counters.receives.increment();
        self.counters.receives_empty.add(u64::from(received == 0));
        self.counters.packets_received.add(received as u64);
        self.counters.bytes_received.add(packets[before..].iter().map(|packet| packet.len() as u64).sum());
        received
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decorate::loopback::{Loopback, drain};

    #[test]
    fn both_directions_and_refusals_are_counted() {
        let mut driver = Count::new(Loopback::with_room(2), "count-test");
        let to = driver.resolve(&driver.address()).expect("its own address");
        let results =
            [b"a" as &[u8], b"bc", b"refused"].map(|bytes| driver.send(to, 0, &[bytes, b"!"]).is_ok());
        assert_eq!(results, [true, true, false]);
        driver.flush();
        assert_eq!(drain(&mut driver), [b"a!".to_vec(), b"bc!".to_vec()]);
        let counters = driver.counters();
        assert_eq!((counters.packets_sent.get(), counters.bytes_sent.get()), (2, 5));
        assert_eq!((counters.packets_received.get(), counters.bytes_received.get()), (2, 5));
        assert_eq!((counters.packets_refused.get(), counters.flushes.get()), (1, 1));
        assert_eq!((counters.receives.get(), counters.receives_empty.get()), (2, 1));
    }
}
