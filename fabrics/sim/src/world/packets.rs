//! The packets that are somewhere on the fabric.
//!
//! Packets are numbered by the slot that they take, and slots and buffers are used again: what a run holds at
//! its peak is what it ever allocates.

use super::buffers::Buffers;
use crate::time::Picos;

/// Stands for no packet, at the end of a list.
pub const NONE: u32 = u32::MAX;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cargo {
    /// It is one that a host sent as such. It may be lost.
    Datagram,
    /// It is part of what a lane carries. It is never lost, and stays in order.
    Lane(LaneCargo),
}

/// What a lane carries in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneCargo {
    /// The lane.
    pub connection: u32,
    /// The end that sent it.
    pub side: u8,
    /// Bytes of the whole message; those that do not fit this packet went ahead of it.
    pub payload_bytes: u32,
    /// What it says.
    pub message: Message,
}

/// What a lane's packet says to the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Nothing: it is a part of something longer.
    Filler,
    /// A call, with a hello.
    Connect,
    /// The answer to a call, with a welcome.
    Accept,
    /// There is no lane driver.
    Refuse,
    /// A record and where it goes.
    Record { offset: u32, next_offset: u32 },
    /// The other end has given the lane up.
    Close,
}

/// A packet on its way.
#[derive(Debug)]
pub struct Packet {
    /// The sending host.
    pub source: u32,
    /// The receiving host.
    pub destination: u32,
    /// 0 to 7, of which 7 goes first.
    pub priority: u8,
    /// Bytes of payload.
    pub length: u32,
    /// The payload and what is left of its buffer. That of a datagram comes from [`Buffers`], which may carry
    /// a part only; a message of a lane is carried whole, because a record has many headers.
    pub bytes: Box<[u8]>,
    /// What it is for.
    pub cargo: Cargo,
    /// How long its bits took to come over the last link.
    pub spread: Picos,
    /// The next packet of the list that this one is in, or [`NONE`].
    pub next: u32,
}

impl Packet {
    /// Whether it waits where others would be dropped.
    pub fn is_lossless(&self) -> bool {
        self.cargo != Cargo::Datagram
    }
}

/// All packets, by number.
#[derive(Debug, Default)]
pub struct Packets {
    slots: Vec<Option<Packet>>,
    vacant: Vec<u32>,
    buffers: Buffers,
    peak: usize,
}

impl Packets {
    /// Takes a packet in and numbers it.
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> u32 {
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[number as usize] = Some(packet);
        self.peak = self.peak.max(self.slots.len() - self.vacant.len());
        number
    }

    /// Takes a packet out.
    #[inline]
    pub fn remove(&mut self, number: u32) -> Packet {
        self.vacant.push(number);
        self.slots[number as usize].take().expect("a packet is taken out once")
    }

    /// Takes a packet out and keeps its memory for others.
    #[inline]
    pub fn discard(&mut self, number: u32) {
        let packet = self.remove(number);
        if packet.cargo == Cargo::Datagram {
            self.buffers.keep(packet.bytes);
        }
    }

    /// The packet of that number.
    #[inline]
    pub fn get(&self, number: u32) -> &Packet {
        self.slots[number as usize].as_ref().expect("numbers are those of packets")
    }

    /// A copy of a packet's buffer.
    pub fn copy_of(&mut self, number: u32) -> Box<[u8]> {
        let Self { slots, buffers, .. } = self;
        let packet = slots[number as usize].as_ref().expect("numbers are those of packets");
        buffers.filled(packet.bytes.len(), &[&packet.bytes])
    }

    /// The packet of that number.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut Packet {
        self.slots[number as usize].as_mut().expect("numbers are those of packets")
    }

    /// The memory of packets.
    pub fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    /// The most packets that have been there at a time.
    pub fn peak(&self) -> usize {
        self.peak
    }

    /// Bytes of memory that packets and spare buffers hold.
    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<Packet>>()
            + self.vacant.capacity() * 4
            + self.buffers.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(buffers: &mut Buffers, payload: &[u8]) -> Packet {
        let bytes = buffers.filled(payload.len(), &[payload]);
        let (length, cargo) = (payload.len() as u32, Cargo::Datagram);
        Packet {
            source: 0,
            destination: 1,
            priority: 0,
            length,
            bytes,
            cargo,
            spread: Picos::ZERO,
            next: NONE,
        }
    }

    #[test]
    fn slots_and_buffers_are_used_again() {
        let mut packets = Packets::default();
        for round in 0..100_u8 {
            let made = [&[round; 200][..], &[round; 3]].map(|payload| packet(packets.buffers(), payload));
            let numbers = made.map(|packet| packets.insert(packet));
            assert_eq!(packets.get(numbers[0]).bytes[..200], [round; 200]);
            assert_eq!(packets.get(numbers[1]).bytes[..3], [round; 3]);
            numbers.into_iter().for_each(|number| packets.discard(number));
        }
        assert_eq!(
            (packets.vacant.len(), packets.peak(), packets.buffers.bytes()),
            (2, 2, 256 + 128 + 2 * super::super::buffers::STAGGER_BYTES)
        );
    }
}
