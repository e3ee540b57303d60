//! Which packets found a queue full, and which calls of lanes were too late for what was ahead of them: for
//! whoever has to judge what that led to.
//!
//! A peer whose packets are crowded out is silent without a fault. A run that checks why peers were given up
//! has this recorded; others only count.

use std::collections::VecDeque;

use crate::time::Picos;

/// The most packets that are remembered; the oldest make room.
const RECORDED_MAX: usize = 1 << 16;

/// A packet that was dropped because a port, a card or a host had no room for it, or the call of a lane that
/// was not answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Overflow {
    at: Picos,
    source: u32,
    destination: u32,
}

/// The packets that found a queue full, oldest first.
#[derive(Debug, Default)]
pub struct Overflows(VecDeque<Overflow>);

impl Overflows {
    /// A packet was dropped.
    pub fn note(&mut self, at: Picos, source: u32, destination: u32) {
        if self.0.len() == RECORDED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Overflow { at, source, destination });
    }

    /// How many packets between two hosts, whichever way, were dropped in a span of time.
    pub fn between(&self, hosts: (u32, u32), from: Picos, until: Picos) -> usize {
        let (one, other) = hosts;
        let is_theirs = |overflow: &&Overflow| {
            let pair = (overflow.source, overflow.destination);
            (pair == (one, other) || pair == (other, one)) && overflow.at <= until
        };
        let first = self.0.partition_point(|overflow| overflow.at < from);
        self.0.range(first..).filter(is_theirs).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_both_ways_count_within_the_span() {
        let mut overflows = Overflows::default();
        for (at, source, destination) in [(1, 0, 1), (2, 1, 0), (2, 0, 2), (3, 0, 1), (4, 1, 0)] {
            overflows.note(Picos(at), source, destination);
        }
        let between = |from, until| overflows.between((0, 1), Picos(from), Picos(until));
        assert_eq!((between(0, 9), between(2, 3), between(5, 9)), (4, 2, 0));
    }
}
