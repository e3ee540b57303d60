//! One turn of the poll loop: how operations end in it.

use farcall_transport::trace::event;
use farcall_transport::{CallId, Outbox, Response, SessionId};

use super::context::Context;
use super::event::{Event, StoredEvent};
use super::messages::Cancellation;
use super::outcome::{CallError, Outcome, outcome_of};
use super::sinks::{EventSink, Sinks};
use super::slab::{Completion, Kind};
use super::state::State;

/// One turn of the poll loop: the state, and whoever takes what happens meanwhile.
pub struct Turn<'a, 'e> {
    pub state: &'a mut State,
    pub sinks: Sinks<'a, 'e>,
}

impl<'e> Turn<'_, 'e> {
    /// Gives something to who takes events; false when nobody does. Who panics is not asked again in this turn: what else happens in it
    /// is kept.
    #[inline(always)]
    pub fn tell(&mut self, give: impl FnOnce(&mut (dyn EventSink + 'e), &mut State)) -> bool {
        let Some(events) = &mut self.sinks.events else { return false };
        if !self.state.guard(|state| give(*events, state)) {
            self.sinks.events = None;
        }
        true
    }

    /// Completes an operation that has ended.
    #[inline]
    pub fn complete(
        &mut self,
        outbox: &mut dyn Outbox,
        call: CallId,
        how: Completion,
        outcome: &Outcome<'_>,
    ) {
        match how {
            Completion::Event(token) => self.report(outbox, token, outcome),
            Completion::Callback(callback) => {
                self.state.guard(|state| callback.run(&mut Context { outbox, state }, outcome));
            }
            Completion::Nobody => {}
            Completion::Sent(_) | Completion::Received(_) => unreachable!("a call has a call's callback"),
            Completion::Future(waker) => {
                let result = self.state.keep_outcome(outcome);
                self.state.operations.leave_result(call, result);
                self.state.wake(waker);
            }
        }
    }

    #[inline]
    pub fn report(&mut self, outbox: &mut dyn Outbox, token: u64, outcome: &Outcome<'_>) {
        if self.tell(|events, state| {
            events(&mut Context { outbox, state }, Event::Completed { token, outcome });
        }) {
            return;
        }
        let outcome = self.state.keep_outcome(outcome);
        self.state.stored_events.push_back(StoredEvent::Completed { token, outcome });
    }

    /// Ends the call that a response is to.
    pub fn end_call(&mut self, outbox: &mut dyn Outbox, session: SessionId, response: &Response<'_>) {
        let &Response { call, status, payload } = response;
        let how = match self.state.operations.end_posted_call(call, session) {
            Some(token) => Some(Completion::Event(token)),
            None => self.state.operations.end(call, session),
        };
        let Some(how) = how else { return self.state.counters.late_answers.increment() };
        self.state.tracer.mark_shared(event::COMPLETED, call.0, session);
        self.complete(outbox, call, how, &outcome_of(status, &payload));
        self.state.counters.answered.increment();
    }

    pub fn fail_call(&mut self, outbox: &mut dyn Outbox, call: CallId, error: CallError) {
        if let Some((session, how)) = self.state.operations.cancel(call) {
            if error == CallError::TimedOut {
                self.state.counters.timed_out.increment();
                outbox.cancel(session, call);
            }
            self.complete(outbox, call, how, &Err(error));
        }
    }

    /// Cancels a call in flight.
    pub fn cancel_call(&mut self, outbox: &mut dyn Outbox, call: CallId) -> Cancellation {
        let Some((session, how)) = self.state.operations.cancel(call) else { return Cancellation::Over };
        self.state.counters.cancelled.increment();
        outbox.cancel(session, call);
        self.complete(outbox, call, how, &Err(CallError::Cancelled));
        Cancellation::Cancelled
    }

    /// Ends the operations whose deadline has passed; says how many there were.
    pub fn expire(&mut self, outbox: &mut dyn Outbox) -> usize {
        let expired = self.state.operations.expired(self.state.now);
        for &id in &expired {
            match self.state.operations.kind_of(id) {
                Some(Kind::Call) => self.fail_call(outbox, id, CallError::TimedOut),
                Some(Kind::Send) => self.expire_send(outbox, id),
                Some(Kind::Receive) => self.expire_receive(outbox, id),
                None => {}
            }
        }
        expired.len()
    }
}
