//! Sends and receives that ended when they began.
//!
//! Their callbacks run in a poll, or when the endpoint is asked to reap, so that a callback may begin the next operation to any
//! depth without using the stack.

use core::mem::take;

use farcall_transport::{Arrived, Incoming, Short, Tag};

use super::ends::outcome_of;
use super::outcome::{KeptMessage, ReceiveError, ReceiveOutcome, Received};
use super::row::{Row, Taken};
use crate::endpoint::callback::{ReceiveCallback, ReceivePlace, SendCallback, SendPlace};
use crate::endpoint::context::{Context, Operation};
use crate::endpoint::core::Core;
use crate::endpoint::label::Label;
use crate::endpoint::sessions::Peer;
use crate::endpoint::slab::NO_SESSION;
use crate::endpoint::state::State;

/// Operations that ended when they began, until their callbacks run: of each kind the oldest first. Callbacks stay where they were
/// made until they have run.
#[derive(Default)]
pub struct EndedAtOnce {
    /// Sends, all of which have left well: one that cannot be sent is refused.
    sent: Row<SendPlace>,
    /// Receives whose message was there already, or that can have none.
    received: Row<EndedReceive>,
}

/// A receive that ended when it began.
#[derive(Default)]
pub struct EndedReceive {
    callback: ReceivePlace,
    /// How it ended, unless with a short message.
    otherwise: Option<Result<KeptMessage, ReceiveError>>,
    message: ShortReceived,
}

/// A short message that a receive was given when it began.
pub struct ShortReceived {
    label: Label,
    short: Short,
}

impl Default for ShortReceived {
    fn default() -> Self {
        let nobody = Peer { session: NO_SESSION, rank: 0, endpoint: 0 };
        Self { label: Label::new(nobody, Tag(0)), short: Short::default() }
    }
}

impl ShortReceived {
    #[inline(always)]
    pub fn put(&mut self, label: Label, message: &[u8]) {
        self.short = Short::new(message).expect("it is short");
        self.label = label;
    }

    /// Gives `callback` the message.
    #[inline(always)]
    pub fn give(&self, callback: impl FnOnce(&ReceiveOutcome<'_>)) {
        let payload = Incoming::Borrowed(&self.short);
        callback(&Ok(Received { peer: self.label.peer(), tag: self.label.tag(), payload }));
    }
}

impl EndedAtOnce {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.received.is_empty()
    }

    /// The message of the next receive that ends when it begins; [`EndedAtOnce::received`] follows.
    #[inline(always)]
    pub fn put_next(&mut self, label: Label, room: u32, arrived: Arrived<'_>) {
        let place = self.received.vacant();
        match arrived {
            Arrived::InPlace(message) => place.message.put(label, message),
            Arrived::Kept(_) => place.otherwise = Some(outcome_of(label, room, arrived)),
        }
    }

    /// A receive has ended when it began, with the message that is in its place.
    #[inline(always)]
    pub fn received(&mut self, callback: impl FnOnce() -> ReceiveCallback) {
        self.received.fill(|ended| ended.callback.put(callback));
    }

    /// A receive has ended when it began, without a message.
    pub fn failed(&mut self, error: ReceiveError, callback: ReceiveCallback) {
        self.received.vacant().otherwise = Some(Err(error));
        self.received(|| callback);
    }
}

impl State {
    /// A send has left when it was asked for. There is no operation for it.
    #[inline(always)]
    pub fn ended_at_once(&mut self, callback: impl FnOnce() -> SendCallback) -> Option<Operation> {
        self.messages.ended.sent.fill(|place| place.put(callback));
        None
    }
}

impl Core {
    /// Runs the callbacks of operations that ended when they began; those that end meanwhile wait for the next time. What one panics
    /// with is kept for the caller.
    #[inline]
    pub fn run_ended(&mut self) -> usize {
        let EndedAtOnce { sent, received } = &self.state.messages.ended;
        let (has_sent, has_received) = (!sent.is_empty(), !received.is_empty());
        let sends = if has_sent { self.run_row(|ended| &mut ended.sent) } else { 0 };
        let receives = if has_received { self.run_row(|ended| &mut ended.received) } else { 0 };
        sends + receives
    }

    /// Runs the callbacks of a row; says how many there were.
    ///
    /// A function by itself for each row, as seldom both have any.
    #[inline(never)]
    fn run_row<E: Ended>(&mut self, row: impl Fn(&mut EndedAtOnce) -> &mut Row<E>) -> usize {
        let Self { transport, state, .. } = self;
        let Some(Taken { places: mut ended, filled }) = row(&mut state.messages.ended).take() else {
            return 0;
        };
        let mut left = ended[..filled].iter_mut();
        let outbox = &mut **transport;
        let went_well = state.guard_to_the_end(|state| {
            let mut context = Context { outbox, state };
            left.by_ref().for_each(|ended| ended.run(&mut context));
        });
        if !went_well {
            ended.iter_mut().for_each(E::clear);
        }
        row(&mut state.messages.ended).give_back(ended);
        filled
    }
}

/// What ended when it began.
trait Ended: Default {
    /// Runs its callback.
    fn run(&mut self, context: &mut Context<'_>);

    /// Lets go of what is left of a callback that panicked.
    fn clear(&mut self);
}

impl Ended for SendPlace {
    #[inline(always)]
    fn run(&mut self, context: &mut Context<'_>) {
        self.run(context, Ok(()));
    }

    fn clear(&mut self) {
        self.clear();
    }
}

impl Ended for EndedReceive {
    #[inline(always)]
    fn run(&mut self, context: &mut Context<'_>) {
        if self.otherwise.is_some() {
            return self.run_slowly(context);
        }
        let Self { callback, message, .. } = self;
        message.give(|outcome| callback.run(context, outcome));
    }

    fn clear(&mut self) {
        self.callback.clear();
    }
}

impl EndedReceive {
    #[inline(never)]
    fn run_slowly(&mut self, context: &mut Context<'_>) {
        if let Some(outcome) = take(&mut self.otherwise) {
            give(outcome, |outcome| self.callback.run(context, outcome));
        }
    }
}

/// Gives `callback` what a receive came to when it began.
pub fn give(outcome: Result<KeptMessage, ReceiveError>, callback: impl FnOnce(&ReceiveOutcome<'_>)) {
    match outcome {
        Ok(message) => {
            callback(&Ok(message.received()));
        }
        Err(error) => callback(&Err(error)),
    }
}
