//! Receiving from one peer: packets read in place, slots posted again when they come back.
//!
//! The owner posts the slots in the order in which they become free, and the peer uses them in the order of the posts.
//! So the owner always knows which slot the next packet will be in, and looks at one word to see whether it has come,
//! however many packets its caller holds.

use std::sync::{Arc, Mutex, PoisonError};

use farcall_driver::{Destination, Packet};

use super::layout::{Layout, SlotMemory};
use crate::flags::BadFlag;
use crate::ring::{announce_sleep, prefetch};
use crate::segment::Mapping;
use crate::stamps::{stamp, stamped};

/// Slots are posted in groups of this many, one cache line of posts, unless the peer is about to run out.
const POST_BATCH: usize = 8;

/// Memory of packets that were out when their driver ended. They may be read for ever: then so must the memory live. It
/// is kept here and not just forgotten, so that what looks for leaks finds an owner.
static LENT_FOR_EVER: Mutex<Vec<Arc<Mapping>>> = Mutex::new(Vec::new());

/// What was found.
pub enum Arrival {
    /// A packet, on loan.
    Packet(Packet),
    /// Nothing has come.
    Nothing,
    /// Nothing can come: the caller holds all slots.
    Exhausted,
}

/// The receiving end of a connection.
#[derive(Debug)]
pub struct Inlet {
    memory: SlotMemory,
    /// In which slot each packet will be, by its post.
    posted_slots: Box<[u16]>,
    /// The number of the next packet.
    received: u64,
    /// How many packets the peer may have sent in all.
    posted: u64,
    /// Slots that came back and are not posted yet.
    free: Vec<u16>,
    held: Box<[bool]>,
    held_count: usize,
}

impl Inlet {
    /// The receiving end in a segment of ours that was made for this layout; all slots are free.
    pub fn new(mapping: Arc<Mapping>, layout: Layout) -> Self {
        let memory = SlotMemory::new(mapping, layout).expect("our segment was made for our layout");
        let mut posted_slots = vec![0; layout.slots.next_power_of_two()].into_boxed_slice();
        (0..layout.slots).for_each(|slot| posted_slots[slot] = slot as u16);
        Self {
            memory,
            posted_slots,
            received: 0,
            posted: layout.slots as u64,
            free: Vec::with_capacity(layout.slots),
            held: vec![false; layout.slots].into_boxed_slice(),
            held_count: 0,
        }
    }

    /// The next packet, as one from `source` whose number for its caller is `number` plus that of its slot.
    #[inline]
    pub fn receive(&mut self, source: Destination, number: u32) -> Result<Arrival, BadFlag> {
        if self.received == self.posted {
            return Ok(Arrival::Exhausted);
        }
        let layout = self.memory.layout;
        let slot = self.posted_slots[layout.post_index(self.received)];
        let at = layout.slot_at(usize::from(slot));
        let Some(length) = stamped(&self.memory, at, self.received)? else { return Ok(Arrival::Nothing) };
        if usize::from(length) > layout.mtu_bytes {
            return Err(BadFlag);
        }
        self.received += 1;
        self.held[usize::from(slot)] = true;
        self.held_count += 1;
        self.post_if_due();
        let start = self.memory.packet(usize::from(slot));
        // SAFETY: the length was read once and checked against the MTU, for which the slot has room. Memory of a
        // segment is initialised. We do not write to it, nor let a correct peer do so, until the slot is released; and
        // the mapping lives as long as that takes: `drop` keeps it for ever when packets are out.
        let packet = unsafe { Packet::from_raw(start, u32::from(length), source, number + u32::from(slot)) };
        prefetch(&packet);
        Ok(Arrival::Packet(packet))
    }

    /// Takes a slot back.
    ///
    /// # Panics
    /// When no packet is out in it.
    #[inline]
    pub fn release(&mut self, slot: usize) {
        let held = self.held.get_mut(slot).filter(|held| **held);
        *held.expect("a packet goes back to the driver that lent it, once") = false;
        self.held_count -= 1;
        self.free.push(slot as u16);
        self.post_if_due();
    }

    /// Whether packets of this connection are out.
    pub fn is_lending(&self) -> bool {
        self.held_count > 0
    }

    /// Announces that our owner sleeps, or that it is awake.
    pub fn announce_sleep(&self, asleep: bool) {
        announce_sleep(&self.memory.mapping, asleep);
    }

    /// Posts a group of free slots, or any that there are when the peer is about to run out: a slot kept back would
    /// otherwise be lost for as long as the caller holds the others.
    #[inline]
    fn post_if_due(&mut self) {
        let unused = (self.posted - self.received) as usize;
        if self.free.len() >= POST_BATCH || (unused < POST_BATCH && !self.free.is_empty()) {
            self.post();
        }
    }

    fn post(&mut self) {
        let layout = self.memory.layout;
        for slot in self.free.drain(..) {
            self.posted_slots[layout.post_index(self.posted)] = slot;
            // The stamp's release orders our caller's reads of the slot before the peer's next writes to it.
            stamp(&self.memory, layout.post_at(self.posted), self.posted, slot);
            self.posted += 1;
        }
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        if self.is_lending() {
            LENT_FOR_EVER
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(Arc::clone(&self.memory.mapping));
        }
    }
}
