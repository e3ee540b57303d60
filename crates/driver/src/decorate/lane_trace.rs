//! Traces what happens on lanes.
//!
//! All lanes of a driver write to its one tracer, so their ends must stay on the driver's thread while it is on.

use crate::clock::Clock;
use crate::decorate::delegate::delegate_lane_driver;
use crate::decorate::trace::event;
use crate::trace::Tracer;
use crate::{LaneDriver, LaneEvent, LaneFault, LaneId, LaneReceiver, LaneSender, Record};

/// A lane driver that traces, while its tracer is on.
pub struct LaneTrace<L> {
    inner: L,
    tracer: Tracer,
    clock: Clock,
}

impl<L: LaneDriver> LaneTrace<L> {
    /// Traces what `inner` and its lanes do to `tracer`, with the real clock.
    pub fn new(inner: L, tracer: Tracer) -> Self {
        Self { inner, tracer, clock: Clock::new() }
    }

    /// The tracer, to switch and to read.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }
}

impl<L: LaneDriver> LaneDriver for LaneTrace<L> {
    type Sender = TracingEnd<L::Sender>;
    type Receiver = TracingEnd<L::Receiver>;

    delegate_lane_driver!();

    fn poll_event(&mut self) -> Option<LaneEvent> {
        let event = self.inner.poll_event()?;
        if self.tracer.is_on() {
            let (number, lane) = match &event {
                LaneEvent::Connected { lane, .. } | LaneEvent::Accepted { lane, .. } => {
                    (event::LANE_UP, lane)
                }
                LaneEvent::Down { lane, .. } => (event::LANE_DOWN, lane),
            };
            self.tracer.record(self.clock.now(), number, lane.0, 0);
        }
        Some(event)
    }

    fn take(&mut self, lane: LaneId) -> Option<(Self::Sender, Self::Receiver)> {
        let (sender, receiver) = self.inner.take(lane)?;
        let (tracer, clock) = (self.tracer.clone(), self.clock.clone());
        let sender = TracingEnd { inner: sender, lane, tracer: tracer.clone(), clock: clock.clone() };
        Some((sender, TracingEnd { inner: receiver, lane, tracer, clock }))
    }
}

/// An end of a lane, tracing.
pub struct TracingEnd<E> {
    inner: E,
    lane: LaneId,
    tracer: Tracer,
    clock: Clock,
}

impl<E> TracingEnd<E> {
    #[inline]
    fn trace(&self, event: u16, detail: usize) {
        if self.tracer.is_on() {
            self.tracer.record(self.clock.now(), event, self.lane.0, detail);
        }
    }
}

impl<S: LaneSender> LaneSender for TracingEnd<S> {
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
        self.trace(event::RECORD_PUBLISHED, length);
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
        let all = self.inner.ring_doorbell();
        self.trace(event::DOORBELL_RUNG, 0);
        all
    }

    fn next_deadline(&self) -> Option<farcall_protocol::Instant> {
        self.inner.next_deadline()
    }
}

impl<R: LaneReceiver> LaneReceiver for TracingEnd<R> {
    #[inline]
    fn ring_bytes(&self) -> usize {
        self.inner.ring_bytes()
    }

    #[inline]
    fn peek(&self, offset: usize) -> Result<Option<Record<'_>>, LaneFault> {
        let result = self.inner.peek(offset);
        if let Ok(Some(record)) = &result {
            self.trace(event::RECORD_FOUND, record.len());
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decorate::lane_scripted::{Scripted, connected};

    #[test]
    fn what_happens_on_a_lane_is_traced_with_its_number() {
        let mut driver = LaneTrace::new(Scripted::default(), Tracer::new(16));
        driver.tracer().switch(true);
        let (lane, mut sender, receiver) = connected(&mut driver);
        sender.publish(0, 48, 64);
        sender.ring_doorbell();
        assert!(receiver.peek(0).is_ok() && receiver.peek(64).is_ok());
        driver.close(lane);
        driver.poll_event();
        let records = driver.tracer().records();
        let seen: Vec<_> = records.iter().map(|record| (record.event, record.detail)).collect();
        let (published, found) = ((event::RECORD_PUBLISHED, 48), (event::RECORD_FOUND, 24));
        let (up, down) = ((event::LANE_UP, 0), (event::LANE_DOWN, 0));
        assert_eq!(seen, [up, published, (event::DOORBELL_RUNG, 0), found, down]);
        assert!(records.iter().all(|record| record.operation == lane.0));
    }
}
