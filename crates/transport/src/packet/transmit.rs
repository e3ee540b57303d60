//! Handing the protocol's packets to a driver, as many as it takes.
//!
//! The protocol makes a packet only when its turn comes, so what finds no room waits there, as a reference to
//! the call and not as a packet. The one exception is a packet that the driver declined although it had
//! promised room.
//!
//! Of long messages only so much leaves in a turn that a packet which has just arrived does not wait for all
//! that others asked for: its answer, if it is short, leaves before the rest of them.

use farcall_base::Instant;
use farcall_driver::{Datagram, Destination, probes};
use farcall_protocol::calls::{Calls, Policy};
use farcall_protocol::wire::{Flags, Head, Header};

use crate::SessionId;
use crate::trace::{CallTracer, event, wire_number};

/// Bytes of long messages that leave before a turn looks at what has arrived.
const LONG_BYTES_OF_TURN: usize = 64 << 10;

/// The same in a turn in which something had arrived: more may lie behind it.
const LONG_BYTES_OF_BUSY_TURN: usize = 16 << 10;

/// Memory for packets under construction.
#[derive(Default)]
pub struct Transmitter {
    head: Head,
    declined: Option<Declined>,
    /// Whether the last turn left bytes of long messages for the next one.
    is_cut_short: bool,
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

    /// Fills the driver's queue and hands it to the fabric, with what it did not take the last time. In this
    /// turn so many packets were received.
    #[inline]
    pub fn transmit<B: AsRef<[u8]>, P: Policy, D: Datagram>(
        &mut self,
        calls: &mut Calls<B, P>,
        driver: &mut D,
        now: Instant,
        received: usize,
    ) {
        if calls.wants_transmit() || self.declined.is_some() || driver.is_backed_up() {
            let long_bytes_max = match received {
                // Nobody's packet waits behind those of others: turns that end early would only cost.
                _ if calls.sessions().established() < 2 => usize::MAX,
                0 => LONG_BYTES_OF_TURN,
                _ => LONG_BYTES_OF_BUSY_TURN,
            };
            self.transmit_now(calls, driver, now, long_bytes_max);
        } else {
            self.is_cut_short = false;
        }
    }

    #[inline(never)]
    fn transmit_now<B: AsRef<[u8]>, P: Policy, D: Datagram>(
        &mut self,
        calls: &mut Calls<B, P>,
        driver: &mut D,
        now: Instant,
        long_bytes_max: usize,
    ) {
        let (mut packets, mut long_bytes) = (0, 0);
        if self.send_declined(driver) {
            let room = driver.send_room();
            while packets < room
                && long_bytes < long_bytes_max
                && let Some(bytes) = self.send_next(calls, driver, now)
            {
                packets += 1;
                long_bytes += bytes;
            }
        }
        self.is_cut_short = long_bytes >= long_bytes_max;
        driver.flush();
        if packets > 0 {
            probes::flush(packets as u64);
        }
    }

    /// Sends what sessions have to say, and nothing of messages.
    pub fn transmit_of_sessions<B: AsRef<[u8]>, P: Policy, D: Datagram>(
        &mut self,
        calls: &mut Calls<B, P>,
        driver: &mut D,
        now: Instant,
    ) {
        if self.send_declined(driver) {
            let mut room = driver.send_room();
            while room > 0
                && calls.sessions().wants_transmit()
                && self.send_next(calls, driver, now).is_some()
            {
                room -= 1;
            }
        }
        driver.flush();
    }

    /// Whether what waits should wait until what has arrived is taken in.
    #[inline]
    pub fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// Whether a packet waits here for the driver.
    pub fn is_blocked(&self) -> bool {
        self.declined.is_some()
    }

    /// Sends the protocol's next packet, and says how many bytes of a long message it has. `None` when there
    /// is none, or when the driver declined it.
    #[inline]
    fn send_next<B: AsRef<[u8]>, P: Policy, D: Datagram>(
        &mut self,
        calls: &mut Calls<B, P>,
        driver: &mut D,
        now: Instant,
    ) -> Option<usize> {
        let packet = calls.poll_transmit(now, &mut self.head)?;
        if let Some(session) = packet.session {
            mark_transmitted(&self.tracer, session, packet.head);
        }
        let to = Destination(packet.to.0);
        let long_bytes = if packet.is_piece { packet.payload.len() } else { 0 };
        let parts = [packet.head, packet.payload];
        let parts = if packet.payload.is_empty() { &parts[..1] } else { &parts };
        let sent = driver.send(to, packet.priority, parts);
        if sent.is_err() {
            let bytes = [packet.head, packet.payload].concat();
            self.declined = Some(Declined { to, priority: packet.priority, bytes });
        }
        sent.ok().map(|()| long_bytes)
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
