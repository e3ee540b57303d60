//! How long operations may take that were given no time of their own.
//!
//! The clock is read once for many operations, so that their deadline is worked out once as well.

use core::time::Duration;

use farcall_protocol::Instant;

use super::operations::Operations;

/// The time after which an operation fails, from the last look at the clock.
pub struct Timeout {
    nanos: u64,
    deadline: Instant,
}

impl Timeout {
    /// A timeout of operations that begin `now` or later.
    pub fn new(timeout: Duration, now: Instant) -> Self {
        Self { nanos: u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX), deadline: now + timeout }
    }

    /// The clock shows another time.
    #[inline]
    pub fn clock_was_read(&mut self, now: Instant) {
        self.deadline = Instant::from_nanos(now.as_nanos().saturating_add(self.nanos));
    }

    /// The deadline of operations that begin now.
    #[inline]
    pub fn default_deadline(&self) -> Instant {
        self.deadline
    }

    /// The deadline of an operation that is about to be added `now`, and may have a timeout of its own.
    #[inline(always)]
    pub fn deadline(&self, now: Instant, own: Option<Duration>, operations: &mut Operations) -> Instant {
        let Some(timeout) = own else { return self.deadline };
        let deadline = now + timeout;
        operations.note_deadline(deadline);
        deadline
    }
}
