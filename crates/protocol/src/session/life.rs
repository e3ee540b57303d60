//! Peers that are silent although their processes live.
//!
//! An endpoint answers pings when it is polled. A program that computes, waits in a barrier or stands in a
//! breakpoint does not poll, and is not dead for that. So each side says in OPEN or ACCEPT where its process
//! answers for it ([`LifePort`]): no session is up whose peer has not said it. When two pings in a row were
//! not answered, the process is asked there, again with each further one; who carries the question, and how,
//! is the caller's business ([`Sessions::poll_question`], [`Sessions::found_alive`]). While it is found alive
//! the peer is *late* and its session stays; it is pinged once in a peer timeout. A peer is dead when neither
//! it nor its process was heard for the peer timeout, and both have been asked.
//!
//! Peers that do not say where they answer are judged by their packets alone.

use core::time::Duration;

use farcall_base::Instant;

use crate::wire::LifePort;

use super::liveness::PINGS;
use super::{EndReason, SessionId, Sessions};

/// Questions without an answer that make a silent peer a dead one.
const QUESTIONS: u8 = 2;

/// The most questions that wait to be asked. What finds no room is asked a quarter of the peer timeout later.
const QUESTIONS_WAITING_MAX: usize = 1024;

/// Whether the process at `port` lives and has the endpoint that this session leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeQuestion {
    /// Whose peer it is.
    pub session: SessionId,
    /// Where it answers.
    pub port: LifePort,
}

/// What is known of a peer's life beyond what it sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    port: Option<LifePort>,
    /// When its process was last found alive.
    found_at: Instant,
    asked_at: Instant,
    /// Questions since then.
    unanswered: u8,
}

impl Life {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self =
        Self { port: None, found_at: Instant::ZERO, asked_at: Instant::ZERO, unanswered: 0 };

    /// Of a peer whose process answers at `port`, if it does anywhere.
    pub(super) const fn of(port: Option<LifePort>) -> Self {
        Self { port, ..Self::UNKNOWN }
    }

    /// The peer itself was heard.
    pub(super) fn heard(&mut self) {
        self.unanswered = 0;
    }

    /// Whether its process was asked as often as it may leave questions unanswered.
    fn is_asked(&self) -> bool {
        self.port.is_none() || self.unanswered >= QUESTIONS
    }
}

impl Sessions {
    /// The peers of later sessions learn that this side's process answers at `port` for it, if it does
    /// anywhere, and a peer whose process lives may be silent for `poll_timeout`, if there is a limit.
    pub fn set_life(&mut self, port: Option<LifePort>, poll_timeout: Option<Duration>) {
        (self.life, self.poll_timeout) = (port, poll_timeout);
    }

    /// The next process to ask.
    pub fn poll_question(&mut self) -> Option<LifeQuestion> {
        self.questions.pop_front()
    }

    /// The process of a session's peer was found alive by `now`. Nothing happens when the session is over.
    pub fn found_alive(&mut self, id: SessionId, now: Instant) {
        if self.link(id).is_some() {
            self.counters.lives_found += 1;
            let life = &mut self.slots[id.index()].life;
            (life.found_at, life.unanswered) = (now, 0);
        }
    }

    /// The process of a session's peer said that it does not have this endpoint any more.
    pub fn found_gone(&mut self, id: SessionId) {
        if self.link(id).is_some() {
            self.end(id.index() as u16, EndReason::Dead);
        }
    }

    /// Has the process of a silent peer asked, if it answers anywhere.
    pub(super) fn ask_for_life(&mut self, index: u16, now: Instant) {
        let slot = &mut self.slots[usize::from(index)];
        let session = slot.id(index);
        let Some(port) = slot.life.port else { return };
        if self.questions.len() < QUESTIONS_WAITING_MAX {
            slot.life.asked_at = now;
            slot.life.unanswered = slot.life.unanswered.saturating_add(1);
            self.counters.lives_asked += 1;
            self.questions.push_back(LifeQuestion { session, port });
        }
    }

    /// No ping was answered: the peer is dead, or late.
    pub(super) fn judge(&mut self, index: u16, now: Instant) {
        let (timeout, ping_after) = (self.config.peer_timeout, self.ping_after());
        let slot = &self.slots[usize::from(index)];
        let life = slot.life;
        debug_assert_eq!(slot.unanswered_pings, PINGS);
        let ask_at = slot.pinged_at.max(life.asked_at) + ping_after;
        let dead_at = ask_at.max(slot.heard_at.max(life.found_at) + timeout);
        // Both count from the last question at least: time in which this very process stood still is not the
        // peer's.
        let too_late_at = self.poll_timeout.map_or(Instant::NEVER, |limit| ask_at.max(slot.heard_at + limit));
        if now >= dead_at && life.is_asked() {
            return self.end(index, EndReason::Dead);
        }
        if life.port.is_none() {
            return self.wake_by(index, dead_at);
        }
        if now >= too_late_at {
            return self.end_because(slot.id(index), EndReason::NotPolled);
        }
        if now < ask_at {
            return self.wake_by(index, ask_at);
        }
        self.ask_for_life(index, now);
        if now.since(self.slots[usize::from(index)].pinged_at) >= timeout {
            return self.ping(index, now);
        }
        self.wake_by(index, now + ping_after);
    }
}
