//! The poll loop: what happens in one turn and between turns, and the ways to let an endpoint work.
//!
//! One turn or many, with or without events, with or without idling; or only what has ended.

use core::time::Duration;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::resume_unwind;
use std::sync::Arc;

use farcall_base::Instant;
use farcall_driver::clock::Clock;
use farcall_driver::{probes, wait_readable};
use farcall_transport::{CallId, MessageId, Status, Transport};

use super::Endpoint;
use super::clock_pace::ClockPace;
use super::context::Context;
use super::doorbell::Readiness;
use super::event::{Event, StoredEvent};
use super::future::OnDrop;
use super::handler::{LateReply, Reply, Request, reply};
use super::idle::{Idler, SLEEP_MAX, Step};
use super::message::Cancellation;
use super::refusal;
use super::sinks::{EventSink, RequestSink, Sinks};
use super::slab::Kind;
use super::state::State;
use super::turn::Turn;
use crate::connect::Directions;

impl Endpoint {
    /// One turn: transmits what is queued, receives, runs handlers and callbacks, and gives `on_event` what
    /// was posted.
    ///
    /// Never blocks. Returns the number of packets, records and events dealt with.
    ///
    /// # Panics
    /// With the first that a handler, a callback or `on_event` panics with, when the turn is done: what is
    /// behind it is handed on before, but for further events, which are kept for the next poll. With an event
    /// that was kept it panics before the turn begins. The endpoint goes on.
    pub fn poll(&self, mut on_event: impl FnMut(&mut Context<'_>, Event<'_>)) -> usize {
        self.poll_with(&mut on_event, None)
    }

    /// Runs the callbacks of sends and receives that have ended already, and gives `on_event` the events that
    /// are kept; what they begin in turn is for the next time. Nothing is transmitted and nothing received,
    /// nor does any deadline pass.
    ///
    /// It costs a fraction of a poll: for a caller that sends message after message, each of which ends at
    /// once, and polls when one does not, or when messages are to leave. Returns how many callbacks and
    /// events there were.
    ///
    /// # Panics
    /// With the first that a callback panics with, when the others have run; before they run, with what
    /// `on_event` panics with.
    #[inline]
    pub fn reap(&self, mut on_event: impl FnMut(&mut Context<'_>, Event<'_>)) -> usize {
        let core = &mut *self.core();
        let events =
            if core.state.stored_events.is_empty() { 0 } else { core.deliver_stored_events(&mut on_event) };
        let callbacks = core.run_ended();
        core.go_on_with_panic();
        events + callbacks
    }

    /// As [`Endpoint::poll`], and gives `on_request` the requests for services that have no handler. It may
    /// borrow what its caller owns, which a handler cannot.
    ///
    /// Such requests are refused in every other kind of poll, so that an endpoint that serves in this way
    /// should be polled in this way only, or by [`Endpoint::poll_requests_idle`].
    pub fn poll_requests(
        &self,
        mut on_request: impl FnMut(Request<'_>, Reply<'_>),
        mut on_event: impl FnMut(&mut Context<'_>, Event<'_>),
    ) -> usize {
        self.poll_with(&mut on_event, Some(&mut on_request))
    }

    /// As [`Endpoint::poll_requests`], followed by what the idle policy says if nothing happened. Events that
    /// happen while it idles are kept for the next poll.
    pub fn poll_requests_idle(
        &self,
        mut on_request: impl FnMut(Request<'_>, Reply<'_>),
        mut on_event: impl FnMut(&mut Context<'_>, Event<'_>),
    ) -> usize {
        let done = self.poll_with(&mut on_event, Some(&mut on_request));
        let core = &mut *self.core();
        if done == 0 {
            core.idle(Sinks { events: None, requests: Some(&mut on_request) }, true);
        } else {
            core.found();
        }
        done
    }

    #[inline]
    fn poll_with<'e>(
        &self,
        on_event: &mut (dyn EventSink + 'e),
        on_request: Option<&mut (dyn RequestSink + 'e)>,
    ) -> usize {
        let core = &mut *self.core_for_turn();
        let stored =
            if core.state.stored_events.is_empty() { 0 } else { core.deliver_stored_events(on_event) };
        stored + core.turn(Sinks { events: Some(on_event), requests: on_request })
    }

    /// As [`Endpoint::poll`], followed by what the idle policy says if nothing happened.
    pub fn poll_idle(&self, on_event: impl FnMut(&mut Context<'_>, Event<'_>)) -> usize {
        self.poll_several_idle(1, on_event)
    }

    /// As [`Endpoint::poll_idle`], after up to this many polls in which nothing happened: for a language
    /// whose way to a poll takes a good part of one.
    #[doc(hidden)]
    pub fn poll_several_idle(
        &self,
        polls: usize,
        mut on_event: impl FnMut(&mut Context<'_>, Event<'_>),
    ) -> usize {
        let done = (0..polls).map(|_| self.poll(&mut on_event)).find(|&done| done > 0).unwrap_or(0);
        let core = &mut *self.core();
        if done == 0 {
            core.idle(Sinks::default(), true);
        } else {
            core.found();
        }
        done
    }

    /// One turn without interest in events, followed by what the idle policy says if nothing happened.
    ///
    /// Blocks for 100 ms at most, so that a caller can look at conditions of its own.
    pub fn turn(&self) {
        self.core_for_turn().turn_and_idle();
    }

    /// One turn for what another thread has brought: the wait for that is over.
    pub(crate) fn turn_with_news(&self) {
        let core = &mut *self.core_for_turn();
        core.turn(Sinks::default());
        core.idler.brought(core.state.now);
    }

    /// How those wait that this endpoint does something for; `None` if they just wait.
    pub(crate) fn idler_of_callers(&self) -> Option<Idler> {
        self.core().idler.of_callers()
    }

    /// Polls and idles for as long as `condition` holds; looks at it at least every 100 ms.
    pub fn run_while(&self, mut condition: impl FnMut() -> bool) {
        while condition() {
            self.turn();
        }
    }

    /// Polls and idles until `condition` holds.
    pub(super) fn poll_until(&self, condition: impl Fn(&State) -> bool) {
        let core = &mut *self.core();
        core.idler.restart();
        while !condition(&core.state) {
            core.turn_and_idle();
        }
    }

    /// One turn without interest in events and without idling; returns how much there was to do. Events are
    /// kept for the next poll that takes them.
    pub fn poll_once(&self) -> usize {
        self.core_for_turn().turn(Sinks::default())
    }

    /// When a poll must come at the latest although nothing arrives; a time that is past asks for one at
    /// once.
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.core().state.stored_events.is_empty() {
            return Some(Instant::ZERO);
        }
        self.next_deadline_of_turns()
    }

    /// As [`Endpoint::next_deadline`], for a caller that takes no events: those that are kept are no reason
    /// to poll.
    pub(crate) fn next_deadline_of_turns(&self) -> Option<Instant> {
        let deadline = self.core().next_deadline();
        (deadline != Instant::NEVER).then_some(deadline)
    }

    /// From now on the endpoint, when it sleeps, also wakes when there is something to read from
    /// `descriptor`. Whose it is must read it, or the endpoint does not sleep again.
    pub fn wake_for(&self, descriptor: OwnedFd) {
        self.core().wakers.push(descriptor);
    }

    /// Whether the endpoint only yields where its idle policy says that it may sleep: for a thread that also
    /// looks at memory whose writers wake nobody.
    pub fn stay_awake(&self, awake: bool) {
        self.core().stays_awake = awake;
    }

    /// From now on no sleep lasts longer than this, and none longer than 100 ms, for a caller that has
    /// deadlines of its own.
    pub fn sleep_at_most(&self, at_most: Duration) {
        self.core().sleep_max = at_most.min(SLEEP_MAX);
    }

    /// Transmits what is queued, where the transport can do so apart from a poll; says whether there was
    /// anything. A poll does it as well: this is for those who measure what it takes.
    pub fn flush(&self) -> bool {
        self.core().transport.flush()
    }
}

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
    /// The longest sleep.
    pub sleep_max: Duration,
}

impl Core {
    /// Now and then the clock and the deadlines; then flush, receive, handlers, transmit.
    #[inline]
    pub fn turn(&mut self, sinks: Sinks<'_, '_>) -> usize {
        let Sinks { events, requests } = sinks;
        self.turn_for(events, requests)
    }

    /// Each by itself, in registers: four words that were just stored would be moved by two, which has to
    /// wait for the stores.
    fn turn_for<'e>(
        &mut self,
        mut events: Option<&mut (dyn EventSink + 'e)>,
        requests: Option<&mut (dyn RequestSink + 'e)>,
    ) -> usize {
        let mut expired = 0;
        if self.clock_pace.is_due() {
            self.read_clock();
            if self.state.guard.is_some() {
                self.renew_policy();
            }
            if self.state.operations.earliest_deadline() <= self.state.now {
                expired = self.expire(events.as_deref_mut());
            }
        }
        let now = self.state.now;
        if self.state.late_replies.any() {
            self.send_late_replies();
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
    #[inline]
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
        self.state.follow_waits();
    }

    /// A changed policy holds for sessions that are up, too.
    fn renew_policy(&mut self) {
        let changed = self.state.guard.as_mut().and_then(|guard| guard.renew());
        for (session, may_send) in changed.into_iter().flatten() {
            self.transport.let_send(session, may_send);
        }
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

    /// A future was dropped before its result was fetched.
    pub fn end_dropped(&mut self, id: CallId, on_drop: OnDrop) {
        match on_drop {
            OnDrop::Cancel => self.abandon(id),
            OnDrop::Detach => self.state.operations.detach_future(id),
        }
    }

    fn abandon(&mut self, id: CallId) {
        let Some((kind, session)) = self.state.operations.abandon(id) else { return };
        if kind == Kind::Call {
            probes::call_end(self.state.number, session.0, id.0, 2);
        }
        self.state.counters.cancelled.increment();
        if kind == Kind::Receive {
            self.transport.cancel_receive(MessageId(id.0));
        } else {
            self.transport.cancel(session, id);
        }
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
    fn send_late_replies(&mut self) {
        for (request, late) in self.state.late_replies.take() {
            match late {
                LateReply::Abandoned => self.transport.reply(request, Status::Abandoned, &[]),
                LateReply::Refused(code, why) => {
                    self.transport.reply(request, Status::Refused(code), refusal::sent(&why));
                }
                LateReply::Answer(payload) => {
                    reply(&mut *self.transport, request, Status::Ok, payload.into());
                }
            }
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
                    on_event(&mut context, Event::PeerDown { peer, reason });
                }
                StoredEvent::Ended { token, ended } => {
                    ended.tell(token, |event| on_event(&mut context, event));
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
            self.found();
        } else {
            self.idle(Sinks::default(), false);
        }
    }

    /// There was something to do.
    #[inline]
    pub fn found(&mut self) {
        self.idler.found(self.state.now);
    }

    /// Does what the idle policy says; `sinks` take what happens just before a sleep. A caller that
    /// `heeds_events` is to have those that are stored meanwhile, at once.
    #[inline]
    pub fn idle(&mut self, sinks: Sinks<'_, '_>, heeds_events: bool) {
        match self.idler.idle(self.state.now) {
            Step::Poll => {}
            Step::Yield => self.yield_now(),
            Step::Sleep if self.stays_awake => std::thread::yield_now(),
            Step::Sleep => self.sleep(sinks, heeds_events),
        }
    }

    fn yield_now(&mut self) {
        let begun = self.clock.now();
        std::thread::yield_now();
        self.idler.yielded(begun, self.clock.now());
        self.clock_pace.read_next();
    }

    /// The earliest time at which a poll is due although nothing arrives, stored events aside;
    /// [`Instant::NEVER`] if none is.
    ///
    /// The caller is about to wait. Deadlines are settled before that, or the wait would be added to them.
    pub fn next_deadline(&mut self) -> Instant {
        if self.state.operations.were_added() {
            self.settle_deadlines();
            self.clock_pace.read_next();
        }
        if self.state.late_replies.any() || !self.state.messages.ended.is_empty() {
            return Instant::ZERO;
        }
        let deadline = self.state.operations.earliest_deadline();
        self.transport.next_deadline().map_or(deadline, |other| other.min(deadline))
    }

    /// Blocks until a peer rings, a deadline comes or [`SLEEP_MAX`] is over.
    fn sleep(&mut self, sinks: Sinks<'_, '_>, heeds_events: bool) {
        self.transport.prepare_wait();
        // What was published before the announcement would ring no bell.
        let done = self.turn(sinks);
        if done > 0 {
            self.found();
        }
        let is_idle = done == 0 && self.state.messages.ended.is_empty();
        let may_sleep = !heeds_events || self.state.stored_events.is_empty();
        if is_idle && may_sleep {
            let bell = Arc::clone(self.state.late_replies.bell());
            match bell.prepare() {
                Readiness::Unused => self.sleep_until_woken(None),
                Readiness::Listening(descriptor) => {
                    self.sleep_until_woken(Some(descriptor));
                    bell.finish();
                }
                Readiness::Busy => {}
            }
        }
        self.transport.finish_wait();
        self.clock_pace.read_next();
    }

    fn sleep_until_woken(&mut self, bell: Option<RawFd>) {
        let at_most = (self.next_deadline() - self.state.now).min(self.sleep_max);
        if at_most.is_zero() {
            // What it waits for may be for another thread of this core to do.
            return std::thread::yield_now();
        }
        self.state.counters.sleeps.increment();
        let mut descriptors = self.transport.wait_descriptors();
        descriptors.extend(self.wakers.iter().map(AsRawFd::as_raw_fd));
        descriptors.extend(bell);
        wait_readable(&descriptors, at_most);
    }
}
