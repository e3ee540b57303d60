//! How many short messages a second one core can pass to another.
//!
//! Two rings compete. In the *self-flagged* ring each slot holds the number of its message beside the
//! payload, and nothing else is shared but a consumer position that is written now and then. In the *indexed*
//! ring payloads lie packed, and the producer publishes its position once a batch. Which one is faster
//! depends on the length of the payload and on the machine, so both are measured and the better one is the
//! limit.

mod flagged;
mod indexed;
mod slots;

use core::time::Duration;

use crate::pair::run_pair;
use crate::{CorePair, Effort, LimitError};
use slots::Ring;

/// The lengths of payloads for which the rate is known.
pub const RING_PAYLOADS_BYTES: [usize; 4] = [8, 16, 32, 64];

/// The producer reads the clock once for this many messages; a multiple of every batch.
const CLOCK_EVERY: u64 = 4096;

/// How long each variant is tried before one is chosen.
const TRIAL: Effort = Effort { warmup: Duration::from_millis(1), measure: Duration::from_millis(10) };

/// Messages of one publication at most.
const BATCH_MAX: u64 = 64;

/// The flag or position that ends the stream.
const STOPPED: u64 = u64::MAX;

/// How messages are made visible to the consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingVariant {
    /// Each slot carries the number of its message.
    SelfFlagged,
    /// A position is published for this many messages at a time; a power of two up to 64.
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

/// The rate of one variant for payloads of `payload_bytes`, one of [`RING_PAYLOADS_BYTES`]. The producer
/// copies each payload in; the consumer copies it out and looks at its first word.
pub fn ring_rate(
    cores: CorePair,
    payload_bytes: usize,
    variant: RingVariant,
    effort: Effort,
) -> Result<RingRate, LimitError> {
    if let RingVariant::Indexed { batch } = variant
        && !(batch.is_power_of_two() && batch <= BATCH_MAX)
    {
        return Err(LimitError::Batch { batch });
    }
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
    fn other_batches_are_refused() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        for batch in [0, 3, 128] {
            let outcome = ring_rate(cores, 8, RingVariant::Indexed { batch }, SHORT);
            assert_eq!(outcome, Err(LimitError::Batch { batch }));
        }
    }

    #[test]
    fn other_lengths_are_refused() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        let outcome = ring_rate(cores, 24, RingVariant::SelfFlagged, SHORT);
        assert!(matches!(outcome, Err(LimitError::Size { bytes: 24, .. })));
    }
}
