//! Lanes in plain memory, between nodes of one test: deterministic, and with ends that a test can hold itself.
//!
//! A [`Hub`] joins the nodes. An honest node is a [`MemoryLanes`], under a transport; a hostile one is only a number,
//! and whoever plays it writes what it likes into the ring that its victim reads.

mod blocks;
mod ring;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard};

use farcall_base::{Address, AddressError, Principal};
use farcall_driver::{
    Block, BlockDescriptor, HeapLoans, LaneDriver, LaneEvent, LaneFault, LaneId, LaneLimits, Loan, LoanError,
    Wait,
};

pub use blocks::HOSTILE_BLOCK_BYTES;
use blocks::{Blocks, DueReturns, copied_block};
pub use ring::{MemoryReceiver, MemorySender, RingMemory, SharedRing};

/// What one node lends at a time.
const LOAN_BYTES: usize = 1 << 20;

/// The nodes of one test.
#[derive(Clone)]
pub struct Hub(Arc<Mutex<State>>);

struct State {
    ring_bytes: usize,
    lanes_used: u32,
    nodes: Vec<Node>,
}

#[derive(Default)]
struct Node {
    welcome: Vec<u8>,
    events: VecDeque<LaneEvent>,
    lanes: BTreeMap<LaneId, Wire>,
}

/// One node's end of a lane.
struct Wire {
    ends: Option<(MemorySender, MemoryReceiver)>,
    /// The other end; `None` when a hostile node has it.
    peer: Option<(usize, LaneId)>,
    lent: Blocks,
    due: DueReturns,
}

impl Wire {
    fn new(writes: &SharedRing, reads: &SharedRing, peer: Option<(usize, LaneId)>) -> Self {
        let ends = (MemorySender::new(writes.clone()), MemoryReceiver::new(reads.clone()));
        Self { ends: Some(ends), peer, lent: Blocks::default(), due: DueReturns::default() }
    }
}

impl Hub {
    /// A hub whose rings have `ring_bytes` bytes.
    pub fn new(ring_bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(State { ring_bytes, lanes_used: 0, nodes: Vec::new() })))
    }

    /// A new honest node.
    pub fn node(&self) -> MemoryLanes {
        let mut state = self.state();
        state.nodes.push(Node::default());
        let node = state.nodes.len() - 1;
        MemoryLanes { hub: self.clone(), node, loans: HeapLoans::new(LOAN_BYTES) }
    }

    /// A hostile node connects to `to` with any bytes as hello. Returns the ring that `to` reads and the one that it
    /// writes.
    pub fn attack(&self, to: &Address, hello: &[u8]) -> (SharedRing, SharedRing) {
        let mut state = self.state();
        let (to, (inward, outward)) = (node_of(to), state.rings());
        let lane = state.new_lane();
        state.nodes[to].lanes.insert(lane, Wire::new(&outward, &inward, None));
        state.nodes[to].events.push_back(LaneEvent::Accepted { lane, hello: hello.to_vec() });
        (inward, outward)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("a test ends with its first panic")
    }
}

impl State {
    fn rings(&self) -> (SharedRing, SharedRing) {
        (RingMemory::shared(self.ring_bytes), RingMemory::shared(self.ring_bytes))
    }

    fn new_lane(&mut self) -> LaneId {
        self.lanes_used += 1;
        LaneId(self.lanes_used)
    }
}

fn node_of(address: &Address) -> usize {
    usize::from(address.as_bytes()[0])
}

/// The driver of an honest node.
pub struct MemoryLanes {
    hub: Hub,
    node: usize,
    loans: HeapLoans,
}

impl MemoryLanes {
    fn with_wire<T>(&self, lane: LaneId, act: impl FnOnce(&mut Wire) -> T) -> Option<T> {
        self.hub.state().nodes[self.node].lanes.get_mut(&lane).map(act)
    }
}

impl LaneDriver for MemoryLanes {
    type Sender = MemorySender;
    type Receiver = MemoryReceiver;

    fn limits(&self) -> LaneLimits {
        LaneLimits {
            ring_bytes: self.hub.state().ring_bytes,
            loan_bytes_max: LOAN_BYTES,
            blocks_in_place: true,
        }
    }

    fn address(&self) -> Address {
        Address::new([self.node as u8]).expect("a byte is short")
    }

    fn connect(&mut self, to: &Address, hello: &[u8], _within: Duration) -> Result<LaneId, AddressError> {
        let mut state = self.hub.state();
        let (to, (forth, back)) = (node_of(to), state.rings());
        let (ours, theirs) = (state.new_lane(), state.new_lane());
        let welcome = state.nodes[to].welcome.clone();
        state.nodes[self.node].lanes.insert(ours, Wire::new(&forth, &back, Some((to, theirs))));
        state.nodes[self.node].events.push_back(LaneEvent::Connected { lane: ours, welcome });
        state.nodes[to].lanes.insert(theirs, Wire::new(&back, &forth, Some((self.node, ours))));
        state.nodes[to].events.push_back(LaneEvent::Accepted { lane: theirs, hello: hello.to_vec() });
        Ok(ours)
    }

    fn set_welcome(&mut self, welcome: &[u8]) {
        self.hub.state().nodes[self.node].welcome = welcome.to_vec();
    }

    fn poll_event(&mut self) -> Option<LaneEvent> {
        self.hub.state().nodes[self.node].events.pop_front()
    }

    fn take(&mut self, lane: LaneId) -> Option<(MemorySender, MemoryReceiver)> {
        self.with_wire(lane, |wire| wire.ends.take())?
    }

    fn principal(&self, _lane: LaneId) -> Principal {
        Principal::Unproven
    }

    fn close(&mut self, lane: LaneId) {
        let mut state = self.hub.state();
        if let Some(wire) = state.nodes[self.node].lanes.remove(&lane) {
            state.nodes[self.node].events.push_back(LaneEvent::Down { lane, fault: LaneFault::Closed });
            if let Some((node, lane)) = wire.peer {
                state.nodes[node].events.push_back(LaneEvent::Down { lane, fault: LaneFault::PeerClosed });
            }
        }
    }

    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.loans.loan(bytes)
    }

    fn recycle(&mut self, loan: Loan) {
        self.loans.recycle(loan);
    }

    /// No test passes the loans of one node to another.
    fn lend(&mut self, lane: LaneId, loan: Loan) -> Result<BlockDescriptor, Loan> {
        let descriptor = loan.descriptor();
        self.with_wire(lane, |wire| wire.lent.add(loan)).expect("transports lend over lanes that are up");
        Ok(descriptor)
    }

    fn take_back(&mut self, lane: LaneId, block: BlockDescriptor) -> Result<(), LaneFault> {
        self.with_wire(lane, |wire| wire.lent.take_back(block)).unwrap_or(Err(LaneFault::Closed))
    }

    fn borrow(&mut self, lane: LaneId, block: BlockDescriptor) -> Result<Option<Block>, LaneFault> {
        let state = self.hub.state();
        let wire = state.nodes[self.node].lanes.get(&lane).ok_or(LaneFault::Closed)?;
        let bytes = match wire.peer {
            None => blocks::hostile_bytes(block)?,
            Some((node, lane)) => {
                let lender = state.nodes[node].lanes.get(&lane).ok_or(LaneFault::PeerClosed)?;
                lender.lent.bytes_of(block)?
            }
        };
        Ok(Some(copied_block(bytes, block, wire.due.clone())))
    }

    fn prepare(&mut self, _sender: &mut Self::Sender, _length: usize) -> bool {
        false
    }

    fn due_return(&mut self, lane: LaneId) -> Option<BlockDescriptor> {
        self.with_wire(lane, |wire| wire.due.next())?
    }
}

impl Wait for MemoryLanes {
    fn prepare_wait(&mut self) {}

    fn finish_wait(&mut self) {}

    fn wait_descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }
}
