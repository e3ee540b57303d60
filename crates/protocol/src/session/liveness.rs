//! Timers: repeated handshakes, pings, and the death of silent peers.
//!
//! A packet only writes down when it came; no timer moves. A session is looked at when the timer that it
//! set last is due, and sets the next one then; sessions that are not due cost nothing.

use core::time::Duration;

use crate::wire::{SessionPacket, WireSession};
use farcall_base::Instant;

use super::slot::State;
use super::{EndReason, PeerAddress, Sessions};

/// The most RESETs within one [`RESET_INTERVAL`]: restarted servers get heard, floods get no echo.
const RESETS_PER_INTERVAL: usize = 32;

const RESET_INTERVAL: Duration = Duration::from_millis(1);

/// Pings without an answer that make a silent peer a dead one: each may be lost, as its answer may be.
pub(super) const PINGS: u8 = 3;

/// Limits how often strangers get an answer. A session is told once in an interval that it is forgotten here:
/// a peer that goes on after a standstill may send hundreds of packets of one session at once, and those of
/// its other sessions must not be left without an answer for that.
#[derive(Debug, Default)]
pub(super) struct ResetBudget {
    since: Instant,
    /// Who was told in this interval; at most [`RESETS_PER_INTERVAL`].
    told: Vec<(PeerAddress, WireSession)>,
}

impl ResetBudget {
    /// Whether a packet of `session` from there is to be answered now.
    pub(super) fn take(&mut self, from: PeerAddress, session: WireSession, now: Instant) -> bool {
        if now.since(self.since) >= RESET_INTERVAL {
            self.since = now;
            self.told.clear();
        }
        let is_due = self.told.len() < RESETS_PER_INTERVAL && !self.told.contains(&(from, session));
        if is_due {
            self.told.push((from, session));
        }
        is_due
    }
}

impl Sessions {
    /// When [`Sessions::handle_timeout`] must run next.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        let next = self.sweep_at.min(self.search_at);
        (next != Instant::NEVER).then_some(next)
    }

    /// Whether [`Sessions::handle_timeout`] has something to do.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.sweep_at
    }

    /// Does what is due by `now`.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_due(now) {
            self.sweep(now);
        }
        if now >= self.search_at {
            self.sweep_searches(now);
        }
    }

    #[cold]
    fn sweep(&mut self, now: Instant) {
        while let Some(&(at, index)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            self.slots[usize::from(index)].wake_at = Instant::NEVER;
            match &self.slots[usize::from(index)].state {
                State::Vacant => {}
                State::Opening(_) => self.sweep_opening(index, now),
                &State::HalfOpen { parts_left } => self.sweep_half_open(index, parts_left, now),
                State::Up => self.sweep_up(index, now),
            }
        }
        self.sweep_at = self.timers.first().map_or(Instant::NEVER, |(at, _)| *at);
    }

    /// The peer is given up after the whole timeout. Time in which this very process did not run is not the
    /// peer's fault and does not count.
    fn sweep_opening(&mut self, index: u16, now: Instant) {
        let (timeout, retry_after_max) = (self.config.peer_timeout, self.retry_after_max());
        let State::Opening(opening) = &mut self.slots[usize::from(index)].state else { return };
        let handshake = &mut opening.handshake;
        handshake.since += now.since(handshake.retry_at);
        let give_up_at = handshake.since + timeout;
        if now >= give_up_at {
            let reason = opening.refused.map_or(EndReason::Unreachable, EndReason::Refused);
            return self.end(index, reason);
        }
        let due = now >= handshake.retry_at;
        if due {
            handshake.retry(now, retry_after_max);
        }
        let wake_at = handshake.retry_at.min(give_up_at);
        self.wake_by(index, wake_at);
        if due {
            self.counters.handshakes_resent += 1;
            self.send_open(index);
        }
    }

    /// It is forgotten without a word after the whole timeout, of which each part counts once: when this very
    /// process did not run for a while, the confirmation may lie behind what has arrived meanwhile, and the
    /// clock of the poll that answered OPEN may have stood still.
    fn sweep_half_open(&mut self, index: u16, parts_left: u8, now: Instant) {
        let Some(parts_left) = parts_left.checked_sub(1) else {
            return self.end(index, EndReason::Unreachable);
        };
        self.slots[usize::from(index)].state = State::HalfOpen { parts_left };
        self.wake_by(index, now + self.ping_after());
    }

    /// The peer is dead after the whole timeout, if it had the chance to answer each of [`PINGS`] pings:
    /// when this very process did not run for a while, the silence is not the peer's fault, even if a ping
    /// had left before.
    fn sweep_up(&mut self, index: u16, now: Instant) {
        self.confirm_again(index, now);
        let ping_after = self.ping_after();
        let slot = &mut self.slots[usize::from(index)];
        if slot.pinged_at <= slot.heard_at {
            slot.unanswered_pings = 0;
            slot.life.heard();
        }
        let next_at = slot.pinged_at.max(slot.heard_at) + ping_after;
        if slot.unanswered_pings == PINGS {
            return self.judge(index, now);
        }
        if now < next_at {
            return self.wake_by(index, next_at);
        }
        slot.unanswered_pings += 1;
        if slot.unanswered_pings > 1 {
            self.ask_for_life(index, now);
        }
        self.ping(index, now);
    }

    /// Repeats the confirmation of a session that we opened until it is answered: the acceptor does not ask.
    /// After a while it is up to the pings of any silent
    /// session.
    fn confirm_again(&mut self, index: u16, now: Instant) {
        let (retry_after_max, ping_after) = (self.retry_after_max(), self.ping_after());
        let slot = &mut self.slots[usize::from(index)];
        let Some(handshake) = &mut slot.confirming else { return };
        let is_answered = slot.heard_at > handshake.since && slot.ping_number == 0;
        if is_answered || now.since(handshake.since) >= ping_after {
            slot.confirming = None;
            return;
        }
        let due = now >= handshake.retry_at;
        if due {
            handshake.retry(now, retry_after_max);
        }
        let wake_at = handshake.retry_at;
        self.wake_by(index, wake_at);
        if due {
            self.counters.handshakes_resent += 1;
            self.ping(index, now);
        }
    }

    /// Nothing reaches `to` any more, says the carrier of the packets: every session that leads there ends.
    pub fn lost(&mut self, to: PeerAddress) {
        let there: Vec<u16> = self.to_address(to).collect();
        for index in there {
            let reason = match &self.slots[usize::from(index)].state {
                State::Vacant => continue,
                // One that was refused, and whose way is gone, says why.
                State::Opening(opening) => opening.refused.map_or(EndReason::Unreachable, EndReason::Refused),
                State::HalfOpen { .. } => EndReason::Unreachable,
                State::Up => EndReason::Dead,
            };
            self.end(index, reason);
        }
    }

    /// Packets do not reach `to`, says the network: sessions that are being opened there end. What is up has
    /// been heard of, and ends by silence.
    pub fn unreachable(&mut self, to: PeerAddress) {
        let there: Vec<u16> = self.to_address(to).collect();
        for index in there {
            if matches!(self.slots[usize::from(index)].state, State::Opening(_)) {
                self.end(index, EndReason::Unreachable);
            }
        }
    }

    /// Whether a session, ready or not, leads to `to`.
    pub fn any_to(&self, to: PeerAddress) -> bool {
        self.to_address(to).next().is_some()
    }

    /// Where the sessions are kept that lead to an address.
    pub(super) fn to_address(&self, to: PeerAddress) -> impl Iterator<Item = u16> {
        self.by_address.range((to, 0)..=(to, u16::MAX)).map(|(_, index)| *index)
    }

    /// Asks for a sign of life, and looks for it at the next quarter of the timeout.
    pub(super) fn ping(&mut self, index: u16, now: Instant) {
        // 0 says that none is unanswered.
        let number = self.pings.bits().max(1);
        let slot = &mut self.slots[usize::from(index)];
        (slot.pinged_at, slot.ping_number) = (now, number);
        let to = slot.link.to;
        self.counters.pings_sent += 1;
        self.queue_in(index, to, SessionPacket::Ping { number });
        self.wake_by(index, now + self.ping_after());
    }

    /// Smooths the round trip as TCP does (RFC 6298: an eighth of each new sample). Only the last ping
    /// counts.
    pub(super) fn measure(&mut self, index: usize, number: u64, now: Instant) {
        let slot = &mut self.slots[index];
        if number == 0 || number != slot.ping_number {
            return;
        }
        slot.ping_number = 0;
        let sample = now.since(slot.pinged_at).as_nanos() as u64;
        let smoothed = &mut slot.round_trip_nanos;
        *smoothed = if *smoothed == 0 { sample } else { *smoothed - *smoothed / 8 + sample / 8 };
    }

    /// After which silence a peer is asked for a sign of life, and asked again: there are [`PINGS`] within
    /// the limit.
    pub(super) fn ping_after(&self) -> Duration {
        self.config.peer_timeout / (u32::from(PINGS) + 1)
    }

    /// Looks at a session not later than `at`. There is one timer a session.
    pub(super) fn wake_by(&mut self, index: u16, at: Instant) {
        let slot = &mut self.slots[usize::from(index)];
        if at >= slot.wake_at {
            return;
        }
        if slot.wake_at != Instant::NEVER {
            self.timers.remove(&(slot.wake_at, index));
        }
        slot.wake_at = at;
        self.timers.insert((at, index));
        self.sweep_at = self.sweep_at.min(at);
    }
}
