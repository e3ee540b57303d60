//! Delays what is written to lanes, by a time.
//!
//! Lanes are reliable and ordered, so this is the only fault beside breaking that they can have: records
//! become visible later, in the same order. Until then they are kept in a mirror of the peer's ring. Its
//! places are those of the ring, and so are not used again before the peer has read them there. A sender that
//! is dropped publishes what it still keeps: drop it before its lane is closed, and nothing is lost.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use farcall_base::Instant;

use crate::clock::Clock;
use crate::decorate::delegate::{delegate_lane_driver, delegate_wait};
use crate::{
    CounterFile, LaneDriver, LaneEvent, LaneId, LaneSender, Loan, RECORD_ALIGN, RECORD_HEADER_BYTES,
    RecordKind, Wait,
};
use farcall_base::Random;

/// Which records are delayed, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaneDelayConfig {
    /// Where the draws begin.
    pub seed: u64,
    /// The probability that a record is delayed. Those behind it wait for it.
    pub delay: f64,
    /// For how long.
    pub delay_time: Duration,
}

crate::declare_counters! {
    /// What was done to the records of one driver's lanes on purpose.
    pub struct LaneDelayCounters {
        delayed: "records" => "Records kept back for some time; those behind one wait for it",
    }
}

/// A lane driver whose records come late.
pub struct LaneDelay<L> {
    inner: L,
    config: LaneDelayConfig,
    /// Draws a seed for each lane.
    random: Random,
    clock: Clock,
    counters: Arc<LaneDelayCounters>,
}

impl<L: LaneDriver> LaneDelay<L> {
    /// Delays what is written to the lanes of `inner`; delays end by `clock`. The counts go to this process's
    /// counter file, under `label`.
    pub fn new(inner: L, config: LaneDelayConfig, clock: Clock, label: &str) -> Self {
        let counters = Arc::new(LaneDelayCounters::new(CounterFile::process(), label));
        Self { inner, config, random: Random::new(config.seed), clock, counters }
    }
}

impl<L: LaneDriver> Wait for LaneDelay<L> {
    delegate_wait!();
}

impl<L: LaneDriver> LaneDriver for LaneDelay<L> {
    type Sender = DelayingSender<L::Sender>;
    type Receiver = L::Receiver;

    delegate_lane_driver!();

    fn poll_event(&mut self) -> Option<LaneEvent> {
        self.inner.poll_event()
    }

    /// No record's place: those that are published before it may still be waiting.
    fn prepare(&mut self, sender: &mut Self::Sender, _length: usize) -> bool {
        self.inner.prepare(&mut sender.inner, 0)
    }

    fn take(&mut self, lane: LaneId) -> Option<(Self::Sender, Self::Receiver)> {
        let (sender, receiver) = self.inner.take(lane)?;
        let sender = DelayingSender {
            mirror: vec![0; sender.ring_bytes()],
            waiting: VecDeque::new(),
            inner: sender,
            config: self.config,
            random: Random::new(self.random.bits()),
            clock: self.clock.clone(),
            counters: Arc::clone(&self.counters),
        };
        Some((sender, receiver))
    }
}

/// The writing end of a lane that delays.
pub struct DelayingSender<S: LaneSender> {
    inner: S,
    config: LaneDelayConfig,
    random: Random,
    clock: Clock,
    counters: Arc<LaneDelayCounters>,
    /// What the peer's ring will be.
    mirror: Vec<u8>,
    /// Records that are published and not visible yet. They do not overlap, so there are never more than fit
    /// into the ring.
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    leaves_at: Instant,
    kind: RecordKind,
    offset: usize,
    length: usize,
    next_offset: usize,
}

impl<S: LaneSender> DelayingSender<S> {
    /// Publishes what is to leave by `now`.
    fn release(&mut self, now: Instant) {
        while let Some(&Waiting { leaves_at, kind, offset, length, next_offset }) = self.waiting.front()
            && leaves_at <= now
        {
            self.waiting.pop_front();
            let bytes = length - RECORD_HEADER_BYTES;
            self.inner.begin(offset, length);
            self.inner.record(offset, length).copy_from_slice(&self.mirror[offset..offset + bytes]);
            self.inner.publish(kind, offset, length, next_offset);
        }
    }
}

impl<S: LaneSender> Drop for DelayingSender<S> {
    fn drop(&mut self) {
        if !self.waiting.is_empty() {
            self.release(Instant::NEVER);
            // What finds no room is lost with the lane, as it is without delays.
            self.inner.ring_doorbell();
        }
    }
}

impl<S: LaneSender> LaneSender for DelayingSender<S> {
    fn ring_bytes(&self) -> usize {
        self.inner.ring_bytes()
    }

    /// Not now: records that are published before this one may still be waiting.
    fn begin(&mut self, _offset: usize, _length: usize) {}

    fn record(&mut self, offset: usize, length: usize) -> &mut [u8] {
        &mut self.mirror[offset..offset + length - RECORD_HEADER_BYTES]
    }

    fn write_payload(&mut self, offset: usize, at: usize, payload: &[u8]) {
        self.mirror[offset + at..][..payload.len()].copy_from_slice(payload);
    }

    fn copy_payload(&mut self, kind: RecordKind, loan: &mut Loan, payload: &[u8]) {
        self.inner.copy_payload(kind, loan, payload);
    }

    fn publish(&mut self, kind: RecordKind, offset: usize, length: usize, next_offset: usize) {
        // Now, as the seam says, and not when the record leaves.
        let end = offset.checked_add(length).filter(|&end| end <= self.inner.ring_bytes());
        assert!(offset.is_multiple_of(RECORD_ALIGN) && end.is_some(), "a record lies inside the ring");
        let is_delayed = self.random.chance(self.config.delay);
        self.counters.delayed.add(u64::from(is_delayed));
        let delay = if is_delayed { self.config.delay_time } else { Duration::ZERO };
        let behind = self.waiting.back().map_or(Instant::ZERO, |record| record.leaves_at);
        let leaves_at = behind.max(self.clock.now() + delay);
        self.waiting.push_back(Waiting { leaves_at, kind, offset, length, next_offset });
    }

    fn ring_doorbell(&mut self) -> bool {
        self.release(self.clock.now());
        self.inner.ring_doorbell() && self.waiting.is_empty()
    }

    /// Records that wait are kept, as those are that the peer has not read.
    fn fit(&mut self, used_bytes: usize, kept: Option<Range<usize>>) {
        self.inner.fit(used_bytes, kept);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let waiting = self.waiting.front().map(|record| record.leaves_at);
        waiting.into_iter().chain(self.inner.next_deadline()).min()
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::decorate::lane_scripted::{Scripted, connected};

    #[test]
    fn records_become_visible_after_the_delay_and_in_order() {
        let scripted = Scripted::default();
        let published = scripted.published();
        let nanos = Arc::new(AtomicU64::new(0));
        let config = LaneDelayConfig { seed: 3, delay: 0.5, delay_time: Duration::from_micros(5) };
        let mut driver = LaneDelay::new(scripted, config, Clock::simulated(Arc::clone(&nanos)), "delayed");
        let (_, mut sender, _receiver) = connected(&mut driver);
        for number in 0..20 {
            sender.record(number * 64, 64).fill(number as u8);
            sender.publish(RecordKind::Stream, number * 64, 64, number * 64 + 64);
        }
        let all = sender.ring_doorbell();
        let first = published.lock().expect("no panic").len();
        assert!(!all && (1..20).contains(&first), "{first} records were not behind a delayed one");
        assert_eq!(sender.next_deadline(), Some(Instant::from_nanos(5_000)));
        nanos.store(4_999, Ordering::Relaxed);
        assert!(!sender.ring_doorbell() && published.lock().expect("no panic").len() == first);
        nanos.store(5_000, Ordering::Relaxed);
        assert!(sender.ring_doorbell() && sender.next_deadline().is_none());
        let offsets: Vec<_> = (0..20).map(|number| number * 64).collect();
        assert_eq!(*published.lock().expect("no panic"), offsets);
    }

    #[test]
    fn a_sender_that_is_dropped_publishes_what_it_keeps() {
        let scripted = Scripted::default();
        let published = scripted.published();
        let config = LaneDelayConfig { seed: 3, delay: 1.0, delay_time: Duration::from_secs(1) };
        let mut driver = LaneDelay::new(scripted, config, Clock::simulated(Arc::default()), "delayed");
        let (_, mut sender, _receiver) = connected(&mut driver);
        for offset in [0, 64] {
            sender.record(offset, 64).fill(1);
            sender.publish(RecordKind::Stream, offset, 64, offset + 64);
        }
        assert!(!sender.ring_doorbell() && published.lock().expect("no panic").is_empty());
        drop(sender);
        assert_eq!(*published.lock().expect("no panic"), [0, 64]);
    }
}
