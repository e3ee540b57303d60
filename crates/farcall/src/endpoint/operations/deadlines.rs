//! What looks through all operations: passed deadlines, which are seldom looked for, and ended sessions.

use core::time::Duration;

use farcall_base::Instant;
use farcall_transport::{CallId, SessionId};

use super::readings::{Readings, Since};
use super::{Kind, Operations, Slot};

/// How long operations may take, in nanoseconds.
pub struct Timeouts {
    call: u64,
    message: u64,
}

impl Timeouts {
    pub fn new(call: Duration, message: Duration) -> Self {
        Self { call: nanos_of(call), message: nanos_of(message) }
    }

    fn of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Call => self.call,
            Kind::Send | Kind::Receive => self.message,
        }
    }

    fn shortest(&self) -> u64 {
        self.call.min(self.message)
    }
}

/// What operations have to keep to.
pub struct Deadlines {
    timeouts: Timeouts,
    readings: Readings,
    /// No deadline is earlier than this.
    earliest: Instant,
}

impl Deadlines {
    pub fn new(timeouts: Timeouts, now: Instant) -> Self {
        Self { timeouts, readings: Readings::new(now), earliest: Instant::NEVER }
    }

    /// What operations are counted from that begin now, until the clock is read.
    pub fn since(&self) -> Since {
        self.readings.next()
    }

    /// Gives an operation that begins a timeout of its own, instead of that of its kind.
    pub fn give_own(&mut self, slot: &mut Slot, timeout: Duration) {
        if cfg!(farcall_bare) {
            return;
        }
        slot.standing.set_since(self.readings.next().with_own_timeout());
        slot.nanos = nanos_of(timeout);
        self.expect_none_before(slot.nanos);
    }

    /// Operations were added since the last reading that may end so many nanoseconds behind it.
    #[inline]
    fn expect_none_before(&mut self, nanos: u64) {
        self.earliest = self.earliest.min(later(self.readings.last(), nanos));
    }

    /// The deadline of an operation; of one that was added since the clock was read, what it is at the earliest.
    fn of(&self, slot: &Slot) -> Instant {
        let since = slot.standing.since();
        if since == Since::SETTLED {
            return Instant::from_nanos(slot.nanos);
        }
        let timeout = if since.has_own_timeout() { slot.nanos } else { self.timeouts.of(slot.kind()) };
        later(self.readings.time_of(since), timeout)
    }

    #[cold]
    fn settle(&mut self, slots: &mut [Slot]) {
        for slot in slots.iter_mut().filter(|slot| slot.is_pending()) {
            slot.nanos = self.of(slot).as_nanos();
            slot.standing.set_since(Since::SETTLED);
        }
        self.readings.begin_cycle();
    }
}

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

    /// Tells the slab that the clock was read.
    #[inline]
    pub fn clock_was_read(&mut self, now: Instant) {
        if !self.were_added() {
            return self.deadlines.readings.passed_over(now);
        }
        self.added_before = self.added_in_all();
        self.deadlines.expect_none_before(self.deadlines.timeouts.shortest());
        if !self.deadlines.readings.add(now) {
            self.deadlines.settle(&mut self.slots);
        }
        self.since = self.deadlines.since();
    }

    /// The operations whose deadline has passed; empty, and almost free, when none can have.
    pub fn expired(&mut self, now: Instant) -> Vec<CallId> {
        if now < self.earliest_deadline() {
            return Vec::new();
        }
        let deadlines = &self.deadlines;
        let expired = self.calls_where(|slot| deadlines.of(slot) <= now);
        let pending = self.slots.iter().filter(|slot| slot.is_pending());
        let remaining = pending.map(|slot| deadlines.of(slot)).filter(|&deadline| deadline > now).min();
        self.deadlines.earliest = remaining.unwrap_or(Instant::NEVER);
        expired
    }

    /// No deadline is earlier than this.
    #[inline]
    pub fn earliest_deadline(&self) -> Instant {
        self.deadlines.earliest
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

fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn later(than: Instant, nanos: u64) -> Instant {
    Instant::from_nanos(than.as_nanos().saturating_add(nanos))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::endpoint::done::Done;
    use crate::endpoint::operations::Completion;

    const CALL_NANOS: u64 = 300_000;
    const MESSAGE_NANOS: u64 = 1_000_000;

    /// The slab beside operations whose deadlines are exact: the first reading of the clock behind their beginning, and their
    /// timeout. Through several cycles of readings, with operations that stay for more than one.
    #[test]
    fn operations_end_at_the_first_reading_that_is_late_enough() {
        let timeouts = Timeouts::new(Duration::from_nanos(CALL_NANOS), Duration::from_nanos(MESSAGE_NANOS));
        let mut now = 5;
        let mut slab = Operations::new(Done::new(), timeouts, Instant::from_nanos(now));
        let mut deadlines: HashMap<CallId, u64> = HashMap::new();
        let (mut ended, mut answered) = (0, 0);
        for round in 0..30_000_u64 {
            let mut added = Vec::new();
            for operation in 0..round % 3 {
                let (id, timeout) = add(&mut slab, round * 3 + operation);
                added.push((id, timeout));
            }
            now += if round % 1000 == 0 { 200_000 } else { 1 + round % 130 };
            slab.clock_was_read(Instant::from_nanos(now));
            deadlines.extend(added.into_iter().map(|(id, timeout)| (id, now.saturating_add(timeout))));
            if round % 4 == 1
                && let Some(&id) = deadlines.keys().next()
            {
                slab.cancel(id);
                deadlines.remove(&id);
                answered += 1;
            }

            let earliest = slab.earliest_deadline().as_nanos();
            assert!(deadlines.values().all(|&deadline| earliest <= deadline), "round {round}");
            let expired = slab.expired(Instant::from_nanos(now));
            ended += expired.len();
            for id in expired {
                let deadline = deadlines.remove(&id).expect("it is under way");
                assert!(deadline <= now, "round {round}: {deadline} at {now}");
                slab.cancel(id);
            }
            assert!(deadlines.values().all(|&deadline| deadline > now), "round {round}, at {now}");
        }
        assert!(ended > 15_000 && answered > 5000, "{ended} {answered}");
    }

    /// Some operation, and its timeout in nanoseconds.
    fn add(slab: &mut Operations, number: u64) -> (CallId, u64) {
        let own = match number {
            _ if number.is_multiple_of(35) => Some(u64::MAX),
            _ if number.is_multiple_of(5) => Some(number * 7919 % 4_000_000),
            _ => None,
        };
        let (timeout, session) = (own.map(Duration::from_nanos), SessionId(1));
        let (id, usual) = match number % 3 {
            0 => (slab.add_event(session, timeout, 0), CALL_NANOS),
            1 => (slab.add_send(timeout, 1, Completion::Nobody), MESSAGE_NANOS),
            _ => (slab.add_receive_event(session, timeout, 8, 0), MESSAGE_NANOS),
        };
        (id.expect("there is room"), own.unwrap_or(usual))
    }
}
