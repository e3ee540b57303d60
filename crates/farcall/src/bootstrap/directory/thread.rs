//! The thread of a member: reads what the registry says, renews the lease, connects again.

use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::super::hosts::HostPort;
use super::super::listing::Server;
use super::super::messages::{Answer, Ask, Join};
use super::backoff::Backoff;
use super::link::{self, Link, LinkError, Opened};
use super::state::State;

/// How often a lease is renewed within its time.
pub(super) const RENEWALS_PER_LEASE: u32 = 3;

/// The trouble of a watch that the registry has no room for.
const NO_ROOM: &str = "it stores as much as it may";

/// A connection that lasted as long was a good one: the next attempt follows at once.
const STEADY_AFTER: Duration = Duration::from_secs(1);

/// What callers and the thread share.
pub(super) struct Shared {
    pub(super) registry: HostPort,
    pub(super) join: Join,
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
    /// Readable when the thread is to look at the times again.
    pub(super) waker: OwnedFd,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends over the connection, if there is one. What must arrive is told again after a reconnect.
    pub(super) fn send(&self, state: &mut State, ask: &Ask) {
        let sent = state.link.as_ref().is_some_and(|link| link::send(link, ask).is_ok());
        if !sent {
            state.unlink();
            state.hurried = true;
            self.changed.notify_all();
        }
    }

    /// Lets the thread look at the times again.
    pub(super) fn wake_thread(&self) {
        // An eventfd takes the number 1 unless it is about to overflow, and then it is readable already.
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }
}

impl Shared {
    /// The life of the thread: reads until the connection breaks, connects again, and so on until told to
    /// stop.
    pub(super) fn run(&self, reading: Option<Link>) {
        let mut backoff = Backoff::default();
        let mut reading = reading.or_else(|| self.reconnect(&mut backoff));
        while let Some(link) = reading {
            let began = Instant::now();
            while let Some(answer) = self.next_answer(&link) {
                self.take(answer);
            }
            self.is_cut_off("the connection to it broke");
            if began.elapsed() >= STEADY_AFTER {
                backoff = Backoff::default();
            }
            reading = self.reconnect(&mut backoff);
        }
    }

    /// The next message; meanwhile what must be said by a time is said. `None` when the connection is over.
    fn next_answer(&self, link: &Link) -> Option<Answer> {
        loop {
            let now = Instant::now();
            let next = self.mind_the_time(now);
            let timeout = next.map(|next| timespec(next.saturating_duration_since(now)));
            let mut descriptors =
                [PollFd::new(link.socket(), PollFlags::IN), PollFd::new(&self.waker, PollFlags::IN)];
            match poll(&mut descriptors, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return None,
            }
            if !descriptors[0].revents().is_empty() {
                return link::receive(link, link::MESSAGE_MAX).ok();
            }
            // It does not block; whether it was readable does not matter.
            let _ = rustix::io::read(&self.waker, &mut [0; 8]);
        }
    }

    /// Renews the lease and forgets former servers when it is time; gives the time when there is more to do.
    fn mind_the_time(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        for watch in state.watches.values() {
            watch.listing.forget_former(now);
        }
        if state.renew_at.is_some_and(|at| at <= now) {
            let lease = state.lease;
            state.renew_at = (!state.registered.is_empty()).then(|| now + lease / RENEWALS_PER_LEASE);
            // Without names the lease is the longest: it says no more than that the process may be silent.
            let lease = if state.registered.is_empty() { super::super::limits::LEASE_MAX } else { lease };
            self.send(&mut state, &Ask::Renew { lease });
        }
        if state.tell_again.is_some_and(|at| at <= now) {
            for ask in state.take_without_room() {
                self.send(&mut state, &ask);
            }
        }
        state.next_time()
    }

    fn is_cut_off(&self, trouble: &str) {
        let mut state = self.lock();
        state.unlink();
        state.trouble = Some(trouble.to_owned());
        for watch in state.watches.values() {
            watch.listing.source_lost(trouble);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn take(&self, answer: Answer) {
        let mut state = self.lock();
        let Some(request) = answer.request() else {
            match answer {
                Answer::Refused(refusal) => {
                    state.refused = Some(refusal);
                    self.changed.notify_all();
                }
                Answer::NotListed { name, key } => state.is_not_listed((name, key), Instant::now()),
                Answer::NotPublished { key } => state.is_not_published(key, Instant::now()),
                _ => {}
            }
            return;
        };
        if let (true, Answer::Full { .. }) = (state.watches.contains_key(&request), &answer) {
            return state.is_not_watched(request, NO_ROOM, Instant::now());
        }
        if let Some(watch) = state.watches.get(&request) {
            return match &answer {
                Answer::Listed { listed, .. } => {
                    if let Some(server) = Server::from_listed(listed) {
                        watch.listing.listed(listed.number, server);
                    }
                }
                Answer::Gone { number, .. } => watch.listing.gone(*number),
                Answer::Current { .. } => watch.listing.complete(),
                Answer::Restarted { .. } => watch.listing.restarted(),
                _ => {}
            };
        }
        match (state.waits.get(&request).map(|wait| wait.ask.clone()), &answer) {
            (Some(Ask::Resolve { rank, key, .. }), Answer::Resolved { address, incarnation, .. }) => {
                state.resolved.insert((rank, key), (address.clone(), *incarnation));
            }
            (Some(_), Answer::Full { .. })
            | (Some(Ask::Barrier { .. }), Answer::Released { .. })
            | (Some(Ask::CompareAndSet { .. }), Answer::Compared { .. })
            | (Some(Ask::Missing { .. }), Answer::Missing { .. }) => (),
            // Cancelled a moment ago, or not an answer to what was asked.
            _ => return,
        }
        if let Some(wait) = state.waits.get_mut(&request) {
            wait.answer = Some(answer);
        }
        self.changed.notify_all();
    }

    /// Tries until it succeeds or the thread is to stop. A refusal is for the callers to know: another
    /// registry may take the place of the one that refuses.
    fn reconnect(&self, backoff: &mut Backoff) -> Option<Link> {
        loop {
            self.pause(backoff.next_pause())?;
            let opened = link::try_addresses(&self.registry, &self.join, Instant::now() + link::ATTEMPT_MAX);
            match opened {
                Ok(Opened { link, .. }) => {
                    let mut state = self.lock();
                    if let Some(reading) = self.resume(&mut state, link) {
                        return Some(reading);
                    }
                }
                Err(LinkError::Unreachable(reason)) => self.is_cut_off(&reason),
                // It may come up again.
                Err(LinkError::Key(error)) => self.is_cut_off(&error.to_string()),
                Err(LinkError::NoLoopback) => self.is_cut_off("the loopback interface is down"),
                Err(LinkError::Refused(refusal)) => {
                    self.is_cut_off(&refusal.to_string());
                    self.lock().refused = Some(refusal);
                    self.changed.notify_all();
                }
            }
        }
    }

    /// Waits between attempts, less when a caller is in a hurry; `None` when the thread is to stop.
    fn pause(&self, pause: Duration) -> Option<()> {
        let patient = |state: &mut State| !state.stopping && (!state.hurried || state.refused.is_some());
        let (mut state, _) = self
            .changed
            .wait_timeout_while(self.lock(), pause, patient)
            .unwrap_or_else(PoisonError::into_inner);
        state.hurried = false;
        (!state.stopping).then_some(())
    }

    /// Tells a registry that may have started afresh all that it must know, unless the thread is to stop.
    fn resume(&self, state: &mut State, link: Link) -> Option<Link> {
        if state.stopping {
            return None;
        }
        let reading = link.try_clone().ok()?;
        let now = Instant::now();
        if !state.registered.is_empty() {
            link::send(&link, &Ask::Renew { lease: state.lease }).ok()?;
            state.renew_at = Some(now + state.lease / RENEWALS_PER_LEASE);
        }
        for (key, address) in &state.published {
            let (key, address) = (key.clone(), address.clone());
            link::send(&link, &Ask::Publish { key, address }).ok()?;
        }
        for ((name, key), address) in &state.registered {
            let (name, key, address) = (name.clone(), key.clone(), address.clone());
            link::send(&link, &Ask::Register { name, key, address }).ok()?;
        }
        for wait in state.waits.values().filter(|wait| wait.answer.is_none()) {
            link::send(&link, &wait.ask).ok()?;
        }
        for (&request, watch) in &state.watches {
            watch.listing.source_back(now);
            link::send(&link, &Ask::Watch { request, name: watch.name.clone() }).ok()?;
        }
        (state.refused, state.trouble) = (None, None);
        state.forget_without_room();
        state.link = Some(link);
        Some(reading)
    }
}

fn timespec(duration: Duration) -> Timespec {
    // Rounded up, so that a time that is waited for has come when the wait ends.
    let duration = duration + Duration::from_micros(1);
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}
