//! The poll loop: what happens in one turn, and between turns.

use core::time::Duration;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::resume_unwind;
use std::sync::Arc;

use farcall_base::Instant;
use farcall_driver::clock::Clock;
use farcall_driver::wait_readable;
use farcall_transport::{CallId, Incoming, MessageId, Payload, Status, Transport};

use super::OnDrop;
use super::clock_pace::ClockPace;
use super::context::Context;
use super::event::{Event, StoredEvent};
use super::idle::{Idler, SLEEP_MAX, Step};
use super::messages::Cancellation;
use super::outcome::Answer;
use super::sinks::{EventSink, RequestSink, Sinks};
use super::slab::Kind;
use super::state::State;
use super::turn::Turn;
use crate::connect::Directions;

/// The transport and the endpoint's own state, borrowed together for a turn.
pub struct Core {
    pub transport: Box<dyn Transport>,
    pub state: State,
    pub clock: Clock,
    pub idler: Idler,
    pub directions: Arc<Directions>,
    pub clock_pace: ClockPace,
    /// What wakes it from a sleep, beside what its transport waits for.
    pub wakers: Vec<OwnedFd>,
    /// Its thread also looks at something that wakes nobody.
    pub stays_awake: bool,
}

impl Core {
    /// Flush, receive, handlers, transmit; now and then the clock and the deadlines.
    #[inline(always)]
    pub fn turn(&mut self, sinks: Sinks<'_, '_>) -> usize {
        let Sinks { events, requests } = sinks;
        self.turn_for(events, requests)
    }

    /// Each by itself, in registers: four words that were just stored would be moved by two, which has to wait for the stores.
    fn turn_for<'e>(
        &mut self,
        mut events: Option<&mut (dyn EventSink + 'e)>,
        requests: Option<&mut (dyn RequestSink + 'e)>,
    ) -> usize {
        let mut expired = 0;
        if self.clock_pace.is_due() {
            self.read_clock();
            if self.state.operations.earliest_deadline() <= self.state.now {
                expired = self.expire(events.as_deref_mut());
            }
        }
        let now = self.state.now;
        if self.state.dropped_requests.any() {
            self.answer_dropped_requests();
        }
        let ended = self.run_ended();
        let mut turn = Turn { state: &mut self.state, sinks: Sinks { events, requests } };
        let done = expired + ended + self.transport.poll(now, &mut turn);
        self.go_on_with_panic();
        let reported = core::mem::take(&mut self.state.reported);
        if reported > 0 && self.state.sessions.any_strangers() {
            self.close_strangers();
        }
        let done = done + reported;
        self.clock_pace.polled(done > 0);
        if done > 0 {
            self.state.count_calls();
        }
        done
    }

    /// The sending half, and the state.
    #[inline(always)]
    pub fn context(&mut self) -> Context<'_> {
        Context { outbox: &mut *self.transport, state: &mut self.state }
    }

    /// Goes on with the panic that was kept, if one was.
    #[inline]
    pub fn go_on_with_panic(&mut self) {
        if let Some(panic) = self.state.panic.take() {
            resume_unwind(panic);
        }
    }

    /// Over packets this happens in every turn.
    #[inline]
    fn read_clock(&mut self) {
        self.settle_deadlines();
        let polls = self.clock_pace.was_read();
        self.state.counters.polls.set(polls.all);
        self.state.counters.busy_polls.set(polls.busy);
        self.state.counters.in_flight.set(self.state.operations.in_flight(Kind::Call) as u64);
    }

    /// Says how many operations ended because their deadline has passed.
    #[cold]
    fn expire(&mut self, events: Option<&mut (dyn EventSink + '_)>) -> usize {
        let outbox = &mut *self.transport;
        let sinks = Sinks { events, requests: None };
        Turn { state: &mut self.state, sinks }.expire(outbox)
    }

    /// Reads the clock, which the operations that were added since the last reading are counted from.
    #[inline]
    fn settle_deadlines(&mut self) {
        let now = self.clock.now();
        self.state.operations.clock_was_read(now);
        self.state.count_calls();
        self.state.now = now;
    }

    /// A future was dropped.
    pub fn end_dropped(&mut self, id: CallId, on_drop: OnDrop) {
        match on_drop {
            OnDrop::GiveUp => self.abandon(id),
            OnDrop::LetGo => self.state.operations.detach_future(id),
        }
    }

    fn abandon(&mut self, id: CallId) {
        let kind = self.state.operations.kind_of(id);
        if let Some((session, _)) = self.state.operations.cancel(id) {
            self.state.counters.cancelled.increment();
            let outbox = &mut *self.transport;
            if kind == Some(Kind::Receive) {
                outbox.cancel_receive(MessageId(id.0));
            } else {
                outbox.cancel(session, id);
            }
        }
        self.state.operations.abandon(id);
    }

    /// Cancels an operation that was posted or has a callback.
    pub fn cancel(&mut self, id: CallId) -> Cancellation {
        let outbox = &mut *self.transport;
        let kind = self.state.operations.kind_of(id);
        let mut turn = Turn { state: &mut self.state, sinks: Sinks::default() };
        let cancellation = match kind {
            None => Cancellation::Over,
            Some(Kind::Send) => turn.cancel_send(outbox, id),
            Some(Kind::Receive) => turn.cancel_receive(outbox, id),
            Some(Kind::Call) => turn.cancel_call(outbox, id),
        };
        self.go_on_with_panic();
        cancellation
    }

    #[cold]
    fn answer_dropped_requests(&mut self) {
        for request in self.state.dropped_requests.take() {
            self.transport.reply(request, Status::Abandoned, &[]);
        }
    }

    pub fn deliver_stored_events(&mut self, on_event: &mut dyn EventSink) -> usize {
        let mut delivered = self.deliver_sent(on_event);
        // Those that are stored meanwhile wait for the next poll.
        for _ in 0..self.state.stored_events.others() {
            let Some(event) = self.state.stored_events.pop_front() else { break };
            let mut context = self.context();
            match event {
                StoredEvent::PeerDown { peer, reason } => {
                    on_event(&mut context, Event::PeerDown { peer, reason })
                }
                StoredEvent::Sent { token, outcome } => {
                    on_event(&mut context, Event::Sent { token, outcome });
                }
                StoredEvent::Received { token, outcome: Ok(message) } => {
                    let received = message.received();
                    on_event(&mut context, Event::Received { token, outcome: &Ok(received) });
                }
                StoredEvent::Received { token, outcome: Err(error) } => {
                    on_event(&mut context, Event::Received { token, outcome: &Err(error) });
                }
                StoredEvent::Completed { token, outcome } => {
                    let kept = outcome.map(Payload::from);
                    let outcome = match &kept {
                        Ok(payload) => Ok(Answer { payload: &Incoming::Owned(payload) }),
                        Err(error) => Err(error.clone()),
                    };
                    on_event(&mut context, Event::Completed { token, outcome: &outcome });
                }
            }
            delivered += 1;
        }
        delivered
    }

    /// The events of sends that ended when they began, up to now.
    fn deliver_sent(&mut self, on_event: &mut dyn EventSink) -> usize {
        let ended = self.state.stored_events.sent_at_once.len();
        for _ in 0..ended {
            let Some(token) = self.state.stored_events.sent_at_once.pop_front() else { break };
            let mut context = self.context();
            on_event(&mut context, Event::Sent { token, outcome: Ok(()) });
        }
        ended
    }

    #[inline]
    pub fn turn_and_idle(&mut self) {
        if self.turn(Sinks::default()) > 0 {
            self.idler.restart();
        } else {
            self.idle(Sinks::default(), false);
        }
    }

    /// Does what the idle policy says; `sinks` take what happens just before a sleep. Who `heeds_events` wants to be told
    /// of those that are stored meanwhile, at once.
    #[inline]
    pub fn idle(&mut self, sinks: Sinks<'_, '_>, heeds_events: bool) {
        match self.idler.idle(self.state.now) {
            Step::Poll => {}
            Step::Yield => std::thread::yield_now(),
            Step::Sleep if self.stays_awake => std::thread::yield_now(),
            Step::Sleep => self.sleep(sinks, heeds_events),
        }
    }

    /// The earliest time at which a poll is due although nothing arrives, stored events aside; [`Instant::NEVER`] if none
    /// is.
    ///
    /// Who asks is about to wait. Deadlines are settled before that, or the wait would be added to them.
    pub fn next_deadline(&mut self) -> Instant {
        if self.state.operations.were_added() {
            self.settle_deadlines();
            self.clock_pace.read_next();
        }
        if self.state.dropped_requests.any() || !self.state.messages.ended.is_empty() {
            return Instant::ZERO;
        }
        let deadline = self.state.operations.earliest_deadline();
        self.transport.next_deadline().map_or(deadline, |other| other.min(deadline))
    }

    /// Blocks until a peer rings, a deadline comes or [`SLEEP_MAX`] is over.
    fn sleep(&mut self, sinks: Sinks<'_, '_>, heeds_events: bool) {
        self.transport.prepare_wait();
        // What was published before the announcement would ring no bell.
        let is_idle = self.turn(sinks) == 0 && self.state.messages.ended.is_empty();
        let may_sleep = !heeds_events || self.state.stored_events.is_empty();
        if is_idle && may_sleep {
            let at_most = (self.next_deadline() - self.state.now).min(SLEEP_MAX);
            self.sleep_until_woken(at_most);
        }
        self.transport.finish_wait();
        self.clock_pace.read_next();
    }

    fn sleep_until_woken(&mut self, at_most: Duration) {
        if at_most.is_zero() {
            // What it waits for may be for another thread of this core to do.
            return std::thread::yield_now();
        }
        self.state.counters.sleeps.increment();
        let mut descriptors = self.transport.wait_descriptors();
        descriptors.extend(self.wakers.iter().map(AsRawFd::as_raw_fd));
        wait_readable(&descriptors, at_most);
    }
}
