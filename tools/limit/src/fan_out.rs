//! One line out to several, and an acknowledgement of each: what a write takes at least before it is
//! answered, if others must have it.

use core::sync::atomic::Ordering;

use crate::latency::Rounds;
use crate::memory::{LINE_PAIR_BYTES, SharedMemory};
use crate::pair::run_star;
use crate::{Core, Effort, Latency, LimitError};

/// Words of a line behind its first one, which says which round it is of.
const WORDS: usize = 7;

/// The round that ends the loop.
const STOPPED: u64 = u64::MAX;

/// Measures how long it takes to write a line to each of `receivers` and to get an acknowledgement of each.
/// They are dealt to as many threads as there are `responders`, each on its core: a thread looks at its
/// receivers alternately.
///
/// # Panics
/// Without a receiver or a responder.
pub fn fan_out(
    initiator: Core,
    responders: &[Core],
    receivers: usize,
    effort: Effort,
) -> Result<Latency, LimitError> {
    assert!(receivers > 0 && !responders.is_empty(), "somebody receives");
    let lines = Lines { memory: SharedMemory::new(2 * receivers * LINE_PAIR_BYTES)?, receivers };
    let initiate = || {
        let mut rounds = Rounds::new(effort);
        for round in 1.. {
            (0..receivers).for_each(|receiver| lines.send(receiver, round));
            (0..receivers).for_each(|receiver| lines.await_acknowledgement(receiver, round));
            if rounds.finished() {
                break;
            }
        }
        (0..receivers).for_each(|receiver| lines.send(receiver, STOPPED));
        rounds.into_latency()
    };
    let threads = responders.len();
    let responders = responders.iter().enumerate().map(|(thread, &core)| {
        let lines = &lines;
        (core, move || lines.acknowledge((thread..receivers).step_by(threads).collect()))
    });
    Ok(run_star((initiator, initiate), responders)?.0)
}

/// The lines there, and those back, far enough apart that the prefetcher takes one at a time.
struct Lines {
    memory: SharedMemory,
    receivers: usize,
}

impl Lines {
    /// The byte at which the line to a receiver begins.
    const fn there(receiver: usize) -> usize {
        receiver * LINE_PAIR_BYTES
    }

    /// The same of the line back.
    const fn back(&self, receiver: usize) -> usize {
        (self.receivers + receiver) * LINE_PAIR_BYTES
    }

    /// Fills the line to a receiver.
    #[inline]
    fn send(&self, receiver: usize, round: u64) {
        let at = Self::there(receiver);
        (1..=WORDS).for_each(|word| self.memory.word(at + word * 8).store(round, Ordering::Relaxed));
        self.memory.word(at).store(round, Ordering::Release);
    }

    #[inline]
    fn await_acknowledgement(&self, receiver: usize, round: u64) {
        while self.memory.word(self.back(receiver)).load(Ordering::Acquire) != round {}
    }

    /// Is these receivers until the loop is stopped: reads each line that comes, and acknowledges it.
    fn acknowledge(&self, receivers: Vec<usize>) {
        let mut last = vec![0; receivers.len()];
        loop {
            for (last, &receiver) in last.iter_mut().zip(&receivers) {
                let at = Self::there(receiver);
                let round = self.memory.word(at).load(Ordering::Acquire);
                if round == STOPPED {
                    return;
                }
                if round != *last {
                    let word = |word: usize| self.memory.word(at + word * 8).load(Ordering::Relaxed);
                    let read = (1..=WORDS).all(|number| word(number) == round);
                    // What was not read whole is never acknowledged.
                    let acknowledged = if read { round } else { *last };
                    self.memory.word(self.back(receiver)).store(acknowledged, Ordering::Release);
                    *last = round;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::CorePair;

    const SHORT: Effort = Effort { warmup: Duration::ZERO, measure: Duration::from_millis(1) };

    #[test]
    fn every_receiver_acknowledges_every_line() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        for (threads, receivers) in [(1, 1), (1, 2), (1, 3)] {
            let responders = vec![cores.responder; threads];
            let latency = fan_out(cores.initiator, &responders, receivers, SHORT).expect("the loops run");
            assert!(latency.samples >= 1 && latency.median_nanos > 0.0);
        }
    }

    #[test]
    fn receivers_are_dealt_to_the_threads_in_turn() {
        let lines = Lines { memory: SharedMemory::new(6 * LINE_PAIR_BYTES).expect("memory"), receivers: 3 };
        std::thread::scope(|scope| {
            // Two threads, wherever they run.
            for thread in 0..2 {
                let lines = &lines;
                scope.spawn(move || lines.acknowledge((thread..3).step_by(2).collect()));
            }
            for round in 1..100 {
                (0..3).for_each(|receiver| lines.send(receiver, round));
                (0..3).for_each(|receiver| lines.await_acknowledgement(receiver, round));
            }
            (0..3).for_each(|receiver| lines.send(receiver, STOPPED));
        });
    }
}
