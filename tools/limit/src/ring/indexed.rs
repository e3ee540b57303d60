//! The indexed ring: packed payloads, and a position that the producer publishes once a batch.

#![expect(
    unsafe_code,
    reason = "the bytes of a slot change hands by a flag or a position that the compiler cannot see"
)]

use core::hint::black_box;
use core::sync::atomic::Ordering;
use core::time::Duration;

use super::slots::Ring;
use super::{CLOCK_EVERY, STOPPED};
use crate::latency::Stream;

impl<const WORDS: usize> Ring<WORDS> {
    pub(super) fn produce_indexed(&self, batch: u64, lasting: Duration) -> (u64, f64) {
        let (slots, source) = (self.slots(), [1_u64; WORDS]);
        let stream = Stream::start(lasting);
        let (mut sent, mut seen) = (0, 0);
        while !(sent % CLOCK_EVERY == 0 && sent > 0 && stream.finished()) {
            self.await_room(sent + batch, &mut seen);
            for message in sent..sent + batch {
                // SAFETY: the slot lies in the ring and belongs to the producer: the consumer is past it
                // (just awaited) and comes to it again only after the position below has passed it.
                unsafe { self.slot(slots, message).cast::<[u64; WORDS]>().write(*black_box(&source)) };
            }
            sent += batch;
            self.produced().store(sent, Ordering::Release);
        }
        while self.consumed().load(Ordering::Acquire) != sent {}
        self.produced().store(STOPPED, Ordering::Release);
        self.finish(sent, &stream)
    }

    pub(super) fn consume_indexed(&self) -> u64 {
        let slots = self.slots();
        let mut received = 0;
        loop {
            let produced = match self.produced().load(Ordering::Acquire) {
                STOPPED => return received,
                produced if produced == received => continue,
                produced => produced,
            };
            for message in received..produced {
                // SAFETY: the position says that the payload was written; it is not again before `consumed`
                // passes it.
                black_box(unsafe { self.slot(slots, message).cast::<[u64; WORDS]>().read() });
            }
            received = produced;
            self.consumed().store(received, Ordering::Release);
        }
    }
}
