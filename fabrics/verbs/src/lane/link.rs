//! What both ends of a lane, its driver and its conductor share: the queue pair and the memory on either side
//! of it.
//!
//! The ends may be on different threads. What they tell each other are counts that only grow, and whether the
//! lane is over.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use farcall_driver::Loan;

use super::announcements::Announcements;
use super::half::Half;
use super::handshake::PeerMemory;
use super::receives::Receives;
use crate::cm::CmId;
use crate::pair::QueuePair;
use crate::queues::CompletionQueue;
use crate::region::Region;
use crate::sys;

/// Writes that one lane's card may have at a time; a flush takes one, or two at the end of the ring.
pub const WRITES_MAX: usize = 128;
/// Reads beside them.
pub const READS_MAX: usize = 1;
/// The mark of a read in its request's number.
const READ: u64 = 1 << 63;
/// Completions that one call takes.
const REAPED_MAX: usize = 16;

/// How either side tells the other of what it has written, which the kind of network decides.
pub enum Announcing {
    /// By the immediate value of the write, which takes a shared receive.
    Immediate(Arc<Receives>),
    /// By a message behind the write, which takes a receive of the lane's own.
    Message(Announcements),
}

/// The shared part of a lane. The order of the fields is that of their drops: the queue pair goes before the
/// memory.
pub struct Link {
    pub pair: QueuePair,
    /// What rdma_cm has of the connection, if it made that.
    _connection: Option<CmId>,
    sends: Arc<CompletionQueue>,
    pub arrivals: Arc<CompletionQueue>,
    /// The ring that the peer writes and we read.
    pub ring: Region,
    /// Where our records are written before they leave; as long as the peer's ring, and addressed alike.
    pub staging: Region,
    pub peer: PeerMemory,
    pub announcing: Announcing,
    /// Writes that have left for sure.
    writes_gone: AtomicU64,
    /// Reads that have arrived.
    reads_done: AtomicU64,
    /// The first failed completion; 0 while there is none.
    failure: AtomicI32,
    /// Set together with a failure, for the driver to look at.
    alarm: Arc<AtomicBool>,
    down: AtomicBool,
    /// Memory that a read may still write to, kept until the queue pair is gone.
    parked: Mutex<Vec<Loan>>,
}

impl Link {
    /// A lane between our half and the peer's memory.
    pub fn new(
        half: Half,
        connection: Option<CmId>,
        staging: Region,
        peer: PeerMemory,
        receives: &Arc<Receives>,
        alarm: &Arc<AtomicBool>,
    ) -> Self {
        Self {
            pair: half.pair,
            _connection: connection,
            sends: half.sends,
            arrivals: half.arrivals,
            ring: half.ring,
            staging,
            peer,
            announcing: match half.announcements {
                None => Announcing::Immediate(Arc::clone(receives)),
                Some(announcements) => Announcing::Message(announcements),
            },
            writes_gone: AtomicU64::new(0),
            reads_done: AtomicU64::new(0),
            failure: AtomicI32::new(0),
            alarm: Arc::clone(alarm),
            down: AtomicBool::new(false),
            parked: Mutex::default(),
        }
    }

    /// The queue pair's number, by which asynchronous events name it.
    pub fn pair_number(&self) -> u32 {
        self.pair.number()
    }

    /// Bytes that a write may carry itself.
    pub fn inline_bytes(&self) -> usize {
        self.pair.inline_bytes
    }

    /// Writes that have left for sure.
    #[inline]
    pub fn writes_gone(&self) -> u64 {
        self.writes_gone.load(Ordering::Relaxed)
    }

    /// Whether this many reads have arrived.
    pub fn has_read(&self, reads: u64) -> bool {
        // Acquire: what was read is there.
        self.reads_done.load(Ordering::Acquire) >= reads
    }

    /// Whether the lane is over.
    #[inline]
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// The first failure that the card reported.
    pub fn failure(&self) -> Option<c_int> {
        match self.failure.load(Ordering::Relaxed) {
            0 => None,
            status => Some(status),
        }
    }

    /// Takes the card's reports about writes and reads.
    pub fn reap(&self) {
        let mut completions = [sys::ibv_wc::new(); REAPED_MAX];
        loop {
            let Some(completions) = self.sends.poll(&mut completions) else { return self.fail(BROKEN_QUEUE) };
            for completion in completions {
                if completion.status != sys::IBV_WC_SUCCESS {
                    self.fail(completion.status);
                } else if completion.wr_id & READ != 0 {
                    self.reads_done.fetch_max(completion.wr_id & !READ, Ordering::Release);
                } else {
                    self.writes_gone.fetch_max(completion.wr_id, Ordering::Relaxed);
                }
            }
            if completions.len() < REAPED_MAX {
                return;
            }
        }
    }

    /// By how many lines a received announcement says that the ring is fuller; `None` if it is none, or has
    /// failed.
    #[inline(always)]
    pub fn lines_announced(&self, completion: &sys::ibv_wc) -> Option<u32> {
        match &self.announcing {
            Announcing::Immediate(_) => (completion.status == sys::IBV_WC_SUCCESS
                && completion.opcode == sys::IBV_WC_RECV_RDMA_WITH_IMM)
                .then_some(u32::from_be(completion.imm_data)),
            Announcing::Message(announcements) => announcements.lines(completion),
        }
    }

    /// Posts the receives of announcements that have been read again.
    #[inline(always)]
    pub fn receive_again(&self, completions: &[sys::ibv_wc]) {
        match &self.announcing {
            Announcing::Immediate(receives) => receives.used(completions.len()),
            Announcing::Message(announcements) => self.post_again(announcements, completions),
        }
    }

    #[inline(never)]
    fn post_again(&self, announcements: &Announcements, completions: &[sys::ibv_wc]) {
        let slots = completions.iter().filter(|completion| completion.status == sys::IBV_WC_SUCCESS);
        if announcements.post(&self.pair, slots.map(|completion| completion.wr_id)) != 0 {
            self.fail(BROKEN_QUEUE);
        }
    }

    /// Hands a chain of writes to the card.
    ///
    /// # Safety
    /// The parts must lie in the staging memory or be sent inline, and what they name must not change before
    /// the peer has it. The chain must be well formed.
    #[inline(always)]
    pub unsafe fn write(&self, first: *mut sys::ibv_send_wr) {
        // SAFETY: promised by the caller; the staging memory lives as long as the queue pair, and longer.
        let (result, _) = unsafe { sys::post_send(self.pair.raw(), first) };
        if result != 0 {
            self.fail(BROKEN_QUEUE);
        }
    }

    /// Starts to read a block of the peer's into a loan; it is read number `number`.
    pub fn read(&self, offset: u64, into: &mut Loan, local_key: u32, number: u64) {
        let mut part = sys::ibv_sge {
            addr: into.as_mut_ptr().addr() as u64,
            length: into.len() as u32,
            lkey: local_key,
        };
        let mut request = sys::ibv_send_wr::new();
        request.wr_id = READ | number;
        request.opcode = sys::IBV_WR_RDMA_READ;
        request.send_flags = sys::IBV_SEND_SIGNALED;
        request.sg_list = &raw mut part;
        request.num_sge = 1;
        request.wr.rdma = sys::ibv_rdma_target {
            remote_addr: self.peer.blocks_address.wrapping_add(offset),
            rkey: self.peer.blocks_key,
        };
        // SAFETY: the request lives for the call. The card writes to the loan, which the caller keeps until
        // the read has arrived or passes to `park`.
        let (result, _) = unsafe { sys::post_send(self.pair.raw(), &raw mut request) };
        if result != 0 {
            self.fail(BROKEN_QUEUE);
        }
    }

    /// Keeps memory that a read may still write to.
    pub fn park(&self, loan: Loan) {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner).push(loan);
    }

    /// Notes a failure, of which the first counts.
    #[cold]
    pub fn fail(&self, status: c_int) {
        if !self.is_down() {
            // The first failure is the cause, those after it are its consequences.
            let _known = self.failure.compare_exchange(0, status, Ordering::Relaxed, Ordering::Relaxed);
            self.alarm.store(true, Ordering::Release);
        }
    }

    /// Ends the lane: from here on neither side reaches the other's memory through it.
    pub fn shut(&self) {
        self.down.store(true, Ordering::Relaxed);
        let error = sys::ibv_qp_attr { qp_state: sys::IBV_QPS_ERR, ..sys::ibv_qp_attr::default() };
        // Fails only when the device is gone, and then so is the connection.
        let _device_gone = self.pair.modify("end a queue pair", error, sys::IBV_QP_STATE);
    }

    /// Asks for an announcement of the next completion of either kind.
    pub fn arm(&self) {
        self.arrivals.arm();
        self.sends.arm();
    }
}

/// A failure of a queue itself, for which there is no status: the device failed.
pub const BROKEN_QUEUE: c_int = 19;
