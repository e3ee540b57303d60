//! Sending: packets are gathered into registered slots, wait for a flush, and leave with one doorbell.
//!
//! The slots form a ring in the order of sending. A packet is queued, then with the card, then gone; the card reports only
//! every so many packets, and one report frees all slots before it.

use std::sync::Arc;

use farcall_driver::SendQueueFull;

use crate::counters::VerbsDatagramCounters;
use crate::device::Device;
use crate::error::VerbsError;
use crate::queues::{CompletionQueue, QueuePair};
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

/// A queued packet.
#[derive(Clone, Copy)]
struct Entry {
    way: Way,
    bytes: u32,
}

/// The sending half of a driver.
pub struct Sending {
    region: Region,
    queue: Arc<CompletionQueue>,
    entries: Box<[Entry]>,
    slot_bytes: usize,
    queue_max: usize,
    burst: usize,
    signal_period: u64,
    /// Packets ever queued, handed to the card, and reported gone.
    queued: u64,
    posted: u64,
    gone: u64,
    /// The card could not carry a request out, and takes no more.
    failed: bool,
    requests: Box<[sys::ibv_send_wr]>,
    parts: Box<[sys::ibv_sge]>,
}

// SAFETY: the pointers in the requests lead to the parts beside them and to handles, and are rewritten before use.
unsafe impl Send for Sending {}

impl Sending {
    /// A queue of `queue_max` packets, beside as many that the card may have.
    pub fn new(
        device: &Arc<Device>,
        queue: Arc<CompletionQueue>,
        [queue_max, burst, signal_period]: [usize; 3],
        mtu_bytes: usize,
        huge_pages: bool,
    ) -> Result<Self, VerbsError> {
        let nowhere = Entry { way: Way { handle: core::ptr::null_mut(), number: 0 }, bytes: 0 };
        let slots = 2 * queue_max;
        Ok(Self {
            region: Region::new(device, slots * mtu_bytes, 0, huge_pages)?,
            queue,
            entries: vec![nowhere; slots].into_boxed_slice(),
            slot_bytes: mtu_bytes,
            queue_max,
            burst,
            signal_period: signal_period as u64,
            queued: 0,
            posted: 0,
            gone: 0,
            failed: false,
            requests: vec![sys::ibv_send_wr::new(); burst].into_boxed_slice(),
            parts: vec![sys::ibv_sge::default(); burst].into_boxed_slice(),
        })
    }

    /// How many packets can be queued.
    #[inline]
    pub fn room(&self) -> usize {
        let waiting = (self.queued - self.posted) as usize;
        let used = (self.queued - self.gone) as usize;
        (self.queue_max - waiting).min(self.entries.len() - used)
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
        let mut at = self.region.at(slot * self.slot_bytes, bytes);
        for part in parts {
            // SAFETY: the parts together have `bytes` bytes, which lie within the slot. It is not with the card (`room`),
            // so nobody else accesses it.
            unsafe {
                core::ptr::copy_nonoverlapping(part.as_ptr(), at.as_ptr(), part.len());
                at = at.add(part.len());
            }
        }
        self.entries[slot] = Entry { way, bytes: bytes as u32 };
        self.queued += 1;
        Ok(())
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
        let bytes = self.load(pair.inline_bytes, counters, count);
        // SAFETY: the chain and its parts live for the call. Slots stay as they are until a completion covers them; the
        // region and the handles outlive the queue pair or are kept until the queue is idle (see `VerbsDatagram`).
        let (result, bad) = unsafe { sys::post_send(pair.raw(), self.requests.as_mut_ptr()) };
        counters.doorbells.increment();
        if result == 0 {
            self.posted += count as u64;
            counters.packets_sent.add(count as u64);
            counters.bytes_sent.add(bytes);
            return count;
        }
        let refused = (0..count).find(|index| core::ptr::eq(bad, &raw const self.requests[*index]));
        let taken = refused.unwrap_or(0);
        self.posted += taken as u64;
        counters.packets_sent.add(taken as u64);
        if result != libc::ENOMEM {
            // The card will never take this one. Its slot is freed by the next report.
            counters.packets_unsendable.increment();
            self.posted += 1;
            return taken + 1;
        }
        taken
    }

    /// Describes the oldest `count` packets; returns their bytes.
    fn load(&mut self, inline_bytes: usize, counters: &VerbsDatagramCounters, count: usize) -> u64 {
        let (mut total, mut inlined) = (0, 0);
        for index in 0..count {
            let sequence = self.posted + index as u64;
            let slot = self.slot(sequence);
            let Entry { way, bytes } = self.entries[slot];
            self.parts[index] = self.region.part(slot * self.slot_bytes, bytes as usize);
            let is_inline = bytes as usize <= inline_bytes;
            let is_signalled = (sequence + 1).is_multiple_of(self.signal_period);
            let request = &mut self.requests[index];
            request.wr_id = sequence;
            request.opcode = sys::IBV_WR_SEND;
            request.num_sge = 1;
            request.send_flags = if is_inline { sys::IBV_SEND_INLINE } else { 0 }
                | if is_signalled { sys::IBV_SEND_SIGNALED } else { 0 };
            request.wr.ud =
                sys::ibv_ud_target { ah: way.handle, remote_qpn: way.number, remote_qkey: QUEUE_KEY };
            total += u64::from(bytes);
            inlined += u64::from(is_inline);
        }
        for index in 0..count {
            self.requests[index].sg_list = &raw mut self.parts[index];
            self.requests[index].next =
                if index + 1 < count { &raw mut self.requests[index + 1] } else { core::ptr::null_mut() };
        }
        counters.packets_inlined.add(inlined);
        total
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
        (sequence % self.entries.len() as u64) as usize
    }
}
