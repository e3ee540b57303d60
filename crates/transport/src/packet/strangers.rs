//! Those that ask for sessions wait until what came for the sessions that are up has been answered.
//!
//! Anybody can send an OPEN, from any address, and each wants an answer: a burst of them would be a burst of
//! packets in front of whoever has a session. So a turn answers few, after everything else: one as long as
//! packets arrive, behind which those of a session may lie. They are not dropped for that, which would keep
//! honest openers out as well: what is more than a burst is answered at once.

use std::collections::VecDeque;

use farcall_base::Instant;
use farcall_driver::{Datagram, Packet};
use farcall_protocol::calls::Policy;

use super::PacketTransport;
use crate::Sink;

/// How many are answered in a turn in which nothing arrived.
const ANSWERED_OF_TURN: usize = 4;

/// How many wait for a later turn at most.
const WAITING_MAX: usize = 64;

/// The OPENs that wait, the oldest first.
#[derive(Default)]
pub struct Strangers(VecDeque<Packet>);

impl Strangers {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn push(&mut self, open: Packet) {
        self.0.push_back(open);
    }

    /// How many have their turn, in which so many packets arrived.
    fn due(&self, received: usize) -> usize {
        let few = if received > 0 { 1 } else { ANSWERED_OF_TURN };
        self.0.len().saturating_sub(WAITING_MAX).max(few).min(self.0.len())
    }
}

impl<D: Datagram, P: Policy> PacketTransport<D, P> {
    /// Answers those whose turn it is, in which so many packets arrived, and says how many these were.
    pub(super) fn answer_strangers(&mut self, received: usize, now: Instant, sink: &mut dyn Sink) -> usize {
        let due = self.strangers.due(received);
        for _ in 0..due {
            if let Some(open) = self.strangers.0.pop_front() {
                self.take_in_and_release(open, now, sink);
            }
        }
        self.transmitter.transmit_of_sessions(&mut self.calls, &mut self.driver, now);
        due
    }

    /// Gives the driver its memory back.
    pub(super) fn release_strangers(&mut self) {
        for open in self.strangers.0.drain(..) {
            self.driver.release(open);
        }
    }
}
