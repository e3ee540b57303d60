//! The memory of a ring, and the consumer's position that both kinds of ring share.

#![expect(
    unsafe_code,
    reason = "the bytes of a slot change hands by a flag or a position that the compiler cannot see"
)]

use core::sync::atomic::{AtomicU64, Ordering};

use super::RingVariant;
use crate::LimitError;
use crate::latency::Stream;
use crate::memory::{LINE_PAIR_BYTES, SharedMemory};

/// Slots in either ring: enough for the two sides to drift apart while a line is on its way between distant
/// cores.
const SLOTS: u64 = 4096;

/// The memory of either ring, for payloads of `WORDS` words.
pub(super) struct Ring<const WORDS: usize> {
    memory: SharedMemory,
    stride_bytes: usize,
}

impl<const WORDS: usize> Ring<WORDS> {
    pub(super) fn new(variant: RingVariant) -> Result<Self, LimitError> {
        let payload_bytes = WORDS * 8;
        let stride_bytes = match variant {
            // Powers of two, so that no slot crosses a line that it need not cross.
            RingVariant::SelfFlagged => (payload_bytes + 8).next_power_of_two(),
            RingVariant::Indexed { .. } => payload_bytes,
        };
        let memory = SharedMemory::new(SLOTS as usize * stride_bytes + 4 * LINE_PAIR_BYTES)?;
        Ok(Self { memory, stride_bytes })
    }

    pub(super) fn slots(&self) -> *mut u8 {
        self.memory.bytes_at(0, SLOTS as usize * self.stride_bytes)
    }

    pub(super) fn consumed(&self) -> &AtomicU64 {
        self.memory.word(SLOTS as usize * self.stride_bytes + LINE_PAIR_BYTES)
    }

    pub(super) fn produced(&self) -> &AtomicU64 {
        self.memory.word(SLOTS as usize * self.stride_bytes + 2 * LINE_PAIR_BYTES)
    }

    /// The slot of a message.
    ///
    /// # Safety
    /// `slots` must come from [`Ring::slots`].
    #[inline(always)]
    pub(super) unsafe fn slot(&self, slots: *mut u8, message: u64) -> *mut u8 {
        // SAFETY: the index is below `SLOTS`, and the caller promises the base.
        unsafe { slots.add((message & (SLOTS - 1)) as usize * self.stride_bytes) }
    }

    /// Waits until the consumer is less than a ring behind `next`.
    #[inline(always)]
    pub(super) fn await_room(&self, next: u64, seen: &mut u64) {
        while next - *seen > SLOTS {
            *seen = self.consumed().load(Ordering::Acquire);
        }
    }

    /// Waits until everything is consumed; returns the number of messages and the seconds they took.
    pub(super) fn finish(&self, sent: u64, stream: &Stream) -> (u64, f64) {
        while self.consumed().load(Ordering::Acquire) != sent {}
        (sent, stream.seconds())
    }
}
