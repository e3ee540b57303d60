//! The `library` transports: calls and tagged messages made of the messages of somebody else's library.
//!
//! A library (`ucx`, `mpi`, `ofi`) brings what carries whole messages reliably and in order; see [`Library`]. What it
//! does not bring is the same for all and is here: sessions with their handshake, limits and signs of life, which are
//! those of packets (`farcall_protocol::session`), and the calls in them. A call is a message, its answer another;
//! nothing is ever sent again, because libraries lose nothing, and a request runs at most once for the same reason.
//!
//! Peers die in two ways: the library notices, or nothing is heard from them for the limit of silence. The second works
//! over every library, also over those that cannot notice anything. `docs/protocol/library.md` has the bytes.

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
use farcall_base::{Identity, Instant};
use farcall_driver::CounterFile;
use farcall_protocol::session::{ConfigError, PeerAddress, SessionConfig, Sessions};
use farcall_protocol::wire::{Offer, Protocol};

pub use counters::LibraryCounters;
use outbound::{Outbound, to_protocol};
pub use seam::{
    ARRIVAL_HEAD_BYTES_MAX, Arrival, COMPOSED_FRONT_BYTES_MAX, Library, Presence, compose, split_composed,
};

use crate::patience::Patience;
use crate::trace::CallTracer;
use crate::{
    GiveLeft, Holdings, MessageId, Origin, Outbox, SessionId, Sink, Source, Tag, TakeLeft, Transport,
    TransportLimits,
};

/// Where a message came from whose session says it anyway.
const NOBODY: PeerAddress = PeerAddress(u32::MAX);

/// The most messages that one poll hands to the sink, so that the library gets its turns.
const ARRIVALS_PER_POLL: usize = 64;

/// The polls after which the library gets its turn although there is something left to be dealt with. To look for more before
/// that would take lines from the caches of peers that are about to write there.
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
}

/// Calls and tagged messages over one instance of a library.
pub struct LibraryTransport<L: Library> {
    outbound: Outbound<L>,
    /// The time of the last poll.
    now: Instant,
    /// Polls since the library was last let work.
    polls_without_progress: u32,
}

impl<L: Library> LibraryTransport<L> {
    /// A transport over `library` that introduces itself as `identity` and counts under `label`. `seed` is drawn at
    /// random by the caller.
    pub fn new(
        library: L,
        identity: Identity,
        seed: u64,
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
        let session = SessionConfig { offer, peer_timeout: config.peer_timeout, ..SessionConfig::default() };
        let sessions = Sessions::new(session, Protocol::Library, identity, seed)?;
        let counters = LibraryCounters::new(counters, label);
        let outbound = Outbound::new(library, sessions, counters, config, seed);
        Ok(Self { outbound, now: Instant::ZERO, polls_without_progress: 0 })
    }

    /// Lets the library work, unless there is something left from the last poll to be dealt with first.
    #[inline]
    fn progress(&mut self) -> usize {
        self.polls_without_progress += 1;
        if self.outbound.held.is_some() && self.polls_without_progress < POLLS_PER_PROGRESS {
            return 0;
        }
        self.polls_without_progress = 0;
        self.outbound.library.progress()
    }

    /// Takes in what has arrived, at most [`ARRIVALS_PER_POLL`] messages.
    #[inline]
    fn receive(&mut self, now: Instant, sink: &mut dyn Sink) -> usize {
        let mut taken = 0;
        self.outbound.patience = Patience::Once;
        if let Some(held) = self.outbound.held.take() {
            self.outbound.patience = Patience::Waited;
            self.outbound.go_on(held, sink);
            taken += 1;
        }
        // What is left holds up what comes after it, for a turn.
        while taken < ARRIVALS_PER_POLL && self.outbound.held.is_none() {
            let Some(arrival) = self.outbound.library.next_arrival() else { break };
            let rest = self.outbound.take_in(&arrival, now, sink);
            self.outbound.hold_or_release(arrival, rest);
            taken += 1;
        }
        taken
    }
}

/// An orderly end: the peers need not find out by themselves.
impl<L: Library> Drop for LibraryTransport<L> {
    fn drop(&mut self) {
        self.outbound.send_all_batches();
        self.outbound.close_all();
        self.outbound.release_held();
    }
}

impl<L: Library> Transport for LibraryTransport<L> {
    fn limits(&self) -> TransportLimits {
        let offer = &self.outbound.sessions.config().offer;
        TransportLimits {
            message_bytes_max: offer.message_bytes_max as usize,
            calls_max: usize::from(offer.calls_max),
        }
    }

    fn holdings(&self) -> Holdings {
        self.outbound.holdings()
    }

    fn address(&self) -> Address {
        self.outbound.library.address()
    }

    fn connect(&mut self, to: &Address, now: Instant) -> Result<SessionId, AddressError> {
        let to = self.outbound.library.resolve(to)?;
        let peers_max = usize::from(self.outbound.sessions.config().sessions_max);
        let id = self.outbound.connect(to, now).ok_or(AddressError::TooManyPeers { peers_max })?;
        Ok(SessionId(id.0))
    }

    fn close(&mut self, session: SessionId, _now: Instant) {
        // What counts as sent leaves before the good-bye.
        self.outbound.send_all_batches();
        self.outbound.sessions.close(to_protocol(session));
    }

    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> usize {
        self.now = now;
        self.outbound.send_batches();
        self.outbound.transmit_session_packets();
        let handed_on =
            if self.outbound.mail.keeps_for_sink() { self.outbound.hand_on_kept(sink) } else { 0 };
        let progressed = self.progress();
        let received = self.receive(now, sink);
        while let Some(lost) = self.outbound.library.next_loss() {
            self.outbound.counters.deaths_reported.increment();
            self.outbound.sessions.lost(PeerAddress(lost.0));
        }
        let timers_due = self.outbound.sessions.next_deadline().is_some_and(|deadline| deadline <= now);
        if timers_due {
            self.outbound.sessions.handle_timeout(now);
        }
        if self.outbound.sessions.has_events() {
            self.outbound.report_sessions(sink);
        }
        self.outbound.transmit_session_packets();
        // A handshake that its acceptor gives up is no event.
        self.outbound.forget_unused_destinations(timers_due);
        self.outbound.send_batches();
        self.outbound.report_sends(sink);
        handed_on + progressed.max(received)
    }

    fn flush(&mut self) -> bool {
        self.outbound.send_batches()
    }

    fn trace_to(&mut self, tracer: CallTracer) {
        self.outbound.tracer = tracer;
    }

    fn outbox(&mut self) -> &mut dyn Outbox {
        &mut self.outbound
    }

    #[inline]
    fn send_at_once(&mut self, session: SessionId, tag: Tag, payload: &[u8]) -> bool {
        self.outbound.send_short(session, tag, payload)
    }

    #[inline]
    fn receive_at_once(&mut self, receive: MessageId, from: Origin, tag: Tag, bytes_max: usize) -> bool {
        !self.outbound.has_left(from.source, tag, bytes_max)
            && self.outbound.receive_at_once(receive, from, tag)
    }

    fn take_left(&mut self, from: Source, tag: Tag, bytes_max: usize, take: &mut TakeLeft<'_>) -> bool {
        self.outbound.claim_left(from, tag, bytes_max, take)
    }

    fn give_left(&mut self, from: Source, tag: Tag, bytes_max: usize, give: &mut GiveLeft<'_>) -> bool {
        self.outbound.give_left(from, tag, bytes_max, give)
    }

    /// Nothing is sent again here, and the times of sessions are of another order.
    fn polls_per_clock_reading(&self) -> u32 {
        16
    }

    fn next_deadline(&self) -> Option<Instant> {
        let outbound = &self.outbound;
        let any_left = outbound.held.is_some() || outbound.has_open_batches();
        if any_left || outbound.sessions.wants_transmit() || outbound.sessions.has_events() {
            return Some(Instant::ZERO);
        }
        let library = self.outbound.library.next_deadline(self.now).unwrap_or(Instant::NEVER);
        let sessions = self.outbound.sessions.next_deadline().unwrap_or(Instant::NEVER);
        let earliest = library.min(sessions);
        (earliest != Instant::NEVER).then_some(earliest)
    }

    fn prepare_wait(&mut self) {
        self.outbound.library.prepare_wait();
    }

    fn finish_wait(&mut self) {
        self.outbound.library.finish_wait();
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.outbound.library.wait_descriptors()
    }
}
