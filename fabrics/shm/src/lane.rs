//! The lane driver: connections between processes of one machine through shared memory.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use farcall_base::{Address, AddressError, Principal};
use farcall_driver::{
    BLOCK_BYTES_MIN, Block, BlockDescriptor, BlockMemory, CounterFile, HELLO_BYTES_MAX, LaneDriver,
    LaneEvent, LaneFault, LaneId, LaneLimits, Loan, LoanError, Wait,
};

use crate::access::{Access, Trust};
use crate::blocks::{PeerBlocks, copy_for_peer};
use crate::conductor::{Command, Conductor, Established, Notice, ShmCounters, Terms};
use crate::copy::spare::SpareBlock;
use crate::doorbell::Doorbell;
use crate::handshake::{BLOCK_BYTES_MAX, RING_BYTES_MAX, RING_BYTES_MIN};
use crate::place;
use crate::quota::{Ledger, Quota};
use crate::ring::{ShmReceiver, ShmSender, announce_sleep};
use crate::segment::{Mapping, PeerAccess, Segment};

/// The first byte of this driver's addresses; the rest is the abstract name of a Unix socket.
const ADDRESS_TAG: u8 = b'S';

/// How a shared-memory lane driver is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShmConfig {
    /// Bytes in the ring that each peer writes into; a power of two from 4K to 64M.
    pub ring_bytes: usize,
    /// Bytes of memory for loans, shared by all peers that are trusted; a power of two from 4K to 16G. Only
    /// what is used costs memory.
    pub block_bytes: usize,
    /// Whether the owner ever blocks; if not, peers save the look at its doorbell.
    pub may_sleep: bool,
    /// Whether what is long is copied by non-temporal stores; with `None`, where that is faster.
    pub nontemporal: Option<bool>,
    /// Where peers are found, and which may connect.
    pub access: Access,
    /// The peers whose memory is copied before it is looked at.
    pub trust: Trust,
    /// The most bytes of one process's memory that are mapped at a time.
    pub process_bytes_max: usize,
    /// The most bytes of all peers' memory that are mapped at a time.
    pub mapped_bytes_max: usize,
}

/// As the parameters of an endpoint are by default, with small rings.
impl Default for ShmConfig {
    fn default() -> Self {
        Self {
            ring_bytes: 256 << 10,
            block_bytes: 64 << 20,
            may_sleep: true,
            nontemporal: None,
            access: Access::default(),
            trust: Trust::default(),
            process_bytes_max: 32 << 30,
            mapped_bytes_max: 512 << 30,
        }
    }
}

/// Shared-memory lanes to other processes of this machine.
pub struct ShmLanes {
    config: ShmConfig,
    address: Address,
    conductor: Conductor,
    blocks: BlockMemory<Mapping>,
    lanes: BTreeMap<LaneId, LaneState>,
    spare: SpareBlock,
    /// Whether a peer has had a block memory of its own.
    any_own_blocks: bool,
}

/// What the driver keeps of a lane that is up.
struct LaneState {
    /// Until the transport takes them.
    ends: Option<(ShmSender, ShmReceiver)>,
    /// Our ring, for announcing that we sleep.
    ring: Arc<Mapping>,
    peer_blocks: Arc<PeerBlocks>,
    /// For the next block that is borrowed. To count it then would wait for all that was written before to
    /// leave this core, such as the answer to the block before: it is counted when a block goes back, while
    /// that answer is still to be written.
    next_home: Option<Arc<PeerBlocks>>,
    /// The memory of its own in which a peer that is not trusted finds the blocks that it is lent.
    own_blocks: Option<Mapping>,
    principal: Principal,
}

impl ShmLanes {
    /// Starts the driver and its listening thread.
    pub fn new(config: ShmConfig) -> io::Result<Self> {
        check(&config)?;
        let (door, address) = place::listen_somewhere(ADDRESS_TAG, &config.access)?;
        let (segment, mapping) = Segment::create("farcall-blocks", config.block_bytes, PeerAccess::Read)?;
        let blocks = BlockMemory::read_in_place(mapping);
        let counters = ShmCounters::new(CounterFile::process(), &label(&address));
        let quota = Quota { process_bytes: config.process_bytes_max, total_bytes: config.mapped_bytes_max };
        let terms = Terms {
            ring_bytes: config.ring_bytes,
            blocks: segment,
            block_bytes: config.block_bytes,
            may_sleep: config.may_sleep,
            doorbell: Doorbell::new()?,
            access: config.access.clone(),
            trust: config.trust,
            ledger: Arc::new(Ledger::new(quota, Some(counters.mapped_bytes))),
        };
        let conductor = Conductor::start(terms, door, counters)?;
        let (lanes, spare) = (BTreeMap::new(), SpareBlock::default());
        Ok(Self { config, address, conductor, blocks, lanes, spare, any_own_blocks: false })
    }

    fn doorbell(&self) -> &Doorbell {
        &self.conductor.shared().terms.doorbell
    }

    #[inline(never)]
    fn next_event(&mut self) -> Option<LaneEvent> {
        loop {
            match self.conductor.take_notice()? {
                Notice::Connected(lane, established) => {
                    let welcome = self.lane_up(lane, established);
                    return Some(LaneEvent::Connected { lane, welcome });
                }
                Notice::Accepted(lane, established) => {
                    let hello = self.lane_up(lane, established);
                    return Some(LaneEvent::Accepted { lane, hello });
                }
                Notice::Down(lane, fault) => {
                    self.lanes.remove(&lane);
                    return Some(LaneEvent::Down { lane, fault });
                }
                Notice::Released(lane) => self.blocks.take_all_back(lane),
            }
        }
    }

    fn lane_up(&mut self, lane: LaneId, established: Established) -> Vec<u8> {
        let Established { peer, ring, link, own_blocks, copies, principal } = established;
        self.any_own_blocks |= own_blocks.is_some();
        let sender =
            ShmSender::new(peer.ring, peer.doorbell, self.config.nontemporal, self.spare.wanted_bytes());
        let peer_blocks = Arc::new(PeerBlocks::new(peer.blocks, link, copies));
        let receiver = ShmReceiver::new(Arc::clone(&ring), Arc::downgrade(&peer_blocks), copies);
        let ends = Some((sender, receiver));
        let state = LaneState { ends, ring, peer_blocks, next_home: None, own_blocks, principal };
        self.lanes.insert(lane, state);
        peer.hello
    }
}

impl LaneDriver for ShmLanes {
    type Sender = ShmSender;
    type Receiver = ShmReceiver;

    fn limits(&self) -> LaneLimits {
        LaneLimits {
            ring_bytes: self.config.ring_bytes,
            loan_bytes_max: self.blocks.loan_bytes_max(),
            blocks_in_place: true,
        }
    }

    fn address(&self) -> Address {
        self.address.clone()
    }

    fn connect(&mut self, to: &Address, hello: &[u8], within: Duration) -> Result<LaneId, AddressError> {
        assert!(hello.len() <= HELLO_BYTES_MAX, "hellos are short");
        let name = place::name_in(to, ADDRESS_TAG)?;
        let lane = self.conductor.shared().new_lane();
        let (name, hello) = (name.to_owned(), hello.to_vec());
        self.conductor.command(Command::Connect { lane, name, hello, within });
        Ok(lane)
    }

    fn set_welcome(&mut self, welcome: &[u8]) {
        assert!(welcome.len() <= HELLO_BYTES_MAX, "welcomes are short");
        self.conductor.command(Command::SetWelcome(welcome.to_vec()));
    }

    #[inline(always)]
    fn poll_event(&mut self) -> Option<LaneEvent> {
        if self.conductor.has_notice() { self.next_event() } else { None }
    }

    fn take(&mut self, lane: LaneId) -> Option<(ShmSender, ShmReceiver)> {
        self.lanes.get_mut(&lane)?.ends.take()
    }

    fn principal(&self, lane: LaneId) -> Principal {
        self.lanes.get(&lane).map_or(Principal::Unproven, |state| state.principal.clone())
    }

    fn close(&mut self, lane: LaneId) {
        self.conductor.command(Command::Close(lane));
    }

    /// The spare block is given up before memory is refused.
    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        if let Some(loan) = self.spare.take(bytes) {
            return Ok(loan);
        }
        match self.blocks.loan(bytes) {
            Err(LoanError::Exhausted) if self.spare.give_up() => self.blocks.loan(bytes),
            result => result,
        }
    }

    fn recycle(&mut self, loan: Loan) {
        self.blocks.recycle(loan);
    }

    fn lend(&mut self, lane: LaneId, loan: Loan) -> Result<BlockDescriptor, Loan> {
        let block = self.blocks.lend(loan, lane)?;
        if self.any_own_blocks
            && let Some(own) = self.lanes.get(&lane).and_then(|state| state.own_blocks.as_ref())
        {
            copy_for_peer(self.blocks.memory(), own, block);
        }
        Ok(block)
    }

    fn take_back(&mut self, lane: LaneId, block: BlockDescriptor) -> Result<(), LaneFault> {
        self.blocks.take_back(block, lane)
    }

    #[inline]
    fn borrow(&mut self, lane: LaneId, block: BlockDescriptor) -> Result<Option<Block>, LaneFault> {
        let state = self.lanes.get_mut(&lane).ok_or(LaneFault::Closed)?;
        let home = state.next_home.take().unwrap_or_else(|| Arc::clone(&state.peer_blocks));
        Ok(Some(home.borrow(block)?))
    }

    fn prepare(&mut self, sender: &mut ShmSender, length: usize) -> bool {
        (length > 0 && sender.prepare(length)) || self.spare.prepare(&mut self.blocks)
    }

    fn due_return(&mut self, lane: LaneId) -> Option<BlockDescriptor> {
        let state = self.lanes.get_mut(&lane)?;
        let due = state.peer_blocks.due_return()?;
        state.next_home.get_or_insert_with(|| Arc::clone(&state.peer_blocks));
        Some(due)
    }
}

impl Wait for ShmLanes {
    fn prepare_wait(&mut self) {
        for state in self.lanes.values() {
            announce_sleep(&state.ring, true);
        }
    }

    fn finish_wait(&mut self) {
        for state in self.lanes.values() {
            announce_sleep(&state.ring, false);
        }
        self.doorbell().drain();
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        vec![self.doorbell().descriptor()]
    }
}

impl fmt::Debug for ShmLanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShmLanes({:?}, {} lanes)", self.address, self.lanes.len())
    }
}

/// Names a driver's counters by a part of its address.
fn label(address: &Address) -> String {
    const DIGITS: usize = 8;
    let name = address.as_bytes();
    format!("shm {}", String::from_utf8_lossy(&name[name.len() - DIGITS..]))
}

fn check(config: &ShmConfig) -> io::Result<()> {
    let in_range = |bytes: usize, least, most| bytes.is_power_of_two() && (least..=most).contains(&bytes);
    if !in_range(config.ring_bytes, RING_BYTES_MIN, RING_BYTES_MAX) {
        return Err(io::Error::other("a ring has a power of two of bytes, from 4K to 64M"));
    }
    if !in_range(config.block_bytes, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX) {
        return Err(io::Error::other("block memory has a power of two of bytes, from 4K to 16G"));
    }
    Ok(())
}
