//! One of several transports: how it is reached, and how often it is polled.
//!
//! A poll of a socket is a system call, which takes longer than a message through shared memory. A way that
//! is in use is polled in every turn; one that is not, now and then.

use core::time::Duration;
use std::collections::BTreeSet;

use farcall_base::Instant;
use farcall_driver::CounterFile;

use super::why::WhyNot;
use crate::{DownReason, Outbox, SessionId, Transport};

farcall_driver::declare_counters! {
    /// Which of several ways sessions take; under the label of the transport that they take.
    pub struct WayCounters {
        sessions: "sessions" => "Sessions that take this way now",
        taken: "sessions" => "Sessions that came up over it",
        broke: "sessions" => "Those of them that lost it because it broke",
    }
}

/// What a way reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Processes of this machine.
    Machine,
    /// Those of other machines too.
    Network,
}

/// How one of several transports is used.
pub struct WayConfig {
    /// Its name, which peers know it by.
    pub name: &'static str,
    /// What it reaches.
    pub reach: Reach,
    /// Whether it is polled in every turn although nothing happens there: where that costs next to nothing.
    pub polls_always: bool,
    /// Itself. Its sessions have numbers of the part of its place.
    pub transport: Box<dyn Transport>,
}

/// After this many polls in a row that found nothing a way is not in use.
const POLLS_IN_USE: u32 = 4096;

/// How often a way is polled that is not in use.
const PERIOD: Duration = Duration::from_micros(50);

/// One of several transports.
pub struct Way {
    pub name: &'static str,
    pub reach: Reach,
    polls_always: bool,
    /// Away while it is polled or posts a receive.
    transport: Option<Box<dyn Transport>>,
    /// Polls that it is in use for, although they find nothing.
    polls_left: u32,
    /// When it is polled next, if it is not in use.
    due: Instant,
    /// The sessions that are up there, under its own numbers.
    up: BTreeSet<SessionId>,
    counters: WayCounters,
    /// Why sessions do not take it.
    pub why_not: WhyNot,
}

impl Way {
    /// A way of the transport that counts under `label`.
    pub fn new(config: WayConfig, counters: &CounterFile, label: &str) -> Self {
        let WayConfig { name, reach, polls_always, transport } = config;
        let label = format!("{label} {name}");
        Self {
            name,
            reach,
            polls_always,
            transport: Some(transport),
            polls_left: 0,
            due: Instant::ZERO,
            up: BTreeSet::new(),
            counters: WayCounters::new(counters, &label),
            why_not: WhyNot::new(counters, &label),
        }
    }

    /// A session is up over it.
    pub fn session_up(&mut self, inner: SessionId) {
        self.up.insert(inner);
        self.counters.taken.increment();
        self.counters.sessions.set(self.up.len() as u64);
    }

    /// A session is over there, or did not come up.
    pub fn session_down(&mut self, inner: SessionId, reason: &DownReason) {
        if self.up.remove(&inner) {
            self.counters.broke.add(u64::from(is_break(reason)));
            self.counters.sessions.set(self.up.len() as u64);
        }
    }

    /// The transport, unless it is away.
    #[inline]
    pub fn transport(&self) -> Option<&dyn Transport> {
        self.transport.as_deref().map(|transport| transport as _)
    }

    /// As [`Way::transport`].
    #[inline]
    pub fn transport_mut(&mut self) -> Option<&mut (dyn Transport + 'static)> {
        self.transport.as_deref_mut()
    }

    /// What is sent over it makes it be in use.
    #[inline]
    pub fn outbox(&mut self) -> Option<&mut dyn Outbox> {
        self.polls_left = POLLS_IN_USE;
        self.transport.as_deref_mut().map(|transport| transport as _)
    }

    /// Whether it has to be polled in this turn.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        self.polls_always || self.polls_left > 0 || now >= self.due
    }

    /// A poll found this much.
    #[inline]
    pub fn was_polled(&mut self, found: usize, now: Instant) {
        self.polls_left = if found > 0 { POLLS_IN_USE } else { self.polls_left.saturating_sub(1) };
        self.due = now + PERIOD;
    }

    /// It has to be polled in the next turn.
    pub fn poll_next(&mut self) {
        self.due = Instant::ZERO;
    }

    /// The transport is taken away, while it lends itself to others.
    #[inline]
    pub fn take(&mut self) -> Option<Box<dyn Transport>> {
        self.transport.take()
    }

    /// It is back.
    #[inline]
    pub fn put_back(&mut self, transport: Box<dyn Transport>) {
        self.transport = Some(transport);
    }
}

/// Whether a session that ended for this reason lost its way, and may go on over another: its peer neither
/// said so, nor broke the rules, nor was restarted.
pub fn is_break(reason: &DownReason) -> bool {
    matches!(reason, DownReason::Dead | DownReason::Fabric { .. } | DownReason::Unreachable)
}
