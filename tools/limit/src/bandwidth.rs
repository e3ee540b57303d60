//! How many bytes a second one core can pass to another.
//!
//! With *one copy* the producer copies each message from memory of its own into shared memory and the
//! consumer reads all of it there: what a transport does that hands payloads out in place. With *two copies*
//! the consumer copies it out to memory of its own. A message that is read in place must lie in one piece, so
//! it fills a slot; one that is copied out may be cut into chunks, which stay in the faster caches. Which
//! number and length of slots is best is found by trying.

#![expect(unsafe_code, reason = "the pipe's ends state their conditions as unsafe functions")]

use core::hint::black_box;
use core::time::Duration;

use crate::latency::Stream;
use crate::pair::run_pair;
use crate::pipe::{Pipe, PipeShape, Writes};
use crate::reading::read_every_word;
use crate::{CorePair, Effort, LimitError};

/// The lengths of messages that can be streamed, in bytes.
const MESSAGE_BYTES: core::ops::RangeInclusive<usize> = 64..=1 << 26;

/// Lengths of chunks worth a trial where messages are cut.
const CHUNKS_BYTES: [usize; 4] = [4096, 8192, 16384, 65536];

/// Numbers of slots worth a trial.
const SLOTS: [usize; 4] = [2, 4, 16, 64];

/// How many are enough where no lines stay in caches.
const SLOTS_NONTEMPORAL: usize = 4;

/// So much shared memory is worth a trial, too: more than a core's own caches hold, so that what was written
/// longest ago lies in one that both cores reach.
const LONG_RING_BYTES: usize = 1 << 22;

/// More shared memory than this is never faster.
const RING_BYTES_MAX: usize = 1 << 24;

/// How long each layout is tried before one is chosen, once its memory was touched.
const TRIAL: Effort = Effort { warmup: Duration::from_millis(2), measure: Duration::from_millis(5) };

/// How often the bytes are copied on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// Copied in by the producer, read in place by the consumer.
    One,
    /// Copied in by the producer, copied out by the consumer.
    Two,
}

/// One way to stream messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandwidthPlan {
    /// Length of each message.
    pub message_bytes: usize,
    /// How often it is copied.
    pub copies: Copies,
    /// Messages longer than this are cut.
    pub chunk_bytes: usize,
    /// How many chunks can be in flight; a power of two.
    pub slots: usize,
    /// How the producer writes. It has no time to regain lines ahead.
    pub writes: Writes,
}

/// A stream's rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// How many messages were passed.
    pub messages: u64,
    /// Payload bytes per second.
    pub bytes_per_second: f64,
}

/// The fastest layout for messages of this length, found by short trials of all that are worth one.
pub fn best_bandwidth_plan(
    cores: CorePair,
    message_bytes: usize,
    copies: Copies,
) -> Result<BandwidthPlan, LimitError> {
    let chunks: Vec<usize> = match copies {
        Copies::One => vec![message_bytes],
        Copies::Two => {
            CHUNKS_BYTES.into_iter().filter(|&c| c < message_bytes).chain([message_bytes]).collect()
        }
    };
    let mut best: Option<(f64, BandwidthPlan)> = None;
    for chunk_bytes in chunks {
        let plan = |slots, writes| BandwidthPlan { message_bytes, copies, chunk_bytes, slots, writes };
        let many = (LONG_RING_BYTES / chunk_bytes).next_power_of_two();
        let numbers = SLOTS.into_iter().chain((many > SLOTS[SLOTS.len() - 1]).then_some(many));
        let plain = numbers.map(|slots| plan(slots, Writes::Plain));
        for plan in plain.chain([plan(SLOTS_NONTEMPORAL, Writes::NonTemporal)]) {
            if plan.slots > SLOTS[0] && chunk_bytes * plan.slots > RING_BYTES_MAX {
                continue;
            }
            let rate = stream(cores, plan, TRIAL)?.bytes_per_second;
            if best.is_none_or(|(highest, _)| rate > highest) {
                best = Some((rate, plan));
            }
        }
    }
    Ok(best.expect("the smallest number of slots is always tried").1)
}

/// Streams messages and measures the rate at which they are consumed.
pub fn stream(cores: CorePair, plan: BandwidthPlan, effort: Effort) -> Result<Bandwidth, LimitError> {
    LimitError::check_size("a streamed message", plan.message_bytes, MESSAGE_BYTES)?;
    let shape =
        PipeShape { chunk_bytes: plan.chunk_bytes, slots: plan.slots, credits: true, writes: plan.writes };
    let mut pipe = Pipe::new(shape)?;
    let (mut sender, mut receiver) = pipe.ends();
    let producer = move || {
        let message = vec![1; plan.message_bytes];
        let mut run = |lasting| {
            let stream = Stream::start(lasting);
            let mut messages = 0_u64;
            while messages == 0 || !stream.finished() {
                // SAFETY: the pipe has credits.
                unsafe { sender.send(black_box(&message)) };
                messages += 1;
            }
            sender.drain();
            (messages, stream.seconds())
        };
        run(effort.warmup);
        let (messages, seconds) = run(effort.measure);
        // SAFETY: the pipe has credits.
        unsafe { sender.stop() };
        Bandwidth { messages, bytes_per_second: (messages * plan.message_bytes as u64) as f64 / seconds }
    };
    let consumer = move || match plan.copies {
        Copies::One => {
            while receiver.read(plan.message_bytes, |chunk| _ = black_box(read_every_word(chunk))) {}
        }
        Copies::Two => {
            let mut message = vec![0; plan.message_bytes];
            while receiver.receive(&mut message) {
                black_box(&message);
            }
        }
    };
    Ok(run_pair(cores, producer, consumer)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Effort = Effort { warmup: Duration::ZERO, measure: Duration::from_millis(1) };

    #[test]
    fn messages_stream_in_pieces_and_whole() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        for (message_bytes, chunk_bytes) in [(64, 64), (10_240, 4096), (1 << 20, 1 << 20), (100_000, 65_536)]
        {
            for copies in [Copies::One, Copies::Two] {
                for writes in [Writes::Plain, Writes::NonTemporal] {
                    let plan = BandwidthPlan { message_bytes, copies, chunk_bytes, slots: 4, writes };
                    let bandwidth = stream(cores, plan, SHORT).expect("the loops run");
                    assert!(bandwidth.messages >= 1 && bandwidth.bytes_per_second > 0.0);
                }
            }
        }
    }

    #[test]
    fn a_message_that_is_read_in_place_is_not_cut() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        let plan = best_bandwidth_plan(cores, 65_536, Copies::One).expect("the loops run");
        assert_eq!(plan.chunk_bytes, 65_536);
    }
}
