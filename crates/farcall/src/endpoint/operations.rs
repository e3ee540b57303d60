//! The operations under way: a slab of slots, each completing exactly once.
//!
//! A slot's number and generation together are the call's number on the wire, so a late answer to an operation that
//! has ended meets another generation and is dropped. Deadlines cost an addition and a comparison an operation: the
//! slab remembers the earliest deadline it has seen and looks through all slots only when that one has passed.

use core::task::Waker;
use core::time::Duration;

use farcall_protocol::Instant;
use farcall_transport::{CallId, Kept, SessionId};

use super::context::Context;
use super::messages::{KeptMessage, ReceiveCallback, ReceiveError, SendCallback, SendError};
use super::outcome::{CallError, Outcome};

/// The most operations of one endpoint at a time: the slot's number has 16 bits on the wire.
pub const OPERATIONS_MAX: usize = 1 << 16;

/// A callback that takes the outcome of one operation.
pub type Callback = Box<dyn FnOnce(&mut Context<'_>, &Outcome<'_>) + Send>;

/// What happens when an operation completes.
pub enum Completion {
    /// A future waits for it; whom to wake, once it has been polled.
    Future(Option<Waker>),
    /// The callback of a call gets it.
    Callback(Callback),
    /// The callback of a send gets it.
    Sent(SendCallback),
    /// The callback of a receive gets it.
    Received(ReceiveCallback),
    /// It becomes an event with this token.
    Event(u64),
    /// Nobody is interested any more.
    Nobody,
}

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Call,
    Send,
    Receive,
}

/// The session of operations that do not end with any.
pub const NO_SESSION: SessionId = SessionId(u32::MAX);

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
    Sent(Result<(), SendError>),
    Received(Result<KeptMessage, ReceiveError>),
}

struct Slot {
    stage: Stage,
    kind: Kind,
    generation: u16,
    session: SessionId,
    /// Of a receive the most bytes, of a send the parts that have not ended.
    number: u32,
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
    /// Slots of the operations that were added since the last reading of the clock; no more than there are slots, and
    /// then it may be any of them.
    added_since: Vec<u16>,
    /// By kind.
    under_way: [usize; 3],
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
            added_since: Vec::new(),
            under_way: [0; 3],
        }
    }

    /// Operations of a kind that have not completed.
    #[inline]
    pub fn under_way(&self, kind: Kind) -> usize {
        self.under_way[kind as usize]
    }

    /// The number that the next operation will have; `None` when the slab is full.
    #[inline]
    pub fn next_id(&mut self) -> Option<CallId> {
        let index = match self.free.last() {
            Some(&index) => index,
            None => {
                let index = self.grow()?;
                self.free.push(index);
                index
            }
        };
        Some(call_id(self.slots[usize::from(index)].generation, index))
    }

    /// Adds a send or receive; `None` when the slab is full. For `number` see [`Operations::number`].
    #[inline]
    pub fn add_message(
        &mut self,
        kind: Kind,
        session: SessionId,
        deadline: Instant,
        number: u32,
        completion: Completion,
    ) -> Option<CallId> {
        let (index, slot) = self.occupy(kind, session, deadline)?;
        slot.number = number;
        match completion {
            Completion::Event(token) => {
                slot.stage = Stage::PendingEvent;
                slot.token = token;
            }
            other => {
                slot.stage = Stage::Pending;
                slot.attachment = Attachment::Completion(other);
            }
        }
        Some(call_id(slot.generation, index))
    }

    /// Of a receive under way the most bytes it takes, of a send the parts that have not ended; `None` when it is over or
    /// of another kind.
    #[inline]
    pub fn number(&mut self, id: CallId, kind: Kind) -> Option<&mut u32> {
        let slot = self.slot_mut(id)?;
        (slot.is_pending() && slot.kind == kind).then_some(&mut slot.number)
    }

    /// From now on an operation ends with another session.
    pub fn set_session(&mut self, id: CallId, session: SessionId) {
        if let Some(slot) = self.slot_mut(id) {
            slot.session = session;
        }
    }

    /// What an operation is that has not ended.
    pub fn kind_of(&self, id: CallId) -> Option<Kind> {
        let slot = self.slots.get(usize::from(id.0 as u16))?;
        (slot.is_pending() && u32::from(slot.generation) == id.0 >> 16).then_some(slot.kind)
    }

    /// Adds an operation that becomes an event; `None` when the slab is full.
    #[inline]
    pub fn add_event(&mut self, session: SessionId, deadline: Instant, token: u64) -> Option<CallId> {
        let (index, slot) = self.occupy(Kind::Call, session, deadline)?;
        slot.stage = Stage::PendingEvent;
        slot.token = token;
        Some(call_id(slot.generation, index))
    }

    /// Adds an operation with a callback or for a future; `None` when the slab is full.
    #[inline]
    pub fn add(&mut self, session: SessionId, deadline: Instant, completion: Completion) -> Option<CallId> {
        let (index, slot) = self.occupy(Kind::Call, session, deadline)?;
        slot.stage = Stage::Pending;
        slot.attachment = Attachment::Completion(completion);
        Some(call_id(slot.generation, index))
    }

    #[inline]
    fn occupy(&mut self, kind: Kind, session: SessionId, deadline: Instant) -> Option<(u16, &mut Slot)> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow()?,
        };
        self.earliest_deadline = self.earliest_deadline.min(deadline);
        if self.added_since.len() < self.slots.len() {
            self.added_since.push(index);
        }
        self.under_way[kind as usize] += 1;
        let slot = &mut self.slots[usize::from(index)];
        slot.kind = kind;
        (slot.session, slot.deadline, slot.clock_reading) = (session, deadline, self.clock_reading);
        Some((index, slot))
    }

    #[cold]
    fn grow(&mut self) -> Option<u16> {
        let index = u16::try_from(self.slots.len()).ok()?;
        self.slots.push(Slot {
            stage: Stage::Vacant,
            kind: Kind::Call,
            generation: 0,
            session: SessionId(0),
            number: 0,
            clock_reading: 0,
            deadline: Instant::NEVER,
            token: 0,
            attachment: Attachment::Nothing,
        });
        Some(index)
    }

    /// Ends a call for whatever reason and says how to complete it; `None` when it has ended already or is not
    /// one of `session`. One that a future waits for keeps its slot until the future has fetched the result.
    #[inline]
    pub fn end(&mut self, call: CallId, session: SessionId) -> Option<Completion> {
        let slot = self.slot_mut(call)?;
        if !slot.is_pending() || slot.session != session || slot.kind != Kind::Call {
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
        let index = call.0 as u16;
        let slot = &mut self.slots[usize::from(index)];
        self.under_way[slot.kind as usize] -= 1;
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
        match self.fetch(call, waker)? {
            Attachment::Result(result) => Some(result),
            _ => unreachable!("the result of a call is one of a call"),
        }
    }

    #[inline]
    fn fetch(&mut self, id: CallId, waker: Option<&Waker>) -> Option<Attachment> {
        let index = id.0 as u16;
        let slot = &mut self.slots[usize::from(index)];
        if slot.stage == Stage::Done {
            let result = slot.vacate();
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

    /// Leaves the end of a send for its future.
    pub fn leave_sent(&mut self, id: CallId, result: Result<(), SendError>) {
        let slot = &mut self.slots[usize::from(id.0 as u16)];
        slot.stage = Stage::Done;
        slot.attachment = Attachment::Sent(result);
    }

    /// Leaves the end of a receive for its future.
    #[inline]
    pub fn leave_received(&mut self, id: CallId, result: Result<KeptMessage, ReceiveError>) {
        let slot = &mut self.slots[usize::from(id.0 as u16)];
        slot.stage = Stage::Done;
        slot.attachment = Attachment::Received(result);
    }

    /// What a future's send has come to, as [`Operations::fetch_result`].
    pub fn fetch_sent(&mut self, id: CallId, waker: Option<&Waker>) -> Option<Result<(), SendError>> {
        match self.fetch(id, waker)? {
            Attachment::Sent(result) => Some(result),
            _ => unreachable!("the result of a send is one of a send"),
        }
    }

    /// What a future's receive has come to, as [`Operations::fetch_result`].
    #[inline]
    pub fn fetch_received(
        &mut self,
        id: CallId,
        waker: Option<&Waker>,
    ) -> Option<Result<KeptMessage, ReceiveError>> {
        match self.fetch(id, waker)? {
            Attachment::Received(result) => Some(result),
            _ => unreachable!("the result of a receive is one of a receive"),
        }
    }

    /// Nobody waits for the end of an operation any more, which goes on.
    pub fn detach_future(&mut self, id: CallId) {
        let index = id.0 as u16;
        let slot = &mut self.slots[usize::from(index)];
        if slot.is_pending() {
            slot.attachment = Attachment::Completion(Completion::Nobody);
        } else {
            self.abandon(id);
        }
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
        if gap > CLOCK_SLACK {
            let reading = self.clock_reading;
            let correct = |slot: &mut Slot| {
                if slot.is_pending() && slot.clock_reading == reading {
                    slot.deadline += gap;
                    // Once is enough.
                    slot.clock_reading = reading.wrapping_sub(1);
                }
            };
            if self.added_since.len() < self.slots.len() {
                self.added_since.iter().for_each(|&index| correct(&mut self.slots[usize::from(index)]));
            } else {
                self.slots.iter_mut().for_each(correct);
            }
        }
        self.added_since.clear();
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
