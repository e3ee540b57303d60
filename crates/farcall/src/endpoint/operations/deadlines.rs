//! What looks through all operations: passed deadlines, which are seldom looked for, and ended sessions.

use farcall_protocol::Instant;
use farcall_transport::{CallId, SessionId};

use super::readings::Readings;
use super::{Operations, Slot};

impl Operations {
    /// Whether operations were added since the last reading of the clock.
    #[inline]
    pub fn were_added(&self) -> bool {
        self.added_in_all() != self.added_before
    }

    #[inline]
    fn added_in_all(&self) -> u64 {
        self.added.iter().sum()
    }

    /// An operation is about to be added that has a timeout of its own.
    #[inline]
    pub fn note_deadline(&mut self, deadline: Instant) {
        self.earliest_deadline = self.earliest_deadline.min(deadline);
    }

    /// Tells the slab that the clock was read after operations were added: `last` before, `now` this time. Those without a timeout
    /// of their own have deadlines from the old reading, of which `earliest` is the first.
    pub fn clock_was_read(&mut self, last: Instant, now: Instant, earliest: Instant) {
        self.added_before = self.added_in_all();
        self.note_deadline(earliest);
        if self.readings.next(last, now) {
            let readings = &self.readings;
            for slot in self.slots.iter_mut().filter(|slot| slot.is_pending()) {
                slot.deadline = readings.settled(slot.deadline, slot.clock_reading);
                slot.clock_reading = Readings::SETTLED;
            }
            self.readings.begin_cycle();
        }
    }

    /// The operations whose deadline has passed; empty, and almost free, when none can have.
    pub fn expired(&mut self, now: Instant) -> Vec<CallId> {
        if now < self.earliest_deadline {
            return Vec::new();
        }
        let deadline = |slot: &Slot| self.readings.settled(slot.deadline, slot.clock_reading);
        let expired = self.calls_where(|slot| deadline(slot) <= now);
        let pending = self.slots.iter().filter(|slot| slot.is_pending());
        let remaining = pending.map(deadline).filter(|&deadline| deadline > now).min();
        self.earliest_deadline = remaining.unwrap_or(Instant::NEVER);
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
}
