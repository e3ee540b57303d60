//! What the slots of a client were doing, all the time: a check on its latencies, which are measured
//! otherwise.

use farcall::Instant;
use serde::{Deserialize, Serialize};

/// What a slot does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotUse {
    /// A request is in flight that the own rank answers.
    Local,
    /// One that another rank answers.
    Remote,
    /// Nothing: the client waits for the last answers in other slots.
    Idle,
}

/// Slots times nanoseconds, by use. They add up to the number of slots times the length of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotNanos {
    /// With requests that the own rank answers.
    pub local: u64,
    /// With requests that another rank answers.
    pub remote: u64,
    /// Without a request.
    pub idle: u64,
}

impl SlotNanos {
    /// All together.
    pub fn sum(&self) -> u64 {
        self.local + self.remote + self.idle
    }

    /// Adds those of another client.
    pub(super) fn add(&mut self, other: &Self) {
        self.local += other.local;
        self.remote += other.remote;
        self.idle += other.idle;
    }
}

/// Keeps account of slots.
pub(super) struct SlotTimes {
    last: Instant,
    slots: [u64; 3],
    nanos: [u64; 3],
}

impl SlotTimes {
    /// Slots that do nothing from now on.
    pub(super) fn new(slots: usize, now: Instant) -> Self {
        Self { last: now, slots: [0, 0, slots as u64], nanos: [0; 3] }
    }

    /// From now on a slot does something else.
    #[inline]
    pub(super) fn change(&mut self, from: SlotUse, to: SlotUse, now: Instant) {
        if from == to {
            return;
        }
        let passed = now.as_nanos() - self.last.as_nanos();
        self.last = now;
        self.nanos.iter_mut().zip(self.slots).for_each(|(nanos, slots)| *nanos += slots * passed);
        self.slots[from as usize] -= 1;
        self.slots[to as usize] += 1;
    }

    /// The account up to the last slot that did something else than before.
    pub(super) fn nanos(&self) -> SlotNanos {
        let [local, remote, idle] = self.nanos;
        SlotNanos { local, remote, idle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_up_to_slots_times_window() {
        let mut times = SlotTimes::new(3, Instant::from_nanos(100));
        for (from, to, nanos) in [
            (SlotUse::Idle, SlotUse::Local, 100),
            (SlotUse::Idle, SlotUse::Remote, 110),
            (SlotUse::Local, SlotUse::Remote, 125),
            (SlotUse::Remote, SlotUse::Idle, 140),
        ] {
            times.change(from, to, Instant::from_nanos(nanos));
        }
        assert_eq!(times.nanos(), SlotNanos { local: 25, remote: 15 + 30, idle: 20 + 30 });
        assert_eq!(times.nanos().sum(), 3 * 40);
    }
}
