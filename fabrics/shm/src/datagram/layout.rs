//! How packets lie in a segment: which slots are free for the peer, and the slots.
//!
//! ```text
//! control page | posts: one word each, a power of two of them | slots: flag word and packet, stride_bytes each
//! ```
//!
//! The segment belongs to the process that receives. The peer writes slots and reads posts; the owner writes posts and
//! reads slots. Strides are whole cache lines but never whole pages, so that the first lines of all slots spread over
//! the sets of the caches.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use farcall_driver::RECORD_ALIGN;

use crate::flags::Words;
use crate::ring_memory::CONTROL_BYTES;
use crate::segment::Mapping;

const WORD_BYTES: usize = 8;
const PAGE_BYTES: usize = 4096;

/// The geometry of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How many slots there are.
    pub slots: usize,
    /// The longest packet, in bytes.
    pub mtu_bytes: usize,
    /// Posts; a power of two, at least as many as slots.
    posts: usize,
    stride_bytes: usize,
}

impl Layout {
    /// The layout of so many slots for such packets; `None` when that is more than any memory.
    pub fn new(slots: usize, mtu_bytes: usize) -> Option<Self> {
        if slots == 0 || slots > usize::from(u16::MAX) || mtu_bytes > usize::from(u16::MAX) {
            return None;
        }
        let lines = (WORD_BYTES + mtu_bytes).next_multiple_of(RECORD_ALIGN);
        let stride_bytes = if lines.is_multiple_of(PAGE_BYTES) { lines + RECORD_ALIGN } else { lines };
        Some(Self { slots, mtu_bytes, posts: slots.next_power_of_two(), stride_bytes })
    }

    /// Bytes of the segment behind its control page: a power of two. What is never used costs no memory.
    pub fn ring_bytes(&self) -> usize {
        (self.slots_start() + self.slots * self.stride_bytes).next_power_of_two().max(PAGE_BYTES)
    }

    /// Which post says where the packet of this number goes.
    #[inline]
    pub fn post_index(&self, sequence: u64) -> usize {
        sequence as usize & (self.posts - 1)
    }

    /// The offset of that post.
    #[inline]
    pub fn post_at(&self, sequence: u64) -> usize {
        self.post_index(sequence) * WORD_BYTES
    }

    /// The offset of a slot's flag.
    #[inline]
    pub fn slot_at(&self, slot: usize) -> usize {
        self.slots_start() + slot * self.stride_bytes
    }

    fn slots_start(&self) -> usize {
        (self.posts * WORD_BYTES).next_multiple_of(RECORD_ALIGN)
    }
}

/// One direction's memory, mapped.
#[derive(Clone, Debug)]
pub struct SlotMemory {
    pub mapping: Arc<Mapping>,
    pub layout: Layout,
}

impl SlotMemory {
    /// The memory in a segment; `None` when the layout does not fit it.
    pub fn new(mapping: Arc<Mapping>, layout: Layout) -> Option<Self> {
        (mapping.len() >= CONTROL_BYTES + layout.ring_bytes()).then_some(Self { mapping, layout })
    }

    /// Where the packet in a slot begins.
    ///
    /// # Panics
    /// When there is no such slot.
    #[inline]
    pub fn packet(&self, slot: usize) -> core::ptr::NonNull<u8> {
        assert!(slot < self.layout.slots, "a slot of this memory");
        self.mapping.at(CONTROL_BYTES + self.layout.slot_at(slot) + WORD_BYTES, self.layout.mtu_bytes)
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(WORD_BYTES));
        // SAFETY: `at` checks that the word is inside the mapping; posts and slots are aligned, and the words at their
        // places are only ever accessed as atomics.
        unsafe { self.mapping.at(CONTROL_BYTES + offset, WORD_BYTES).cast().as_ref() }
    }
}

impl Words for SlotMemory {
    #[inline]
    fn load(&self, offset: usize, order: Ordering) -> u64 {
        self.word(offset).load(order)
    }

    #[inline]
    fn store(&self, offset: usize, value: u64, order: Ordering) {
        self.word(offset).store(value, order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posts_and_slots_do_not_overlap_and_fit() {
        for (slots, mtu_bytes) in [(1, 0), (16, 64), (100, 4080), (256, 8192), (4096, 65_535)] {
            let layout = Layout::new(slots, mtu_bytes).expect("a layout");
            let last_post = (0..slots as u64).map(|sequence| layout.post_at(sequence)).max().expect("posts");
            assert!(last_post + WORD_BYTES <= layout.slot_at(0));
            assert!(
                (0..slots - 1).all(|slot| layout.slot_at(slot) + 8 + mtu_bytes <= layout.slot_at(slot + 1))
            );
            assert!(layout.slot_at(slots - 1) + 8 + mtu_bytes <= layout.ring_bytes());
            assert!(
                !layout.stride_bytes.is_multiple_of(PAGE_BYTES) && layout.stride_bytes.is_multiple_of(64)
            );
        }
    }

    #[test]
    fn no_peer_can_ask_for_more_than_memory() {
        assert_eq!(Layout::new(0, 100), None);
        assert_eq!(Layout::new(usize::MAX, 100), None);
        assert_eq!(Layout::new(16, usize::MAX), None);
    }
}
