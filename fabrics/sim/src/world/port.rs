//! A switch's output port: a line for each priority, one buffer for all of them, and the link that they leave
//! by.

use super::crowd::Crowd;
use super::packets::{NONE, Packets};
use crate::profile::SwitchModel;
use crate::time::{PerByte, Picos};

/// How many priorities switches tell apart.
pub const PRIORITIES: usize = 8;

/// What a port did with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It is being sent; its last bit leaves at the time given.
    Sent(Picos),
    /// It waits. When a time is given, nothing waited before: the port must be called then.
    Waits(Option<Picos>),
    /// There is no room.
    Refused,
}

/// An output port.
#[derive(Debug)]
pub struct Port {
    rate: PerByte,
    header_bytes: usize,
    buffer_bytes: usize,
    cut_through: bool,
    /// First and last packet of each priority's line.
    lines: [(u32, u32); PRIORITIES],
    /// A bit for each line with somebody in it.
    waiting: u8,
    waiting_bytes: usize,
    waiting_packets: Crowd,
    busy_until: Picos,
    usage: PortUsage,
}

/// What an output port has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortUsage {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, the fabric's headers included.
    pub bytes: u64,
    /// Time spent sending.
    pub busy: Picos,
    /// Packets that found the buffer full.
    pub drops: u64,
    /// The most bytes that have waited at a time.
    pub peak_bytes: usize,
    /// How long packets have waited for the link, all together.
    pub waited: Picos,
}

impl Port {
    /// A port to a link of that rate.
    pub fn new(rate: PerByte, header_bytes: usize, switch: &SwitchModel) -> Self {
        Self {
            rate,
            header_bytes,
            buffer_bytes: switch.port_buffer_bytes,
            cut_through: switch.cut_through,
            lines: [(NONE, NONE); PRIORITIES],
            waiting: 0,
            waiting_bytes: 0,
            waiting_packets: Crowd::default(),
            busy_until: Picos::ZERO,
            usage: PortUsage::default(),
        }
    }

    /// A packet has come. Those of lanes are taken even when the buffer is full.
    #[inline]
    pub fn offer(&mut self, packets: &mut Packets, number: u32, now: Picos) -> Offered {
        if self.waiting == 0 && self.busy_until <= now {
            return Offered::Sent(self.send_through(packets, number, now));
        }
        let bytes = self.wire_bytes(packets, number);
        if self.waiting_bytes + bytes > self.buffer_bytes && !packets.get(number).is_lossless() {
            self.usage.drops += 1;
            return Offered::Refused;
        }
        let first = self.waiting == 0;
        self.push(packets, number);
        self.waiting_bytes += bytes;
        self.waiting_packets.join(now);
        self.usage.peak_bytes = self.usage.peak_bytes.max(self.waiting_bytes);
        Offered::Waits(first.then_some(self.busy_until))
    }

    /// What it has done until `now`.
    pub fn usage(&self, now: Picos) -> PortUsage {
        PortUsage { waited: self.waiting_packets.waited(now), ..self.usage }
    }

    /// The link is free: sends the first packet of the highest priority. Returns it, when its last bit
    /// leaves, and whether more wait until then.
    #[inline]
    pub fn send_next(&mut self, packets: &mut Packets, now: Picos) -> Option<(u32, Picos, bool)> {
        let number = self.pop(packets)?;
        self.waiting_bytes -= self.wire_bytes(packets, number);
        self.waiting_packets.leave(now);
        let left = self.send(packets, number, now);
        Some((number, left, self.waiting != 0))
    }

    /// Sends a packet whose last bit has just come. A port that cuts through began when it was free and had
    /// the first bits, and early enough to be done no sooner than the last one came.
    #[inline]
    fn send_through(&mut self, packets: &mut Packets, number: u32, now: Picos) -> Picos {
        let mut start = now;
        if self.cut_through {
            let span = self.rate.time(self.wire_bytes(packets, number));
            start = self.busy_until.max(now - span.min(packets.get(number).spread));
        }
        self.send(packets, number, start)
    }

    /// Sends a packet from `start` on.
    #[inline]
    fn send(&mut self, packets: &mut Packets, number: u32, start: Picos) -> Picos {
        let bytes = self.wire_bytes(packets, number);
        let span = self.rate.time(bytes);
        packets.get_mut(number).spread = span;
        self.busy_until = start + span;
        self.usage.packets += 1;
        self.usage.bytes += bytes as u64;
        self.usage.busy += span;
        self.busy_until
    }

    fn wire_bytes(&self, packets: &Packets, number: u32) -> usize {
        packets.get(number).length as usize + self.header_bytes
    }

    fn push(&mut self, packets: &mut Packets, number: u32) {
        let packet = packets.get_mut(number);
        packet.next = NONE;
        let priority = usize::from(packet.priority);
        let last = core::mem::replace(&mut self.lines[priority].1, number);
        if last == NONE {
            self.lines[priority].0 = number;
            self.waiting |= 1 << priority;
        } else {
            packets.get_mut(last).next = number;
        }
    }

    fn pop(&mut self, packets: &Packets) -> Option<u32> {
        let priority = self.waiting.checked_ilog2()? as usize;
        let (number, _) = self.lines[priority];
        let next = packets.get(number).next;
        self.lines[priority].0 = next;
        if next == NONE {
            self.lines[priority].1 = NONE;
            self.waiting &= !(1 << priority);
        }
        Some(number)
    }
}
