//! Sessions over one of several ways: which one has each, and what is done when it breaks.
//!
//! A session has the number that its transport gave it, and numbers say which transport that is. Only one
//! that has been moved, or that opens over a way that was not the first to be tried, has another number than
//! the transport's; such a *detour* is looked up.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use farcall_base::{Address, Identity, Instant, SessionNumbers};
use farcall_driver::ProcessMark;

use super::receives::Receives;
use super::way::Way;
use super::why::WhyNot;
use crate::waiting::WaitingPayload;
use crate::{CallId, DownReason, MessageId, NotTaken, Refused, SessionId, Submission, Submitted};

farcall_driver::declare_counters! {
    /// The choices of one transport of several.
    pub struct SeveralCounters {
        attempts: "attempts" => "Sessions that were asked for over some way",
        refused: "attempts" => "Those that came to nothing, so that the next way was tried",
        moved: "sessions" => "Sessions that went on over another way because theirs broke",
        lost: "sessions" => "Sessions that ended because no way was left",
    }
}

/// A way, by its place, and the session there.
pub type Leg = (usize, SessionId);

/// What has a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// That way, under that number.
    Leads(usize, SessionId),
    /// None yet: what is submitted waits here.
    Waits,
}

/// A session that was asked for here.
pub struct Asked {
    /// What the peer was looked for under, if under a name.
    pub name: Option<String>,
    /// Where the peer is over each way that could be taken, in the order of preference.
    pub addresses: Vec<(usize, Address)>,
    /// Those of them that have not been tried since the session began to open.
    pub untried: VecDeque<(usize, Address)>,
    pub not_taken: Vec<NotTaken>,
    /// The way that it opens over, or has.
    pub leg: Option<Leg>,
    /// Ways that it had before they broke, oldest first.
    pub former: Vec<Leg>,
    /// Who answered; `None` before it was up.
    pub peer: Option<Identity>,
    pub is_up: bool,
    /// Calls and messages that were submitted while it opened.
    pub waiting: VecDeque<(Submission, WaitingPayload)>,
    /// Why it ends, once that is decided.
    pub ends_as: Option<DownReason>,
    /// Why the last attempt came to nothing; of a session that was up, why its way broke.
    pub last_reason: DownReason,
    /// The peer's process, if this one can look for it.
    pub process: Option<ProcessMark>,
    /// Until when it is looked for, because its way broke as if it had ended.
    pub doubted_until: Option<Instant>,
    /// When it came up over its way.
    up_since: Instant,
    /// How many ways in a row broke soon after it came up over them.
    breaks_soon: u32,
}

/// A way that breaks within this time, breaks soon.
const SOON: Duration = Duration::from_secs(1);

/// After so many ways in a row that broke soon a session ends: a peer that takes sessions and breaks them
/// would have its caller do nothing but connect.
const BREAKS_SOON_MAX: u32 = 8;

/// Of so many former ways messages can still be received.
const FORMER_MAX: usize = 64;

/// How long a process may take to end after it has closed what it had open: its memory goes first, and after
/// that the kernel has little to do.
const ENDS_WITHIN: Duration = Duration::from_millis(20);

/// What all ways share.
pub struct Shared {
    /// How many bits of a number say which way has the session.
    pub part_bits: u32,
    /// The longest message and the most unanswered calls, of those that every way can carry.
    pub message_bytes_max: usize,
    pub calls_max: usize,
    pub asked: BTreeMap<SessionId, Asked>,
    /// Sessions that are opening, or whose way knows them under another number.
    detours: BTreeMap<SessionId, Route>,
    /// Those numbers, and the ones that they stand for.
    aliases: BTreeMap<SessionId, SessionId>,
    pub receives: Receives,
    /// Ways that this process does not have.
    pub absent: Vec<(&'static str, WhyNot)>,
    /// The time of the last poll.
    pub now: Instant,
    /// Sessions that have to try their next way, or end.
    pub due: Vec<SessionId>,
    /// Sessions of ways that are to be closed.
    pub closing: Vec<Leg>,
    pub counters: SeveralCounters,
}

impl Asked {
    pub fn new(addresses: Vec<(usize, Address)>, not_taken: Vec<NotTaken>) -> Self {
        Self {
            untried: addresses.iter().cloned().collect(),
            name: None,
            addresses,
            not_taken,
            leg: None,
            former: Vec::new(),
            peer: None,
            is_up: false,
            waiting: VecDeque::new(),
            ends_as: None,
            last_reason: DownReason::Unreachable,
            process: None,
            doubted_until: None,
            up_since: Instant::ZERO,
            breaks_soon: 0,
        }
    }

    /// It is up over a way.
    pub fn came_up(&mut self, peer: Identity, now: Instant) {
        (self.peer, self.is_up, self.up_since) = (Some(peer), true, now);
    }

    /// How many ways in a row have broken soon, if the one that it has breaks now.
    fn breaks_soon(&self, now: Instant) -> u32 {
        if now < self.up_since + SOON { self.breaks_soon + 1 } else { 0 }
    }

    /// Whether it ends if its way breaks now.
    pub fn breaks_too_often(&self, now: Instant) -> bool {
        self.breaks_soon(now) > BREAKS_SOON_MAX
    }

    /// Its way broke for this reason, as ways do whose peer's process ends: whether that is so is to be found
    /// out first.
    pub fn begin_doubt(&mut self, reason: &DownReason, now: Instant) {
        let may_have_ended = *reason == DownReason::Dead && self.process.is_some();
        self.doubted_until = may_have_ended.then(|| now + ENDS_WITHIN);
    }

    /// Its way broke: all others are tried once more.
    pub fn begin_again(&mut self, broken: usize, now: Instant) {
        self.breaks_soon = self.breaks_soon(now);
        self.former.extend(self.leg.take());
        self.former.drain(..self.former.len().saturating_sub(FORMER_MAX));
        self.is_up = false;
        self.untried = self.addresses.iter().filter(|(way, _)| *way != broken).cloned().collect();
    }

    /// The ways that it does not take, of these and of those that are not there, and why.
    pub fn not_taken(&self, ways: &[Way]) -> Vec<NotTaken> {
        let mut not_taken = self.not_taken.clone();
        if let Some((place, _)) = self.leg {
            let why = format!("{} is preferred", ways[place].name);
            let untried = self.untried.iter().map(|(place, _)| ways[*place].name);
            not_taken.extend(untried.map(|way| NotTaken { way, why: why.clone() }));
        }
        not_taken
    }

    /// Whether there is a way that could take the place of that one.
    pub fn has_others_than(&self, way: usize) -> bool {
        self.addresses.iter().any(|(other, _)| *other != way)
    }

    /// Lets something wait, within the limits.
    pub fn wait(
        &mut self,
        submission: Submission,
        payload: WaitingPayload,
        (bytes_max, calls_max): (usize, usize),
    ) -> Submitted {
        if payload.len() > bytes_max {
            return Submitted::Refused(Refused::TooLong { bytes_max });
        }
        let is_call = |waiting: &Submission| matches!(waiting, Submission::Call { .. });
        let calls = || self.waiting.iter().filter(|(waiting, _)| is_call(waiting)).count();
        if is_call(&submission) && calls() >= calls_max {
            return Submitted::Refused(Refused::TooManyCalls { calls_max });
        }
        self.waiting.push_back((submission, payload));
        Submitted::Queued
    }

    /// Takes back a call that waits.
    pub fn cancel(&mut self, call: CallId) {
        self.waiting.retain(|(submission, _)| match submission {
            Submission::Call { call: waiting, .. } => *waiting != call,
            Submission::Message { .. } | Submission::Reply { .. } => true,
        });
    }

    /// Takes back the sends of that name that wait; says how many there were.
    pub fn cancel_send(&mut self, send: MessageId) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|(submission, _)| match submission {
            Submission::Message { send: waiting, .. } => *waiting != send,
            Submission::Call { .. } | Submission::Reply { .. } => true,
        });
        before - self.waiting.len()
    }
}

impl Shared {
    pub fn new(
        part_bits: u32,
        (message_bytes_max, calls_max): (usize, usize),
        counters: SeveralCounters,
        absent: Vec<(&'static str, WhyNot)>,
    ) -> Self {
        Self {
            part_bits,
            message_bytes_max,
            calls_max,
            asked: BTreeMap::new(),
            detours: BTreeMap::new(),
            aliases: BTreeMap::new(),
            receives: Receives::default(),
            absent,
            now: Instant::ZERO,
            due: Vec::new(),
            closing: Vec::new(),
            counters,
        }
    }

    /// The way of a number, which its transport has given.
    #[inline]
    pub fn way_of(&self, session: SessionId) -> usize {
        SessionNumbers::part_of(session.0, self.part_bits)
    }

    /// What has a session.
    #[inline]
    pub fn route(&self, session: SessionId) -> Route {
        if self.detours.is_empty() {
            return Route::Leads(self.way_of(session), session);
        }
        self.find_route(session)
    }

    fn find_route(&self, session: SessionId) -> Route {
        let direct = Route::Leads(self.way_of(session), session);
        self.detours.get(&session).copied().unwrap_or(direct)
    }

    #[inline]
    pub fn has_detours(&self) -> bool {
        !self.detours.is_empty()
    }

    /// The number of a session that a way knows under this one.
    #[inline]
    pub fn outer(&self, inner: SessionId) -> SessionId {
        if self.aliases.is_empty() { inner } else { self.aliases.get(&inner).copied().unwrap_or(inner) }
    }

    /// From now on what is submitted to a session waits.
    pub fn let_wait(&mut self, session: SessionId) {
        self.detours.insert(session, Route::Waits);
    }

    /// Whether a session has no way at the moment, and is to get one, or end.
    pub fn is_between_ways(&self, session: SessionId) -> bool {
        self.asked.get(&session).is_some_and(|asked| asked.leg.is_none() && asked.ends_as.is_none())
    }

    /// A session opens over a way, where it has that number.
    pub fn opens_over(&mut self, session: SessionId, (way, inner): Leg) {
        if inner != session {
            self.aliases.insert(inner, session);
        }
        if let Some(asked) = self.asked.get_mut(&session) {
            asked.leg = Some((way, inner));
        }
        self.let_wait(session);
        self.counters.attempts.increment();
    }

    /// A session is up over a way.
    pub fn leads_over(&mut self, session: SessionId, (way, inner): Leg) {
        if inner == session {
            self.detours.remove(&session);
        } else {
            self.detours.insert(session, Route::Leads(way, inner));
        }
    }

    /// A way does not have that session any more.
    pub fn leg_ended(&mut self, (way, inner): Leg) {
        self.aliases.remove(&inner);
        self.receives.session_down(way, inner);
    }

    /// Forgets a session that has ended; gives what was known of it.
    pub fn forget(&mut self, session: SessionId) -> Option<Asked> {
        self.detours.remove(&session);
        self.asked.remove(&session)
    }

    /// Whether something is to be done behind a poll.
    #[inline]
    pub fn has_work(&self) -> bool {
        !self.due.is_empty() || !self.closing.is_empty()
    }
}
