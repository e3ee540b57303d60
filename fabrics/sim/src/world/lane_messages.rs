//! What of a lane crosses the fabric: calls, records, the bytes of blocks, good-byes.
//!
//! All of it travels as packets, in order, and none of them is lost: where there is no room they wait. A
//! partition holds them up; they go on when it heals.

use std::sync::Arc;

use farcall_driver::{LaneEvent, LaneFault};

use super::lanes::Connection;
use super::packets::{Cargo, LaneCargo, Message, NONE, Packet};
use super::{Work, World};
use crate::lane::Ring;
use crate::queue::Event;
use crate::time::Picos;

impl World {
    /// Sends a message from an end of a lane, at the expense of its host.
    pub(super) fn post(&mut self, number: u32, side: usize, message: Message, payload: &[u8]) {
        let Some(host) = self.lanes.get_mut(number).map(|connection| connection.ends[side].host) else {
            return;
        };
        let (costs, nic) = (&self.profile.host, &self.profile.nic);
        let spans = [
            (Work::MakePackets, costs.send_packet),
            (Work::CopyOut, costs.send_byte.time(payload.len())),
            (Work::Descriptors, nic.descriptor),
            (Work::Doorbells, nic.doorbell),
        ];
        spans.into_iter().for_each(|(work, span)| self.spend(host, work, span));
        // What does not fit one packet goes ahead of it.
        let mtu_bytes = self.profile.nic.mtu_bytes;
        let ahead = payload.len().saturating_sub(1) / mtu_bytes;
        (0..ahead).for_each(|_| self.post_packet(number, side, mtu_bytes, Message::Filler, &[]));
        self.post_packet(number, side, payload.len() - ahead * mtu_bytes, message, payload);
    }

    /// Sends `bytes` bytes of a block.
    pub(super) fn post_bytes(&mut self, number: u32, side: usize, bytes: usize) {
        let Some(host) = self.lanes.get_mut(number).map(|connection| connection.ends[side].host) else {
            return;
        };
        let nic = self.profile.nic;
        self.spend(host, Work::Descriptors, nic.descriptor);
        self.spend(host, Work::Doorbells, nic.doorbell);
        let mtu_bytes = self.profile.nic.mtu_bytes;
        for at in (0..bytes).step_by(mtu_bytes) {
            self.post_packet(number, side, mtu_bytes.min(bytes - at), Message::Filler, &[]);
        }
    }

    fn post_packet(
        &mut self,
        connection: u32,
        side: usize,
        wire_bytes: usize,
        message: Message,
        payload: &[u8],
    ) {
        let Some(ends) = self.lanes.get_mut(connection).map(|connection| &connection.ends) else { return };
        let (source, destination) = (ends[side].host, ends[1 - side].host);
        let packet = Packet {
            source,
            destination,
            priority: 0,
            length: wire_bytes as u32,
            bytes: payload.into(),
            cargo: Cargo::Lane(LaneCargo {
                connection,
                side: side as u8,
                payload_bytes: payload.len() as u32,
                message,
            }),
            spread: Picos::ZERO,
            next: NONE,
        };
        let number = self.packets.insert(packet);
        self.totals.packets_sent += 1;
        let state = &mut self.hosts[source as usize];
        state.usage.packets_sent += 1;
        state.usage.bytes_sent += wire_bytes as u64;
        let at = state.local() + Picos(self.profile.nic.pcie_round_trip.0 / 2);
        self.queue.schedule(at, Event::Posted { packet: number, incarnation: state.incarnation });
    }

    /// A partition holds up what a lane sends.
    pub(super) fn park(&mut self, packet: u32, cargo: LaneCargo) {
        match self.lanes.get_mut(cargo.connection) {
            Some(connection) => connection.parked[usize::from(cargo.side)].push_back(packet),
            None => self.packets.discard(packet),
        }
    }

    /// Lets everything go on that partitions hold up.
    pub(super) fn unpark(&mut self) {
        for number in 0..self.lanes.connections.len() {
            for side in 0..2 {
                let Some(connection) = &mut self.lanes.connections[number] else { continue };
                let parked = core::mem::take(&mut connection.parked[side]);
                parked.into_iter().for_each(|packet| self.route(packet));
            }
        }
    }

    /// A message is at its host.
    pub(super) fn take_lane_packet(&mut self, packet: u32) {
        let Packet { cargo, bytes, .. } = self.packets.remove(packet);
        if let Cargo::Lane(cargo) = cargo {
            let to = 1 - usize::from(cargo.side);
            let payload = &bytes[..cargo.payload_bytes as usize];
            self.take_message(cargo.connection, to, cargo.message, payload);
        }
    }

    fn take_message(&mut self, number: u32, to: usize, message: Message, payload: &[u8]) {
        let Some(connection) = self.lanes.get_mut(number) else { return };
        let end = &mut connection.ends[to];
        let host = end.host;
        match message {
            Message::Filler => {}
            Message::Connect => self.accept(number, payload),
            Message::Accept if end.open => {
                let (lane, welcome) = (end.lane, payload.to_vec());
                connection.answered = true;
                self.report(host, LaneEvent::Connected { lane, welcome });
            }
            Message::Record { offset, next_offset } if end.open => {
                if let Some(ring) = &end.ring {
                    ring.deliver(offset as usize, next_offset as usize, payload);
                    self.hosts[host as usize].unread.join(self.now);
                    self.wake(host);
                }
            }
            Message::Refuse => self.lose_lane(number, to, LaneFault::NotThere),
            Message::Close => self.lose_lane(number, to, LaneFault::PeerClosed),
            Message::Accept | Message::Record { .. } => {}
        }
    }

    /// A call has reached the host that it is for.
    fn accept(&mut self, number: u32, hello: &[u8]) {
        let ring_bytes = self.profile.lanes.ring_bytes;
        let Some(connection) = self.lanes.get_mut(number) else { return };
        let host = connection.ends[1].host;
        let Some(port) = &mut self.lanes.ports[host as usize] else {
            return self.post(number, 1, Message::Refuse, &[]);
        };
        let (lane, welcome) = (port.new_lane(number, 1), port.welcome.clone());
        let Some(connection) = self.lanes.get_mut(number) else { return };
        for end in &mut connection.ends {
            end.ring = Some(Arc::new(Ring::new(ring_bytes)));
        }
        let end = &mut connection.ends[1];
        (end.lane, end.open) = (lane, true);
        self.lanes.ring_bytes += 2 * ring_bytes;
        self.report(host, LaneEvent::Accepted { lane, hello: hello.to_vec() });
        self.post(number, 1, Message::Accept, &welcome);
    }

    /// A call that has not been answered has failed.
    pub(super) fn connect_timeout(&mut self, number: u32) {
        let Some(connection) = self.lanes.get_mut(number) else { return };
        if !connection.ends[0].open || connection.answered {
            return;
        }
        let hosts = [0, 1].map(|side| connection.ends[side].host);
        let is_parked = connection.parked.iter().any(|parked| !parked.is_empty());
        // Answers are the fabric's own: where nothing holds one up it was behind what others send.
        if !is_parked && self.hosts[hosts[1] as usize].up {
            self.note_crowded(hosts[0], hosts[1]);
        }
        self.end_lane(number, 0, LaneFault::TimedOut);
    }

    /// An end gives its lane up; the peer is told.
    pub(super) fn end_lane(&mut self, number: u32, side: usize, fault: LaneFault) {
        let peer_has_it = |connection: &mut Connection| connection.ends[1 - side].open;
        if self.lanes.get_mut(number).is_some_and(peer_has_it) {
            self.post(number, side, Message::Close, &[]);
        }
        self.lose_lane(number, side, fault);
    }

    /// An end has lost its lane.
    pub(super) fn lose_lane(&mut self, number: u32, side: usize, fault: LaneFault) {
        let Some(connection) = self.lanes.get_mut(number) else { return };
        let end = &mut connection.ends[side];
        if !end.open {
            return;
        }
        end.open = false;
        let (host, lane) = (end.host, end.lane);
        if let Some(port) = &mut self.lanes.ports[host as usize] {
            port.open.remove(&lane);
        }
        self.report(host, LaneEvent::Down { lane, fault });
        self.forget_lane(number);
    }

    /// Nothing is kept of a lane that neither host has.
    fn forget_lane(&mut self, number: u32) {
        let gone = |connection: &mut Connection| connection.ends.iter().all(|end| !end.open);
        if self.lanes.get_mut(number).is_some_and(gone) {
            let connection = self.lanes.connections[number as usize].take();
            let rings = connection.iter().flat_map(|connection| &connection.ends).flat_map(|end| &end.ring);
            self.lanes.ring_bytes -= rings.map(|ring| ring.bytes()).sum::<usize>();
            let parked = connection.into_iter().flat_map(|connection| connection.parked);
            parked.flatten().for_each(|packet| self.packets.discard(packet));
        }
    }

    fn report(&mut self, host: u32, event: LaneEvent) {
        if let Some(port) = &mut self.lanes.ports[host as usize] {
            port.events.push_back(event);
            self.wake(host);
        }
    }

    /// A host has crashed: its lanes are gone, and peers notice after a while. They also lose the lanes that
    /// the host had closed before, if its good-byes have not arrived: a partition may hold them up for long.
    pub(super) fn lose_lanes_of(&mut self, host: u32) {
        if self.lanes.ports[host as usize].take().is_none() {
            return;
        }
        let noticed = self.now + self.profile.lanes.detection;
        for number in 0..self.lanes.connections.len() as u32 {
            for side in 0..2 {
                let Some(lost) = self.lanes.get_mut(number) else { break };
                let end = &mut lost.ends[side];
                // A call that has not reached the host times out.
                let was_up = end.open || end.ring.is_some();
                if end.host != host || !was_up {
                    continue;
                }
                end.open = false;
                let peer = 1 - side as u8;
                self.queue.schedule(noticed, Event::PeerLost { connection: number, side: peer });
                self.forget_lane(number);
            }
        }
    }
}
