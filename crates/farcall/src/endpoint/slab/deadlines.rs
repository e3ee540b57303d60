//! The deadlines of the operations.
//!
//! The clock is read once for many operations, and one that begins between two readings does not read it. So a deadline is a timeout
//! at first, and an instant from the next reading on: the time of the operation counts from that reading, and the operation never
//! ends early, even if its caller does something else for long before the next poll.
//!
//! Where every poll reads the clock, the slots of operations that began since are remembered, so that one
//! operation does not cost a look at a thousand slots. Where the clock is read seldom all slots are looked
//! at, many in a row: to remember each would cost more.
//!
//! Nothing happens when an operation ends. All deadlines are looked through only when the earliest that any can be has passed.

use core::time::Duration;

use farcall_base::Instant;
use farcall_transport::CallId;

use super::slot::{Kind, Slot};

/// How long operations may take that have no timeout of their own.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Calls.
    pub call: Duration,
    /// Sends and receives.
    pub message: Duration,
}

/// The end of time, in nanoseconds: the sum of two such numbers leaves the topmost bit clear.
const NEVER_NANOS: u64 = 1 << 62;

/// A timeout or an instant, in nanoseconds and at most [`NEVER_NANOS`].
#[derive(Clone, Copy, Debug)]
struct Deadline(u64);

impl Deadline {
    const NEVER: Self = Self(NEVER_NANOS);

    /// Set in those that are timeouts.
    const IS_TIMEOUT: u64 = 1 << 63;

    fn after(timeout: Duration) -> Self {
        Self(
            Self::IS_TIMEOUT
                | u64::try_from(timeout.as_nanos()).map_or(NEVER_NANOS, |nanos| nanos.min(NEVER_NANOS)),
        )
    }

    /// The instant, of a timeout that counts from `now`.
    #[inline]
    fn counted_from(self, now: Instant) -> Self {
        // Without a branch: it is done for many in a row.
        let now_if_timeout = (0_u64.wrapping_sub(self.0 >> 63)) & now.as_nanos().min(NEVER_NANOS);
        Self((self.0 & !Self::IS_TIMEOUT) + now_if_timeout)
    }

    fn instant(self) -> Instant {
        if self.0 >= NEVER_NANOS { Instant::NEVER } else { Instant::from_nanos(self.0) }
    }
}

/// How many of the operations that began last are remembered.
const RECENT_MAX: usize = 1024;

/// More slots than this are not looked at because of a few operations, however seldom the clock is read.
const SCANNED_SLOTS_MAX: usize = if cfg!(test) { 16 } else { 4096 };

/// The deadlines of all slots.
pub struct Deadlines {
    /// By slot; of one that is vacant or done anything.
    by_slot: Vec<Deadline>,
    /// How many operations have begun since the clock was read; where they are not remembered, whether any
    /// has.
    begun: usize,
    /// Their slots, the first of them at place 0; later ones take the place of earlier ones. `None` where
    /// they are not remembered.
    recent: Option<Box<[u16; RECENT_MAX]>>,
    /// By kind.
    usual: [Deadline; 3],
    /// No deadline is earlier than this, but for those that are timeouts.
    earliest: Instant,
    /// No timeout is shorter than this.
    shortest: Deadline,
}

impl Deadlines {
    /// No operation has begun. `remembers` says whether those that begin are remembered, as is best where
    /// every poll reads the clock.
    pub fn new(timeouts: Timeouts, remembers: bool) -> Self {
        let (call, message) = (Deadline::after(timeouts.call), Deadline::after(timeouts.message));
        let mut deadlines = Self {
            by_slot: Vec::new(),
            begun: 0,
            recent: remembers.then(|| Box::new([0; RECENT_MAX])),
            usual: [call, message, message],
            earliest: Instant::NEVER,
            shortest: Deadline::NEVER,
        };
        deadlines.forget_timeouts();
        deadlines
    }

    /// There is one more slot, the last one.
    pub fn add_slot(&mut self) {
        self.by_slot.push(Deadline::NEVER);
        if self.by_slot.len() > SCANNED_SLOTS_MAX && self.recent.is_none() {
            // Those that began before are not in it.
            self.begun = RECENT_MAX + 1;
            self.recent = Some(Box::new([0; RECENT_MAX]));
        }
    }

    /// An operation begins, with a timeout of its own or that of its kind.
    #[inline(always)]
    pub fn begin(&mut self, index: u16, kind: Kind, timeout: Option<Duration>) {
        match &mut self.recent {
            None => self.begun = 1,
            Some(recent) => {
                recent[self.begun % RECENT_MAX] = index;
                self.begun += 1;
            }
        }
        self.by_slot[usize::from(index)] = match timeout {
            None => self.usual[kind as usize],
            Some(timeout) => self.own(timeout),
        };
    }

    fn own(&mut self, timeout: Duration) -> Deadline {
        let deadline = Deadline::after(timeout);
        self.shortest.0 = self.shortest.0.min(deadline.0);
        deadline
    }

    /// Whether operations have begun since the clock was read.
    #[inline]
    pub fn have_begun(&self) -> bool {
        self.begun > 0
    }

    /// The clock was read: the time of operations that have begun since the last reading counts from now.
    pub fn count_from(&mut self, now: Instant) {
        let begun = core::mem::take(&mut self.begun);
        // A few slots one by one, many in a row: four times as fast.
        let are_few = begun <= RECENT_MAX.min(self.by_slot.len() / 4);
        match self.recent.as_ref().filter(|_| are_few) {
            Some(recent) => {
                for &index in &recent[..begun] {
                    let deadline = &mut self.by_slot[usize::from(index)];
                    *deadline = deadline.counted_from(now);
                }
            }
            None => self.by_slot.iter_mut().for_each(|deadline| *deadline = deadline.counted_from(now)),
        }
        self.earliest = self.earliest.min(self.shortest.counted_from(now).instant());
        self.forget_timeouts();
    }

    fn forget_timeouts(&mut self) {
        let [call, message, _] = self.usual;
        self.shortest.0 = call.0.min(message.0);
    }

    /// No deadline that is an instant is earlier than this.
    #[inline]
    pub fn earliest(&self) -> Instant {
        self.earliest
    }

    /// The operations whose deadline has passed. None of the others is looked at again before its own has.
    pub fn expired(&mut self, slots: &[Slot], now: Instant) -> Vec<CallId> {
        let mut expired = Vec::new();
        self.earliest = Instant::NEVER;
        for (slot, deadline) in slots.iter().zip(&self.by_slot).filter(|(slot, _)| slot.is_pending()) {
            match deadline.instant() {
                passed if passed <= now => expired.push(slot.id),
                to_come => self.earliest = self.earliest.min(to_come),
            }
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use farcall_transport::SessionId;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::endpoint::slab::{Completion, Done, Slab};

    const CALL_NANOS: u64 = 300;
    const MESSAGE_NANOS: u64 = 1000;

    #[derive(Clone, Debug)]
    enum Step {
        Add(Kind, Option<u64>),
        /// The operation of that number, modulo those in flight, has its response.
        End(usize),
        /// The clock is read this much later, and expired operations are asked for.
        Poll(u64),
        /// The clock is read because the endpoint is about to wait.
        ReadClock(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let kind = prop_oneof![Just(Kind::Call), Just(Kind::Send), Just(Kind::Receive)];
        let own = prop_oneof![
            4 => Just(None),
            2 => (0..2000_u64).prop_map(Some),
            1 => prop_oneof![Just(NEVER_NANOS - 1), Just(NEVER_NANOS), Just(u64::MAX)].prop_map(Some),
        ];
        let passed = || prop_oneof![8 => 0..100_u64, 2 => 100..2000_u64];
        let step = prop_oneof![
            6 => (kind, own).prop_map(|(kind, own)| Step::Add(kind, own)),
            2 => any::<usize>().prop_map(Step::End),
            4 => passed().prop_map(Step::Poll),
            1 => passed().prop_map(Step::ReadClock),
        ];
        vec(step, 1..400)
    }

    /// Operations in the simplest form: those without a deadline have begun since the clock was read.
    #[derive(Default)]
    struct Model(BTreeMap<u32, (u64, Option<u64>)>);

    impl Model {
        fn count_from(&mut self, now: u64) {
            for (timeout, deadline) in self.0.values_mut() {
                deadline.get_or_insert(now.saturating_add(*timeout));
            }
        }

        fn expired(&self, now: u64) -> Vec<u32> {
            let is_over =
                |(_, deadline): &(u64, Option<u64>)| deadline.is_some_and(|deadline| deadline <= now);
            self.0.iter().filter(|(_, operation)| is_over(operation)).map(|(&id, _)| id).collect()
        }
    }

    fn add(slab: &mut Slab, kind: Kind, own: Option<u64>) -> (CallId, u64) {
        let (timeout, session) = (own.map(Duration::from_nanos), SessionId(1));
        let (id, usual) = match kind {
            Kind::Call => (slab.add_event(session, timeout, 0), CALL_NANOS),
            Kind::Send => (slab.add_send(timeout, 1, Completion::Nobody), MESSAGE_NANOS),
            Kind::Receive => (slab.add_receive_event(session, timeout, 8, 0), MESSAGE_NANOS),
        };
        (id.expect("there is room"), own.unwrap_or(usual))
    }

    proptest! {
        /// Never early, at the first poll that is late enough, and once.
        #[test]
        fn operations_expire_at_the_first_poll_behind_their_deadline(
            steps in steps(),
            remembers in any::<bool>(),
        ) {
            let timeouts = Timeouts {
                call: Duration::from_nanos(CALL_NANOS),
                message: Duration::from_nanos(MESSAGE_NANOS),
            };
            let mut slab = Slab::new(Done::new(), timeouts, remembers);
            let (mut model, mut now) = (Model::default(), 5);
            for step in steps {
                match step {
                    Step::Add(kind, own) => {
                        let (id, timeout) = add(&mut slab, kind, own);
                        model.0.insert(id.0, (timeout, None));
                    }
                    Step::End(number) => {
                        let id = model.0.keys().copied().nth(number % model.0.len().max(1));
                        if let Some(id) = id {
                            prop_assert!(slab.cancel(CallId(id)).is_some());
                            model.0.remove(&id);
                        }
                    }
                    Step::ReadClock(passed) => {
                        now += passed;
                        slab.clock_was_read(Instant::from_nanos(now));
                        model.count_from(now);
                    }
                    Step::Poll(passed) => {
                        now += passed;
                        slab.clock_was_read(Instant::from_nanos(now));
                        model.count_from(now);
                        let mut expired = Vec::new();
                        if slab.earliest_deadline() <= Instant::from_nanos(now) {
                            expired = slab.expired(Instant::from_nanos(now));
                        }
                        let mut expired: Vec<u32> = expired.into_iter().map(|id| id.0).collect();
                        expired.sort_unstable();
                        prop_assert_eq!(&expired, &model.expired(now), "at {}", now);
                        for id in expired {
                            prop_assert!(slab.cancel(CallId(id)).is_some());
                            model.0.remove(&id);
                        }
                    }
                }
                let deadlines = model.0.values().filter_map(|&(_, deadline)| deadline);
                if let Some(earliest) = deadlines.min().filter(|&nanos| nanos < NEVER_NANOS) {
                    prop_assert!(slab.earliest_deadline() <= Instant::from_nanos(earliest));
                }
            }
        }
    }
}
