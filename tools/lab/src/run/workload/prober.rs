//! The best time of each length: one message at a time, while nobody else sends anything.

use std::sync::Arc;

use farcall::{Clock, Endpoint, Event, Instant, Peer};

use super::{CALL_WITHIN, MESSAGE, Plan, SenderError};

/// Sends messages of every class, one after the other, to one receiver.
pub(super) struct Prober {
    plan: Arc<Plan>,
    peer: Peer,
    payload: Arc<[u8]>,
    clock: Clock,
    /// Messages of each class.
    repeats: usize,
    /// Messages that are complete.
    done: usize,
    began: Option<Instant>,
    best_nanos: Vec<u64>,
}

impl Prober {
    /// A prober that sends each class `repeats` times.
    pub(super) fn new(
        plan: &Arc<Plan>,
        peer: Peer,
        payload: &Arc<[u8]>,
        clock: Clock,
        repeats: usize,
    ) -> Self {
        Self {
            plan: Arc::clone(plan),
            peer,
            payload: Arc::clone(payload),
            clock,
            repeats,
            done: 0,
            began: None,
            best_nanos: vec![u64::MAX; plan.classes.len()],
        }
    }

    /// Sends the next message when the last one is complete, and polls once. Returns how much there was to
    /// do.
    pub(super) fn turn(&mut self, endpoint: &Endpoint) -> Result<usize, SenderError> {
        let mut started = 0;
        if self.began.is_none() && !self.is_over() {
            self.began = Some(self.clock.now());
            let payload = &self.payload[..self.plan.classes[self.class()].bytes as usize];
            endpoint.call(self.peer, MESSAGE, payload).within(CALL_WITHIN).post(0)?;
            started = 1;
        }
        let mut completed = None;
        let polled = endpoint.poll(|_, event| {
            if let Event::Completed { outcome, .. } = event {
                let length = outcome.as_ref().map(|answer| answer.len()).map_err(Clone::clone);
                completed = Some((length, self.clock.now()));
            }
        });
        if let Some((length, now)) = completed {
            if length? != self.plan.answer_bytes(self.class()) {
                return Err(SenderError::WrongLength);
            }
            self.count(now);
        }
        Ok(started + polled)
    }

    /// Whether every class has been sent often enough.
    pub(super) fn is_over(&self) -> bool {
        self.done == self.repeats * self.best_nanos.len()
    }

    /// The best time of each class, in nanoseconds.
    pub(super) fn into_best_nanos(self) -> Vec<u64> {
        self.best_nanos
    }

    fn class(&self) -> usize {
        // All classes in turn, so that a disturbance of the machine does not fall on one class only.
        self.done % self.best_nanos.len()
    }

    fn count(&mut self, now: Instant) {
        let Some(began) = self.began.take() else { return };
        let class = self.class();
        self.best_nanos[class] = self.best_nanos[class].min(now.since(began).as_nanos() as u64);
        self.done += 1;
    }
}
