//! The `library` transports: calls and tagged messages made of the messages of somebody else's library.
//!
//! A library (`ucx`, `mpi`, `ofi`) brings what carries whole messages reliably and in order; see [`Library`].
//! What it does not bring is the same for all and is here: sessions with their handshake, limits and signs of
//! life, which are those of packets (`farcall_protocol::session`), and the calls in them. A call is a
//! message, its answer another; nothing is ever sent again, because libraries lose nothing, and a request
//! runs at most once for the same reason.
//!
//! Peers die in two ways: the library notices, or nothing is heard from them for the limit of silence. The
//! second works over every library, also over those that cannot notice anything. `docs/protocol/library.md`
//! has the bytes.

mod channel;
mod claim;
#[cfg(feature = "conformance")]
pub mod conformance;
mod counters;
mod incoming;
mod outbound;
#[cfg(any(test, feature = "conformance"))]
#[doc(hidden)]
pub mod post;
mod seam;
mod sessions;
mod tagged;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::os::fd::RawFd;

use farcall_base::{Address, AddressError};
use farcall_base::{Entropy, Identity, Instant, SessionNumbers};
use farcall_driver::{CounterFile, Destination, HeapLoans, Wait};
use farcall_protocol::matching::WINDOW_LINE_BYTES;
use farcall_protocol::session::{
    ConfigError, PeerAddress, SessionConfig, SessionId as ProtocolSession, Sessions,
};
use farcall_protocol::wire::{Head, Offer, Protocol};

use channel::Channel;
pub use counters::LibraryCounters;
use outbound::{Held, to_protocol};
pub use seam::{
    ARRIVAL_HEAD_BYTES_MAX, Arrival, Backlog, COMPOSED_FRONT_BYTES_MAX, Library, Presence, compose,
    split_composed,
};

use crate::matcher::{Deferral, DeferredHead, Matcher};
use crate::trace::CallTracer;
use crate::{Holdings, LifeWatch, SessionId, Sink, Taken, Transport, TransportLimits, Watching};

/// Where a message came from whose session says it anyway.
const NOBODY: PeerAddress = PeerAddress(u32::MAX);

/// The most messages that one poll hands to the sink, so that the library gets its turns.
const ARRIVALS_PER_POLL: usize = 64;

/// After this many polls in a row that took in all they may peers are judged although more may have arrived.
const BUSY_POLLS_MAX: u32 = 1024;

/// The polls after which the library gets its turn although there is something left to be dealt with. To look
/// for more before that would take lines from the caches of peers that are about to write there.
const POLLS_PER_PROGRESS: u32 = 8;

/// How a library transport is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryConfig {
    /// The longest message, in bytes; cut to what the library carries.
    pub message_bytes_max: u32,
    /// The most unanswered calls of a session, each way.
    pub calls_max: u16,
    /// The silence after which a peer counts as dead.
    pub peer_timeout: Duration,
    /// How many bytes of a peer's messages may wait for a receive.
    pub unexpected_bytes: usize,
    /// The most memory lent at a time, in bytes.
    pub loan_bytes_max: usize,
    /// How many ranks there are: peers with others are refused.
    pub ranks: u32,
    /// The most sessions at a time.
    pub sessions_max: u16,
    /// The most of them that one host opened, where the library tells hosts apart.
    pub sessions_per_host: u16,
    /// Which numbers sessions get here.
    pub numbers: SessionNumbers,
}

/// Calls and tagged messages over one instance of a library.
pub struct LibraryTransport<L: Library> {
    library: L,
    sessions: Sessions,
    counters: LibraryCounters,
    /// By the index of the session's number; of sessions that are over what is left is never looked at.
    channels: Vec<Option<Channel>>,
    /// Sessions that are over and gave their place to others before their end could be reported.
    displaced: Vec<Channel>,
    address: Address,
    loans: HeapLoans,
    head: Head,
    /// Destinations that a session has led to; looked through when one ends.
    destinations: Vec<Destination>,
    /// Whether a session has ended since.
    any_ended: bool,
    /// Sessions that ended for a reason that has words, such as that their waiting calls were over the
    /// limits.
    excesses: Vec<(ProtocolSession, String)>,
    matcher: Matcher,
    /// As a pointer, because it is taken out and put back for each message of it where few are expected at a
    /// time.
    held: Option<Box<Held<L::Arrival>>>,
    /// What it was left for.
    deferred: DeferredHead<()>,
    /// Whether the next message that nobody expects may be left in this poll.
    deferral: Deferral,
    /// How much of a peer's messages may wait here.
    unexpected_lines: u32,
    /// Sessions with calls that wait because the library has too much for their peers.
    held_up: Vec<ProtocolSession>,
    /// Sessions with messages that leave with the next flush.
    open_batches: Vec<ProtocolSession>,
    tracer: CallTracer,
    /// The time of the last poll.
    now: Instant,
    /// Polls since the library was last let work.
    polls_without_progress: u32,
    /// Sessions that have notices to send, or something to be found out for them.
    noticed: Vec<ProtocolSession>,
    /// Polls in a row that took in as much as they may, so that more may lie behind it.
    busy_polls: u32,
    watching: Watching,
}

impl<L: Library> LibraryTransport<L> {
    /// A transport over `library` that introduces itself as `identity` and counts under `label`. What peers
    /// must not foretell comes from `entropy`.
    pub fn new(
        library: L,
        identity: Identity,
        mut entropy: Entropy,
        config: &LibraryConfig,
        counters: &CounterFile,
        label: &str,
    ) -> Result<Self, ConfigError> {
        let carried = u32::try_from(library.payload_bytes_max()).unwrap_or(u32::MAX);
        let offer = Offer {
            message_bytes_max: config.message_bytes_max.min(carried),
            mtu_bytes: u32::MAX,
            unscheduled_bytes: u32::MAX,
            calls_max: config.calls_max,
            checksum: false,
        };
        let session = SessionConfig {
            offer,
            peer_timeout: config.peer_timeout,
            ranks: config.ranks,
            sessions_max: config.sessions_max,
            sessions_per_host: config.sessions_per_host,
            // A connection proves its address before it costs a session.
            half_open_per_host: config.sessions_per_host,
            numbers: config.numbers,
            ..SessionConfig::default()
        };
        let tags = entropy.key();
        let sessions = Sessions::new(session, Protocol::Library, identity, entropy)?;
        let counters = LibraryCounters::new(counters, label);
        let unexpected_lines = u32::try_from(config.unexpected_bytes / WINDOW_LINE_BYTES).unwrap_or(u32::MAX);
        Ok(Self {
            address: library.address(),
            library,
            sessions,
            counters,
            channels: Vec::new(),
            displaced: Vec::new(),
            loans: HeapLoans::new(config.loan_bytes_max),
            head: Head::new(),
            destinations: Vec::new(),
            any_ended: false,
            excesses: Vec::new(),
            matcher: Matcher::new(tags),
            held: None,
            deferred: DeferredHead::default(),
            deferral: Deferral::Once,
            unexpected_lines: unexpected_lines.max(1),
            held_up: Vec::new(),
            open_batches: Vec::new(),
            noticed: Vec::new(),
            tracer: CallTracer::default(),
            now: Instant::ZERO,
            polls_without_progress: 0,
            busy_polls: 0,
            watching: Watching::default(),
        })
    }

    /// Has this endpoint answered for while it is not polled, and the processes of silent peers asked. One
    /// that lives may be silent for `poll_timeout`, if there is a limit.
    #[must_use]
    pub fn watched_by(mut self, watch: Box<dyn LifeWatch>, poll_timeout: Option<Duration>) -> Self {
        self.sessions.set_life(watch.port(), poll_timeout);
        self.watching = Watching::by(watch);
        self
    }

    /// Lets the library work, unless there is something left from the last poll to be dealt with first.
    #[inline]
    fn progress(&mut self) -> usize {
        self.polls_without_progress += 1;
        if self.held.is_some() && self.polls_without_progress < POLLS_PER_PROGRESS {
            return 0;
        }
        self.polls_without_progress = 0;
        self.library.progress()
    }

    /// Whether silence says something about peers: after a process stood still their signs of life may lie
    /// behind more than one poll takes in.
    fn may_judge(&mut self, received: usize) -> bool {
        self.busy_polls = if received < ARRIVALS_PER_POLL { 0 } else { self.busy_polls + 1 };
        self.busy_polls.is_multiple_of(BUSY_POLLS_MAX)
    }

    /// Takes in what has arrived, at most [`ARRIVALS_PER_POLL`] messages.
    #[inline]
    fn receive(&mut self, now: Instant, sink: &mut dyn Sink) -> usize {
        let mut taken = 0;
        self.deferral = Deferral::Once;
        if let Some(held) = self.held.take() {
            self.deferral = Deferral::Spent;
            self.go_on(held, sink);
            taken += 1;
        }
        // What is left holds up what comes after it, for a turn.
        while taken < ARRIVALS_PER_POLL && self.held.is_none() {
            let Some(arrival) = self.library.next_arrival() else { break };
            let rest = self.take_in(&arrival, now, sink);
            self.hold_or_release(arrival, rest);
            taken += 1;
        }
        taken
    }
}

/// An orderly end: the peers need not find out by themselves.
impl<L: Library> Drop for LibraryTransport<L> {
    fn drop(&mut self) {
        self.send_all_batches();
        self.close_all();
        self.release_held();
    }
}

impl<L: Library> Transport for LibraryTransport<L> {
    fn limits(&self) -> TransportLimits {
        let offer = &self.sessions.config().offer;
        TransportLimits {
            message_bytes_max: offer.message_bytes_max as usize,
            calls_max: usize::from(offer.calls_max),
            // Nothing is sent again here, and the times of sessions are of another order.
            polls_per_clock_reading: 16,
        }
    }

    fn holdings(&self) -> Holdings {
        self.in_flight()
    }

    fn address(&self) -> Address {
        self.library.address()
    }

    fn connect(
        &mut self,
        to: &Address,
        _name: Option<&str>,
        now: Instant,
    ) -> Result<SessionId, AddressError> {
        let to = self.library.resolve(to)?;
        let peers_max = usize::from(self.sessions.config().sessions_max);
        let id = self.open(to, now).ok_or(AddressError::TooManyPeers { peers_max })?;
        Ok(SessionId(id.0))
    }

    fn comes_from(&mut self, session: SessionId, to: &Address) -> bool {
        let link = self.sessions.link(to_protocol(session));
        link.is_some_and(|link| self.library.comes_from(Destination(link.to.0), to))
    }

    fn taken_way(&self, _session: SessionId) -> Option<Taken> {
        None
    }

    fn close(&mut self, session: SessionId, _now: Instant) {
        // What counts as sent leaves before the good-bye.
        self.send_all_batches();
        self.sessions.close(to_protocol(session));
    }

    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> usize {
        self.now = now;
        self.send_batches();
        self.transmit_session_packets();
        let handed_on = if self.matcher.keeps_for_sink() { self.hand_on_kept(sink) } else { 0 };
        let progressed = self.progress();
        self.send_waiting_calls();
        let received = self.receive(now, sink);
        while let Some(lost) = self.library.next_loss() {
            self.counters.deaths_reported.increment();
            if let Some(why) = self.library.reason_of_loss(lost) {
                self.explain_loss(lost, &why);
            }
            self.sessions.lost(PeerAddress(lost.0));
        }
        let timers_due =
            self.may_judge(received) && self.sessions.next_deadline().is_some_and(|deadline| deadline <= now);
        if timers_due {
            self.watching.judge(&mut self.sessions, now);
            let found = self.sessions.counters();
            self.counters.lives_asked.set(found.lives_asked);
            self.counters.lives_found.set(found.lives_found);
        }
        if self.sessions.has_events() {
            self.report_sessions(sink);
        }
        self.transmit_session_packets();
        // A handshake that its acceptor gives up is no event.
        self.forget_unused_destinations(timers_due);
        self.exchange_notices();
        self.send_batches();
        self.report_sends(sink);
        handed_on + progressed.max(received)
    }

    fn flush(&mut self) -> bool {
        self.send_batches()
    }

    fn trace_to(&mut self, tracer: CallTracer) {
        self.tracer = tracer;
    }

    fn next_deadline(&self) -> Option<Instant> {
        let any_left = self.held.is_some() || self.must_poll_for_batches() || !self.noticed.is_empty();
        if any_left || self.sessions.wants_transmit() || self.sessions.has_events() {
            return Some(Instant::ZERO);
        }
        let library = self.library.next_deadline(self.now).unwrap_or(Instant::NEVER);
        let sessions = self.sessions.next_deadline().unwrap_or(Instant::NEVER);
        let earliest = library.min(sessions);
        (earliest != Instant::NEVER).then_some(earliest)
    }
}

impl<L: Library> Wait for LibraryTransport<L> {
    fn prepare_wait(&mut self) {
        self.library.prepare_wait();
    }

    fn finish_wait(&mut self) {
        self.library.finish_wait();
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.library.wait_descriptors()
    }
}
