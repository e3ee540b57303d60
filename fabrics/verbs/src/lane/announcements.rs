//! How a reader learns of writes to its ring where writes have no immediate value (iWARP): by a message
//! behind each.
//!
//! Messages arrive in the order of the writes, after their bytes (RFC 5040, section 5.3), so the two ways
//! mean the same. What differs is that a message without a receive ends the connection there, so that no
//! queue can be shared: each lane has a receive for each line of its ring, of which an announcement takes one
//! at least.

use core::ffi::c_int;
use std::sync::Arc;

use farcall_driver::RECORD_ALIGN;

use super::link::WRITES_MAX;
use crate::device::Device;
use crate::error::VerbsError;
use crate::pair::QueuePair;
use crate::region::Region;
use crate::sys;

/// Bytes of an announcement: by how many lines the ring is fuller, little-endian.
pub const ANNOUNCEMENT_BYTES: usize = 4;
/// Receives that are posted together.
const BATCH: usize = 16;

/// The memory of one lane's announcements: those that may be on their way out, then those to come.
pub struct Announcements {
    memory: Region,
    receives: usize,
}

impl Announcements {
    /// Receives that a lane with such a ring needs.
    pub fn receives(ring_bytes: usize) -> usize {
        ring_bytes / RECORD_ALIGN
    }

    /// Memory for the announcements of a lane with such a ring.
    pub fn new(device: &Arc<Device>, ring_bytes: usize) -> Result<Self, VerbsError> {
        let receives = Self::receives(ring_bytes);
        let memory = Region::new(device, (WRITES_MAX + receives) * ANNOUNCEMENT_BYTES, 0, false)?;
        Ok(Self { memory, receives })
    }

    /// Posts every receive.
    pub fn post_all(&self, pair: &QueuePair) -> Result<(), VerbsError> {
        let slots: Vec<u64> = (0..self.receives as u64).collect();
        let results = slots.chunks(BATCH).map(|slots| self.post(pair, slots.iter().copied()));
        match results.into_iter().find(|result| *result != 0) {
            None => Ok(()),
            Some(number) => Err(VerbsError::number("post receives", number)),
        }
    }

    /// Posts the receives of up to 16 slots; returns an error number or 0.
    pub fn post(&self, pair: &QueuePair, slots: impl Iterator<Item = u64>) -> c_int {
        let mut requests = [const { sys::ibv_recv_wr::new() }; BATCH];
        let mut parts = [sys::ibv_sge::default(); BATCH];
        let (first, first_part) = (requests.as_mut_ptr(), parts.as_mut_ptr());
        let mut count = 0;
        for slot in slots.take(BATCH) {
            // SAFETY: `count` is below the length of both arrays.
            unsafe {
                *first_part.add(count) = self.memory.part(self.offset(slot), ANNOUNCEMENT_BYTES);
                (*first.add(count)).wr_id = slot;
                (*first.add(count)).sg_list = first_part.add(count);
                (*first.add(count)).num_sge = 1;
                if count > 0 {
                    (*first.add(count - 1)).next = first.add(count);
                }
            }
            count += 1;
        }
        if count == 0 {
            return 0;
        }
        // SAFETY: a live queue pair, and a chain that lives for the call; the link keeps the memory for
        // longer than the queue pair.
        unsafe { sys::post_recv(pair.raw(), first) }.0
    }

    /// What was received: the lines announced, if that is what it is.
    pub fn lines(&self, completion: &sys::ibv_wc) -> Option<u32> {
        let is_one = completion.status == sys::IBV_WC_SUCCESS
            && completion.opcode == sys::IBV_WC_RECV
            && completion.byte_len as usize == ANNOUNCEMENT_BYTES;
        let is_ours = completion.wr_id < self.receives as u64;
        if !is_one || !is_ours {
            return None;
        }
        let at = self.memory.at(self.offset(completion.wr_id), ANNOUNCEMENT_BYTES).cast::<u32>();
        // SAFETY: inside the region and aligned. The card has written it, and does not again before it is
        // posted.
        Some(u32::from_le(unsafe { at.read_volatile() }))
    }

    /// The announcement that request number `request` sends.
    pub fn outgoing(&self, request: u64, lines: u32) -> sys::ibv_sge {
        let offset = (request % WRITES_MAX as u64) as usize * ANNOUNCEMENT_BYTES;
        // SAFETY: inside the region and aligned. The request that used this place before has left, since no
        // more than `WRITES_MAX` are on their way.
        unsafe { self.memory.at(offset, ANNOUNCEMENT_BYTES).cast::<u32>().write_volatile(lines.to_le()) };
        self.memory.part(offset, ANNOUNCEMENT_BYTES)
    }

    /// Where a receive's slot lies.
    fn offset(&self, slot: u64) -> usize {
        assert!(slot < self.receives as u64, "a slot of the lane");
        (WRITES_MAX + slot as usize) * ANNOUNCEMENT_BYTES
    }
}
