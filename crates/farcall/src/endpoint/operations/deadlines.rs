//! What looks through all operations: passed deadlines, which are seldom looked for, and ended sessions.

use farcall_protocol::Instant;
use farcall_transport::{CallId, SessionId};

use super::{Operations, Slot};

/// A longer gap between readings of the clock is one that deadlines are corrected for.
const CLOCK_SLACK_NANOS: u64 = 1000;

impl Operations {
    /// Whether operations were added since the last reading of the clock.
    #[inline]
    pub fn were_added(&self) -> bool {
        self.added > 0
    }

    /// Tells the slab that the clock was read after operations were added: `last` before, `now` this time. They were given
    /// deadlines from the old reading; a long gap is added to them.
    pub fn clock_was_read(&mut self, last: Instant, now: Instant) {
        // Before there is a `Duration`, which costs a division.
        if now.as_nanos().saturating_sub(last.as_nanos()) > CLOCK_SLACK_NANOS {
            let gap = now - last;
            let reading = self.clock_reading;
            let correct = |slot: &mut Slot| {
                if slot.is_pending() && slot.clock_reading == reading {
                    slot.deadline += gap;
                    // Once is enough.
                    slot.clock_reading = reading.wrapping_sub(1);
                }
            };
            if self.added < self.slots.len() {
                self.added_since[..self.added]
                    .iter()
                    .for_each(|&index| correct(&mut self.slots[usize::from(index)]));
            } else {
                self.slots.iter_mut().for_each(correct);
            }
        }
        self.added = 0;
        self.clock_reading = self.clock_reading.wrapping_add(1);
    }

    /// The operations whose deadline has passed; empty, and almost free, when none can have.
    pub fn expired(&mut self, now: Instant) -> Vec<CallId> {
        if now < self.earliest_deadline {
            return Vec::new();
        }
        let expired = self.calls_where(|operation| operation.deadline <= now);
        let remaining =
            self.pending_mut().map(|operation| operation.deadline).filter(|&deadline| deadline > now);
        self.earliest_deadline = remaining.min().unwrap_or(Instant::NEVER);
        expired
    }

    /// No deadline is earlier than this.
    #[inline]
    pub fn earliest_deadline(&self) -> Instant {
        self.earliest_deadline
    }

    /// The operations of a session.
    pub fn of_session(&self, session: SessionId) -> Vec<CallId> {
        self.calls_where(|operation| operation.session == session)
    }

    fn calls_where(&self, condition: impl Fn(&Slot) -> bool) -> Vec<CallId> {
        let pending = self.slots.iter().filter(|slot| slot.is_pending() && condition(slot));
        pending.map(|slot| slot.id).collect()
    }

    fn pending_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().filter(|slot| slot.is_pending())
    }
}
