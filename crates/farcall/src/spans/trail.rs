//! The way of a call of a [`Client`](crate::Client) between threads: from the one that makes it to the one
//! that owns the endpoint, and back.

use std::sync::{Mutex, MutexGuard, PoisonError};

use farcall_base::Instant;
use farcall_driver::clock::Clock;

use super::span::Stage;
use super::stages::{TracedOperation, between};

/// Where a call of a client has come, noted by either thread for the span of the call.
#[derive(Debug, Default)]
pub(crate) struct Trail(Mutex<Points>);

#[derive(Clone, Debug, Default)]
struct Points {
    /// It was sent by its caller: into the queue, or to wait for room there.
    sent: Option<Instant>,
    /// The endpoint's thread began it; of a call to a name for the last time, if there were several attempts.
    begun: Option<Instant>,
    /// That attempt, if the endpoint traces.
    operation: Option<TracedOperation>,
    /// Its end was there, for the thread or task that waits.
    ended: Option<Instant>,
}

impl Trail {
    fn points(&self) -> MutexGuard<'_, Points> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn sent(&self) {
        self.points().sent = Some(Clock::new().now());
    }

    /// Begun by the endpoint's thread now.
    pub fn begun(&self) {
        let mut points = self.points();
        (points.begun, points.operation) = (Some(Clock::new().now()), None);
    }

    /// What was begun, as the endpoint's trace has it.
    pub fn traced(&self, operation: Option<TracedOperation>) {
        self.points().operation = operation;
    }

    pub fn ended(&self) {
        self.points().ended = Some(Clock::new().now());
    }

    /// When the call was sent; `None` of one that never was.
    pub fn sent_at(&self) -> Option<Instant> {
        self.points().sent
    }

    /// The stages of a call whose end was fetched at `end`.
    pub fn stages(&self, end: Instant) -> Vec<Stage> {
        let Points { sent, begun, operation, ended } = self.points().clone();
        let Some(begun) = begun else { return between(&[("", sent), ("queue", Some(end))]) };
        let mut stages = between(&[("", sent), ("queue", Some(begun))]);
        let over = ended.unwrap_or(end);
        let traced = operation.map(|call| call.stages_of_call(over)).unwrap_or_default();
        match traced.is_empty() {
            true => stages.extend(between(&[("", Some(begun)), ("call", Some(over))])),
            false => stages.extend(traced),
        }
        let last = stages.last().map(|stage| stage.end);
        stages.extend(between(&[("", last.max(ended)), ("wake", ended.and(Some(end)))]));
        stages
    }
}
