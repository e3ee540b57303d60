//! Severs lanes: after a number of records, drawn from a seed, a lane breaks as if its link had died.
//!
//! Lanes are reliable and ordered, so breaking is the only fault that they can have: from that record on nothing
//! becomes visible to the peer, and the driver tears the lane down when it is next polled.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::decorate::delegate::delegate_lane_driver;
use crate::random::Random;
use crate::{LaneDriver, LaneEvent, LaneId, LaneSender};

/// A lane driver whose lanes break.
pub struct LaneSever<L> {
    inner: L,
    random: Random,
    records_max: u64,
    /// Lanes that are up, and whether they have broken. An entry goes with its lane.
    lanes: Vec<(LaneId, Arc<AtomicBool>)>,
}

impl<L: LaneDriver> LaneSever<L> {
    /// Breaks each lane of `inner` after at most `records_max` records sent, how many being drawn from `seed`.
    pub fn new(inner: L, seed: u64, records_max: u64) -> Self {
        Self { inner, random: Random::new(seed), records_max, lanes: Vec::new() }
    }

    fn close_broken(&mut self) {
        let broken = self.lanes.extract_if(.., |(_, broken)| broken.load(Ordering::Relaxed));
        for (lane, _) in broken {
            self.inner.close(lane);
        }
    }
}

impl<L: LaneDriver> LaneDriver for LaneSever<L> {
    type Sender = SeveredSender<L::Sender>;
    type Receiver = L::Receiver;

    delegate_lane_driver!();

    fn poll_event(&mut self) -> Option<LaneEvent> {
        self.close_broken();
        let event = self.inner.poll_event();
        if let Some(LaneEvent::Down { lane, .. }) = &event {
            self.lanes.retain(|(other, _)| other != lane);
        }
        event
    }

    fn take(&mut self, lane: LaneId) -> Option<(Self::Sender, Self::Receiver)> {
        let (sender, receiver) = self.inner.take(lane)?;
        let broken = Arc::new(AtomicBool::new(false));
        self.lanes.push((lane, broken.clone()));
        let records_left = self.random.below(self.records_max + 1);
        Some((SeveredSender { inner: sender, broken, records_left }, receiver))
    }
}

/// The writing end of a lane that breaks.
pub struct SeveredSender<S> {
    inner: S,
    broken: Arc<AtomicBool>,
    /// Records that still get through.
    records_left: u64,
}

impl<S: LaneSender> LaneSender for SeveredSender<S> {
    fn ring_bytes(&self) -> usize {
        self.inner.ring_bytes()
    }

    fn claim(&mut self, offset: usize, length: usize) {
        self.inner.claim(offset, length);
    }

    fn record(&mut self, offset: usize, length: usize) -> &mut [u8] {
        self.inner.record(offset, length)
    }

    fn publish(&mut self, offset: usize, length: usize, next_offset: usize) {
        if self.records_left == 0 {
            self.broken.store(true, Ordering::Relaxed);
            return;
        }
        self.records_left -= 1;
        self.inner.publish(offset, length, next_offset);
    }

    fn prepare(&mut self, length: usize) -> bool {
        self.inner.prepare(length)
    }

    fn copy_payload(&mut self, to: &mut [u8], payload: &[u8]) -> bool {
        self.inner.copy_payload(to, payload)
    }

    fn wants_lines_ahead(&self, bytes: usize) -> bool {
        self.inner.wants_lines_ahead(bytes)
    }

    fn ring_doorbell(&mut self) -> bool {
        self.inner.ring_doorbell()
    }

    fn next_deadline(&self) -> Option<farcall_protocol::Instant> {
        self.inner.next_deadline()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LaneFault;
    use crate::decorate::lane_scripted::{Scripted, connected};

    /// How many of 100 records get through before the lane breaks.
    fn records_through(seed: u64) -> usize {
        let scripted = Scripted::default();
        let published = scripted.published();
        let mut driver = LaneSever::new(scripted, seed, 50);
        let (lane, mut sender, _receiver) = connected(&mut driver);
        (0..100).for_each(|number| sender.publish(number * 64, 64, number * 64 + 64));
        assert_eq!(driver.poll_event(), Some(LaneEvent::Down { lane, fault: LaneFault::Closed }));
        assert_eq!(driver.poll_event(), None, "a lane goes down once");
        let published = published.lock().expect("no panic");
        assert!(published.iter().enumerate().all(|(number, offset)| *offset == number * 64), "{published:?}");
        published.len()
    }

    #[test]
    fn a_lane_breaks_where_the_seed_says_and_passes_nothing_after() {
        let through: Vec<_> = (0..20).map(records_through).collect();
        assert!(through.iter().all(|records| *records <= 50), "{through:?}");
        assert_eq!(through, (0..20).map(records_through).collect::<Vec<_>>());
        assert!(through.iter().any(|records| records != &through[0]), "all seeds break at {}", through[0]);
    }
}
