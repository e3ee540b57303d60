//! The rate of tagged messages from one process to another, in the variants of GHEX's benchmarks.
//!
//! Rank 0 sends a number of messages to rank 1, each of both with one or more threads that have an endpoint
//! each. Thread by thread, a number of *slots* is kept in flight: messages of a slot have its number as their
//! tag, and both sides know how many there will be. Time is taken by the receiver, from the signal that it is
//! ready to the last message.
//!
//! Processes exist for one measurement, as those of [`exchange`](crate::run::exchange) do.

mod cell;
mod cluster;
mod raw;
mod receive;
mod send;
mod work;

use core::time::Duration;
use std::collections::BTreeMap;

use farcall::{ReceiveError, SendError, Tag};
use farcall_base::seed_of_stream;
use serde::{Deserialize, Serialize};

use crate::explain::trace::TracedMessages;
use crate::run::losses::Losses;

pub use cell::{RateCell, RateLine};
pub(crate) use cluster::run_by;
pub use cluster::{MessageRateError, run, run_on};
pub use raw::Raw;
pub use work::{WORKER_COMMAND, work};

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageRate {
    /// The transport's name, such as `ring+shm`.
    pub transport: String,
    /// Parameters, each as `name=value`.
    pub settings: Vec<String>,
    /// How sends and receives complete.
    pub mode: Mode,
    /// Bytes of each message.
    pub message_bytes: usize,
    /// Sends and receives that each thread keeps in flight.
    pub in_flight: usize,
    /// Messages of all threads together.
    pub messages: u64,
    /// Threads of each process.
    pub threads: usize,
    /// Measure the library itself instead, with completions found in this way.
    pub raw: Option<Raw>,
    /// Trace the messages, those of a warm-up left out.
    pub traced: bool,
    /// How long the receiver works on each message.
    pub handler: Duration,
    /// The longest that the measurement may last.
    pub lasting: Duration,
    /// What faults draw follows it.
    pub seed: u64,
}

impl MessageRate {
    /// The same in a block of that number, with draws of its own.
    pub fn of_block(&self, block: u64) -> Self {
        Self { seed: seed_of_stream(self.seed, block), ..self.clone() }
    }
}

/// How sends and receives complete, and when the next ones are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Each slot has a future; those that are complete are posted again, round after round.
    Futures,
    /// All slots are posted with callbacks, which run at once if they can; when all are complete, all are
    /// posted again.
    Callbacks,
    /// As `Callbacks`, but none runs at once: what has ended when it is posted is reaped, as by a caller that
    /// must not be interrupted.
    CallbacksReaped,
    /// As `Callbacks`, each slot as it becomes free. Polls come where those of `Futures` do.
    CallbacksAvailable,
    /// As `CallbacksAvailable`, and receives are posted again by their own callbacks.
    CallbacksResubmit,
    /// As `CallbacksAvailable`, with a buffer lent for each message, which the library owns until it is sent.
    Dynamic,
    /// Slots are posted with numbers that come back as events, those of sends that ended at once without a
    /// poll.
    Pointer,
    /// The receiver has a handler and posts nothing: there is no matching. Sends are waited for as with
    /// futures.
    Handler,
}

farcall_base::named!(Mode:
    Futures = "futures",
    Callbacks = "callbacks",
    CallbacksReaped = "callbacks-reaped",
    CallbacksAvailable = "callbacks-avail",
    CallbacksResubmit = "callbacks-resubmit",
    Dynamic = "dynamic",
    Pointer = "pointer",
    Handler = "handler",
);

impl Mode {
    /// Whether a slot waits until all are free.
    const fn is_in_rounds(self) -> bool {
        matches!(self, Self::Callbacks | Self::CallbacksReaped)
    }

    /// Whether no callback runs at once.
    const fn reaps(self) -> bool {
        matches!(self, Self::CallbacksReaped)
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRateResult {
    /// From the signal that the receiver is ready to the last message; of several threads the slowest.
    pub elapsed: Duration,
    /// Messages that were received.
    pub messages: u64,
    /// What fell meanwhile, at both sides.
    pub losses: Losses,
    /// What the sender found of itself.
    pub sender: SideFound,
    /// What the receiver did.
    pub receiver: SideFound,
    /// The newest of them, if they were traced.
    pub traced: Option<TracedMessages>,
}

/// What one side found of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideFound {
    /// What its counters counted; those that did not move are left out.
    pub counters: BTreeMap<String, u64>,
    /// The share of the time in which its busiest thread had nothing to do; only of traced messages, because
    /// it takes looks at the clock.
    pub idle: Option<f64>,
    /// The share of the time in which the thread that waited the most for a core did; `None` where the kernel
    /// does not tell.
    pub waited: Option<f64>,
}

/// Says that the receiver has posted its receives and its clock runs.
const READY: Tag = Tag(u32::MAX);

/// Says that the last message has arrived.
const RECEIVED: Tag = Tag(u32::MAX - 1);

/// This many messages, however short, walk once through a ring of 4 MB, whose pages are touched for the first
/// time then.
const WARM_UP_MESSAGES_MIN: u64 = 250_000;

/// The messages of each slot of a thread.
#[derive(Clone, Copy, Debug)]
struct Share {
    message_bytes: usize,
    /// How long the receiver works on each.
    handler: Duration,
    slots: usize,
    messages: u64,
    /// Messages that each slot has at least. Loops ask for each message, so nothing is divided there.
    each: u64,
    /// The first slots have one more.
    with_one_more: usize,
}

impl Share {
    /// So many messages of a measurement, among the slots of a thread, which are one or more.
    fn new(rate: &MessageRate, messages: u64) -> Self {
        Self {
            message_bytes: rate.message_bytes,
            handler: rate.handler,
            ..Self::among(rate.in_flight, messages)
        }
    }

    fn among(slots: usize, messages: u64) -> Self {
        let (each, rest) = (messages / slots as u64, messages % slots as u64);
        Self {
            message_bytes: 0,
            handler: Duration::ZERO,
            slots,
            messages,
            each,
            with_one_more: rest as usize,
        }
    }

    /// A tenth of the messages, but [`WARM_UP_MESSAGES_MIN`] and one for each slot at least, to begin with.
    fn warm_up(&self) -> Self {
        let messages = (self.messages / 10).max(WARM_UP_MESSAGES_MIN.min(self.messages));
        let Self { message_bytes, handler, slots, .. } = *self;
        Self { message_bytes, handler, ..Self::among(slots, messages.max(slots as u64)) }
    }

    /// How many messages a slot has.
    #[inline]
    fn of_slot(&self, slot: usize) -> u64 {
        self.each + u64::from(slot < self.with_one_more)
    }

    /// Slots that have messages at all.
    fn used_slots(&self) -> usize {
        self.slots.min(usize::try_from(self.messages).unwrap_or(usize::MAX))
    }
}

/// The tag of a slot's messages.
fn tag_of(slot: usize) -> Tag {
    Tag(slot as u32)
}

/// Writes a message's number to its beginning: all of the word there, if there is one. The sender reads
/// words, and one of which a byte was written a moment ago is read with a stall that no program has which
/// fills its messages.
#[inline]
fn write_number(message: &mut [u8], number: u64) {
    if let Some(word) = message.first_chunk_mut() {
        *word = number.to_le_bytes();
    } else if let Some(first) = message.first_mut() {
        *first = number as u8;
    }
}

/// Why the messages of a thread did not all arrive.
#[derive(Debug, thiserror::Error)]
enum LoopError {
    #[error("a message could not be sent: {0}")]
    Send(#[from] SendError),
    #[error("a message could not be received: {0}")]
    Receive(#[from] ReceiveError),
    #[error("no memory could be lent: {0}")]
    Loan(#[from] farcall::LoanError),
    #[error("a message had the wrong length or came out of order")]
    Wrong,
    #[error("the messages did not arrive within {0:?}; send fewer, or allow more time")]
    TimedOut(Duration),
}
