//! The `packet` transport: remote calls and tagged messages in packets, over any datagram driver.
//!
//! One poll takes in a burst of packets, hands the messages that they complete to the sink in place, lets the
//! timers run, and transmits what came of it. The protocols' rules are in `farcall_protocol::calls`, and what
//! differs between them in their policies; here they meet a driver.
//!
//! A handler can send through the [`PacketTransport`] while it reads a packet, which is taken out of its
//! burst meanwhile.

mod config;
mod counters;
mod keys;
mod mailbox;
mod messages;
mod outbound;
mod strangers;
mod transmit;

use core::mem;
use core::time::Duration;
use std::os::fd::RawFd;
use std::sync::Arc;

use farcall_base::{Address, AddressError};
use farcall_base::{Entropy, Identity, Instant};
use farcall_driver::{CounterFile, Datagram, Destination, HeapLoans, Packet, Wait};
use farcall_protocol::calls::{Calls, Policy};
use farcall_protocol::session::{AddressUse, ConfigError, PeerAddress, SessionsFull};
use farcall_protocol::wire::{Header, Offer};

pub use config::PacketConfig;
pub use counters::PacketCounters;
pub use keys::KeySource;
use mailbox::Mailbox;
use outbound::{Lent, to_protocol};
use strangers::Strangers;
use transmit::Transmitter;

use crate::home::Home;
use crate::trace::CallTracer;
use crate::{Holdings, LifeWatch, SessionId, Sink, Taken, Transport, TransportLimits, Watching};

/// After this many polls in a row that received something peers are judged although more may have arrived.
const BUSY_POLLS_MAX: u32 = 1024;

/// After this many polls in a row that received something the counters are brought up to date although there
/// is more to do.
const UNCOUNTED_POLLS_MAX: u32 = 16;

/// Calls over one datagram driver, by the protocol that `P` makes.
pub struct PacketTransport<D: Datagram, P: Policy> {
    driver: D,
    calls: Calls<Lent, P>,
    mail: Mailbox,
    loans: HeapLoans,
    /// Where the memory of long messages comes back.
    home: Arc<Home>,
    tracer: CallTracer,
    transmitter: Transmitter,
    watching: Watching,
    /// Where cluster keys come from, if sessions have keys.
    keys: Option<Box<dyn KeySource>>,
    /// Where sealed packets are opened; empty while a handler reads one.
    room: Vec<u8>,
    /// Room for a burst; empty between polls.
    burst: Vec<Packet>,
    strangers: Strangers,
    /// How many polls in a row received something, so that more packets may lie behind that.
    busy_polls: u32,
    /// How many polls received something since the counters were brought up to date.
    uncounted_polls: u32,
    counters: PacketCounters,
}

impl<D: Datagram, P: Policy> PacketTransport<D, P> {
    /// A transport over `driver` that introduces itself as `identity` and counts under `label`. What peers
    /// must not foretell comes from `entropy`.
    pub fn new(
        driver: D,
        policy: P,
        identity: Identity,
        mut entropy: Entropy,
        config: &PacketConfig,
        counters: &CounterFile,
        label: &str,
    ) -> Result<Self, ConfigError> {
        let session = config.session(driver.limits());
        let tags = entropy.key();
        let calls = Calls::with_policy(policy, session, config.resend_interval, identity, entropy)?;
        let burst = Vec::with_capacity(driver.limits().burst_packets);
        let counters = PacketCounters::new(counters, label);
        Ok(Self {
            driver,
            calls,
            mail: Mailbox::new(tags, config),
            loans: HeapLoans::new(config.loan_bytes_max),
            home: Arc::default(),
            tracer: CallTracer::default(),
            transmitter: Transmitter::default(),
            watching: Watching::default(),
            keys: None,
            room: Vec::new(),
            burst,
            strangers: Strangers::default(),
            busy_polls: 0,
            uncounted_polls: 0,
            counters,
        })
    }

    /// Has this endpoint answered for while it is not polled, and the processes of silent peers asked. One
    /// that lives may be silent for `poll_timeout`, if there is a limit.
    #[must_use]
    pub fn watched_by(mut self, watch: Box<dyn LifeWatch>, poll_timeout: Option<Duration>) -> Self {
        self.calls.sessions_mut().set_life(watch.port(), poll_timeout);
        self.watching = Watching::by(watch);
        self
    }

    /// Has all sessions agree on keys by cluster keys of `source`. What peers must not foretell comes from
    /// `entropy`.
    #[must_use]
    pub fn sealed_by(mut self, mut source: Box<dyn KeySource>, entropy: Entropy) -> Self {
        self.calls.sessions_mut().set_keys(source.keys(), entropy);
        self.keys = Some(source);
        self
    }

    /// The limits that both sides of a session agreed on, once it is up.
    pub fn agreed(&self, session: SessionId) -> Option<Offer> {
        self.calls.link(to_protocol(session)).map(|link| link.agreed)
    }

    /// The round trip to the peer of a session as measured so far; zero before the first measurement.
    pub fn round_trip(&self, session: SessionId) -> Duration {
        self.calls.round_trip(to_protocol(session))
    }

    /// What happened so far. For other processes it is brought up to date when a poll has nothing to do, or
    /// too many in a row had something.
    pub fn counters(&self) -> &PacketCounters {
        self.counters.follow(&self.calls, &self.mail);
        &self.counters
    }

    /// Whether no call, request or unacknowledged result is held anywhere.
    pub fn is_idle(&self) -> bool {
        self.calls.is_idle()
    }

    /// A process that stood still finds the signs of life of its peers behind other packets: peers are judged
    /// when all is read, or when there is no end to it.
    #[inline]
    fn handle_timeout(&mut self, received: usize, now: Instant) {
        self.busy_polls = if received == 0 { 0 } else { self.busy_polls + 1 };
        if (1..BUSY_POLLS_MAX).contains(&self.busy_polls) {
            self.calls.handle_timeout_of_calls(now);
        } else {
            self.busy_polls = 0;
            if self.calls.judges_peers(now) {
                self.watching.judge(self.calls.sessions_mut(), now);
            }
            self.calls.handle_timeout(now);
        }
    }

    /// Nobody should wait for an answer until it is counted.
    #[inline]
    fn keep_counters(&mut self, received: usize) {
        if received > 0 && self.uncounted_polls < UNCOUNTED_POLLS_MAX {
            self.uncounted_polls += 1;
        } else if self.uncounted_polls > 0 {
            self.uncounted_polls = 0;
            self.counters.follow(&self.calls, &self.mail);
        }
    }

    /// Tells the driver which peers sessions lead to, before it learns of others.
    #[cold]
    fn keep_peers(&mut self) {
        while let Some(address) = self.calls.poll_address() {
            let (peer, keep) = match address {
                AddressUse::Needed(peer) => (peer, true),
                AddressUse::Released(peer) => (peer, false),
            };
            self.driver.keep_peer(Destination(peer.0), keep);
        }
    }

    /// A destination that was only looked at is kept no longer than by the sessions that lead there.
    fn forget_unless_used(&mut self, to: Destination) {
        self.keep_peers();
        self.driver.keep_peer(to, true);
        self.driver.keep_peer(to, false);
    }

    /// Sends what there is, as the last thing that this endpoint does; false if the driver does not take it.
    fn has_sent_all(&mut self) -> bool {
        for _ in 0..ROOM_ASKED_MAX {
            self.transmitter.transmit(&mut self.calls, &mut self.driver, Instant::ZERO, 0);
            if !self.calls.wants_transmit() && !self.transmitter.is_blocked() && !self.driver.is_backed_up() {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    /// Takes in one burst. Each packet goes back to the driver as soon as the sink has seen it.
    #[inline]
    fn receive(&mut self, now: Instant, sink: &mut dyn Sink) -> usize {
        let received = self.driver.receive(&mut self.burst);
        if received == 0 {
            return 0;
        }
        self.home.take(|buffer| self.calls.keep_buffer(buffer));
        if let Some(found) = self.tracer.begin() {
            self.mark_received(&self.burst, found);
        }
        let mut burst = mem::take(&mut self.burst);
        for packet in burst.drain(..) {
            if Header::is_open(&packet) {
                self.strangers.push(packet);
            } else {
                self.take_in_and_release(packet, now, sink);
            }
        }
        self.burst = burst;
        received
    }

    #[inline]
    fn take_in_and_release(&mut self, packet: Packet, now: Instant, sink: &mut dyn Sink) {
        let from = PeerAddress(packet.source().0);
        self.take_in(from, &packet, now, sink);
        self.driver.release(packet);
    }
}

/// Sessions whose peers are told the end together.
const GOOD_BYES_AT_A_TIME: usize = 128;

/// How often a driver is asked to take packets that it has no room for, before the rest is left to silence.
const ROOM_ASKED_MAX: u32 = 1000;

/// An orderly end: the peers need not find out by themselves.
impl<D: Datagram, P: Policy> Drop for PacketTransport<D, P> {
    fn drop(&mut self) {
        self.release_strangers();
        // In lots: more packets of sessions than the protocol queues would be lost.
        for lot in self.calls.ids().chunks(GOOD_BYES_AT_A_TIME) {
            lot.iter().for_each(|&id| self.calls.close(id));
            if !self.has_sent_all() {
                return;
            }
        }
    }
}

impl<D: Datagram, P: Policy> Transport for PacketTransport<D, P> {
    fn limits(&self) -> TransportLimits {
        let offer = &self.calls.sessions().config().offer;
        TransportLimits {
            message_bytes_max: offer.message_bytes_max as usize,
            calls_max: usize::from(offer.calls_max),
            // What is sent again is sent again by the clock.
            polls_per_clock_reading: 1,
        }
    }

    fn holdings(&self) -> Holdings {
        let (calls, requests) = self.calls.held();
        Holdings { calls, requests, ..Holdings::default() }
    }

    fn address(&self) -> Address {
        self.driver.address()
    }

    fn connect(&mut self, to: &Address, name: Option<&str>, now: Instant) -> Result<SessionId, AddressError> {
        let to = self.driver.resolve(to)?;
        self.renew_keys();
        let connected = self.calls.connect_to(PeerAddress(to.0), name, now);
        if connected.is_err() {
            self.forget_unless_used(to);
        }
        connected.map(|id| SessionId(id.0)).map_err(|SessionsFull { sessions_max }| {
            AddressError::TooManyPeers { peers_max: usize::from(sessions_max) }
        })
    }

    fn comes_from(&mut self, session: SessionId, to: &Address) -> bool {
        let Ok(to) = self.driver.resolve(to) else { return false };
        self.forget_unless_used(to);
        self.calls.link(to_protocol(session)).is_some_and(|link| link.to == PeerAddress(to.0))
    }

    fn taken_way(&self, _session: SessionId) -> Option<Taken> {
        None
    }

    fn close(&mut self, session: SessionId, _now: Instant) {
        self.calls.close(to_protocol(session));
    }

    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> usize {
        if self.calls.wants_transmit() && !self.transmitter.is_cut_short() {
            self.transmitter.transmit(&mut self.calls, &mut self.driver, now, 0);
        }
        let handed_on = if self.mail.keeps_for_sink() { self.hand_on_kept(sink) } else { 0 };
        let received = self.receive(now, sink);
        while let Some(unreachable) = self.driver.next_unreachable() {
            self.calls.sessions_mut().unreachable(PeerAddress(unreachable.0));
        }
        self.handle_timeout(received, now);
        self.report_sessions(sink);
        if self.calls.has_addresses() {
            self.keep_peers();
        }
        if self.can_feed() {
            self.feed_starved();
        }
        self.transmitter.transmit(&mut self.calls, &mut self.driver, now, received);
        let answered = if self.strangers.is_empty() { 0 } else { self.answer_strangers(received, now, sink) };
        self.keep_counters(received);
        handed_on + received + answered
    }

    /// Packets leave in polls.
    fn flush(&mut self) -> bool {
        false
    }

    fn trace_to(&mut self, tracer: CallTracer) {
        self.tracer = tracer.clone();
        self.transmitter.trace_to(tracer);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let can_send = self.calls.wants_transmit() || self.can_feed();
        // No fabric says when it has room again.
        let waits = !self.strangers.is_empty() || self.transmitter.is_blocked();
        if can_send || waits || self.driver.is_backed_up() {
            return Some(Instant::ZERO);
        }
        self.calls.next_deadline().into_iter().chain(self.driver.next_deadline()).min()
    }
}

impl<D: Datagram, P: Policy> Wait for PacketTransport<D, P> {
    fn prepare_wait(&mut self) {
        self.driver.prepare_wait();
    }

    fn finish_wait(&mut self) {
        self.driver.finish_wait();
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.driver.wait_descriptors()
    }
}
