//! When hosts run.
//!
//! Hosts poll without a pause, but a turn that finds nothing changes nothing, so idle ones are not run. A
//! host that is idle when something arrives would be in the middle of a fruitless turn: it notices at its
//! end, which is as likely to come soon as late.

use farcall_base::Instant;

use super::{Work, World};
use crate::time::Picos;

/// What the fingerprint notes of a turn.
const TURN: u8 = 16;

impl World {
    /// Somebody runs the turns of a host from now on; the first is due at once.
    pub fn drive(&mut self, host: u32) {
        self.hosts[host as usize].driven = true;
        self.wakes.set(host, self.now);
    }

    /// Something has arrived for a host.
    #[inline]
    pub(super) fn wake(&mut self, host: u32) {
        let state = &self.hosts[host as usize];
        if let Some(bell) = &state.bell {
            bell.ring();
        }
        if !(state.driven && state.up && !state.paused) {
            return;
        }
        let rest_of_poll = Picos(self.random.below(self.profile.host.poll.times(state.slowness).0.max(1)));
        let at = state.local().max(self.now + rest_of_poll);
        if at < self.wakes.of(host) {
            self.wakes.set(host, at);
        }
    }

    /// A turn begins now.
    pub(super) fn begin_turn(&mut self, host: u32) {
        self.wakes.set(host, Picos::NEVER);
        let state = &mut self.hosts[host as usize];
        state.catch_up(self.now);
        state.pass(self.profile.host.poll);
    }

    /// A turn has done `work` pieces of work; `deadline` is when the next must begin though nothing arrives.
    pub fn end_turn(&mut self, host: u32, work: usize, deadline: Option<Instant>) {
        let state = &mut self.hosts[host as usize];
        let (end, span) = (state.local(), state.local() - self.now);
        state.usage.turns += 1;
        state.usage.polling += span;
        if work > 0 {
            state.usage.busy_turns += 1;
            state.usage.busy += span;
            state.note(Work::Poll, self.profile.host.poll);
        }
        self.totals.turns += 1;
        self.hash.note(end, TURN, host, work as u64);
        if !state.up || state.paused {
            return;
        }
        let next = if work > 0 { end } else { self.idle_until(host, deadline) };
        // What was arranged during the turn may be due before its end.
        self.wakes.set(host, self.wakes.of(host).min(next).max(end));
    }

    /// When a host that found nothing to do runs again.
    fn idle_until(&self, host: u32, deadline: Option<Instant>) -> Picos {
        let state = &self.hosts[host as usize];
        let Some(deadline) = deadline.map(Picos::from) else { return Picos::NEVER };
        if deadline > state.local() {
            return deadline;
        }
        // It has something to do and could not do it. Most often it waits for room in its send queue.
        let full = state.send_places == self.profile.nic.send_queue_packets;
        let completion = state.completions.front().map(|(at, _)| *at);
        completion.filter(|_| full).unwrap_or(state.local())
    }
}
