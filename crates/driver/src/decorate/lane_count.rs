//! Counts records, bytes and doorbells of lanes.
//!
//! A lane's two ends count in groups of their own, because each may live on another thread.

use crate::decorate::delegate::delegate_lane_driver;
use crate::{CounterFile, LaneDriver, LaneEvent, LaneFault, LaneId, LaneReceiver, LaneSender, Record};

crate::declare_counters! {
    /// What happened to the lanes of one driver.
    pub struct LaneDriverCounters {
        lanes_connected: "lanes" => "Lanes that came up because we connected",
        lanes_accepted: "lanes" => "Lanes that came up because a peer connected",
        lanes_down: "lanes" => "Lanes that went down or never came up",
    }
}

crate::declare_counters! {
    /// What was written to one lane.
    pub struct RecordSendCounters {
        records_published: "records" => "Records made visible to the peer",
        bytes_published: "bytes" => "Length of those records, with the lane's header",
        doorbells: "calls" => "Times that the peer was to be woken if it slept",
    }
}

crate::declare_counters! {
    /// What was read from one lane.
    pub struct RecordReceiveCounters {
        looks: "looks" => "Looks at a place of the ring",
        looks_empty: "looks" => "Looks that found no record",
        faults: "looks" => "Looks that found what no correct peer writes",
    }
}

/// A lane driver that counts.
pub struct LaneCount<L> {
    inner: L,
    label: String,
    counters: LaneDriverCounters,
}

impl<L: LaneDriver> LaneCount<L> {
    /// Counts what `inner` does in this process's counter file: under `label`, and `label lane N` for each lane.
    pub fn new(inner: L, label: &str) -> Self {
        let counters = LaneDriverCounters::new(CounterFile::process(), label);
        Self { inner, label: label.to_owned(), counters }
    }

    /// The counts so far.
    pub fn counters(&self) -> &LaneDriverCounters {
        &self.counters
    }
}

impl<L: LaneDriver> LaneDriver for LaneCount<L> {
    type Sender = CountingSender<L::Sender>;
    type Receiver = CountingReceiver<L::Receiver>;

    delegate_lane_driver!();

    fn poll_event(&mut self) -> Option<LaneEvent> {
        let event = self.inner.poll_event()?;
        match event {
            LaneEvent::Connected { .. } => self.counters.lanes_connected.increment(),
            LaneEvent::Accepted { .. } => self.counters.lanes_accepted.increment(),
            LaneEvent::Down { .. } => self.counters.lanes_down.increment(),
        }
        Some(event)
    }

    fn take(&mut self, lane: LaneId) -> Option<(Self::Sender, Self::Receiver)> {
        let (sender, receiver) = self.inner.take(lane)?;
        let label = format!("{} lane {}", self.label, lane.0);
        let counters = RecordSendCounters::new(CounterFile::process(), &label);
        let sender = CountingSender { inner: sender, counters };
        let counters = RecordReceiveCounters::new(CounterFile::process(), &label);
        Some((sender, CountingReceiver { inner: receiver, counters }))
    }
}

/// The writing end of a lane, counting.
pub struct CountingSender<S> {
    inner: S,
    counters: RecordSendCounters,
}

impl<S: LaneSender> CountingSender<S> {
    /// The counts so far.
    pub fn counters(&self) -> &RecordSendCounters {
        &self.counters
    }
}

impl<S: LaneSender> LaneSender for CountingSender<S> {
    #[inline]
    fn ring_bytes(&self) -> usize {
        self.inner.ring_bytes()
    }

    #[inline]
    fn claim(&mut self, offset: usize, length: usize) {
        self.inner.claim(offset, length);
    }

    #[inline]
    fn record(&mut self, offset: usize, length: usize) -> &mut [u8] {
        self.inner.record(offset, length)
    }

    #[inline]
    fn publish(&mut self, offset: usize, length: usize, next_offset: usize) {
        self.inner.publish(offset, length, next_offset);
        self.counters.records_published.increment();
        self.counters.bytes_published.add(length as u64);
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

    #[inline]
    fn ring_doorbell(&mut self) -> bool {
        self.counters.doorbells.increment();
        self.inner.ring_doorbell()
    }

    fn next_deadline(&self) -> Option<farcall_protocol::Instant> {
        self.inner.next_deadline()
    }
}

/// The reading end of a lane, counting.
pub struct CountingReceiver<R> {
    inner: R,
    counters: RecordReceiveCounters,
}

impl<R: LaneReceiver> CountingReceiver<R> {
    /// The counts so far.
    pub fn counters(&self) -> &RecordReceiveCounters {
        &self.counters
    }
}

impl<R: LaneReceiver> LaneReceiver for CountingReceiver<R> {
    #[inline]
    fn ring_bytes(&self) -> usize {
        self.inner.ring_bytes()
    }

    #[inline]
    fn peek(&self, offset: usize) -> Result<Option<Record<'_>>, LaneFault> {
        let result = self.inner.peek(offset);
        self.counters.looks.increment();
        match &result {
            Ok(Some(_)) => {}
            Ok(None) => self.counters.looks_empty.increment(),
            Err(_) => self.counters.faults.increment(),
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decorate::lane_scripted::{Scripted, connected};

    #[test]
    fn lanes_records_and_looks_are_counted() {
        let mut driver = LaneCount::new(Scripted::default(), "lane-count-test");
        let (lane, mut sender, receiver) = connected(&mut driver);
        sender.publish(0, 24, 64);
        sender.publish(64, 100, 192);
        sender.ring_doorbell();
        let sent = sender.counters();
        assert_eq!(
            (sent.records_published.get(), sent.bytes_published.get(), sent.doorbells.get()),
            (2, 124, 1)
        );
        let found = [0, 64, 128].map(|offset| receiver.peek(offset).is_ok_and(|record| record.is_some()));
        assert_eq!(found, [true, false, false]);
        let read = receiver.counters();
        assert_eq!((read.looks.get(), read.looks_empty.get(), read.faults.get()), (3, 1, 1));
        driver.close(lane);
        assert!(matches!(driver.poll_event(), Some(LaneEvent::Down { .. })));
        let lanes = driver.counters();
        assert_eq!(
            (lanes.lanes_connected.get(), lanes.lanes_accepted.get(), lanes.lanes_down.get()),
            (1, 0, 1)
        );
    }
}
