//! Timers: repeated handshakes, pings, and the death of silent peers.
//!
//! A packet only writes down when it came; no timer moves. One sweep over all sessions, due not later than
//! the earliest deadline, finds out which are really due.

use core::time::Duration;

use crate::wire::SessionPacket;
use farcall_base::Instant;

use super::{EndReason, PeerAddress, Sessions, State};

/// The most RESETs within one [`RESET_INTERVAL`]: restarted servers get heard, floods get no echo.
const RESETS_PER_INTERVAL: u32 = 32;

const RESET_INTERVAL: Duration = Duration::from_millis(1);

/// A session that is measured to be slower than this is not believed.
const ROUND_TRIP_NANOS_MAX: u64 = 10_000_000_000;

/// Pings without an answer that make a silent peer a dead one: each may be lost, as its answer may be.
const PINGS: u8 = 3;

/// Limits how often strangers get an answer.
#[derive(Debug, Default)]
pub(super) struct ResetBudget {
    since: Instant,
    taken: u32,
}

impl ResetBudget {
    pub(super) fn take(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= RESET_INTERVAL {
            *self = Self { since: now, taken: 0 };
        }
        self.taken += 1;
        self.taken <= RESETS_PER_INTERVAL
    }
}

impl Sessions {
    /// When [`Sessions::handle_timeout`] must run next.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        (self.sweep_at != Instant::NEVER).then_some(self.sweep_at)
    }

    /// Does what is due by `now`.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        if now >= self.sweep_at {
            self.sweep(now);
        }
    }

    #[cold]
    fn sweep(&mut self, now: Instant) {
        self.sweep_at = Instant::NEVER;
        for index in 0..self.slots.len() as u16 {
            match self.slots[usize::from(index)].state {
                State::Vacant => {}
                State::Opening(_) | State::HalfOpen(_) => self.sweep_handshake(index, now),
                State::Up => self.sweep_up(index, now),
            }
        }
    }

    /// The peer is given up after the whole timeout. Time in which this very process did not run is not the
    /// peer's fault and does not count.
    fn sweep_handshake(&mut self, index: u16, now: Instant) {
        let (timeout, retry_after_max) = (self.config.peer_timeout, self.retry_after_max());
        let slot = &mut self.slots[usize::from(index)];
        let (State::Opening(handshake) | State::HalfOpen(handshake)) = &mut slot.state else { return };
        handshake.since += now.since(handshake.retry_at);
        let give_up_at = handshake.since + timeout;
        if now >= give_up_at {
            return self.end(index, EndReason::Unreachable);
        }
        let due = now >= handshake.retry_at;
        if due {
            handshake.retry(now, retry_after_max);
        }
        let wake_at = handshake.retry_at.min(give_up_at);
        self.wake_by(wake_at);
        if due {
            self.counters.handshakes_resent += 1;
            match self.slots[usize::from(index)].state {
                State::HalfOpen(_) => self.send_accept(index),
                _ => self.send_open(index),
            }
        }
    }

    /// The peer is dead after the whole timeout, if it had the chance to answer each of [`PINGS`] pings: when
    /// this very process did not run for a while, the silence is not the peer's fault, even if a ping had left
    /// before.
    fn sweep_up(&mut self, index: u16, now: Instant) {
        let (timeout, ping_after) = (self.config.peer_timeout, self.ping_after());
        let slot = &mut self.slots[usize::from(index)];
        if slot.pinged_at <= slot.heard_at {
            slot.unanswered_pings = 0;
        }
        let next_at = slot.pinged_at.max(slot.heard_at) + ping_after;
        if slot.unanswered_pings == PINGS {
            let dead_at = next_at.max(slot.heard_at + timeout);
            return if now < dead_at { self.wake_by(dead_at) } else { self.end(index, EndReason::Dead) };
        }
        if now < next_at {
            return self.wake_by(next_at);
        }
        slot.unanswered_pings += 1;
        self.ping(index, now);
    }

    /// Nothing reaches `to` any more, says the carrier of the packets: every session that leads there ends.
    pub fn lost(&mut self, to: PeerAddress) {
        for index in 0..self.slots.len() as u16 {
            let slot = &self.slots[usize::from(index)];
            if slot.link.to != to {
                continue;
            }
            match slot.state {
                State::Vacant => {}
                State::Opening(_) | State::HalfOpen(_) => self.end(index, EndReason::Unreachable),
                State::Up => self.end(index, EndReason::Dead),
            }
        }
    }

    /// Whether a session, ready or not, leads to `to`.
    pub fn any_to(&self, to: PeerAddress) -> bool {
        self.slots.iter().any(|slot| slot.link.to == to && !matches!(slot.state, State::Vacant))
    }

    /// Asks for a sign of life, and looks for it at the next quarter of the timeout.
    pub(super) fn ping(&mut self, index: u16, now: Instant) {
        let slot = &mut self.slots[usize::from(index)];
        slot.pinged_at = now;
        let link = slot.link;
        self.counters.pings_sent += 1;
        self.queue(link.to, link.remote, SessionPacket::Ping { sent_at_nanos: now.as_nanos() });
        self.wake_by(now + self.ping_after());
    }

    /// Smooths the round trip as TCP does (RFC 6298: an eighth of each new sample).
    pub(super) fn measure(&mut self, index: usize, sent_at_nanos: u64, now: Instant) {
        let Some(sample) = now.as_nanos().checked_sub(sent_at_nanos) else { return };
        if sample > ROUND_TRIP_NANOS_MAX {
            return;
        }
        let smoothed = &mut self.slots[index].round_trip_nanos;
        *smoothed = if *smoothed == 0 { sample } else { *smoothed - *smoothed / 8 + sample / 8 };
    }

    /// After which silence a peer is asked for a sign of life, and asked again: there are [`PINGS`] within the limit.
    pub(super) fn ping_after(&self) -> Duration {
        self.config.peer_timeout / (u32::from(PINGS) + 1)
    }

    pub(super) fn wake_by(&mut self, at: Instant) {
        self.sweep_at = self.sweep_at.min(at);
    }
}
