//! The `ring` transport: remote calls and tagged messages through byte rings in the peers' memory.
//!
//! One poll reads what every peer has published, hands it to the sink in place, and publishes what the sink produced:
//! one record and one doorbell a peer. The protocol's rules are in `farcall_protocol::ring`; here they meet a driver.
//!
//! All state is in [`Outbound`], through which a handler can send while a record is read to it: the reading end of that record's
//! lane is taken out for so long.

mod ahead;
mod answers;
mod batch;
mod calls;
mod claim;
mod copies;
mod counters;
mod delivery;
mod entries;
mod events;
mod flow;
mod inbound;
mod left;
mod messages;
mod next_block;
mod outbound;
mod outbox;
mod records;
mod room;
mod session;
mod tagged;
mod turn;

use core::time::Duration;
use std::os::fd::RawFd;

use farcall_base::{Address, AddressError};
use farcall_base::{Identity, Instant};
use farcall_driver::{CounterFile, LaneDriver, LaneSender};
use farcall_protocol::matching::{Source, Tag, WINDOW_LINE_BYTES, lines, lines_max};
use farcall_protocol::ring::{ENTRY_LENGTH_MAX, Hello, WORD_BYTES, record_bytes_max};

pub use counters::RingCounters;
use outbound::Outbound;
use records::{BATCH_BYTES_MAX, RECORD_OVERHEAD};
use session::{SESSIONS_MAX, Session};

use crate::patience::Patience;
use crate::trace::CallTracer;
use crate::{
    DownReason, GiveLeft, Holdings, MessageId, Origin, Outbox, SessionId, Sink, TakeLeft, Transport,
    TransportLimits,
};

/// The least limit that admits all messages that are no longer than the longest call in a record: see [`lines_max`].
const UNEXPECTED_LINES_MIN: u32 = lines(ENTRY_LENGTH_MAX) / 3 * 4 + 4;
const _: () = assert!(lines_max(UNEXPECTED_LINES_MIN) >= lines(ENTRY_LENGTH_MAX));

/// How a ring transport is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Payloads up to this many bytes travel inside the ring, longer ones as blocks; those of calls up to [`ENTRY_LENGTH_MAX`] at
    /// most. What a small ring cannot take is cut to what it can.
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
    /// How long the payloads of calls, and those of messages, may be that travel inside a ring of so many bytes.
    pub fn inline_bytes_in(&self, ring_bytes: usize) -> (usize, usize) {
        let entry_bytes_max = record_bytes_max(ring_bytes as u64) as usize - RECORD_OVERHEAD;
        let of_messages = self.inline_bytes.min(entry_bytes_max - WORD_BYTES);
        (of_messages.min(ENTRY_LENGTH_MAX), of_messages)
    }
}

/// Calls over the lanes of one driver.
pub struct Ring<D: LaneDriver> {
    outbound: Outbound<D>,
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
        let outbound = Outbound::new(driver, hello, config, RingCounters::new(counters, label));
        Self { outbound }
    }
}

impl<D: LaneDriver> Transport for Ring<D> {
    fn limits(&self) -> TransportLimits {
        let config = &self.outbound.config;
        TransportLimits { message_bytes_max: config.message_bytes_max, calls_max: config.calls_max }
    }

    fn holdings(&self) -> Holdings {
        let mut held = Holdings::default();
        for session in &self.outbound.sessions {
            held.calls += session.unanswered_calls.get();
            held.requests += session.unanswered_requests;
            held.backlog += session.backlog.len();
            held.blocks += session.borrowed_blocks;
        }
        held
    }

    fn address(&self) -> Address {
        self.outbound.driver.address()
    }

    fn connect(&mut self, to: &Address, _now: Instant) -> Result<SessionId, AddressError> {
        let hello = self.outbound.hello.encode();
        let lane = self.outbound.driver.connect(to, &hello, self.outbound.config.connect_timeout)?;
        let slot =
            self.outbound.open_session(lane).ok_or(AddressError::TooManyPeers { peers_max: SESSIONS_MAX })?;
        Ok(self.outbound.sessions[slot].id)
    }

    fn close(&mut self, session: SessionId, _now: Instant) {
        if let Some(slot) = self.outbound.slot_of(session) {
            self.outbound.doom(slot, DownReason::Closed);
        }
    }

    fn poll(&mut self, _now: Instant, sink: &mut dyn Sink) -> usize {
        self.outbound.flush();
        self.take_events(sink);
        let handed_on =
            if self.outbound.mail.keeps_for_sink() { self.outbound.hand_on_kept(sink) } else { 0 };
        let mut received = 0;
        for slot in 0..self.outbound.readers.len() {
            received += self.outbound.receive(slot, Patience::Once, sink);
        }
        if received == 0 && self.outbound.ahead.is_due {
            self.outbound.prepare_ahead();
        }
        if self.outbound.any_doomed() {
            self.end_doomed_sessions(sink);
        }
        self.outbound.flush();
        self.outbound.report_sends(sink);
        handed_on + received
    }

    fn flush(&mut self) -> bool {
        let before = self.outbound.counters.records_sent.get();
        self.outbound.flush();
        self.outbound.counters.records_sent.get() != before
    }

    fn trace_to(&mut self, tracer: CallTracer) {
        self.outbound.tracer = tracer;
    }

    fn outbox(&mut self) -> &mut dyn Outbox {
        &mut self.outbound
    }

    /// By itself, or it would be a jump to that of the outbox.
    fn send_at_once(&mut self, session: SessionId, tag: Tag, payload: &[u8]) -> bool {
        self.outbound.send_short(session, tag, payload)
    }

    fn receive_at_once(&mut self, receive: MessageId, from: Origin, tag: Tag, bytes_max: usize) -> bool {
        let outbound = &mut self.outbound;
        if outbound.receives_from != Some(from.session) {
            return outbound.receive_anew(receive, from, tag, bytes_max);
        }
        outbound.mail.post_at_once(receive, from.source, tag)
    }

    fn take_left(&mut self, from: Source, tag: Tag, bytes_max: usize, take: &mut TakeLeft<'_>) -> bool {
        self.outbound.claim_left(from, tag, bytes_max, take)
    }

    fn give_left(&mut self, from: Source, tag: Tag, bytes_max: usize, give: &mut GiveLeft<'_>) -> bool {
        self.outbound.give_left(from, tag, bytes_max, give)
    }

    /// Time plays no role here but for the deadlines of the layer above.
    fn polls_per_clock_reading(&self) -> u32 {
        16
    }

    /// Lanes are reliable: nothing is ever sent again. A message that was left for another poll is looked at again, and a
    /// lane may ask to be rung again.
    fn next_deadline(&self) -> Option<Instant> {
        let deadline = |session: &Session<D::Sender>| match session.reading {
            Some(_) => Some(Instant::ZERO),
            None => session.sender.as_ref()?.next_deadline(),
        };
        self.outbound.sessions.iter().filter_map(deadline).min()
    }

    fn prepare_wait(&mut self) {
        self.outbound.driver.prepare_wait();
    }

    fn finish_wait(&mut self) {
        self.outbound.driver.finish_wait();
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.outbound.driver.wait_descriptors()
    }
}
