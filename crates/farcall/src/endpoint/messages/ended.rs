//! Sends and receives that ended when they began.
//!
//! Their callbacks run in a poll, so that a callback may begin the next operation to any depth without using the stack.

use std::collections::VecDeque;

use super::in_order::InOrder;
use super::outcome::{KeptMessage, ReceiveError};
use crate::endpoint::callback::{ReceiveCallback, SendCallback};
use crate::endpoint::context::{Context, Operation};
use crate::endpoint::core::Core;
use crate::endpoint::state::State;

/// Operations that ended when they began, until the next poll runs their callbacks: of each kind the oldest first.
#[derive(Default)]
pub struct EndedAtOnce {
    /// Sends, all of which have left well: one that cannot be sent is refused.
    sent: InOrder<SendCallback>,
    /// Those whose callbacks run now, while others end.
    running: InOrder<SendCallback>,
    /// Receives whose message was there already, or that can have none.
    pub received: VecDeque<(ReceiveCallback, Result<KeptMessage, ReceiveError>)>,
}

impl EndedAtOnce {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.running.is_empty() && self.received.is_empty()
    }
}

impl State {
    /// A send has left when it was asked for. There is no operation for it.
    #[inline(always)]
    pub fn ended_at_once(&mut self, callback: impl FnOnce() -> SendCallback) -> Option<Operation> {
        self.messages.ended.sent.push(callback);
        None
    }
}

impl Core {
    /// Runs the callbacks of operations that ended when they began; those that end meanwhile wait for the next time.
    #[inline(never)]
    pub fn run_ended(&mut self) -> usize {
        let ended = &mut self.state.messages.ended;
        if ended.running.is_empty() {
            core::mem::swap(&mut ended.sent, &mut ended.running);
        }
        let (sent, received) = (ended.running.len(), ended.received.len());
        while let Some(callback) = self.state.messages.ended.running.pop() {
            callback.run(&mut Context { outbox: self.transport.outbox(), state: &mut self.state }, Ok(()));
        }
        for _ in 0..received {
            let Some((callback, message)) = self.state.messages.ended.received.pop_front() else { break };
            let mut context = Context { outbox: self.transport.outbox(), state: &mut self.state };
            match message {
                Ok(message) => {
                    let payload = message.payload.as_incoming();
                    let received = message.received(&payload);
                    callback.run(&mut context, &Ok(received));
                }
                Err(error) => callback.run(&mut context, &Err(error)),
            }
        }
        sent + received
    }
}
