//! The way of a packet: out of the sending NIC, through the switches, into the receiving host's memory.

use super::World;
use super::layout::NextHop;
use super::packets::Cargo;
use super::port::Offered;
use crate::queue::Event;
use crate::time::Picos;

/// What kind of event the fingerprint notes.
mod kind {
    pub const SENT: u8 = 1;
    pub const HOP: u8 = 2;
    pub const ARRIVED: u8 = 3;
    pub const DELIVERED: u8 = 4;
    pub const DROPPED: u8 = 5;
}

impl World {
    /// The NIC takes the next packets of a host's send queue.
    pub(super) fn doorbell(&mut self, host: u32, incarnation: u32, count: u32) {
        if self.hosts[host as usize].incarnation != incarnation {
            return;
        }
        for _ in 0..count {
            let Some(packet) = self.hosts[host as usize].queued.pop_front() else { break };
            self.transmit(host, packet);
        }
    }

    /// The NIC takes a packet of a lane, unless its host has crashed meanwhile.
    pub(super) fn posted(&mut self, packet: u32, incarnation: u32) {
        let host = self.packets.get(packet).source;
        if self.hosts[host as usize].incarnation == incarnation {
            self.transmit(host, packet);
        } else {
            self.totals.drops_host_down += 1;
            self.packets.discard(packet);
        }
    }

    /// One packet passes the sending NIC.
    fn transmit(&mut self, host: u32, number: u32) {
        self.totals.packet_events += 1;
        let packet = self.packets.get(number);
        let (length, to) = (packet.length as usize, packet.destination);
        let datagram = packet.cargo == Cargo::Datagram;
        let (machine, to_machine) = (self.host(host).machine, self.host(to).machine);
        self.hash.note(self.now, kind::SENT, host, u64::from(to) << 32 | length as u64);
        let nic = &mut self.nics[machine as usize];
        let ready = nic.fetch(&self.profile, length, self.now);
        let (mut sent, mut at_switch) = (ready, ready);
        // Inside one machine the NIC hands the packet to itself.
        if machine != to_machine {
            let link = &self.profile.link;
            let wire_bytes = length + link.header_bytes;
            self.packets.get_mut(number).spread = link.rate.time(wire_bytes);
            sent = nic.transmit(link.rate, wire_bytes, ready);
            at_switch = sent + link.propagation + self.profile.switch.latency;
        }
        self.queue.schedule(at_switch, Event::Ingress { packet: number });
        if datagram {
            self.complete(host, sent);
        }
    }

    /// A packet of a host has left its send queue; each `signal_period` of them the host gets the places
    /// back.
    fn complete(&mut self, host: u32, sent: Picos) {
        let nic = &self.profile.nic;
        let state = &mut self.hosts[host as usize];
        state.unsignalled += 1;
        if state.unsignalled == nic.signal_period {
            state.unsignalled = 0;
            state.completions.push_back((sent + Picos(nic.pcie_round_trip.0 / 2), nic.signal_period));
        }
    }

    /// A packet enters the fabric.
    pub(super) fn ingress(&mut self, number: u32) {
        self.totals.packet_events += 1;
        if self.suffers(number) {
            self.route(number);
        }
    }

    /// A packet that a fault held up enters the fabric.
    pub(super) fn late_ingress(&mut self, number: u32) {
        self.totals.packet_events += 1;
        self.route(number);
    }

    /// A packet goes to its first output port, or back into its own machine.
    pub(super) fn route(&mut self, number: u32) {
        let packet = self.packets.get(number);
        let (flow, ordered) = ((packet.source, packet.destination), packet.is_lossless());
        let (from, to) = (self.host(flow.0).machine, self.host(flow.1).machine);
        if from == to {
            return self.nic_arrival(number);
        }
        let port = self.layout.first_port(from, to, flow, ordered);
        self.enter(number, port);
    }

    /// A packet is at the queue of an output port further on.
    pub(super) fn offer(&mut self, number: u32, port: u32) {
        self.totals.packet_events += 1;
        self.enter(number, port);
    }

    fn enter(&mut self, number: u32, port: u32) {
        match self.ports[port as usize].offer(&mut self.packets, number, self.now) {
            Offered::Sent(left) => self.leave(number, port, left),
            Offered::Waits(Some(at)) => self.queue.schedule(at, Event::PortFree { port }),
            Offered::Waits(None) => {}
            Offered::Refused => {
                self.totals.drops_port += 1;
                self.crowd_out(number);
            }
        }
    }

    /// An output port takes its next packet.
    pub(super) fn port_free(&mut self, port: u32) {
        self.totals.packet_events += 1;
        if let Some((number, left, more)) = self.ports[port as usize].send_next(&mut self.packets, self.now) {
            if more {
                self.queue.schedule(left, Event::PortFree { port });
            }
            self.leave(number, port, left);
        }
    }

    /// The last bit of a packet leaves an output port at `left`.
    fn leave(&mut self, number: u32, port: u32, left: Picos) {
        let packet = self.packets.get(number);
        let to = self.host(packet.destination).machine;
        self.hash.note(left, kind::HOP, port, u64::from(packet.length));
        let arrival = left + self.profile.link.propagation;
        match self.layout.after(port, to) {
            NextHop::Machine => self.queue.schedule(arrival, Event::NicArrival { packet: number }),
            NextHop::Port(port) => {
                self.queue
                    .schedule(arrival + self.profile.switch.latency, Event::Hop { packet: number, port });
            }
        }
    }

    /// A packet is at the receiving NIC.
    pub(super) fn nic_arrival(&mut self, number: u32) {
        self.totals.packet_events += 1;
        let packet = self.packets.get(number);
        let (source, length, lossless) = (packet.source, packet.length as usize, packet.is_lossless());
        let machine = self.host(packet.destination).machine;
        self.hash.note(self.now, kind::ARRIVED, machine, u64::from(source) << 32 | length as u64);
        match self.nics[machine as usize].receive(&self.profile, source, length, lossless, self.now) {
            Some(at) => self.queue.schedule(at, Event::Deliver { packet: number }),
            None => {
                self.totals.drops_nic += 1;
                self.crowd_out(number);
            }
        }
    }

    /// A packet is in its host's memory.
    pub(super) fn deliver(&mut self, number: u32) {
        self.totals.packet_events += 1;
        let packet = self.packets.get(number);
        let (host, length, lane) = (packet.destination, packet.length, packet.is_lossless());
        let state = &mut self.hosts[host as usize];
        self.nics[state.machine as usize].received(length as usize);
        if !state.up {
            self.totals.drops_host_down += 1;
            return self.drop_packet(number);
        }
        if !lane && state.inbox.len() >= self.profile.nic.receive_queue_packets {
            self.totals.drops_receive_queue += 1;
            return self.crowd_out(number);
        }
        state.usage.packets_received += 1;
        state.usage.bytes_received += u64::from(length);
        self.totals.packets_delivered += 1;
        self.totals.bytes_delivered += u64::from(length);
        self.hash.note(self.now, kind::DELIVERED, host, u64::from(length));
        if lane {
            return self.take_lane_packet(number);
        }
        let state = &mut self.hosts[host as usize];
        state.inbox.push_back(number);
        state.unread.join(self.now);
        self.wake(host);
    }

    /// A packet found a queue full.
    fn crowd_out(&mut self, number: u32) {
        let (source, destination) = (self.packets.get(number).source, self.packets.get(number).destination);
        self.note_crowded(source, destination);
        self.drop_packet(number);
    }

    /// Something from one host to another was crowded out by what others send.
    pub(super) fn note_crowded(&mut self, source: u32, destination: u32) {
        if let Some(overflows) = &mut self.overflows {
            overflows.note(self.now, source, destination);
        }
    }

    pub(super) fn drop_packet(&mut self, number: u32) {
        let destination = self.packets.get(number).destination;
        self.hash.note(self.now, kind::DROPPED, destination, u64::from(self.packets.get(number).length));
        self.packets.discard(number);
    }
}
