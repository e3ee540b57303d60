//! The `ring` transport: remote calls and tagged messages through byte rings in the peers' memory.
//!
//! One poll reads what every peer has published, gives it to the sink in place, and publishes what the sink
//! produced: one record and one doorbell a peer. The protocol's rules are in `farcall_protocol::ring`; here
//! they meet a driver.
//!
//! A [`Ring`] has sessions, each with a sending and a receiving half (`session`), what these share, and one
//! matcher. `send` takes what leaves, `record` writes it; `receive` reads records in one loop, `deliver`
//! gives their entries to the sink; `flow` is about room: credits and blocks. A handler can send through the
//! ring while a record is read to it: the reading end of that record's lane is taken out meanwhile.

mod counters;
mod deliver;
mod entry;
mod flow;
mod notices;
mod receive;
mod record;
mod rest;
mod send;
mod session;

use core::time::Duration;
use std::os::fd::RawFd;

use farcall_base::{Address, AddressError};
use farcall_base::{Entropy, Identity, Instant, SessionNumbers};
use farcall_driver::{CounterFile, LaneDriver, LaneEvent, LaneId, LaneSender, Wait};
use farcall_protocol::matching::{WINDOW_LINE_BYTES, lines, lines_max};
use farcall_protocol::ring::{ENTRY_LENGTH_MAX, Hello, HelloError, WORD_BYTES, record_bytes_max};

pub use counters::RingCounters;
use flow::Ahead;
use record::{BATCH_BYTES_MAX, RECORD_OVERHEAD};
use session::{SESSIONS_MAX, Session, Shared, Stage, reason_of, slot_of};

use crate::matcher::{Deferral, DeferredHead, Matcher};
use crate::trace::CallTracer;
use crate::{DownReason, Holdings, Origin, SessionId, Sink, Taken, Transport, TransportLimits};

/// The least limit that admits all messages that are no longer than the longest call in a record: see
/// [`lines_max`].
const UNEXPECTED_LINES_MIN: u32 = lines(ENTRY_LENGTH_MAX) / 3 * 4 + 4;
const _: () = assert!(lines_max(UNEXPECTED_LINES_MIN) >= lines(ENTRY_LENGTH_MAX));

/// How often a ring is looked at for what a peer published before it went: more records than a ring of the
/// default size holds, and a bound on what a peer can do that only says so.
const LAST_LOOKS_MAX: usize = 4096;

/// How a ring transport is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Payloads up to this many bytes travel inside the ring, longer ones as blocks; those of calls up to
    /// [`ENTRY_LENGTH_MAX`] at most. What a small ring cannot take is cut to what it can.
    pub inline_bytes: usize,
    /// Bytes after which a record is published even though more could follow.
    pub batch_bytes: usize,
    /// The longest message, in bytes; cut to what the driver can lend.
    pub message_bytes_max: usize,
    /// The most unanswered calls of a session, each way.
    pub calls_max: usize,
    /// How many bytes of a peer's messages may wait for a receive.
    pub unexpected_bytes: usize,
    /// How long a peer may take to come up.
    pub connect_timeout: Duration,
    /// From one look at quiet sessions to the next.
    pub rest_interval: Duration,
    /// How many ranks the world has: others are refused, peers without a rank are not. 0 without a world: a
    /// rank that a peer claims means nothing.
    pub ranks: u32,
    /// Which numbers sessions get here.
    pub numbers: SessionNumbers,
}

impl RingConfig {
    /// How long the payloads of calls, and those of messages, may be that travel inside a ring of this many
    /// bytes.
    pub fn inline_bytes_in(&self, ring_bytes: usize) -> (usize, usize) {
        let entry_bytes_max = record_bytes_max(ring_bytes as u64) as usize - RECORD_OVERHEAD;
        let of_messages = self.inline_bytes.min(entry_bytes_max - WORD_BYTES);
        (of_messages.min(ENTRY_LENGTH_MAX), of_messages)
    }
}

/// Calls and tagged messages over the lanes of one driver.
pub struct Ring<D: LaneDriver> {
    /// Before the driver, so that writing ends go before their lanes are closed: see [`LaneDriver::close`].
    sessions: Vec<Session<D>>,
    shared: Shared<D>,
    matcher: Matcher,
    hello: Hello,
    /// The origin that a receive was posted for last, whose session is there: most receives are for the same.
    /// Nothing when a message was deferred since, which the next receive may be for.
    receives_from: Option<Origin>,
    /// What the last record was left for, and the slot of its session.
    deferred: DeferredHead<u16>,
}

impl<D: LaneDriver> Ring<D> {
    /// A transport over `driver` that introduces itself as `identity` and counts under `label`. What peers
    /// must not foretell comes from `entropy`.
    pub fn new(
        mut driver: D,
        identity: Identity,
        mut entropy: Entropy,
        mut config: RingConfig,
        counters: &CounterFile,
        label: &str,
    ) -> Self {
        // What can neither pass through the ring nor be lent would wait for ever.
        let carried_bytes_max = driver.limits().loan_bytes_max.max(config.inline_bytes.min(ENTRY_LENGTH_MAX));
        config.message_bytes_max = config.message_bytes_max.min(carried_bytes_max);
        config.batch_bytes = config.batch_bytes.min(BATCH_BYTES_MAX);
        let hello = Hello {
            identity,
            message_bytes_max: config.message_bytes_max as u64,
            calls_max: u32::try_from(config.calls_max).unwrap_or(u32::MAX),
            // Senders lend messages that are longer; none has to be that would fit the entry of a call.
            unexpected_lines: u32::try_from(config.unexpected_bytes / WINDOW_LINE_BYTES)
                .unwrap_or(u32::MAX)
                .max(UNEXPECTED_LINES_MIN),
            reads_notices: true,
        };
        driver.set_welcome(&hello.encode());
        let shared = Shared {
            driver,
            config,
            counters: RingCounters::new(counters, label),
            tracer: CallTracer::default(),
            dirty: Vec::new(),
            closing: Vec::new(),
            is_blocked: false,
            ahead: Ahead::default(),
        };
        Self {
            sessions: Vec::new(),
            shared,
            matcher: Matcher::new(entropy.key()),
            hello,
            receives_from: None,
            deferred: DeferredHead::default(),
        }
    }
}

impl<D: LaneDriver> Transport for Ring<D> {
    fn limits(&self) -> TransportLimits {
        let RingConfig { message_bytes_max, calls_max, .. } = self.shared.config;
        // Time plays no role here but for the deadlines of the layer above.
        TransportLimits { message_bytes_max, calls_max, polls_per_clock_reading: 16 }
    }

    fn holdings(&self) -> Holdings {
        let mut held = Holdings::default();
        for session in &self.sessions {
            held.calls += session.unanswered_calls.get();
            held.requests += session.unanswered_requests;
            held.backlog += session.tx.backlog.len();
            held.blocks += session.rx.borrowed_blocks;
        }
        held
    }

    fn address(&self) -> Address {
        self.shared.driver.address()
    }

    fn connect(
        &mut self,
        to: &Address,
        _name: Option<&str>,
        _now: Instant,
    ) -> Result<SessionId, AddressError> {
        let hello = self.hello.encode();
        let lane = self.shared.driver.connect(to, &hello, self.shared.config.connect_timeout)?;
        let slot = self.open_session(lane).ok_or(AddressError::TooManyPeers { peers_max: SESSIONS_MAX })?;
        Ok(self.sessions[slot].id)
    }

    /// A lane does not say where its peer listens.
    fn comes_from(&mut self, session: SessionId, _to: &Address) -> bool {
        self.slot_of(session).is_some()
    }

    fn taken_way(&self, _session: SessionId) -> Option<Taken> {
        None
    }

    fn close(&mut self, session: SessionId, _now: Instant) {
        if let Some(slot) = self.slot_of(session) {
            self.shared.close_later(slot, DownReason::Closed);
        }
    }

    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> usize {
        self.publish_all();
        self.take_events(sink);
        let handed_on = if self.matcher.keeps_for_sink() { self.deliver_unexpected(sink) } else { 0 };
        let mut received = 0;
        for slot in 0..self.sessions.len() {
            received += self.receive(slot, Deferral::Once, sink);
        }
        if received == 0 && now >= self.shared.ahead.due_at {
            self.use_idle_time(now);
        }
        if !self.shared.closing.is_empty() {
            self.end_closing_sessions(sink);
        }
        self.publish_all();
        if !self.matcher.ended_sends.is_empty() {
            self.report_sends(sink);
        }
        handed_on + received
    }

    fn flush(&mut self) -> bool {
        let before = self.shared.counters.records_sent.get();
        self.publish_all();
        self.shared.counters.records_sent.get() != before
    }

    fn trace_to(&mut self, tracer: CallTracer) {
        self.shared.tracer = tracer;
    }

    /// Lanes are reliable: nothing is ever sent again. A deferred message is looked at again, and a
    /// lane may ask to be rung again.
    fn next_deadline(&self) -> Option<Instant> {
        let deadline = |session: &Session<D>| match session.rx.reading {
            Some(_) => Some(Instant::ZERO),
            None => session.tx.sender.as_ref()?.next_deadline(),
        };
        self.sessions.iter().filter_map(deadline).min()
    }
}

impl<D: LaneDriver> Wait for Ring<D> {
    fn prepare_wait(&mut self) {
        self.shared.driver.prepare_wait();
    }

    fn finish_wait(&mut self) {
        self.shared.driver.finish_wait();
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.shared.driver.wait_descriptors()
    }
}

impl<D: LaneDriver> Ring<D> {
    /// A slot for the session of a new lane; `None` when all are taken.
    fn open_session(&mut self, lane: LaneId) -> Option<usize> {
        let vacant = self.sessions.iter().position(|session| session.stage == Stage::Vacant);
        let slot = vacant.unwrap_or(self.sessions.len());
        if slot == SESSIONS_MAX {
            return None;
        }
        if slot == self.sessions.len() {
            self.sessions.push(Session::vacant(slot, self.shared.config.numbers));
        }
        let session = &mut self.sessions[slot];
        session.lane = lane;
        session.stage = Stage::Opening;
        session.calls_max = self.shared.config.calls_max;
        session.message_bytes_max = self.shared.config.message_bytes_max;
        Some(slot)
    }

    #[inline]
    fn slot_of(&self, session: SessionId) -> Option<usize> {
        let slot = slot_of(session);
        // The number of a vacant slot has not been given out yet.
        (self.sessions.get(slot)?.id == session).then_some(slot)
    }

    fn slot_of_lane(&self, lane: LaneId) -> Option<usize> {
        self.sessions.iter().position(|session| session.stage != Stage::Vacant && session.lane == lane)
    }

    /// Learns which sessions came up and which ended.
    #[inline]
    fn take_events(&mut self, sink: &mut dyn Sink) {
        while let Some(event) = self.shared.driver.poll_event() {
            self.take_event(event, sink);
        }
    }

    #[cold]
    fn take_event(&mut self, event: LaneEvent, sink: &mut dyn Sink) {
        match event {
            LaneEvent::Connected { lane, welcome } => {
                if let Some(slot) = self.slot_of_lane(lane) {
                    self.connected(slot, &welcome, sink);
                }
            }
            LaneEvent::Accepted { lane, hello } => self.accepted(lane, &hello, sink),
            LaneEvent::Down { lane, fault } => {
                if let Some(slot) = self.slot_of_lane(lane) {
                    self.read_last_records(slot, sink);
                    self.session_down(slot, &reason_of(fault), sink);
                }
            }
        }
    }

    /// Reads what a peer published before it went: responses that it has given are given.
    fn read_last_records(&mut self, slot: usize, sink: &mut dyn Sink) {
        for _ in 0..LAST_LOOKS_MAX {
            if self.shared.is_closing(slot) || self.receive(slot, Deferral::Never, sink) == 0 {
                return;
            }
        }
    }

    /// A session that we asked for. When its lane is down already, that event follows and says why.
    fn connected(&mut self, slot: usize, welcome: &[u8], sink: &mut dyn Sink) {
        let lane = self.sessions[slot].lane;
        match self.read_hello(welcome) {
            Ok(peer) => {
                if let Some(ends) = self.shared.driver.take(lane) {
                    self.session_up(slot, ends, &peer, sink);
                }
            }
            Err(error) => {
                self.shared.driver.close(lane);
                self.session_down(slot, &DownReason::Refused { why: error.to_string() }, sink);
            }
        }
    }

    /// The hello of a peer that this world takes.
    fn read_hello(&self, bytes: &[u8]) -> Result<Hello, HelloError> {
        let hello = Hello::decode(bytes)?;
        let (rank, ranks) = (hello.identity.rank, self.shared.config.ranks);
        let identity = hello.identity.in_world_of(ranks).ok_or(HelloError::Rank { rank, ranks })?;
        Ok(Hello { identity, ..hello })
    }

    /// A session that a peer asked for. The sink does not learn of one that never comes up.
    fn accepted(&mut self, lane: LaneId, hello: &[u8], sink: &mut dyn Sink) {
        let Some((peer, ends)) = self.read_hello(hello).ok().zip(self.shared.driver.take(lane)) else {
            return self.shared.driver.close(lane);
        };
        match self.open_session(lane) {
            Some(slot) => self.session_up(slot, ends, &peer, sink),
            None => self.shared.driver.close(lane),
        }
    }

    fn session_up(&mut self, slot: usize, ends: (D::Sender, D::Receiver), peer: &Hello, sink: &mut dyn Sink) {
        let ring_bytes = self.shared.driver.limits().ring_bytes;
        let session = &mut self.sessions[slot];
        let begun = session.begin(ends, ring_bytes, &self.hello, peer, &self.shared.config);
        if let Err(reason) = begun {
            self.shared.close_later(slot, reason);
        }
        let id = self.sessions[slot].id;
        let principal = self.shared.driver.principal(self.sessions[slot].lane);
        sink.session_up(self, id, peer.identity, &principal);
        if !self.shared.is_closing(slot) {
            self.sessions[slot].send_backlog(&mut self.shared, &mut self.matcher.spares);
        }
    }

    fn session_down(&mut self, slot: usize, reason: &DownReason, sink: &mut dyn Sink) {
        let session = &mut self.sessions[slot];
        let id = session.id;
        self.matcher.end_session(&mut session.tx.messages, &session.rx.messages, id, reason);
        *session = Session::vacant_again(slot, id, self.shared.config.numbers);
        self.receives_from = None;
        self.shared.dirty.retain(|&dirty| usize::from(dirty) != slot);
        self.shared.closing.retain(|closing| closing.0 != slot);
        self.report_sends(sink);
        sink.session_down(self, id, reason);
    }

    /// Ends the sessions whose peers broke the rules, or that were closed here.
    #[cold]
    fn end_closing_sessions(&mut self, sink: &mut dyn Sink) {
        while let Some((slot, reason)) = self.shared.closing.pop() {
            // The writing end goes before its lane is closed: see `LaneDriver::close`.
            self.sessions[slot].tx.sender = None;
            self.shared.driver.close(self.sessions[slot].lane);
            self.session_down(slot, &reason, sink);
        }
    }
}
