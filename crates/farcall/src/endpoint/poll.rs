//! The ways to let an endpoint work: one turn or many, with or without events, with or without idling; or
//! only what has ended.

use std::os::fd::OwnedFd;

use farcall_base::Instant;

use super::Endpoint;
use super::context::Context;
use super::event::Event;
use super::request::{Reply, Request};
use super::sinks::{EventSink, RequestSink, Sinks};
use super::state::State;

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
    /// It costs a fraction of a poll: for who sends message after message, each of which ends at once, and
    /// polls when one does not, or when messages are to leave. Returns how many callbacks and events there
    /// were.
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
            core.idler.restart();
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
    pub fn poll_idle(&self, mut on_event: impl FnMut(&mut Context<'_>, Event<'_>)) -> usize {
        let done = self.poll(&mut on_event);
        let core = &mut *self.core();
        if done == 0 {
            core.idle(Sinks::default(), true);
        } else {
            core.idler.restart();
        }
        done
    }

    /// One turn without interest in events, followed by what the idle policy says if nothing happened.
    ///
    /// Blocks for 100 ms at most, so that a caller can look at conditions of its own.
    pub fn turn(&self) {
        self.core_for_turn().turn_and_idle();
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

    /// As [`Endpoint::next_deadline`], for who takes no events: those that are kept are no reason to poll.
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

    /// Transmits what is queued, where the transport can do so apart from a poll; says whether there was
    /// anything. A poll does it as well: this is for those who measure what it takes.
    pub fn flush(&self) -> bool {
        self.core().transport.flush()
    }
}
