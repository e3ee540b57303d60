//! The deadlines of the operations.
//!
//! The clock is read once for many operations, and one that begins between two readings does not read it. So
//! a deadline is a timeout at first, and an instant from the next reading on: the time of the operation
//! counts from that reading, and the operation never ends early, even if its caller does something else for
//! long before the next poll.
//!
//! Slots are in groups, and of each group it is remembered whether an operation began there since the last
//! reading: so a reading looks at few slots where few have begun among many, and at many in a row where many
//! have.
//!
//! Nothing happens when an operation ends. All deadlines are looked through only when the earliest that any
//! can be has passed.

use core::time::Duration;

use farcall_base::Instant;
use farcall_transport::CallId;

use super::OPERATIONS_MAX;
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

/// Slots of a group: their deadlines are eight cache lines.
const GROUP_SLOTS: usize = 64;

/// The deadlines of all slots.
///
/// There is one for each slot that can be, in memory that the system provides when it is first written: what
/// a slot's number indexes needs no check.
pub struct Deadlines {
    /// By slot; of one that is vacant or done anything.
    by_slot: Box<[u64; OPERATIONS_MAX]>,
    /// By kind.
    usual: [Deadline; 3],
    /// No deadline is earlier than this, but for those that are timeouts.
    earliest: Instant,
    /// No timeout is shorter than this.
    shortest: Deadline,
    /// By group: whether an operation has begun there since the clock was read.
    begun: [bool; OPERATIONS_MAX / GROUP_SLOTS],
    /// How many groups have slots, the others nothing to look at: most endpoints have few, and the clock is
    /// read often.
    groups: usize,
}

impl Deadlines {
    /// No operation has begun.
    pub fn new(timeouts: Timeouts) -> Self {
        let (call, message) = (Deadline::after(timeouts.call), Deadline::after(timeouts.message));
        let by_slot = vec![0; OPERATIONS_MAX].into_boxed_slice();
        let mut deadlines = Self {
            by_slot: by_slot.try_into().expect("it has this length"),
            usual: [call, message, message],
            earliest: Instant::NEVER,
            shortest: Deadline::NEVER,
            begun: [false; OPERATIONS_MAX / GROUP_SLOTS],
            groups: 0,
        };
        deadlines.forget_timeouts();
        deadlines
    }

    /// There is a slot of this number, the next after all others.
    pub fn add_slot(&mut self, index: u16) {
        self.groups = usize::from(index) / GROUP_SLOTS + 1;
    }

    /// An operation begins, with a timeout of its own or that of its kind.
    #[inline(always)]
    pub fn begin(&mut self, index: u16, kind: Kind, timeout: Option<Duration>) {
        let deadline = match timeout {
            None => self.usual[kind as usize],
            Some(timeout) => self.own(timeout),
        };
        let index = usize::from(index);
        self.by_slot[index] = deadline.0;
        self.begun[index / GROUP_SLOTS] = true;
    }

    fn own(&mut self, timeout: Duration) -> Deadline {
        let deadline = Deadline::after(timeout);
        self.shortest.0 = self.shortest.0.min(deadline.0);
        deadline
    }

    /// The clock was read: the time of operations that have begun since the last reading counts from now.
    pub fn count_from(&mut self, now: Instant) {
        let groups = self.by_slot.as_chunks_mut::<GROUP_SLOTS>().0;
        for (begun, deadlines) in self.begun[..self.groups].iter_mut().zip(groups) {
            if core::mem::take(begun) {
                deadlines.iter_mut().for_each(|deadline| *deadline = Deadline(*deadline).counted_from(now).0);
            }
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
        for (slot, &deadline) in slots.iter().zip(&*self.by_slot).filter(|(slot, _)| slot.is_pending()) {
            match Deadline(deadline).instant() {
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

    use farcall_transport::{Service, SessionId};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::endpoint::completion::AsEvent;
    use crate::endpoint::future::Done;
    use crate::endpoint::slab::Slab;

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
            Kind::Call => (slab.add_call(session, timeout, Service(1), AsEvent(0)), CALL_NANOS),
            Kind::Send => (slab.add_send(timeout, 1, AsEvent(0)), MESSAGE_NANOS),
            Kind::Receive => (slab.add_receive(session, timeout, 8, AsEvent(0)), MESSAGE_NANOS),
        };
        (id.expect("there is room"), own.unwrap_or(usual))
    }

    proptest! {
        /// Never early, at the first poll that is late enough, and once.
        #[test]
        fn operations_expire_at_the_first_poll_behind_their_deadline(
            steps in steps(),
        ) {
            let timeouts = Timeouts {
                call: Duration::from_nanos(CALL_NANOS),
                message: Duration::from_nanos(MESSAGE_NANOS),
            };
            let mut slab = Slab::new(Done::new(), timeouts);
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
                            prop_assert!(slab.abandon(CallId(id)).is_some());
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
                            prop_assert!(slab.abandon(CallId(id)).is_some());
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
