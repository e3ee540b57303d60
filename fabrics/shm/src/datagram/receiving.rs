//! Receiving: a look at one word for each peer, and packets handed out where they lie.

use farcall_driver::Packet;

use super::ShmDatagram;
use super::connection::{Stage, packet_number, place_of};
use super::inlet::Arrival;

impl ShmDatagram {
    #[inline]
    pub(super) fn receive_packets(&mut self, packets: &mut Vec<Packet>) -> usize {
        self.take_notices();
        let before = packets.len();
        let mut places = self.connections.len();
        while places > 0 && packets.len() - before < self.burst_packets {
            places -= 1;
            // Each peer is first in its turn, so that none can keep the others waiting.
            self.next_place =
                if self.next_place + 1 < self.connections.len() { self.next_place + 1 } else { 0 };
            let index = self.connections.live(self.next_place);
            self.receive_from(index, self.burst_packets - (packets.len() - before), packets);
            places = places.min(self.connections.len());
        }
        packets.len() - before
    }

    /// Receives up to `room` packets of one peer.
    #[inline]
    fn receive_from(&mut self, index: usize, room: usize, packets: &mut Vec<Packet>) {
        let connection = self.connections.at(index);
        if connection.stage == Stage::Broken {
            return self.remove_if_done(index);
        }
        let (mut received, mut bytes) = (0, 0);
        let last = loop {
            if received == room {
                break Ok(None);
            }
            match connection.inlet.receive(connection.peer, packet_number(index)) {
                Ok(Arrival::Packet(packet)) => {
                    received += 1;
                    bytes += packet.len();
                    packets.push(packet);
                }
                last => break last.map(Some),
            }
        };
        if received > 0 {
            self.counters.packets_received.add(received as u64);
            self.counters.bytes_received.add(bytes as u64);
        }
        match last {
            Ok(Some(Arrival::Nothing)) if connection.stage == Stage::Draining => self.remove_if_done(index),
            Ok(Some(Arrival::Exhausted)) => self.counters.slots_exhausted.increment(),
            Ok(_) => {}
            Err(_) => self.break_off(index),
        }
    }

    #[inline]
    pub(super) fn release_packet(&mut self, packet: &Packet) {
        let (index, slot) = place_of(packet.slot());
        self.connections.at(index).inlet.release(slot);
    }
}
