//! What both ends of a lane, its driver and its conductor share: the queue pair and the memory on either side of it.
//!
//! The ends may be on different threads. What they tell each other are counts that only grow, and whether the lane is over.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use farcall_driver::Loan;

use super::handshake::{Offer, PeerMemory};
use super::receives::Receives;
use crate::config::VerbsLaneConfig;
use crate::device::Device;
use crate::error::VerbsError;
use crate::queues::{CompletionChannel, CompletionQueue, Depths, QueuePair};
use crate::region::Region;
use crate::sys;

/// Writes that one lane's card may have at a time; a flush takes one, or two at the end of the ring.
pub const WRITES_MAX: usize = 128;
/// Reads beside them.
const READS_MAX: usize = 1;
/// The mark of a read in its request's number.
const READ: u64 = 1 << 63;
/// Completions that one call takes.
const REAPED_MAX: usize = 16;

/// How long a card waits for an acknowledgement: 4.096 us times two to this, 67 ms. Soft-RoCE needs as much.
const ACK_TIMEOUT: u8 = 14;
/// How often it asks again. One less than the most, which Soft-RoCE takes for "for ever".
const RETRIES: u8 = 6;
/// How often it offers a write again to a peer that has no receive: for ever; a peer that hangs is the business of deadlines.
const RECEIVER_RETRIES: u8 = 7;
/// After which time: 0.64 ms.
const RECEIVER_NOT_READY: u8 = 12;

/// The shared part of a lane. The order of the fields is that of their drops: the queue pair goes before the memory.
pub struct Link {
    pair: QueuePair,
    sends: Arc<CompletionQueue>,
    pub arrivals: Arc<CompletionQueue>,
    /// The ring that the peer writes and we read.
    pub ring: Region,
    /// Where our records are written before they leave; as long as the peer's ring, and addressed alike.
    pub staging: Region,
    pub peer: PeerMemory,
    pub receives: Arc<Receives>,
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
    device: Arc<Device>,
}

/// A queue pair and our ring, before the peer is known.
pub struct Half {
    pair: QueuePair,
    sends: Arc<CompletionQueue>,
    arrivals: Arc<CompletionQueue>,
    ring: Region,
    sequence: u32,
}

impl Half {
    /// Makes the queues and the ring of a new lane.
    pub fn new(
        device: &Arc<Device>,
        config: &VerbsLaneConfig,
        receives: &Receives,
        channel: &Arc<CompletionChannel>,
    ) -> Result<Self, VerbsError> {
        let sends = CompletionQueue::new(device, WRITES_MAX + READS_MAX, Some(channel))?;
        // All receives may be used up by one lane before it is looked at, and be posted again by another.
        let arrivals = CompletionQueue::new(device, 2 * receives.queue.depth, Some(channel))?;
        let depths = Depths { send: WRITES_MAX + READS_MAX, receive: 0, inline_bytes: config.inline_bytes };
        let pair = QueuePair::new(device, sys::IBV_QPT_RC, depths, &sends, &arrivals, Some(&receives.queue))?;
        let ring = Region::new(device, config.ring_bytes, sys::IBV_ACCESS_REMOTE_WRITE, config.huge_pages)?;
        let init = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_INIT,
            port_num: device.port.number,
            qp_access_flags: (sys::IBV_ACCESS_REMOTE_WRITE | sys::IBV_ACCESS_REMOTE_READ) as u32,
            ..sys::ibv_qp_attr::default()
        };
        let mask = sys::IBV_QP_STATE | sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT | sys::IBV_QP_ACCESS_FLAGS;
        pair.modify("initialise a queue pair", init, mask)?;
        Ok(Self { pair, sends, arrivals, ring, sequence: random_sequence()? })
    }

    /// What the peer must know to connect.
    pub fn offer<'a>(
        &self,
        device: &Device,
        blocks: &Region,
        config: &VerbsLaneConfig,
        hello: &'a [u8],
    ) -> Offer<'a> {
        Offer {
            ethernet: device.port.ethernet,
            mtu: mtu_number(device, config),
            lid: device.port.lid,
            gid: device.port.gid,
            number: self.pair.number(),
            sequence: self.sequence,
            memory: PeerMemory {
                ring_address: self.ring.at(0, config.ring_bytes).as_ptr().addr() as u64,
                ring_key: self.ring.remote_key(),
                ring_bytes: config.ring_bytes as u64,
                blocks_address: blocks.at(0, config.block_bytes).as_ptr().addr() as u64,
                blocks_key: blocks.remote_key(),
                blocks_bytes: config.block_bytes as u64,
            },
            hello,
        }
    }

    /// Connects to a peer that made `offer`, whose fields have been checked.
    pub fn connect(
        self,
        device: &Arc<Device>,
        config: &VerbsLaneConfig,
        receives: &Arc<Receives>,
        alarm: &Arc<AtomicBool>,
        offer: &Offer<'_>,
    ) -> Result<Link, VerbsError> {
        let staging = Region::new(device, offer.memory.ring_bytes as usize, 0, config.huge_pages)?;
        let link = Link {
            pair: self.pair,
            sends: self.sends,
            arrivals: self.arrivals,
            ring: self.ring,
            staging,
            peer: offer.memory,
            receives: Arc::clone(receives),
            writes_gone: AtomicU64::new(0),
            reads_done: AtomicU64::new(0),
            failure: AtomicI32::new(0),
            alarm: Arc::clone(alarm),
            down: AtomicBool::new(false),
            parked: Mutex::default(),
            device: Arc::clone(device),
        };
        link.make_ready(offer, self.sequence, mtu_number(device, config))?;
        Ok(link)
    }
}

impl Link {
    fn make_ready(&self, offer: &Offer<'_>, sequence: u32, mtu: u8) -> Result<(), VerbsError> {
        let zero = sys::ibv_qp_attr::default();
        let receive = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTR,
            path_mtu: c_int::from(mtu.min(offer.mtu)),
            dest_qp_num: offer.number,
            rq_psn: offer.sequence,
            max_dest_rd_atomic: READS_MAX as u8,
            min_rnr_timer: RECEIVER_NOT_READY,
            ah_attr: self.device.route(offer.gid, offer.lid),
            ..zero
        };
        let mask = sys::IBV_QP_STATE
            | sys::IBV_QP_AV
            | sys::IBV_QP_PATH_MTU
            | sys::IBV_QP_DEST_QPN
            | sys::IBV_QP_RQ_PSN
            | sys::IBV_QP_MAX_DEST_RD_ATOMIC
            | sys::IBV_QP_MIN_RNR_TIMER;
        self.pair.modify("connect a queue pair", receive, mask)?;
        let send = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTS,
            sq_psn: sequence,
            timeout: ACK_TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RECEIVER_RETRIES,
            max_rd_atomic: READS_MAX as u8,
            ..zero
        };
        let mask = sys::IBV_QP_STATE
            | sys::IBV_QP_SQ_PSN
            | sys::IBV_QP_TIMEOUT
            | sys::IBV_QP_RETRY_CNT
            | sys::IBV_QP_RNR_RETRY
            | sys::IBV_QP_MAX_QP_RD_ATOMIC;
        self.pair.modify("open a queue pair", send, mask)
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

    /// Whether so many reads have arrived.
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

    /// Hands a chain of writes to the card.
    ///
    /// # Safety
    /// The parts must lie in the staging memory or be sent inline, and what they name must not change before the peer has
    /// it. The chain must be well formed.
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
        // SAFETY: the request lives for the call. The card writes to the loan, which the caller keeps until the read has
        // arrived or passes to `park`.
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

/// The longest packet that we want, as verbs number it.
fn mtu_number(device: &Device, config: &VerbsLaneConfig) -> u8 {
    let of_link = device.port.mtu as u8;
    config.mtu_bytes.map_or(of_link, |bytes| of_link.min((bytes / 128).ilog2() as u8))
}

/// A failure of a queue itself, for which there is no status: the device failed.
pub const BROKEN_QUEUE: c_int = 19;

/// Where a queue pair begins to count its packets: anywhere, so that packets of an earlier one do not fit.
fn random_sequence() -> Result<u32, VerbsError> {
    let mut bytes = [0; 4];
    let random = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    random.map_err(|error| VerbsError::System { what: "draw a random number", source: error.into() })?;
    Ok(u32::from_le_bytes(bytes) & 0x00ff_ffff)
}
