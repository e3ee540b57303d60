//! Sends and receives that ended when they began.
//!
//! Their callbacks run in a poll, or when the endpoint is asked to reap, so that a callback may begin the next operation to any
//! depth without using the stack.

use core::mem::ManuallyDrop;
use std::collections::VecDeque;

use farcall_transport::{CallId, Incoming, Outbox};

use super::outcome::Received;
use crate::endpoint::callback::{SendCallback, SendPlace};
use crate::endpoint::context::{Context, Operation};
use crate::endpoint::core::Core;
use crate::endpoint::state::State;

/// Operations that ended when they began, until their callbacks run: of each kind the oldest first.
#[derive(Default)]
pub struct EndedAtOnce {
    /// Sends, all of which have left well: one that cannot be sent is refused.
    sent: VecDeque<SendPlace>,
    /// Memory for more of them.
    spare: Vec<SendPlace>,
    /// Receives whose message was there already, or that can have none: their outcome is left with their callback.
    received: VecDeque<CallId>,
}

impl EndedAtOnce {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.received.is_empty()
    }

    #[inline(always)]
    fn push_sent(&mut self, callback: impl FnOnce() -> SendCallback) {
        let mut place = self.spare.pop().unwrap_or_default();
        place.put(callback);
        self.sent.push_back(place);
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
        let (sent, received) = (state.messages.ended.sent.len(), state.messages.ended.received.len());
        for _ in 0..sent {
            let Some(mut callback) = state.messages.ended.sent.pop_front() else { break };
            callback.run(&mut Context { outbox, state }, Ok(()));
            state.messages.ended.spare.push(callback);
        }
        for _ in 0..received {
            let Some(id) = state.messages.ended.received.pop_front() else { break };
            state.run_received(outbox, id);
        }
        sent + received
    }
}

impl State {
    #[inline]
    fn run_received(&mut self, outbox: &mut dyn Outbox, id: CallId) {
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
