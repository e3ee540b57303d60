//! The `ring` transport: remote calls and tagged messages through byte rings in the peers' memory.
//!
//! One poll reads what every peer has published, hands it to the sink in place, and publishes what the sink
//! produced: one record and one doorbell a peer. The protocol's rules are in `farcall_protocol::ring`; here
//! they meet a driver.
//!
//! A handler can send through the [`Ring`] while a record is read to it: the reading end of that record's
//! lane is taken out meanwhile.

mod blocks;
mod counters;
mod credit;
mod deferred;
mod deliver;
mod receive;
mod record;
mod send;
mod session;

use core::time::Duration;
use std::os::fd::RawFd;

use farcall_base::{Address, AddressError};
use farcall_base::{Identity, Instant};
use farcall_driver::{CounterFile, LaneDriver, LaneSender};
use farcall_protocol::matching::{WINDOW_LINE_BYTES, lines, lines_max};
use farcall_protocol::ring::{ENTRY_LENGTH_MAX, Hello, WORD_BYTES, record_bytes_max};

use blocks::Ahead;
pub use counters::RingCounters;
use record::{BATCH_BYTES_MAX, RECORD_OVERHEAD};
use session::{Reader, SESSIONS_MAX, Session};

use crate::mail::Mail;
use crate::patience::Patience;
use crate::trace::CallTracer;
use crate::unclaimed::Unclaimed;
use crate::{DownReason, Holdings, Origin, SessionId, Sink, Transport, TransportLimits};

/// The least limit that admits all messages that are no longer than the longest call in a record: see
/// [`lines_max`].
const UNEXPECTED_LINES_MIN: u32 = lines(ENTRY_LENGTH_MAX) / 3 * 4 + 4;
const _: () = assert!(lines_max(UNEXPECTED_LINES_MIN) >= lines(ENTRY_LENGTH_MAX));

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

/// Calls over the lanes of one driver.
pub struct Ring<D: LaneDriver> {
    /// Before the driver, so that writing ends go before their lanes are closed: see [`LaneDriver::close`].
    sessions: Vec<Session<D::Sender>>,
    /// The reading ends, by session slot. One whose record is being read is not here: as a pointer, because
    /// each is taken out and put back for every record.
    readers: Vec<Option<Box<Reader<D::Receiver>>>>,
    driver: D,
    hello: Hello,
    config: RingConfig,
    counters: RingCounters,
    /// The slots of sessions with an open record.
    dirty: Vec<u16>,
    /// Sessions to be ended at the end of the poll.
    closing: Vec<(usize, DownReason)>,
    /// Sessions that have a backlog or borrowed blocks, so that flushing must look after them.
    blocked: usize,
    /// Bytes in the blocks that were taken in since the last look at a peer began.
    block_bytes_read: u64,
    ahead: Ahead,
    mail: Mail,
    /// Whom a receive was posted for last, whose session is there: most receives are for the same. Nothing
    /// when a message was left since, which the next receive may be for.
    receives_from: Option<Origin>,
    /// What the last record was left for, and the slot of its session.
    unclaimed: Unclaimed<u16>,
    tracer: CallTracer,
}

impl<D: LaneDriver> Ring<D> {
    /// A transport over `driver` that introduces itself as `identity` and counts under `label`.
    pub fn new(
        mut driver: D,
        identity: Identity,
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
        };
        driver.set_welcome(&hello.encode());
        Self::over(driver, hello, config, RingCounters::new(counters, label))
    }

    fn over(driver: D, hello: Hello, config: RingConfig, counters: RingCounters) -> Self {
        Self {
            sessions: Vec::new(),
            readers: Vec::new(),
            driver,
            hello,
            config,
            counters,
            dirty: Vec::new(),
            closing: Vec::new(),
            blocked: 0,
            block_bytes_read: 0,
            ahead: Ahead::default(),
            mail: Mail::new(hello.identity.incarnation),
            receives_from: None,
            unclaimed: Unclaimed::default(),
            tracer: CallTracer::default(),
        }
    }
}

impl<D: LaneDriver> Transport for Ring<D> {
    fn limits(&self) -> TransportLimits {
        let RingConfig { message_bytes_max, calls_max, .. } = self.config;
        // Time plays no role here but for the deadlines of the layer above.
        TransportLimits { message_bytes_max, calls_max, polls_per_clock_reading: 16 }
    }

    fn holdings(&self) -> Holdings {
        let mut held = Holdings::default();
        for session in &self.sessions {
            held.calls += session.unanswered_calls.get();
            held.requests += session.unanswered_requests;
            held.backlog += session.backlog.len();
            held.blocks += session.borrowed_blocks;
        }
        held
    }

    fn address(&self) -> Address {
        self.driver.address()
    }

    fn connect(&mut self, to: &Address, _now: Instant) -> Result<SessionId, AddressError> {
        let hello = self.hello.encode();
        let lane = self.driver.connect(to, &hello, self.config.connect_timeout)?;
        let slot = self.open_session(lane).ok_or(AddressError::TooManyPeers { peers_max: SESSIONS_MAX })?;
        Ok(self.sessions[slot].id)
    }

    fn close(&mut self, session: SessionId, _now: Instant) {
        if let Some(slot) = self.slot_of(session) {
            self.close_later(slot, DownReason::Closed);
        }
    }

    fn poll(&mut self, _now: Instant, sink: &mut dyn Sink) -> usize {
        self.publish_all();
        self.take_events(sink);
        let handed_on = if self.mail.keeps_for_sink() { self.hand_on_kept(sink) } else { 0 };
        let mut received = 0;
        for slot in 0..self.readers.len() {
            received += self.receive(slot, Patience::Once, sink);
        }
        if received == 0 && self.ahead.is_due {
            self.prepare_ahead();
        }
        if self.any_closing() {
            self.end_closing_sessions(sink);
        }
        self.publish_all();
        self.report_sends(sink);
        handed_on + received
    }

    fn flush(&mut self) -> bool {
        let before = self.counters.records_sent.get();
        self.publish_all();
        self.counters.records_sent.get() != before
    }

    fn trace_to(&mut self, tracer: CallTracer) {
        self.tracer = tracer;
    }

    /// Lanes are reliable: nothing is ever sent again. A message that was left for another poll is looked at
    /// again, and a lane may ask to be rung again.
    fn next_deadline(&self) -> Option<Instant> {
        let deadline = |session: &Session<D::Sender>| match session.reading {
            Some(_) => Some(Instant::ZERO),
            None => session.sender.as_ref()?.next_deadline(),
        };
        self.sessions.iter().filter_map(deadline).min()
    }

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
