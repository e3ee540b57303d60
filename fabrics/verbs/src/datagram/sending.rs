//! Sending: packets are gathered into registered slots, wait for a flush, and leave with one doorbell.
//!
//! The slots form a ring in the order of sending. A packet is queued, then with the card, then gone; the card
//! reports only every this many packets, and one report frees all slots before it. Each slot has a request of
//! its own, which is written once but for what differs from packet to packet.

use std::sync::Arc;

use farcall_driver::SendQueueFull;

use crate::counters::VerbsDatagramCounters;
use crate::device::Device;
use crate::error::VerbsError;
use crate::pair::QueuePair;
use crate::queues::CompletionQueue;
use crate::region::Region;
use crate::sys;

/// The key that a datagram must carry to be received; all drivers use the same, so that any can answer any.
pub const QUEUE_KEY: u32 = 0x1fa2_ca11;

/// Completions that one call takes.
const REAPED_MAX: usize = 16;

/// The way to a queue pair. The handle must live until the packets that use it have left.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub handle: *mut sys::ibv_ah,
    pub number: u32,
}

/// The sending half of a driver.
pub struct Sending {
    region: Region,
    queue: Arc<CompletionQueue>,
    /// The requests of the slots and the memory that they send: as many as slots, a power of two.
    requests: Box<[sys::ibv_send_wr]>,
    parts: Box<[sys::ibv_sge]>,
    slot_bytes: usize,
    queue_max: usize,
    burst: usize,
    signal_period: u64,
    inline_bytes: usize,
    /// Packets ever queued, handed to the card, and reported gone.
    queued: u64,
    posted: u64,
    gone: u64,
    /// The next packet of which the card is to report that it is gone.
    next_signal: u64,
    /// The card could not carry a request out, and takes no more.
    failed: bool,
}

// SAFETY: the pointers in the requests lead to the parts beside them, to each other and to handles, and are
// rewritten before use.
unsafe impl Send for Sending {}

/// Requests that lead to each other, and what their packets are together.
struct Chain {
    first: *mut sys::ibv_send_wr,
    packets: u64,
    bytes: u64,
    inlined: u64,
}

/// Bounds of a [`Sending`].
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Packets that wait, beside as many that the card may have.
    pub queue_max: usize,
    /// Packets that one doorbell sends.
    pub burst: usize,
    /// Packets of which one is reported when it has left.
    pub signal_period: usize,
    /// Bytes that a request may carry itself.
    pub inline_bytes: usize,
    /// Bytes of a packet.
    pub mtu_bytes: usize,
}

impl Sending {
    /// An empty queue.
    pub fn new(
        device: &Arc<Device>,
        queue: Arc<CompletionQueue>,
        bounds: Bounds,
        huge_pages: bool,
    ) -> Result<Self, VerbsError> {
        let Bounds { queue_max, burst, signal_period, inline_bytes, mtu_bytes } = bounds;
        let slots = (2 * queue_max).next_power_of_two();
        let region = Region::new(device, slots * mtu_bytes, 0, huge_pages)?;
        let mut request = sys::ibv_send_wr::new();
        (request.opcode, request.num_sge) = (sys::IBV_WR_SEND, 1);
        let parts = (0..slots).map(|slot| region.part(slot * mtu_bytes, mtu_bytes)).collect();
        Ok(Self {
            region,
            queue,
            requests: vec![request; slots].into_boxed_slice(),
            parts,
            slot_bytes: mtu_bytes,
            queue_max,
            burst,
            signal_period: signal_period as u64,
            inline_bytes,
            queued: 0,
            posted: 0,
            gone: 0,
            next_signal: signal_period as u64 - 1,
            failed: false,
        })
    }

    /// How many packets can be queued.
    #[inline]
    pub fn room(&self) -> usize {
        let waiting = (self.queued - self.posted) as usize;
        let used = (self.queued - self.gone) as usize;
        (self.queue_max - waiting).min(2 * self.queue_max - used)
    }

    /// Whether packets wait that the card does not have.
    #[inline]
    pub fn is_backed_up(&self) -> bool {
        self.queued > self.posted
    }

    /// How many packets were ever queued.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// How many of those have left for sure, oldest first.
    pub fn gone(&self) -> u64 {
        self.gone
    }

    /// Copies a packet of `bytes` bytes, at most the MTU, to the end of the queue.
    #[inline]
    pub fn push(&mut self, way: Way, parts: &[&[u8]], bytes: usize) -> Result<(), SendQueueFull> {
        if self.room() == 0 {
            return Err(SendQueueFull);
        }
        let slot = self.slot(self.queued);
        self.describe(slot, way, bytes);
        let mut at = self.region.at(slot * self.slot_bytes, bytes);
        for part in parts {
            // SAFETY: the parts together have `bytes` bytes, which lie within the slot. It is not with the
            // card (`room`), so nobody else accesses it.
            unsafe {
                core::ptr::copy_nonoverlapping(part.as_ptr(), at.as_ptr(), part.len());
                at = at.add(part.len());
            }
        }
        self.queued += 1;
        Ok(())
    }

    /// Writes what the request of the next packet does not share with others.
    #[inline]
    fn describe(&mut self, slot: usize, way: Way, bytes: usize) {
        self.parts[slot].length = bytes as u32;
        let request = &mut self.requests[slot];
        request.wr_id = self.queued;
        request.send_flags = if bytes <= self.inline_bytes { sys::IBV_SEND_INLINE } else { 0 };
        if self.queued == self.next_signal {
            self.next_signal += self.signal_period;
            request.send_flags |= sys::IBV_SEND_SIGNALED;
        }
        request.wr.ud = sys::ibv_ud_target { ah: way.handle, remote_qpn: way.number, remote_qkey: QUEUE_KEY };
    }

    /// Hands the queue to the card, as far as it takes it.
    #[inline]
    pub fn flush(&mut self, pair: &QueuePair, counters: &VerbsDatagramCounters) {
        if (self.posted - self.gone) as usize > self.queue_max / 2 {
            self.reap(counters);
        }
        while self.queued > self.posted {
            let with_card = (self.posted - self.gone) as usize;
            let count = (self.queued - self.posted) as usize;
            let count = count.min(self.queue_max - with_card).min(self.burst);
            if count == 0 || self.post(pair, counters, count) < count {
                return;
            }
        }
    }

    /// Hands the oldest `count` packets to the card with one doorbell; returns how many are settled.
    fn post(&mut self, pair: &QueuePair, counters: &VerbsDatagramCounters, count: usize) -> usize {
        let chain = self.chain(count);
        // SAFETY: the chain and its parts live for the call. Slots stay as they are until a completion covers
        // them; the region and the handles outlive the queue pair or are kept until the queue is idle (see
        // `VerbsDatagram`).
        let (result, bad) = unsafe { sys::post_send(pair.raw(), chain.first) };
        counters.doorbells.increment();
        if result == 0 {
            self.note_posted(counters, &chain);
            return count;
        }
        let is_bad = |index: &usize| {
            core::ptr::eq(bad, &raw const self.requests[self.slot(self.posted + *index as u64)])
        };
        let taken = (0..count).find(is_bad).unwrap_or(0);
        let chain = self.chain(taken);
        self.note_posted(counters, &chain);
        if result != libc::ENOMEM {
            // The card will never take this one. Its slot is freed by the next report.
            counters.packets_unsendable.increment();
            self.posted += 1;
            return taken + 1;
        }
        taken
    }

    /// Links the requests of the oldest `count` packets, from the last to the first.
    #[inline]
    fn chain(&mut self, count: usize) -> Chain {
        let mask = self.requests.len() - 1;
        let (requests, parts) = (self.requests.as_mut_ptr(), self.parts.as_mut_ptr());
        let mut chain = Chain { first: core::ptr::null_mut(), packets: count as u64, bytes: 0, inlined: 0 };
        let mut sequence = self.posted as usize + count;
        while sequence > self.posted as usize {
            sequence -= 1;
            let slot = sequence & mask;
            // SAFETY: a slot is a place in both.
            unsafe {
                let (request, part) = (requests.add(slot), parts.add(slot));
                (*request).sg_list = part;
                (*request).next = chain.first;
                chain.first = request;
                chain.bytes += u64::from((*part).length);
                chain.inlined += u64::from((*request).send_flags & sys::IBV_SEND_INLINE != 0);
            }
        }
        chain
    }

    /// The card took the packets of a chain.
    #[inline]
    fn note_posted(&mut self, counters: &VerbsDatagramCounters, chain: &Chain) {
        self.posted += chain.packets;
        counters.packets_sent.add(chain.packets);
        counters.bytes_sent.add(chain.bytes);
        counters.packets_inlined.add(chain.inlined);
    }

    /// Takes the card's reports.
    pub fn reap(&mut self, counters: &VerbsDatagramCounters) {
        let mut completions = [sys::ibv_wc::new(); REAPED_MAX];
        while let Some(completions @ [.., last]) = self.queue.poll(&mut completions) {
            // Reports come in the order of the requests.
            self.gone = self.gone.max(last.wr_id + 1);
            counters.send_completions.add(completions.len() as u64);
            let failed = completions.iter().filter(|completion| completion.status != sys::IBV_WC_SUCCESS);
            let failed = failed.count();
            self.failed |= failed > 0;
            counters.completion_errors.add(failed as u64);
            if completions.len() < REAPED_MAX {
                return;
            }
        }
    }

    /// Whether the queue pair must be reset before it sends again.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Gives up what is with the card. The queue pair must have been reset, which ends all of its requests.
    pub fn forget(&mut self) {
        self.queue.discard();
        self.gone = self.posted;
        self.failed = false;
    }

    #[inline]
    fn slot(&self, sequence: u64) -> usize {
        sequence as usize & (self.requests.len() - 1)
    }
}
