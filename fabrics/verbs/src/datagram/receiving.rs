//! Receiving: buffers with the card, packets on loan from them.
//!
//! A buffer is free, with the card, or out as a packet. Free ones go to the card in batches, so that one
//! doorbell serves many; a packet's buffer is free when it is released. The payload of every packet begins a
//! cache line, right behind the room for its route header. Each buffer has a receive of its own, which is
//! written once.

use core::ptr::NonNull;
use std::sync::Arc;

use farcall_driver::{Destination, Packet};

use crate::counters::VerbsDatagramCounters;
use crate::device::Device;
use crate::error::VerbsError;
use crate::gid::GRH_BYTES;
use crate::pair::QueuePair;
use crate::queues::CompletionQueue;
use crate::region::Region;
use crate::sys;

/// Packets begin at multiples of this: a cache line.
const LINE_BYTES: usize = 64;
/// The most receives that one call hands to the card.
const BATCH: usize = 16;
/// Cache lines of a packet that are fetched ahead.
const PREFETCH_LINES: usize = 4;

/// What a buffer is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    WithCard,
    Out,
}

/// The receive buffers of a driver.
pub struct Receiving {
    region: Region,
    queue: Arc<CompletionQueue>,
    /// The receives of the buffers, and the memory that they are into.
    requests: Box<[sys::ibv_recv_wr]>,
    parts: Box<[sys::ibv_sge]>,
    completions: Box<[sys::ibv_wc]>,
    uses: Vec<Use>,
    /// Free buffers; the one used last is used next. Never grows beyond its first length.
    free: Vec<u32>,
    with_card: usize,
    with_card_max: usize,
    /// Receives that one call hands to the card.
    batch: usize,
    /// The card could not carry a receive out, and takes no packets any more.
    failed: bool,
    stride_bytes: usize,
    mtu_bytes: usize,
}

// SAFETY: the pointers in the receives lead to the parts beside them and to each other, and are rewritten
// before use.
unsafe impl Send for Receiving {}

/// A packet that has arrived, before its sender is known by number.
pub struct Arrival<'a> {
    pub packet: Arrived,
    pub header: &'a [u8; GRH_BYTES],
    pub completion: &'a sys::ibv_wc,
}

/// The place of a packet that has arrived; only [`Receiving::arrival`] makes one.
pub struct Arrived {
    payload: NonNull<u8>,
    payload_bytes: u32,
    buffer: u32,
}

impl Arrived {
    /// How long it is.
    #[inline]
    pub fn bytes(&self) -> u64 {
        u64::from(self.payload_bytes)
    }

    /// Lends it as a packet from `source`.
    #[inline]
    pub fn lend(self, source: Destination) -> Packet {
        // SAFETY: the bytes are those of a buffer that is out, initialised, and unchanged until it is put
        // back; the memory stays mapped while packets are out, because dropping `Receiving` then leaks it.
        unsafe { Packet::from_raw(self.payload, self.payload_bytes, source, self.buffer) }
    }
}

impl Receiving {
    /// `buffers` buffers for packets of up to `mtu_bytes`, of which up to `with_card_max` are with the card.
    pub fn new(
        device: &Arc<Device>,
        queue: Arc<CompletionQueue>,
        [buffers, with_card_max, burst_packets]: [usize; 3],
        mtu_bytes: usize,
        huge_pages: bool,
    ) -> Result<Self, VerbsError> {
        let stride_bytes = LINE_BYTES + mtu_bytes.next_multiple_of(LINE_BYTES);
        let region = Region::new(device, buffers * stride_bytes, 0, huge_pages)?;
        let request = |buffer| sys::ibv_recv_wr { wr_id: buffer, num_sge: 1, ..sys::ibv_recv_wr::new() };
        let part = |buffer| region.part(header_at(buffer, stride_bytes), GRH_BYTES + mtu_bytes);
        Ok(Self {
            requests: (0..buffers as u64).map(request).collect(),
            parts: (0..buffers).map(part).collect(),
            region,
            queue,
            completions: vec![sys::ibv_wc::new(); burst_packets].into_boxed_slice(),
            uses: vec![Use::Free; buffers],
            free: (0..buffers as u32).rev().collect(),
            with_card: 0,
            with_card_max,
            batch: BATCH.min(with_card_max),
            failed: false,
            stride_bytes,
            mtu_bytes,
        })
    }

    /// Hands free buffers to the card while a batch of them is due.
    #[inline]
    pub fn refill(&mut self, pair: &QueuePair, counters: &VerbsDatagramCounters) {
        if self.with_card_max - self.with_card >= self.batch {
            self.refill_due(pair, counters);
        }
    }

    #[inline(never)]
    fn refill_due(&mut self, pair: &QueuePair, counters: &VerbsDatagramCounters) {
        while self.with_card_max - self.with_card >= self.batch && !self.free.is_empty() {
            let count = self.batch.min(self.free.len());
            if self.post(pair, count) < count {
                return;
            }
            counters.receives_posted.add(count as u64);
        }
        if self.with_card == 0 {
            counters.buffers_exhausted.increment();
        }
    }

    /// Hands the `count` buffers that were used last to the card; returns how many it took.
    fn post(&mut self, pair: &QueuePair, count: usize) -> usize {
        let first = self.free.len() - count;
        let chain = self.chain(first);
        // SAFETY: the chain lives for the call. Each buffer is free, so nobody reads it, and stays with the
        // card until its completion; the region outlives the queue pair (see `VerbsDatagram`).
        let (result, bad) = unsafe { sys::post_recv(pair.raw(), chain) };
        let is_bad = |buffer: &u32| core::ptr::eq(bad, &raw const self.requests[*buffer as usize]);
        let refused = || self.free[first..].iter().rev().position(is_bad);
        let taken = if result == 0 { count } else { refused().unwrap_or(0) };
        for buffer in self.free.drain(self.free.len() - taken..) {
            self.uses[buffer as usize] = Use::WithCard;
        }
        self.with_card += taken;
        taken
    }

    /// Links the receives of the free buffers from place `first` on; the one used last comes first.
    fn chain(&mut self, first: usize) -> *mut sys::ibv_recv_wr {
        let (requests, parts) = (self.requests.as_mut_ptr(), self.parts.as_mut_ptr());
        let mut next = core::ptr::null_mut();
        for &buffer in &self.free[first..] {
            // SAFETY: a buffer is a place in both.
            unsafe {
                let request = requests.add(buffer as usize);
                (*request).sg_list = parts.add(buffer as usize);
                (*request).next = next;
                next = request;
            }
        }
        next
    }

    /// Takes up to a burst of packets from the card; says how many there are to look at with
    /// [`Receiving::arrival`].
    #[inline]
    pub fn collect(&mut self, counters: &VerbsDatagramCounters) -> usize {
        match self.queue.poll(&mut self.completions) {
            Some(completions) => completions.len(),
            None => {
                self.failed = true;
                counters.completion_errors.increment();
                0
            }
        }
    }

    /// Packet `index` of the last collection; `None` when it is of no use, and its buffer is free again.
    #[inline]
    pub fn arrival(&mut self, index: usize, counters: &VerbsDatagramCounters) -> Option<Arrival<'_>> {
        let sys::ibv_wc { wr_id, status, byte_len, .. } = self.completions[index];
        let buffer = wr_id as u32;
        assert_eq!(self.uses[buffer as usize], Use::WithCard, "the card gives back what it was given");
        self.with_card -= 1;
        let payload_bytes = (byte_len as usize).checked_sub(GRH_BYTES);
        let usable = status == sys::IBV_WC_SUCCESS;
        let Some(payload_bytes) = payload_bytes.filter(|bytes| usable && *bytes <= self.mtu_bytes) else {
            self.failed |= !usable;
            let counter = if usable { counters.packets_malformed } else { counters.completion_errors };
            counter.increment();
            self.put_back(buffer);
            return None;
        };
        self.uses[buffer as usize] = Use::Out;
        let at = header_at(buffer as usize, self.stride_bytes);
        let header = self.region.at(at, GRH_BYTES + self.mtu_bytes);
        // SAFETY: inside the region, as just checked. The buffer is not with the card any more, so nobody
        // writes there; bytes that the card did not write are zeros or left over.
        let (payload, header) = unsafe { (header.add(GRH_BYTES), header.cast().as_ref()) };
        prefetch(payload, payload_bytes);
        let packet = Arrived { payload, payload_bytes: payload_bytes as u32, buffer };
        Some(Arrival { packet, header, completion: &self.completions[index] })
    }

    /// Makes the buffer of a packet or of a useless arrival free.
    ///
    /// # Panics
    /// When it is none of this driver's, or free already.
    #[inline]
    pub fn put_back(&mut self, buffer: u32) {
        let place = self.uses.get_mut(buffer as usize).filter(|place| **place != Use::Free);
        *place.expect("a packet goes back to the driver that lent it, once") = Use::Free;
        self.free.push(buffer);
    }

    /// Whether the queue pair must be reset before it receives again.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Takes the buffers back that are with the card. The queue pair must have been reset, which ends all of
    /// its receives.
    pub fn take_all_back(&mut self) {
        self.queue.discard();
        for (buffer, place) in self.uses.iter_mut().enumerate().filter(|(_, place)| **place == Use::WithCard)
        {
            *place = Use::Free;
            self.free.push(buffer as u32);
        }
        self.with_card = 0;
        self.failed = false;
    }

    /// Asks for an announcement of the next packet.
    pub fn arm(&self) {
        self.queue.arm();
    }

    /// How many buffers are out as packets.
    #[cfg(all(test, feature = "device-tests"))]
    pub fn buffers_out(&self) -> usize {
        self.uses.iter().filter(|place| **place == Use::Out).count()
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if self.uses.contains(&Use::Out) {
            self.region.leak();
        }
    }
}

/// Where the route header of a buffer's packet lies in the region.
#[inline]
fn header_at(buffer: usize, stride_bytes: usize) -> usize {
    buffer * stride_bytes + LINE_BYTES - GRH_BYTES
}

/// Starts to fetch the first lines of a packet: the card wrote them past the cache, or into its last level.
#[inline]
fn prefetch(payload: NonNull<u8>, bytes: usize) {
    let end = bytes.min(PREFETCH_LINES * LINE_BYTES);
    let mut at = 0;
    while at < end {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch of any address is harmless.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(payload.as_ptr().wrapping_add(at).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = payload;
        at += LINE_BYTES;
    }
}
