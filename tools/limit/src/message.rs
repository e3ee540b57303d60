//! The shortest time in which a message of given length can be answered by another one, over shared memory.
//!
//! Both messages are copied in by their sender and copied out by their receiver, and nothing else happens:
//! this is the cost of the cache lines that an echo has to move. Long messages are cut into chunks, so that
//! the receiver copies one chunk out while the sender copies the next one in; the cut that is fastest here is
//! found by trying.

#![expect(unsafe_code, reason = "sending without credits rests on the answers of a ping-pong")]

use core::time::Duration;

use crate::latency::Rounds;
use crate::pair::run_pair;
use crate::pipe::{Pipe, PipeShape, Writes};
use crate::{CorePair, Effort, Latency, LimitError};

/// The longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 28;

/// Messages up to this length are not cut: nothing is left to overlap.
const WHOLE_BYTES_MAX: usize = 1024;

/// Lengths of chunks worth a trial: below, flags cost more than overlap gains; above, caches overflow.
const CHUNKS_BYTES: [usize; 6] = [1024, 2048, 4096, 8192, 16384, 32768];

/// Numbers of slots worth a trial where lines stay in caches: in those of the peer, or where both find them.
const SLOTS: [usize; 4] = [4, 8, 16, 64];

/// How many are enough where no lines stay in caches.
const SLOTS_NONTEMPORAL: usize = 4;

/// How long each way is tried before one is chosen.
const TRIAL: Effort = Effort { warmup: Duration::from_millis(1), measure: Duration::from_millis(4) };

/// One way to exchange a request and a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePlan {
    /// Length of the request.
    pub request_bytes: usize,
    /// Length of the response.
    pub response_bytes: usize,
    /// Messages longer than this are cut.
    pub chunk_bytes: usize,
    /// How many chunks can be in flight, each way; a power of two.
    pub slots: usize,
    /// How each side writes. To regain lines ahead, while it waits, pays for messages of several lines:
    /// copying in then hits its own cache.
    pub writes: Writes,
}

impl MessagePlan {
    /// Both messages in one piece, each in the one slot of its direction.
    pub fn whole(request_bytes: usize, response_bytes: usize) -> Self {
        let chunk_bytes = request_bytes.max(response_bytes).max(1);
        Self { request_bytes, response_bytes, chunk_bytes, slots: 1, writes: Writes::Plain }
    }

    /// In two slots alternately, of which one is free while the other is filled.
    fn in_turns(self, writes: Writes) -> Self {
        Self { slots: 2, writes, ..self }
    }

    fn shape(&self, message_bytes: usize) -> PipeShape {
        let chunk_bytes = self.chunk_bytes.min(message_bytes.max(1));
        let chunks = message_bytes.div_ceil(chunk_bytes).max(1);
        let is_ahead = matches!(self.writes, Writes::FetchedAhead | Writes::StoredAhead);
        let slots = if is_ahead { self.slots } else { self.slots.min(chunks.next_power_of_two()) };
        PipeShape { chunk_bytes, slots, credits: chunks > slots, writes: self.writes }
    }
}

/// The fastest way to exchange messages of these lengths, found by short trials of all that are worth one.
pub fn best_message_plan(
    cores: CorePair,
    request_bytes: usize,
    response_bytes: usize,
) -> Result<MessagePlan, LimitError> {
    let whole = MessagePlan::whole(request_bytes, response_bytes);
    let mut plans = vec![whole, whole.in_turns(Writes::FetchedAhead), whole.in_turns(Writes::StoredAhead)];
    if whole.chunk_bytes > WHOLE_BYTES_MAX {
        plans.push(whole.in_turns(Writes::NonTemporal));
        for chunk_bytes in CHUNKS_BYTES.into_iter().filter(|&chunk_bytes| chunk_bytes < whole.chunk_bytes) {
            let cut = MessagePlan { chunk_bytes, ..whole };
            plans.extend(SLOTS.map(|slots| MessagePlan { slots, ..cut }));
            plans.push(MessagePlan { slots: SLOTS_NONTEMPORAL, writes: Writes::NonTemporal, ..cut });
        }
    }
    let mut best = (f64::INFINITY, whole);
    for plan in plans {
        let nanos = ping_pong(cores, plan, TRIAL)?.trimmed_mean_nanos;
        if nanos < best.0 {
            best = (nanos, plan);
        }
    }
    Ok(best.1)
}

/// Measures the round trip of a request and its response, as the initiator sees it.
pub fn ping_pong(cores: CorePair, plan: MessagePlan, effort: Effort) -> Result<Latency, LimitError> {
    LimitError::check_size("a request", plan.request_bytes, 0..=MESSAGE_BYTES_MAX)?;
    LimitError::check_size("a response", plan.response_bytes, 0..=MESSAGE_BYTES_MAX)?;
    let mut there = Pipe::new(plan.shape(plan.request_bytes))?;
    let mut back = Pipe::new(plan.shape(plan.response_bytes))?;
    let (mut request_out, mut request_in) = there.ends();
    let (mut response_out, mut response_in) = back.ends();
    let initiator = move || {
        let request = vec![1; plan.request_bytes];
        let mut response = vec![0; plan.response_bytes];
        let mut rounds = Rounds::new(effort);
        loop {
            // SAFETY: the response to the request before was received, so that request had been received.
            unsafe { request_out.send(&request) };
            response_in.receive(&mut response);
            if rounds.finished() {
                break;
            }
        }
        // SAFETY: as above.
        unsafe { request_out.stop() };
        rounds.into_latency()
    };
    let responder = move || {
        let mut request = vec![0; plan.request_bytes];
        let response = vec![2; plan.response_bytes];
        while request_in.receive(&mut request) {
            // SAFETY: the initiator sends a request only after it has received the response to the one
            // before.
            unsafe { response_out.send(&response) };
        }
    };
    Ok(run_pair(cores, initiator, responder)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Effort = Effort { warmup: Duration::ZERO, measure: Duration::from_millis(1) };

    #[test]
    fn messages_of_any_length_are_exchanged() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        for (request_bytes, response_bytes) in [(0, 0), (8, 8), (30, 100), (1 << 20, 30), (30, (1 << 20) + 1)]
        {
            for (chunk_bytes, slots, writes) in [
                (4096, 4, Writes::Plain),
                (4096, 4, Writes::NonTemporal),
                (1 << 21, 1, Writes::Plain),
                (1 << 21, 2, Writes::FetchedAhead),
                (1 << 21, 2, Writes::StoredAhead),
            ] {
                let plan = MessagePlan { request_bytes, response_bytes, chunk_bytes, slots, writes };
                let latency = ping_pong(cores, plan, SHORT).expect("the loops run");
                assert!(latency.samples >= 1 && latency.min_nanos as f64 <= latency.median_nanos);
            }
        }
    }

    #[test]
    fn short_messages_are_not_cut() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        let plan = best_message_plan(cores, 30, 100).expect("the loops run");
        assert_eq!(plan.chunk_bytes, 100);
    }

    #[test]
    fn credits_are_used_only_where_slots_run_out() {
        let plan = MessagePlan { request_bytes: 30, response_bytes: 1 << 20, ..MessagePlan::whole(0, 4096) };
        let plan = MessagePlan { slots: 4, ..plan };
        let shape =
            |chunk_bytes, slots, credits| PipeShape { chunk_bytes, slots, credits, writes: Writes::Plain };
        assert_eq!(plan.shape(30), shape(30, 1, false));
        assert_eq!(plan.shape(16384), shape(4096, 4, false));
        assert_eq!(plan.shape(16385), shape(4096, 4, true));
    }

    #[test]
    fn an_absurd_length_is_refused() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        let plan = MessagePlan::whole(30, MESSAGE_BYTES_MAX + 1);
        assert!(matches!(ping_pong(cores, plan, SHORT), Err(LimitError::Size { what: "a response", .. })));
    }
}
