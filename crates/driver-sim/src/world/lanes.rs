//! Lanes: what connects a pair of hosts reliably, and who knows of it.
//!
//! Everything of a lane travels as packets of the fabric, in order, and none of them is lost: where there is no room they
//! wait. A partition holds them up; they go on when it heals.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use farcall_driver::{BlockDescriptor, LaneEvent, LaneFault, LaneId, Loan};

use super::World;
use super::packets::{Cargo, LaneCargo, Message, NONE, Packet};
use crate::event::Event;
use crate::lane::Ring;
use crate::time::Picos;

/// A lane and its two ends. End 0 is that of who called.
#[derive(Debug)]
pub(super) struct Connection {
    pub ends: [End; 2],
    /// Whether the answer to the call has reached end 0.
    answered: bool,
    /// What a partition holds up, by the end that sent it.
    pub parked: [VecDeque<u32>; 2],
}

/// One end of a lane.
#[derive(Debug)]
pub(super) struct End {
    pub host: u32,
    pub incarnation: u32,
    pub lane: LaneId,
    /// Whether the host still has it.
    pub open: bool,
    /// What this end reads, once the lane is up.
    pub ring: Option<Arc<Ring>>,
    /// Whether the driver has taken its two halves.
    taken: bool,
}

/// What the fabric keeps for the lane driver of a host.
#[derive(Debug, Default)]
pub(super) struct LanePort {
    events: VecDeque<LaneEvent>,
    welcome: Vec<u8>,
    lanes_made: u32,
    /// The connection and the end of each open lane.
    open: BTreeMap<LaneId, (u32, usize)>,
    lent: BTreeMap<u64, Lent>,
    blocks_lent: u64,
}

/// A block that a peer reads.
#[derive(Debug)]
struct Lent {
    loan: Arc<Loan>,
    connection: u32,
}

/// All lanes of the fabric, by number, and the drivers' ports, by host.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// Numbers are not used again; a lane that both hosts have lost leaves an empty place.
    pub connections: Vec<Option<Box<Connection>>>,
    pub ports: Vec<Option<LanePort>>,
    /// Bytes in the rings of all lanes.
    pub ring_bytes: usize,
}

impl Lanes {
    pub fn new(hosts: usize) -> Self {
        Self { ports: (0..hosts).map(|_| None).collect(), ..Self::default() }
    }

    pub fn get_mut(&mut self, connection: u32) -> Option<&mut Connection> {
        self.connections[connection as usize].as_deref_mut()
    }

    /// The connection and end of a host's open lane.
    fn find(&self, host: u32, lane: LaneId) -> Option<(u32, usize)> {
        self.ports[host as usize].as_ref()?.open.get(&lane).copied()
    }
}

impl LanePort {
    fn new_lane(&mut self, connection: u32, side: usize) -> LaneId {
        self.lanes_made += 1;
        let lane = LaneId(self.lanes_made);
        self.open.insert(lane, (connection, side));
        lane
    }
}

/// What a driver does. The caller has checked that the host's life is the driver's.
impl World {
    /// The host accepts lanes from now on.
    ///
    /// # Panics
    /// When it does already.
    pub fn open_lane_port(&mut self, host: u32) {
        let port = &mut self.lanes.ports[host as usize];
        assert!(port.is_none(), "a host has one lane driver at a time");
        *port = Some(LanePort::default());
    }

    /// The driver goes away, and its lanes with it.
    pub fn close_lane_port(&mut self, host: u32) {
        let port = self.lanes.ports[host as usize].as_ref();
        let lanes: Vec<_> = port.map(|port| port.open.keys().copied().collect()).unwrap_or_default();
        lanes.into_iter().for_each(|lane| self.close_lane(host, lane));
        self.lanes.ports[host as usize] = None;
    }

    pub fn set_welcome(&mut self, host: u32, welcome: &[u8]) {
        if let Some(port) = &mut self.lanes.ports[host as usize] {
            port.welcome = welcome.to_vec();
        }
    }

    pub fn next_lane_event(&mut self, host: u32) -> Option<LaneEvent> {
        self.lanes.ports[host as usize].as_mut()?.events.pop_front()
    }

    /// Calls a host; after `within` the call has failed.
    pub fn connect(&mut self, host: u32, to: u32, hello: &[u8], within: Picos) -> LaneId {
        let number = self.lanes.connections.len() as u32;
        let port = self.lanes.ports[host as usize].as_mut().expect("a driver has its port");
        let lane = port.new_lane(number, 0);
        let end = |host: u32, incarnation, lane, open| End {
            host,
            incarnation,
            lane,
            open,
            ring: None,
            taken: false,
        };
        let near = end(host, self.hosts[host as usize].incarnation, lane, true);
        let far = end(to, self.hosts[to as usize].incarnation, LaneId(0), false);
        self.lanes.connections.push(Some(Box::new(Connection {
            ends: [near, far],
            answered: false,
            parked: Default::default(),
        })));
        self.post(number, 0, Message::Connect, hello);
        let deadline = self.hosts[host as usize].local() + within;
        self.queue.schedule(deadline, Event::ConnectTimeout { connection: number });
        lane
    }

    /// The rings of a lane that is up and has not been taken: the peer's, to be written, and the host's own.
    pub fn take_lane(&mut self, host: u32, lane: LaneId) -> Option<(u32, usize, Arc<Ring>, Arc<Ring>)> {
        let (number, side) = self.lanes.find(host, lane)?;
        let connection = self.lanes.get_mut(number)?;
        if connection.ends[side].taken {
            return None;
        }
        let (own, peers) = (connection.ends[side].ring.clone()?, connection.ends[1 - side].ring.clone()?);
        connection.ends[side].taken = true;
        Some((number, side, peers, own))
    }

    pub fn close_lane(&mut self, host: u32, lane: LaneId) {
        if let Some((number, side)) = self.lanes.find(host, lane) {
            self.end_lane(number, side, LaneFault::Closed);
        }
    }

    /// Lends a loan to the peer of a lane. Its bytes travel now, so that a record that names it comes after them.
    pub fn lend(&mut self, host: u32, lane: LaneId, loan: Loan) -> BlockDescriptor {
        let length = loan.len();
        let connection = self.lanes.find(host, lane);
        let port = self.lanes.ports[host as usize].as_mut().expect("a driver has its port");
        port.blocks_lent += 1;
        let descriptor = BlockDescriptor { offset: port.blocks_lent, length: length as u64 };
        // A loan that is lent over a lane that is down goes nowhere.
        if let Some((number, side)) = connection {
            port.lent.insert(descriptor.offset, Lent { loan: Arc::new(loan), connection: number });
            self.post_bytes(number, side, length);
        }
        descriptor
    }

    pub fn take_back(&mut self, host: u32, lane: LaneId, block: BlockDescriptor) -> Option<()> {
        let (number, _) = self.lanes.find(host, lane)?;
        let lent = &mut self.lanes.ports[host as usize].as_mut()?.lent;
        let known = lent.get(&block.offset)?;
        if known.connection != number || known.loan.len() as u64 != block.length {
            return None;
        }
        lent.remove(&block.offset);
        Some(())
    }

    /// The loan that the peer of a lane lent.
    pub fn lent(&self, host: u32, lane: LaneId, block: BlockDescriptor) -> Option<Arc<Loan>> {
        let (number, side) = self.lanes.find(host, lane)?;
        let peer = &self.lanes.connections[number as usize].as_ref()?.ends[1 - side];
        let known = self.lanes.ports[peer.host as usize].as_ref()?.lent.get(&block.offset)?;
        (known.connection == number && known.loan.len() as u64 == block.length).then(|| known.loan.clone())
    }

    /// Sends a record through an end of a lane.
    pub fn publish(&mut self, number: u32, side: usize, offset: usize, next_offset: usize, payload: &[u8]) {
        if self.lanes.get_mut(number).is_some_and(|connection| connection.ends[side].open) {
            let (offset, next_offset) = (offset as u32, next_offset as u32);
            self.post(number, side, Message::Record { offset, next_offset }, payload);
        }
    }

    /// The host sees for the first time a record of `bytes` bytes.
    pub fn charge_record(&mut self, host: u32, bytes: usize) {
        let costs = &self.profile.host;
        let span = costs.receive_packet + costs.receive_byte.time(bytes);
        self.spend(host, span);
    }
}

/// What crosses the fabric.
impl World {
    /// Sends a message from an end of a lane, at the expense of its host.
    pub(super) fn post(&mut self, number: u32, side: usize, message: Message, payload: &[u8]) {
        let Some(host) = self.lanes.get_mut(number).map(|connection| connection.ends[side].host) else {
            return;
        };
        let (costs, nic) = (&self.profile.host, &self.profile.nic);
        let span = costs.send_packet + costs.send_byte.time(payload.len()) + nic.descriptor + nic.doorbell;
        self.spend(host, span);
        // What does not fit one packet goes ahead of it.
        let mtu_bytes = self.profile.nic.mtu_bytes;
        let ahead = payload.len().saturating_sub(1) / mtu_bytes;
        (0..ahead).for_each(|_| self.post_packet(number, side, mtu_bytes, Message::Filler, &[]));
        self.post_packet(number, side, payload.len() - ahead * mtu_bytes, message, payload);
    }

    /// Sends `bytes` bytes of a block.
    fn post_bytes(&mut self, number: u32, side: usize, bytes: usize) {
        let Some(host) = self.lanes.get_mut(number).map(|connection| connection.ends[side].host) else {
            return;
        };
        let span = self.profile.nic.descriptor + self.profile.nic.doorbell;
        self.spend(host, span);
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
            bytes: if payload.is_empty() {
                Box::default()
            } else {
                self.packets.buffers().filled(payload.len(), &[payload])
            },
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
        self.packets.buffers().keep(bytes);
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
        let incarnation = self.hosts[host as usize].incarnation;
        let Some(port) = &mut self.lanes.ports[host as usize] else {
            return self.post(number, 1, Message::Refuse, &[]);
        };
        let (lane, welcome) = (port.new_lane(number, 1), port.welcome.clone());
        let Some(connection) = self.lanes.get_mut(number) else { return };
        for end in &mut connection.ends {
            end.ring = Some(Arc::new(Ring::new(ring_bytes)));
        }
        let end = &mut connection.ends[1];
        (end.lane, end.incarnation, end.open) = (lane, incarnation, true);
        self.lanes.ring_bytes += 2 * ring_bytes;
        self.report(host, LaneEvent::Accepted { lane, hello: hello.to_vec() });
        self.post(number, 1, Message::Accept, &welcome);
    }

    /// A call that has not been answered has failed.
    pub(super) fn connect_timeout(&mut self, number: u32) {
        let waits = |connection: &mut Connection| connection.ends[0].open && !connection.answered;
        if self.lanes.get_mut(number).is_some_and(waits) {
            self.end_lane(number, 0, LaneFault::TimedOut);
        }
    }

    /// An end gives its lane up; the peer is told.
    fn end_lane(&mut self, number: u32, side: usize, fault: LaneFault) {
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
            port.lent.retain(|_, lent| lent.connection != number);
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

    /// A host has crashed: its lanes are gone, and peers notice after a while.
    pub(super) fn lose_lanes_of(&mut self, host: u32) {
        let Some(port) = self.lanes.ports[host as usize].take() else { return };
        let noticed = self.now + self.profile.lanes.detection;
        for (connection, side) in port.open.into_values() {
            if let Some(lost) = self.lanes.get_mut(connection) {
                lost.ends[side].open = false;
                let side = 1 - side as u8;
                self.queue.schedule(noticed, Event::PeerLost { connection, side });
                self.forget_lane(connection);
            }
        }
    }
}
