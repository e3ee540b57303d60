//! The receive buffers: equal slots in one mapping, each lent as one or several packets.
//!
//! Pages come into being when a slot is first written, and free slots are reused last in, first out, so that
//! a driver with little traffic stays in cache whatever its bounds. A slot that carries several packets is
//! free when the last of them has come back.

use core::ops::Range;
use core::ptr::NonNull;
use std::io;

use farcall_driver::{Destination, Packet};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Slots start at multiples of this: a cache line, so that no two packets share one.
const SLOT_ALIGN: usize = 64;

/// The slots, and which of them are free.
pub struct Arena {
    base: NonNull<u8>,
    mapped_bytes: usize,
    stride_bytes: usize,
    slot_bytes: usize,
    /// Slots that hold no packet; the end is used first. Never grows beyond its first length.
    free: Vec<u32>,
    /// For each slot, how many of its packets are out or still to be lent; 0 for a free one.
    holds: Vec<u32>,
}

// SAFETY: the mapping belongs to the arena alone, apart from packets, which are read-only and may be
// anywhere.
unsafe impl Send for Arena {}

impl Arena {
    /// Maps `slots` slots of `slot_bytes` bytes.
    pub fn new(slots: usize, slot_bytes: usize) -> io::Result<Self> {
        let stride_bytes = slot_bytes.next_multiple_of(SLOT_ALIGN);
        let mapped_bytes = stride_bytes * slots;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else is affected.
        let base = unsafe {
            mmap_anonymous(core::ptr::null_mut(), mapped_bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address 0");
        let free = (0..slots as u32).rev().collect();
        Ok(Self { base, mapped_bytes, stride_bytes, slot_bytes, free, holds: vec![0; slots] })
    }

    /// Bytes that fit a slot.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// How many slots are free.
    pub fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Where the free slot that is `depth` away from the next one begins; the kernel may write there.
    ///
    /// # Panics
    /// When fewer slots are free.
    #[inline]
    pub fn free_slot(&self, depth: usize) -> NonNull<u8> {
        self.slot(self.free[self.free.len() - 1 - depth])
    }

    /// Takes the free slot that is `depth` away from the next one: it was written to. That changes the depth
    /// of those below it only, so a burst is claimed from its deepest slot up. The claim itself holds the
    /// slot.
    #[inline]
    pub fn claim(&mut self, depth: usize) -> u32 {
        let slot = self.free.remove(self.free.len() - 1 - depth);
        debug_assert_eq!(self.holds[slot as usize], 0, "a free slot has packets");
        self.holds[slot as usize] = 1;
        slot
    }

    /// Lends bytes of a claimed slot as a packet. The `last` packet of a slot takes over the claim.
    ///
    /// # Panics
    /// When they are not within a slot.
    ///
    /// # Safety
    /// The bytes must have been written, and not be written again while the slot is claimed.
    #[inline]
    pub unsafe fn lend(&mut self, slot: u32, bytes: Range<usize>, last: bool, source: Destination) -> Packet {
        assert!(
            bytes.start <= bytes.end && bytes.end <= self.slot_bytes,
            "a packet of a slot lies within it"
        );
        self.holds[slot as usize] += u32::from(!last);
        // SAFETY: within the slot, hence the mapping.
        let start = unsafe { self.slot(slot).add(bytes.start) };
        // SAFETY: the caller promises that the bytes are initialised and stay; the mapping lives while
        // packets are out, because dropping the arena then leaks it.
        unsafe { Packet::from_raw(start, bytes.len() as u32, source, slot) }
    }

    /// Takes a packet back.
    ///
    /// # Panics
    /// When it cannot be one of this arena's.
    #[inline]
    pub fn take_back(&mut self, packet: Packet) {
        self.let_go(packet.slot());
    }

    /// Gives up a claim without lending the last packet.
    ///
    /// # Panics
    /// When nothing holds the slot.
    #[inline]
    pub fn let_go(&mut self, slot: u32) {
        let holds = self.holds.get_mut(slot as usize).filter(|holds| **holds > 0);
        let holds = holds.expect("a packet goes back to the driver that lent it, once");
        *holds -= 1;
        if *holds == 0 {
            self.free.push(slot);
        }
    }

    #[inline]
    fn slot(&self, slot: u32) -> NonNull<u8> {
        debug_assert!((slot as usize) < self.holds.len());
        // SAFETY: slots are numbered below the count that the mapping was made for.
        unsafe { self.base.add(slot as usize * self.stride_bytes) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // A packet that is still out may be read for ever: then so must the mapping live.
        if self.free.len() == self.holds.len() {
            // SAFETY: no packet is out, and nothing else refers to the mapping, which is exactly this long.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), self.mapped_bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lend(arena: &mut Arena, slot: u32, bytes: Range<usize>, last: bool) -> Packet {
        // SAFETY: anonymous memory is zero from the start, and nobody writes it in these tests.
        unsafe { arena.lend(slot, bytes, last, Destination(0)) }
    }

    #[test]
    fn a_slot_is_free_when_the_last_of_its_packets_is_back() {
        let mut arena = Arena::new(2, 100).expect("memory");
        let slot = arena.claim(0);
        let first = lend(&mut arena, slot, 0..50, false);
        arena.take_back(first);
        assert_eq!(arena.free_slots(), 1, "its second packet is still to come");
        let second = lend(&mut arena, slot, 50..100, true);
        arena.take_back(second);
        assert_eq!(arena.free_slots(), 2);
    }

    #[test]
    fn the_slot_used_last_is_used_next() {
        let mut arena = Arena::new(3, 64).expect("memory");
        arena.claim(0);
        let slot = arena.claim(0);
        let packet = lend(&mut arena, slot, 0..64, true);
        arena.take_back(packet);
        assert_eq!(arena.claim(0), slot);
    }

    #[test]
    fn a_packet_outlives_its_arena() {
        let mut arena = Arena::new(1, 64).expect("memory");
        let slot = arena.claim(0);
        let packet = lend(&mut arena, slot, 0..64, true);
        drop(arena);
        assert_eq!(&*packet, [0; 64]);
    }

    #[test]
    #[should_panic(expected = "goes back to the driver that lent it")]
    fn a_strange_packet_is_not_taken() {
        let (mut one, mut other) = (Arena::new(1, 64).expect("memory"), Arena::new(1, 64).expect("memory"));
        let slot = one.claim(0);
        let packet = lend(&mut one, slot, 0..1, true);
        other.take_back(packet);
    }
}
