//! Handing the protocol's packets to a driver, as many as it takes.
//!
//! The protocol makes a packet only when its turn comes, so what finds no room waits there, as a reference to
//! the call and not as a packet. The one exception is a packet that the driver declined although it had
//! promised room.

use farcall_base::Instant;
use farcall_driver::{Datagram, Destination, probes};
use farcall_protocol::calls::{Calls, Policy};
use farcall_protocol::wire::{Flags, Head, Header};

use crate::SessionId;
use crate::trace::{CallTracer, event, wire_number};

/// Memory for packets under construction.
#[derive(Default)]
pub struct Transmitter {
    head: Head,
    declined: Option<Declined>,
    tracer: CallTracer,
}

/// A packet that must go out before all others.
struct Declined {
    to: Destination,
    priority: u8,
    bytes: Vec<u8>,
}

impl Transmitter {
    /// Marks what is handed over there.
    pub fn trace_to(&mut self, tracer: CallTracer) {
        self.tracer = tracer;
    }

    /// Fills the driver's queue and hands it to the fabric, with what it did not take the last time.
    #[inline]
    pub fn transmit<B: AsRef<[u8]>, P: Policy, D: Datagram>(
        &mut self,
        calls: &mut Calls<B, P>,
        driver: &mut D,
        now: Instant,
    ) {
        if calls.wants_transmit() || self.declined.is_some() || driver.is_backed_up() {
            self.transmit_now(calls, driver, now);
        }
    }

    #[inline(never)]
    fn transmit_now<B: AsRef<[u8]>, P: Policy, D: Datagram>(
        &mut self,
        calls: &mut Calls<B, P>,
        driver: &mut D,
        now: Instant,
    ) {
        let mut packets = 0;
        if self.send_declined(driver) {
            let room = driver.send_room();
            while packets < room && self.send_next(calls, driver, now) {
                packets += 1;
            }
        }
        driver.flush();
        if packets > 0 {
            probes::flush(packets as u64);
        }
    }

    /// Whether a packet waits here for the driver.
    pub fn is_blocked(&self) -> bool {
        self.declined.is_some()
    }

    /// Sends the protocol's next packet. False when there is none, or when the driver declined it.
    #[inline]
    fn send_next<B: AsRef<[u8]>, P: Policy, D: Datagram>(
        &mut self,
        calls: &mut Calls<B, P>,
        driver: &mut D,
        now: Instant,
    ) -> bool {
        let Some(packet) = calls.poll_transmit(now, &mut self.head) else { return false };
        if let Some(session) = packet.session {
            mark_transmitted(&self.tracer, session, packet.head);
        }
        let to = Destination(packet.to.0);
        let parts = [packet.head, packet.payload];
        let parts = if packet.payload.is_empty() { &parts[..1] } else { &parts };
        let sent = driver.send(to, packet.priority, parts);
        if sent.is_err() {
            let bytes = [packet.head, packet.payload].concat();
            self.declined = Some(Declined { to, priority: packet.priority, bytes });
        }
        sent.is_ok()
    }

    /// Tries a declined packet again. False when the driver still has no room.
    fn send_declined<D: Datagram>(&mut self, driver: &mut D) -> bool {
        let Some(packet) = &self.declined else { return true };
        if driver.send(packet.to, packet.priority, &[&packet.bytes]).is_err() {
            return false;
        }
        self.declined = None;
        true
    }
}

/// Marks the message that a packet is a part of.
#[inline]
fn mark_transmitted(tracer: &CallTracer, session: u16, head: &[u8]) {
    let Some(now) = tracer.begin() else { return };
    let Ok(header) = Header::parse(head) else { return };
    let from_caller = header.flags.has(Flags::FROM_CALLER);
    let event = if from_caller { event::REQUEST_TRANSMITTED } else { event::RESPONSE_TRANSMITTED };
    tracer.mark_at(now, event, wire_number(header.call.to_wire()), SessionId(u32::from(session)));
}
