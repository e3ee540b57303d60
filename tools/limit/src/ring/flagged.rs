//! The self-flagged ring: each slot carries the number of its message.

#![expect(
    unsafe_code,
    reason = "the bytes of a slot change hands by a flag or a position that the compiler cannot see"
)]

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use super::slots::Ring;
use super::{CLOCK_EVERY, STOPPED};
use crate::latency::Stream;

/// The consumer shows its position once for this many messages.
const POSITION_EVERY: u64 = 128;

impl<const WORDS: usize> Ring<WORDS> {
    pub(super) fn produce_flagged(&self, lasting: Duration) -> (u64, f64) {
        let (slots, source) = (self.slots(), [1_u64; WORDS]);
        let stream = Stream::start(lasting);
        let (mut sent, mut seen) = (0, 0);
        while !(sent % CLOCK_EVERY == 0 && sent > 0 && stream.finished()) {
            self.await_room(sent + 1, &mut seen);
            // SAFETY: the slot lies in the ring, is aligned to 16 bytes, has room for flag and payload, and
            // belongs to the producer: the consumer is past it (just awaited) and looks at its payload only
            // after the flag.
            unsafe {
                let slot = self.slot(slots, sent);
                slot.add(8).cast::<[u64; WORDS]>().write(*black_box(&source));
                AtomicU64::from_ptr(slot.cast()).store(sent + 1, Ordering::Release);
            }
            sent += 1;
        }
        self.await_room(sent + 1, &mut seen);
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.slot(slots, sent).cast()) }.store(STOPPED, Ordering::Release);
        self.finish(sent, &stream)
    }

    pub(super) fn consume_flagged(&self) -> u64 {
        let slots = self.slots();
        let mut received = 0;
        loop {
            // SAFETY: the slot lies in the ring and is aligned; its first word is only accessed as an atomic.
            let (slot, flag) = unsafe {
                let slot = self.slot(slots, received);
                (slot, AtomicU64::from_ptr(slot.cast()))
            };
            let mut number = flag.load(Ordering::Acquire);
            while number != received + 1 && number != STOPPED {
                number = flag.load(Ordering::Acquire);
            }
            if number == STOPPED {
                self.consumed().store(received, Ordering::Release);
                return received;
            }
            // SAFETY: the flag says that the payload was written; it is not again before `consumed` passes
            // it.
            black_box(unsafe { slot.add(8).cast::<[u64; WORDS]>().read() });
            received += 1;
            if received % POSITION_EVERY == 0 {
                self.consumed().store(received, Ordering::Release);
            }
        }
    }
}
