//! The operations under way: a slab of slots, each completing exactly once.
//!
//! A slot's number and generation together are the call's number on the wire, so a late answer to an operation that
//! has ended meets another generation and is dropped. Deadlines cost an addition and a comparison an operation: the
//! slab remembers the earliest deadline it has seen and looks through all slots only when that one has passed.

use core::task::Waker;
use core::time::Duration;

use farcall_protocol::Instant;
use farcall_transport::{CallId, SessionId};

use super::context::Context;
use super::outcome::{CallError, Kept, Outcome};

/// The most operations of one endpoint at a time: the slot's number has 16 bits on the wire.
pub const OPERATIONS_MAX: usize = 1 << 16;

/// A callback that takes the outcome of one operation.
pub type Callback = Box<dyn FnOnce(&mut Context<'_>, &Outcome<'_>) + Send>;

/// What happens when an operation completes.
pub enum Completion {
    /// A future waits for it; whom to wake, once it has been polled.
    Future(Option<Waker>),
    /// A callback gets it.
    Callback(Callback),
    /// It becomes an event with this token.
    Event(u64),
}

/// Vacant → Pending → Vacant; the slot of a future goes Vacant → Pending → Done → Vacant.
enum Slot {
    Vacant,
    Pending(Operation),
    /// Complete; the future has not fetched the result yet.
    Done(Result<Kept, CallError>),
}

struct Operation {
    session: SessionId,
    deadline: Instant,
    /// The reading of the clock that the deadline was computed from.
    clock_reading: u32,
    completion: Completion,
}

/// The slab.
pub struct Operations {
    slots: Vec<(u16, Slot)>,
    free: Vec<u16>,
    /// No deadline is earlier than this.
    earliest_deadline: Instant,
    clock_reading: u32,
    /// Whether operations were added since the last reading of the clock.
    added_since: bool,
    under_way: usize,
}

/// A gap between readings of the clock that deadlines are corrected for.
const CLOCK_SLACK: Duration = Duration::from_micros(1);

impl Operations {
    pub fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            earliest_deadline: Instant::NEVER,
            clock_reading: 0,
            added_since: false,
            under_way: 0,
        }
    }

    /// Operations that have not completed.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Adds an operation; `None` when the slab is full. Always inlined, so that it is built in its slot.
    #[inline(always)]
    pub fn add(&mut self, session: SessionId, deadline: Instant, completion: Completion) -> Option<CallId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow()?,
        };
        let operation = Operation { session, deadline, clock_reading: self.clock_reading, completion };
        let (generation, slot) = &mut self.slots[usize::from(index)];
        *slot = Slot::Pending(operation);
        self.earliest_deadline = self.earliest_deadline.min(deadline);
        self.added_since = true;
        self.under_way += 1;
        Some(CallId(u32::from(*generation) << 16 | u32::from(index)))
    }

    fn grow(&mut self) -> Option<u16> {
        let index = u16::try_from(self.slots.len()).ok()?;
        self.slots.push((0, Slot::Vacant));
        Some(index)
    }

    /// Ends an operation for whatever reason and says how to complete it; `None` when it has ended already or is not
    /// one of `session`. One that a future waits for keeps its slot until the future has fetched the result.
    #[inline]
    pub fn end(&mut self, call: CallId, session: SessionId) -> Option<Completion> {
        match self.slot(call)? {
            Slot::Pending(operation) if operation.session == session => {}
            _ => return None,
        }
        Some(self.remove_pending(call))
    }

    /// Ends an operation whatever its session; gives the session too.
    pub fn cancel(&mut self, call: CallId) -> Option<(SessionId, Completion)> {
        let Slot::Pending(operation) = self.slot(call)? else { return None };
        let session = operation.session;
        Some((session, self.remove_pending(call)))
    }

    fn remove_pending(&mut self, call: CallId) -> Completion {
        self.under_way -= 1;
        let index = call.0 as u16;
        let (generation, slot) = &mut self.slots[usize::from(index)];
        let Slot::Pending(operation) = core::mem::replace(slot, Slot::Vacant) else {
            unreachable!("the caller has seen that it is pending")
        };
        if !matches!(operation.completion, Completion::Future(_)) {
            *generation = generation.wrapping_add(1);
            self.free.push(index);
        }
        operation.completion
    }

    /// Leaves the result of an operation for its future.
    pub fn leave_result(&mut self, call: CallId, result: Result<Kept, CallError>) {
        self.slots[usize::from(call.0 as u16)].1 = Slot::Done(result);
    }

    /// What a future's operation has come to; registers `waker` if it is not complete.
    pub fn fetch_result(&mut self, call: CallId, waker: Option<&Waker>) -> Option<Result<Kept, CallError>> {
        let index = call.0 as u16;
        let (generation, slot) = &mut self.slots[usize::from(index)];
        match slot {
            Slot::Done(_) => {
                let Slot::Done(result) = core::mem::replace(slot, Slot::Vacant) else { unreachable!() };
                *generation = generation.wrapping_add(1);
                self.free.push(index);
                Some(result)
            }
            Slot::Pending(Operation { completion: Completion::Future(waiting), .. }) => {
                if let Some(waker) = waker {
                    match waiting {
                        Some(known) if known.will_wake(waker) => {}
                        _ => *waiting = Some(waker.clone()),
                    }
                }
                None
            }
            _ => unreachable!("a future fetches its result once"),
        }
    }

    /// Whether the operation of a future is complete.
    #[inline]
    pub fn is_done(&self, call: CallId) -> bool {
        matches!(self.slots[usize::from(call.0 as u16)].1, Slot::Done(_))
    }

    /// Gives the slot of a future that was dropped back after its operation was cancelled or done.
    pub fn abandon(&mut self, call: CallId) {
        let index = call.0 as u16;
        let (generation, slot) = &mut self.slots[usize::from(index)];
        *slot = Slot::Vacant;
        *generation = generation.wrapping_add(1);
        self.free.push(index);
    }

    /// Tells the slab that the clock was read: `last` before, `now` this time. Operations added in between were given
    /// deadlines from the old reading; a long gap is added to them.
    pub fn clock_was_read(&mut self, last: Instant, now: Instant) {
        let gap = now - last;
        if self.added_since && gap > CLOCK_SLACK {
            let reading = self.clock_reading;
            for operation in self.pending_mut().filter(|operation| operation.clock_reading == reading) {
                operation.deadline += gap;
            }
        }
        self.added_since = false;
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
    pub fn earliest_deadline(&self) -> Instant {
        self.earliest_deadline
    }

    /// The operations of a session.
    pub fn of_session(&self, session: SessionId) -> Vec<CallId> {
        self.calls_where(|operation| operation.session == session)
    }

    fn calls_where(&self, condition: impl Fn(&Operation) -> bool) -> Vec<CallId> {
        let calls = self.slots.iter().enumerate().filter_map(|(index, (generation, slot))| match slot {
            Slot::Pending(operation) if condition(operation) => {
                Some(CallId(u32::from(*generation) << 16 | index as u32))
            }
            _ => None,
        });
        calls.collect()
    }

    fn pending_mut(&mut self) -> impl Iterator<Item = &mut Operation> {
        self.slots.iter_mut().filter_map(|(_, slot)| match slot {
            Slot::Pending(operation) => Some(operation),
            _ => None,
        })
    }

    #[inline]
    fn slot(&self, call: CallId) -> Option<&Slot> {
        let (generation, slot) = self.slots.get(usize::from(call.0 as u16))?;
        (u32::from(*generation) == call.0 >> 16).then_some(slot)
    }
}
