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

/// Where a slot stands. Vacant → Pending → Vacant; the slot of a future goes Vacant → Pending → Done → Vacant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Vacant,
    /// The operation becomes an event; nothing is attached.
    PendingEvent,
    /// A callback or the waker of a future is attached.
    Pending,
    /// The result for a future is attached.
    Done,
}

/// What a slot holds beside its numbers. Most operations never touch it.
enum Attachment {
    Nothing,
    Completion(Completion),
    Result(Result<Kept, CallError>),
}

struct Slot {
    stage: Stage,
    generation: u16,
    session: SessionId,
    /// The reading of the clock that the deadline was computed from.
    clock_reading: u32,
    deadline: Instant,
    token: u64,
    attachment: Attachment,
}

impl Slot {
    fn is_pending(&self) -> bool {
        matches!(self.stage, Stage::PendingEvent | Stage::Pending)
    }

    /// Takes what is attached off the slot, which is vacant from now on.
    fn vacate(&mut self) -> Attachment {
        self.stage = Stage::Vacant;
        self.generation = self.generation.wrapping_add(1);
        core::mem::replace(&mut self.attachment, Attachment::Nothing)
    }
}

/// The slab.
pub struct Operations {
    slots: Vec<Slot>,
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

    /// Adds an operation that becomes an event; `None` when the slab is full.
    #[inline]
    pub fn add_event(&mut self, session: SessionId, deadline: Instant, token: u64) -> Option<CallId> {
        let (index, slot) = self.occupy(session, deadline)?;
        slot.stage = Stage::PendingEvent;
        slot.token = token;
        Some(call_id(slot.generation, index))
    }

    /// Adds an operation with a callback or for a future; `None` when the slab is full.
    #[inline]
    pub fn add(&mut self, session: SessionId, deadline: Instant, completion: Completion) -> Option<CallId> {
        let (index, slot) = self.occupy(session, deadline)?;
        slot.stage = Stage::Pending;
        slot.attachment = Attachment::Completion(completion);
        Some(call_id(slot.generation, index))
    }

    #[inline]
    fn occupy(&mut self, session: SessionId, deadline: Instant) -> Option<(u16, &mut Slot)> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow()?,
        };
        self.earliest_deadline = self.earliest_deadline.min(deadline);
        self.added_since = true;
        self.under_way += 1;
        let slot = &mut self.slots[usize::from(index)];
        (slot.session, slot.deadline, slot.clock_reading) = (session, deadline, self.clock_reading);
        Some((index, slot))
    }

    #[cold]
    fn grow(&mut self) -> Option<u16> {
        let index = u16::try_from(self.slots.len()).ok()?;
        self.slots.push(Slot {
            stage: Stage::Vacant,
            generation: 0,
            session: SessionId(0),
            clock_reading: 0,
            deadline: Instant::NEVER,
            token: 0,
            attachment: Attachment::Nothing,
        });
        Some(index)
    }

    /// Ends an operation for whatever reason and says how to complete it; `None` when it has ended already or is not
    /// one of `session`. One that a future waits for keeps its slot until the future has fetched the result.
    #[inline]
    pub fn end(&mut self, call: CallId, session: SessionId) -> Option<Completion> {
        let slot = self.slot_mut(call)?;
        if !slot.is_pending() || slot.session != session {
            return None;
        }
        Some(self.remove_pending(call))
    }

    /// The session of an operation that has not ended.
    pub fn session_of(&self, call: CallId) -> Option<SessionId> {
        let slot = self.slots.get(usize::from(call.0 as u16))?;
        (slot.is_pending() && u32::from(slot.generation) == call.0 >> 16).then_some(slot.session)
    }

    /// Ends an operation whatever its session; gives the session too.
    pub fn cancel(&mut self, call: CallId) -> Option<(SessionId, Completion)> {
        let slot = self.slot_mut(call)?;
        if !slot.is_pending() {
            return None;
        }
        let session = slot.session;
        Some((session, self.remove_pending(call)))
    }

    #[inline]
    fn remove_pending(&mut self, call: CallId) -> Completion {
        self.under_way -= 1;
        let index = call.0 as u16;
        let slot = &mut self.slots[usize::from(index)];
        if slot.stage == Stage::PendingEvent {
            slot.stage = Stage::Vacant;
            slot.generation = slot.generation.wrapping_add(1);
            let token = slot.token;
            self.free.push(index);
            return Completion::Event(token);
        }
        self.detach(index)
    }

    fn detach(&mut self, index: u16) -> Completion {
        let slot = &mut self.slots[usize::from(index)];
        let attachment = core::mem::replace(&mut slot.attachment, Attachment::Nothing);
        let Attachment::Completion(completion) = attachment else {
            unreachable!("pending slots have a completion")
        };
        if !matches!(completion, Completion::Future(_)) {
            slot.vacate();
            self.free.push(index);
        }
        completion
    }

    /// Leaves the result of an operation for its future.
    pub fn leave_result(&mut self, call: CallId, result: Result<Kept, CallError>) {
        let slot = &mut self.slots[usize::from(call.0 as u16)];
        slot.stage = Stage::Done;
        slot.attachment = Attachment::Result(result);
    }

    /// What a future's operation has come to; registers `waker` if it is not complete.
    pub fn fetch_result(&mut self, call: CallId, waker: Option<&Waker>) -> Option<Result<Kept, CallError>> {
        let index = call.0 as u16;
        let slot = &mut self.slots[usize::from(index)];
        if slot.stage == Stage::Done {
            let Attachment::Result(result) = slot.vacate() else { unreachable!("done slots have a result") };
            self.free.push(index);
            return Some(result);
        }
        let Attachment::Completion(Completion::Future(known)) = &mut slot.attachment else {
            unreachable!("a future fetches its result once")
        };
        if let Some(waker) = waker
            && known.as_ref().is_none_or(|known| !known.will_wake(waker))
        {
            *known = Some(waker.clone());
        }
        None
    }

    /// Whether the operation of a future is complete.
    #[inline]
    pub fn is_done(&self, call: CallId) -> bool {
        self.slots[usize::from(call.0 as u16)].stage == Stage::Done
    }

    /// Gives the slot of a future that was dropped back after its operation was cancelled or done.
    pub fn abandon(&mut self, call: CallId) {
        let index = call.0 as u16;
        self.slots[usize::from(index)].vacate();
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

    fn calls_where(&self, condition: impl Fn(&Slot) -> bool) -> Vec<CallId> {
        let pending = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_pending() && condition(slot));
        pending.map(|(index, slot)| call_id(slot.generation, index as u16)).collect()
    }

    fn pending_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().filter(|slot| slot.is_pending())
    }

    #[inline]
    fn slot_mut(&mut self, call: CallId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(usize::from(call.0 as u16))?;
        (u32::from(slot.generation) == call.0 >> 16).then_some(slot)
    }
}

#[inline]
fn call_id(generation: u16, index: u16) -> CallId {
    CallId(u32::from(generation) << 16 | u32::from(index))
}
