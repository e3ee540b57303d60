//! Lanes: what connects a pair of hosts reliably, the drivers that know of it, and what they do with it.
//!
//! The drivers' own part is `crate::lane`; what of a lane crosses the fabric is in `lane_messages.rs`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use farcall_driver::{BlockDescriptor, LaneEvent, LaneFault, LaneId, Loan};

use super::packets::Message;
use super::{Work, World};
use crate::lane::Ring;
use crate::queue::Event;
use crate::time::Picos;

/// A lane and its two ends. End 0 is the one that called.
#[derive(Debug)]
pub(super) struct Connection {
    pub ends: [End; 2],
    /// Whether the answer to the call has reached end 0.
    pub answered: bool,
    /// What a partition holds up, by the end that sent it.
    pub parked: [VecDeque<u32>; 2],
}

/// One end of a lane.
#[derive(Debug)]
pub(super) struct End {
    pub host: u32,
    pub lane: LaneId,
    /// Whether the host still has it.
    pub open: bool,
    /// What this end reads, once the lane is up.
    pub ring: Option<Arc<Ring>>,
    /// Whether the driver has taken its two halves.
    taken: bool,
    /// What this end has lent to the other, until that gives it back or both have lost the lane: records that
    /// name a block may still come either way when one of them has lost it.
    lent: BTreeMap<u64, Arc<Loan>>,
}

/// What the fabric keeps for the lane driver of a host.
#[derive(Debug, Default)]
pub(super) struct LanePort {
    pub events: VecDeque<LaneEvent>,
    pub welcome: Vec<u8>,
    lanes_made: u32,
    /// The connection and the end of each open lane.
    pub open: BTreeMap<LaneId, (u32, usize)>,
    blocks_lent: u64,
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
    /// Numbers a lane of the driver.
    pub fn new_lane(&mut self, connection: u32, side: usize) -> LaneId {
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
        let end =
            |host: u32, lane, open| End { host, lane, open, ring: None, taken: false, lent: BTreeMap::new() };
        let ends = [end(host, lane, true), end(to, LaneId(0), false)];
        let connection = Connection { ends, answered: false, parked: Default::default() };
        self.lanes.connections.push(Some(Box::new(connection)));
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

    /// Lends a loan to the peer of a lane. Its bytes travel now, so that a record that names it comes after
    /// them.
    pub fn lend(&mut self, host: u32, lane: LaneId, loan: Loan) -> BlockDescriptor {
        let length = loan.len();
        let connection = self.lanes.find(host, lane);
        let port = self.lanes.ports[host as usize].as_mut().expect("a driver has its port");
        port.blocks_lent += 1;
        let descriptor = BlockDescriptor { offset: port.blocks_lent, length: length as u64 };
        // A loan that is lent over a lane that is down goes nowhere.
        if let Some((number, side)) = connection {
            if let Some(connection) = self.lanes.get_mut(number) {
                connection.ends[side].lent.insert(descriptor.offset, Arc::new(loan));
            }
            self.post_bytes(number, side, length);
        }
        descriptor
    }

    pub fn take_back(&mut self, host: u32, lane: LaneId, block: BlockDescriptor) -> Option<()> {
        let (number, side) = self.lanes.find(host, lane)?;
        let lent = &mut self.lanes.get_mut(number)?.ends[side].lent;
        if lent.get(&block.offset)?.len() as u64 != block.length {
            return None;
        }
        lent.remove(&block.offset);
        Some(())
    }

    /// The loan that the peer of a lane lent.
    pub fn lent(&self, host: u32, lane: LaneId, block: BlockDescriptor) -> Option<Arc<Loan>> {
        let (number, side) = self.lanes.find(host, lane)?;
        let peer = &self.lanes.connections[number as usize].as_ref()?.ends[1 - side];
        let loan = peer.lent.get(&block.offset)?;
        (loan.len() as u64 == block.length).then(|| loan.clone())
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
        let costs = self.profile.host;
        let state = &mut self.hosts[host as usize];
        state.catch_up(self.now);
        state.unread.leave(state.local());
        state.spend(Work::TakePackets, costs.receive_packet);
        state.spend(Work::CopyIn, costs.receive_byte.time(bytes));
    }
}
