//! How many short messages a second one core can pass to another.
//!
//! Two rings compete. In the *self-flagged* ring each slot holds the number of its message beside the payload, and
//! nothing else is shared but a consumer position that is written now and then. In the *indexed* ring payloads lie
//! packed, and the producer publishes its position once a batch. Which one is faster depends on the length of the
//! payload and on the machine, so both are measured and the better one is the limit.

#![expect(
    unsafe_code,
    reason = "the bytes of a slot change hands by a flag or a position that the compiler cannot see"
)]

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use crate::latency::Stream;
use crate::memory::{LINE_PAIR_BYTES, SharedMemory};
use crate::pair::run_pair;
use crate::{CorePair, Effort, LimitError};

/// The lengths of payloads for which the rate is known.
pub const RING_PAYLOADS_BYTES: [usize; 4] = [8, 16, 32, 64];

/// Slots in either ring: enough for the two sides to drift apart while a line is on its way between distant cores.
const SLOTS: u64 = 4096;

/// The consumer of the self-flagged ring shows its position once for so many messages.
const POSITION_EVERY: u64 = 128;

/// The producer reads the clock once for so many messages; a multiple of every batch.
const CLOCK_EVERY: u64 = 4096;

/// How long each variant is tried before one is chosen.
const TRIAL: Effort = Effort { warmup: Duration::from_millis(1), measure: Duration::from_millis(10) };

/// The flag or position that ends the stream.
const STOPPED: u64 = u64::MAX;

/// How messages are made visible to the consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingVariant {
    /// Each slot carries the number of its message.
    SelfFlagged,
    /// A position is published for so many messages at a time; a power of two up to 64.
    Indexed {
        /// Messages for each publication.
        batch: u64,
    },
}

impl RingVariant {
    /// All that are worth measuring.
    pub const ALL: [Self; 4] = [
        Self::SelfFlagged,
        Self::Indexed { batch: 1 },
        Self::Indexed { batch: 16 },
        Self::Indexed { batch: 64 },
    ];
}

/// A rate of messages, one producer to one consumer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RingRate {
    /// How they were passed.
    pub variant: RingVariant,
    /// How many were passed.
    pub messages: u64,
    /// Messages passed and consumed per second.
    pub messages_per_second: f64,
}

/// The fastest variant for payloads of `payload_bytes`, found by short trials of all.
pub fn best_ring_variant(cores: CorePair, payload_bytes: usize) -> Result<RingVariant, LimitError> {
    let mut best = (0.0, RingVariant::SelfFlagged);
    for variant in RingVariant::ALL {
        let rate = ring_rate(cores, payload_bytes, variant, TRIAL)?.messages_per_second;
        if rate > best.0 {
            best = (rate, variant);
        }
    }
    Ok(best.1)
}

/// The rate of one variant for payloads of `payload_bytes`, one of [`RING_PAYLOADS_BYTES`]. The producer copies each
/// payload in; the consumer copies it out and looks at its first word.
pub fn ring_rate(
    cores: CorePair,
    payload_bytes: usize,
    variant: RingVariant,
    effort: Effort,
) -> Result<RingRate, LimitError> {
    let run = match payload_bytes {
        8 => rate_of::<1>,
        16 => rate_of::<2>,
        32 => rate_of::<4>,
        64 => rate_of::<8>,
        bytes => return Err(LimitError::Size { what: "a ring payload", bytes, bytes_min: 8, bytes_max: 64 }),
    };
    run(cores, variant, effort.warmup)?;
    let (messages, seconds) = run(cores, variant, effort.measure)?;
    Ok(RingRate { variant, messages, messages_per_second: messages as f64 / seconds })
}

/// Passes payloads of `WORDS` words for a while; returns how many, and in how many seconds.
fn rate_of<const WORDS: usize>(
    cores: CorePair,
    variant: RingVariant,
    lasting: Duration,
) -> Result<(u64, f64), LimitError> {
    let ring = Ring::<WORDS>::new(variant)?;
    let (found, consumed) = match variant {
        RingVariant::SelfFlagged => {
            run_pair(cores, || ring.produce_flagged(lasting), || ring.consume_flagged())?
        }
        RingVariant::Indexed { batch } => {
            assert!(
                batch.is_power_of_two() && batch <= 64,
                "a batch divides the ring and the clock interval"
            );
            run_pair(cores, || ring.produce_indexed(batch, lasting), || ring.consume_indexed())?
        }
    };
    assert_eq!(found.0, consumed, "every message is consumed once");
    Ok(found)
}

/// The memory of either ring.
struct Ring<const WORDS: usize> {
    memory: SharedMemory,
    stride_bytes: usize,
}

impl<const WORDS: usize> Ring<WORDS> {
    fn new(variant: RingVariant) -> Result<Self, LimitError> {
        let payload_bytes = WORDS * 8;
        let stride_bytes = match variant {
            // Powers of two, so that no slot crosses a line that it need not cross.
            RingVariant::SelfFlagged => (payload_bytes + 8).next_power_of_two(),
            RingVariant::Indexed { .. } => payload_bytes,
        };
        let memory = SharedMemory::new(SLOTS as usize * stride_bytes + 4 * LINE_PAIR_BYTES)?;
        Ok(Self { memory, stride_bytes })
    }

    fn slots(&self) -> *mut u8 {
        self.memory.bytes_at(0, SLOTS as usize * self.stride_bytes)
    }

    fn consumed(&self) -> &AtomicU64 {
        self.memory.word(SLOTS as usize * self.stride_bytes + LINE_PAIR_BYTES)
    }

    fn produced(&self) -> &AtomicU64 {
        self.memory.word(SLOTS as usize * self.stride_bytes + 2 * LINE_PAIR_BYTES)
    }

    /// The slot of a message.
    ///
    /// # Safety
    /// `slots` must come from [`Ring::slots`].
    #[inline(always)]
    unsafe fn slot(&self, slots: *mut u8, message: u64) -> *mut u8 {
        // SAFETY: the index is below `SLOTS`, and the caller promises the base.
        unsafe { slots.add((message & (SLOTS - 1)) as usize * self.stride_bytes) }
    }

    /// Waits until the consumer is less than a ring behind `next`.
    #[inline(always)]
    fn await_room(&self, next: u64, seen: &mut u64) {
        while next - *seen > SLOTS {
            *seen = self.consumed().load(Ordering::Acquire);
        }
    }

    fn produce_flagged(&self, lasting: Duration) -> (u64, f64) {
        let (slots, source) = (self.slots(), [1_u64; WORDS]);
        let stream = Stream::start(lasting);
        let (mut sent, mut seen) = (0, 0);
        while !(sent % CLOCK_EVERY == 0 && sent > 0 && stream.finished()) {
            self.await_room(sent + 1, &mut seen);
            // SAFETY: the slot lies in the ring, is aligned to 16 bytes, has room for flag and payload, and belongs to
            // the producer: the consumer is past it (just awaited) and looks at its payload only after the flag.
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

    fn consume_flagged(&self) -> u64 {
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
            // SAFETY: the flag says that the payload was written; it is not again before `consumed` passes it.
            black_box(unsafe { slot.add(8).cast::<[u64; WORDS]>().read() });
            received += 1;
            if received % POSITION_EVERY == 0 {
                self.consumed().store(received, Ordering::Release);
            }
        }
    }

    fn produce_indexed(&self, batch: u64, lasting: Duration) -> (u64, f64) {
        let (slots, source) = (self.slots(), [1_u64; WORDS]);
        let stream = Stream::start(lasting);
        let (mut sent, mut seen) = (0, 0);
        while !(sent % CLOCK_EVERY == 0 && sent > 0 && stream.finished()) {
            self.await_room(sent + batch, &mut seen);
            for message in sent..sent + batch {
                // SAFETY: the slot lies in the ring and belongs to the producer: the consumer is past it (just
                // awaited) and comes to it again only after the position below has passed it.
                unsafe { self.slot(slots, message).cast::<[u64; WORDS]>().write(*black_box(&source)) };
            }
            sent += batch;
            self.produced().store(sent, Ordering::Release);
        }
        while self.consumed().load(Ordering::Acquire) != sent {}
        self.produced().store(STOPPED, Ordering::Release);
        self.finish(sent, &stream)
    }

    fn consume_indexed(&self) -> u64 {
        let slots = self.slots();
        let mut received = 0;
        loop {
            let produced = match self.produced().load(Ordering::Acquire) {
                STOPPED => return received,
                produced if produced == received => continue,
                produced => produced,
            };
            for message in received..produced {
                // SAFETY: the position says that the payload was written; it is not again before `consumed` passes it.
                black_box(unsafe { self.slot(slots, message).cast::<[u64; WORDS]>().read() });
            }
            received = produced;
            self.consumed().store(received, Ordering::Release);
        }
    }

    /// Waits until everything is consumed; returns the number of messages and the seconds they took.
    fn finish(&self, sent: u64, stream: &Stream) -> (u64, f64) {
        while self.consumed().load(Ordering::Acquire) != sent {}
        (sent, stream.seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Effort = Effort { warmup: Duration::ZERO, measure: Duration::from_millis(1) };

    #[test]
    fn every_variant_passes_every_length() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        for payload_bytes in RING_PAYLOADS_BYTES {
            for variant in RingVariant::ALL {
                let rate = ring_rate(cores, payload_bytes, variant, SHORT).expect("the loops run");
                assert_eq!(rate.variant, variant);
                assert!(rate.messages >= CLOCK_EVERY && rate.messages_per_second > 0.0);
            }
        }
    }

    #[test]
    fn other_lengths_are_refused() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        let outcome = ring_rate(cores, 24, RingVariant::SelfFlagged, SHORT);
        assert!(matches!(outcome, Err(LimitError::Size { bytes: 24, .. })));
    }
}
