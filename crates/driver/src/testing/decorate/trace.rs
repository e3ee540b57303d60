//! Traces what a datagram driver does, and when.

use crate::clock::Clock;
use crate::decorate::delegate::{delegate_datagram, delegate_wait};
use crate::trace::{EventDescription, Tracer};
use crate::{Datagram, Destination, Packet, SendError, Wait};

/// The numbers of the decorators' events.
pub mod event {
    /// See [`DRIVER_EVENTS`](super::DRIVER_EVENTS), as for all of these.
    pub const PACKET_SENT: u16 = 0x100;
    /// A packet was not taken.
    pub const PACKET_REFUSED: u16 = 0x101;
    /// The queue was handed over.
    pub const PACKETS_FLUSHED: u16 = 0x102;
    /// A packet arrived.
    pub const PACKET_RECEIVED: u16 = 0x103;
    /// A record was published.
    pub const RECORD_PUBLISHED: u16 = 0x110;
    /// A record was found.
    pub const RECORD_FOUND: u16 = 0x111;
    /// A doorbell was rung.
    pub const DOORBELL_RUNG: u16 = 0x112;
    /// A lane came up.
    pub const LANE_UP: u16 = 0x113;
    /// A lane went down.
    pub const LANE_DOWN: u16 = 0x114;
}

/// What the decorators' events mean.
pub const DRIVER_EVENTS: &[EventDescription] = &[
    describe(event::PACKET_SENT, "packet-sent", "The driver took a packet; destination; bytes"),
    describe(event::PACKET_REFUSED, "packet-refused", "The driver did not take a packet; destination; bytes"),
    describe(event::PACKETS_FLUSHED, "packets-flushed", "The queue was handed to the fabric"),
    describe(event::PACKET_RECEIVED, "packet-received", "A packet arrived; source; bytes"),
    describe(event::RECORD_PUBLISHED, "record-published", "A record became visible to the peer; lane; bytes"),
    describe(event::RECORD_FOUND, "record-found", "A look at the ring found a record; lane; bytes"),
    describe(event::DOORBELL_RUNG, "doorbell-rung", "The peer was woken if it slept; lane"),
    describe(event::LANE_UP, "lane-up", "A lane came up; lane"),
    describe(event::LANE_DOWN, "lane-down", "A lane went down; lane"),
];

const fn describe(event: u16, name: &'static str, doc: &'static str) -> EventDescription {
    EventDescription { event, name, doc }
}

/// A driver that traces, while its tracer is on.
pub struct Trace<D> {
    inner: D,
    tracer: Tracer,
    clock: Clock,
}

impl<D: Datagram> Trace<D> {
    /// Traces what passes through `inner` to `tracer`, with the real clock.
    pub fn new(inner: D, tracer: Tracer) -> Self {
        Self { inner, tracer, clock: Clock::new() }
    }

    /// The tracer, to switch and to read.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }
}

impl<D: Datagram> Wait for Trace<D> {
    delegate_wait!();
}

impl<D: Datagram> Datagram for Trace<D> {
    delegate_datagram!(inner: name, keep_peer, limits, address, resolve, send_room, release, next_deadline, next_unreachable);

    #[inline]
    fn send(&mut self, to: Destination, priority: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        let result = self.inner.send(to, priority, parts);
        if self.tracer.is_on() {
            let event = if result.is_ok() { event::PACKET_SENT } else { event::PACKET_REFUSED };
            let bytes = parts.iter().map(|part| part.len()).sum();
            self.tracer.record(self.clock.now(), event, to.0, bytes);
        }
        result
    }

    #[inline]
    fn flush(&mut self) {
        self.inner.flush();
        if self.tracer.is_on() {
            self.tracer.record(self.clock.now(), event::PACKETS_FLUSHED, 0, 0);
        }
    }

    #[inline]
    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize {
        let before = packets.len();
        let received = self.inner.receive(packets);
        if received > 0 && self.tracer.is_on() {
            // One clock read for the burst: its packets were found at one time.
            let now = self.clock.now();
            for packet in &packets[before..] {
                self.tracer.record(now, event::PACKET_RECEIVED, packet.source().0, packet.len());
            }
        }
        received
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decorate::loopback::{Loopback, drain};

    #[test]
    fn events_come_in_order_with_their_numbers() {
        let mut driver = Trace::new(Loopback::with_room(1), Tracer::new(16));
        let to = driver.resolve(&driver.address()).expect("its own address");
        driver.tracer().switch(true);
        assert!(driver.send(to, 0, &[b"abc", b"de"]).is_ok());
        assert!(driver.send(to, 0, &[b"refused"]).is_err());
        driver.flush();
        drain(&mut driver);
        let records = driver.tracer().records();
        let seen: Vec<_> = records.iter().map(|record| (record.event, record.detail)).collect();
        let (sent, refused) = ((event::PACKET_SENT, 5), (event::PACKET_REFUSED, 7));
        assert_eq!(seen, [sent, refused, (event::PACKETS_FLUSHED, 0), (event::PACKET_RECEIVED, 5)]);
        assert!(records.is_sorted_by_key(|record| record.time));
    }

    #[test]
    fn every_event_is_described_once() {
        for (index, description) in DRIVER_EVENTS.iter().enumerate() {
            assert!((0x100..0x200).contains(&description.event), "{} is out of range", description.name);
            let same = |other: &&EventDescription| {
                other.event == description.event || other.name == description.name
            };
            assert_eq!(DRIVER_EVENTS.iter().filter(same).count(), 1, "event {index}");
        }
    }
}
