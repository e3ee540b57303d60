//! Sends and receives that ended when they began.
//!
//! Their callbacks run in a poll, or when the endpoint is asked to reap, so that a callback may begin the next operation to any
//! depth without using the stack.

use core::mem::{ManuallyDrop, forget, replace, take};
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::thread;

use farcall_transport::{CallId, Incoming, Outbox};

use super::outcome::Received;
use crate::endpoint::callback::{SendCallback, SendPlace};
use crate::endpoint::context::{Context, Operation};
use crate::endpoint::core::Core;
use crate::endpoint::panics;
use crate::endpoint::state::State;

/// Operations that ended when they began, until their callbacks run: of each kind the oldest first.
#[derive(Default)]
pub struct EndedAtOnce {
    /// Callbacks of sends, all of which have left well: one that cannot be sent is refused. They stay where they were made until they
    /// have run; their memory is kept for the next.
    sent: Vec<SendPlace>,
    /// How many of these places have a callback: the first ones.
    sends: usize,
    /// Memory for sends that end while the callbacks of others run.
    spare: Vec<SendPlace>,
    /// Receives whose message was there already, or that can have none: their outcome is left with their callback.
    received: VecDeque<CallId>,
}

impl EndedAtOnce {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sends == 0 && self.received.is_empty()
    }

    #[inline(always)]
    fn push_sent(&mut self, callback: impl FnOnce() -> SendCallback) {
        if self.sends == self.sent.len() {
            self.grow();
        }
        self.sent[self.sends].put(callback);
        self.sends += 1;
    }

    #[cold]
    fn grow(&mut self) {
        self.sent.push(SendPlace::default());
    }

    /// A receive that has a callback has ended when it began.
    #[inline]
    pub fn push_received(&mut self, receive: CallId) {
        self.received.push_back(receive);
    }
}

impl State {
    /// A send has left when it was asked for. There is no operation for it.
    #[inline(always)]
    pub fn ended_at_once(&mut self, callback: impl FnOnce() -> SendCallback) -> Option<Operation> {
        self.messages.ended.push_sent(callback);
        None
    }
}

impl Core {
    /// Runs the callbacks of operations that ended when they began; those that end meanwhile wait for the next time.
    #[inline(never)]
    pub fn run_ended(&mut self) -> usize {
        let Self { transport, state, .. } = self;
        let outbox = transport.outbox();
        let receives = state.messages.ended.received.len();
        let (sends, sent) = state.run_sent(outbox);
        let mut left = 0..receives;
        let received = panics::to_the_end(|| left.by_ref().for_each(|_| state.run_received(outbox)));
        sent.and(received).unwrap_or_else(|panic| resume_unwind(panic));
        sends + receives
    }
}

impl State {
    /// Runs the callbacks of sends; says how many there were, and how that went.
    #[inline]
    fn run_sent(&mut self, outbox: &mut dyn Outbox) -> (usize, thread::Result<()>) {
        let EndedAtOnce { sent, sends, spare, .. } = &mut self.messages.ended;
        if *sends == 0 {
            return (0, Ok(()));
        }
        let (mut places, sends) = (replace(sent, take(spare)), take(sends));
        let mut left = places[..sends].iter_mut();
        let outcome = panics::to_the_end(|| {
            let mut context = Context { outbox, state: self };
            left.by_ref().for_each(|place| place.run(&mut context, Ok(())));
        });
        if outcome.is_err() {
            places.iter_mut().for_each(SendPlace::clear);
        }
        // What took its place has no memory: a drop would look.
        forget(replace(&mut self.messages.ended.spare, places));
        (sends, outcome)
    }

    /// Runs the callback of the oldest of the receives.
    #[inline]
    fn run_received(&mut self, outbox: &mut dyn Outbox) {
        let Some(id) = self.messages.ended.received.pop_front() else { return };
        // Most messages are short.
        let Some((label, short, mut callback)) = self.operations.take_short(id) else {
            return self.run_received_slowly(outbox, id);
        };
        let payload = ManuallyDrop::new(Incoming::Borrowed(&short));
        let received = Received { peer: label.peer(), tag: label.tag(), payload: &payload };
        callback.run(&mut Context { outbox, state: self }, &Ok(received));
        self.operations.give_back(callback);
    }

    #[inline(never)]
    fn run_received_slowly(&mut self, outbox: &mut dyn Outbox, id: CallId) {
        let Some((outcome, mut callback)) = self.operations.take_received(id) else { return };
        let mut context = Context { outbox, state: self };
        match outcome {
            Ok(message) => {
                let payload = message.payload.as_incoming();
                callback.run(&mut context, &Ok(message.received(&payload)));
            }
            Err(error) => callback.run(&mut context, &Err(error)),
        }
        self.operations.give_back(callback);
    }
}
