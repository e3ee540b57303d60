//! One peer of a ring: its session, in a sending and a receiving half, and what the sessions of a ring share.
//!
//! A session is vacant, opening or up. Each half has what only its direction needs; the limits that both
//! sides agreed on, and the calls that connect the directions, belong to the session itself.

use std::collections::VecDeque;

use farcall_base::SessionNumbers;
use farcall_driver::{
    BlockDescriptor, LaneDriver, LaneFault, LaneId, LaneReceiver, LaneSender, RECORD_HEADER_BYTES,
    RUNWAY_BYTES, Record,
};
use farcall_protocol::matching::{self, ReceiveWindow, SendWindow, Source, Tag};
use farcall_protocol::ring::{
    Consumer, ENTRY_LENGTH_MAX, EntryHeader, EntryKind, Hello, Producer, Violation,
};

use super::RingConfig;
use super::counters::RingCounters;
use super::entry::EntryHead;
use super::flow::Ahead;
use super::record::OpenRecord;
use crate::batch::Unanswered;
use crate::matcher::{Deferred, MatchState, SendQueue};
use crate::trace::CallTracer;
use crate::waiting::WaitingPayload;
use crate::{DownReason, SessionId};

/// The most sessions of one transport at a time.
pub const SESSIONS_MAX: usize = 1 << SLOT_BITS;

const SLOT_BITS: u32 = 12;

/// The slot of a session number.
pub fn slot_of(session: SessionId) -> usize {
    session.0 as usize & (SESSIONS_MAX - 1)
}

/// Where a session stands. Vacant → Opening → Up → Vacant, or Opening → Vacant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The slot is free.
    Vacant,
    /// The lane is not up yet; calls wait in the backlog.
    Opening,
    /// Messages flow.
    Up,
}

/// A session with one peer.
pub struct Session<D: LaneDriver> {
    pub id: SessionId,
    pub lane: LaneId,
    pub stage: Stage,
    pub calls_max: usize,
    pub message_bytes_max: usize,
    /// Our calls that have no response yet.
    pub unanswered_calls: Unanswered,
    /// The peer's calls that we have not answered yet, or whose responses wait in the backlog.
    pub unanswered_requests: usize,
    pub tx: SendHalf<D::Sender>,
    pub rx: ReceiveHalf<D::Receiver>,
}

/// What leaves.
pub struct SendHalf<S> {
    /// There while the session is up.
    pub sender: Option<S>,
    pub producer: Producer,
    /// How much of the ring was made ready, in bytes.
    pub ready_bytes: usize,
    pub record: OpenRecord,
    /// A place in the ring for one message that leaves at once: see [`Session::prepare_place`]. None while a
    /// record is open.
    pub place: Option<usize>,
    /// Calls and responses that wait for room: bounded by `calls_max` each for our calls and for the peer's,
    /// which are all that can wait.
    pub backlog: VecDeque<Waiting>,
    /// Tagged messages wait in a queue of their own, so that a full window does not hold up calls.
    pub messages: SendQueue,
    /// The most calls in flight when records were opened for some, not long ago.
    pub recent_calls: usize,
    /// Payloads of calls up to this travel inside the ring; no more than `message_bytes_max`, and none before
    /// the session is up.
    pub inline_bytes: usize,
    /// The same of tagged messages.
    pub message_inline_bytes: usize,
    /// Blocks that were lent to the peer and have not come back.
    pub lent_blocks: usize,
    /// Bytes of blocks that were lent to the peer since it was last looked for what it gave back.
    pub lent_unseen_bytes: usize,
    /// Whether the peer gave blocks back when it was last waited for.
    pub is_worth_waiting_for: bool,
}

/// What comes.
pub struct ReceiveHalf<R> {
    /// There while the session is up, but for the time in which a record is read: as a pointer, because it is
    /// taken out and put back for every record.
    pub reader: Option<Box<Reader<R>>>,
    pub consumer: Consumer,
    /// The record that was left in the middle.
    pub reading: Option<Reading>,
    pub messages: MatchState,
    /// Polls in a row that found a record.
    pub consecutive_hits: u64,
    /// Bytes in the blocks that were borrowed since the last look at this peer began.
    pub block_bytes_read: u64,
    /// The peer's blocks that we hold or whose return is due.
    pub borrowed_blocks: usize,
    /// One of those that is due and for which there was no room.
    pub returning: Option<BlockDescriptor>,
}

/// The reading end of a lane. Taken out of the transport while a record is read, so that the sink can have
/// the rest.
pub struct Reader<R> {
    pub receiver: R,
    /// As in the session.
    pub unanswered: Unanswered,
}

/// How far a record was read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Where the next entry is.
    pub at: usize,
    /// Entries that were read.
    pub entries_read: u16,
    /// All entries.
    pub entries: u16,
}

/// A call or a response that waits for room.
pub struct Waiting {
    pub message: EntryHead,
    pub payload: WaitingPayload,
}

impl<D: LaneDriver> Session<D> {
    /// A free slot.
    pub fn vacant(slot: usize, numbers: SessionNumbers) -> Self {
        Self {
            id: SessionId(numbers.first() | slot as u32),
            lane: LaneId(0),
            stage: Stage::Vacant,
            calls_max: 0,
            message_bytes_max: 0,
            unanswered_calls: Unanswered::default(),
            unanswered_requests: 0,
            tx: SendHalf {
                sender: None,
                producer: Producer::new(4096, 0),
                ready_bytes: 0,
                record: OpenRecord::default(),
                place: None,
                backlog: VecDeque::new(),
                messages: SendQueue::default(),
                recent_calls: 0,
                inline_bytes: 0,
                message_inline_bytes: 0,
                lent_blocks: 0,
                lent_unseen_bytes: 0,
                is_worth_waiting_for: true,
            },
            rx: ReceiveHalf {
                reader: None,
                consumer: Consumer::new(4096),
                reading: None,
                messages: MatchState::default(),
                consecutive_hits: 0,
                block_bytes_read: 0,
                borrowed_blocks: 0,
                returning: None,
            },
        }
    }

    /// A free slot whose next session has another number.
    pub fn vacant_again(slot: usize, last: SessionId, numbers: SessionNumbers) -> Self {
        let vacant = Self::vacant(slot, numbers);
        let next = numbers.behind(last.0, 1 << SLOT_BITS);
        Self { id: next.map_or(vacant.id, SessionId), ..vacant }
    }

    /// The lane is there: from now on messages flow, within the limits of both sides. An error says why what
    /// waited for it cannot leave.
    pub fn begin(
        &mut self,
        (sender, receiver): (D::Sender, D::Receiver),
        receive_ring_bytes: usize,
        ours: &Hello,
        peer: &Hello,
        config: &RingConfig,
    ) -> Result<(), DownReason> {
        let (message_bytes_max, calls_max) = ours.limits_with(peer);
        let message_bytes_max = usize::try_from(message_bytes_max).unwrap_or(usize::MAX);
        (self.message_bytes_max, self.calls_max) = (message_bytes_max, calls_max as usize);
        self.stage = Stage::Up;
        let unanswered = self.unanswered_calls.clone();
        self.rx.reader = Some(Box::new(Reader { receiver, unanswered }));
        self.rx.consumer = Consumer::new(receive_ring_bytes as u64);
        self.rx.messages.source = Source::new(peer.identity.rank, peer.identity.endpoint, self.id.0);
        self.rx.messages.window = ReceiveWindow::new(ours.unexpected_lines);
        self.rx.messages.notices.is_understood = peer.reads_notices;
        let tx = &mut self.tx;
        let (of_calls, of_messages) = config.inline_bytes_in(sender.ring_bytes());
        tx.inline_bytes = of_calls.min(message_bytes_max);
        // A message that is longer than the window would wait for ever; as a block it counts as an empty one.
        let window = matching::message_bytes_max(peer.unexpected_lines);
        tx.message_inline_bytes = of_messages.min(message_bytes_max).min(window);
        tx.producer = Producer::new(sender.ring_bytes() as u64, RUNWAY_BYTES as u64);
        tx.ready_bytes = tx.producer.lap_bytes();
        tx.messages.window = SendWindow::new(peer.unexpected_lines);
        tx.sender = Some(sender);
        self.check_waiting()
    }

    /// Whether what was submitted before the session was up is within its limits.
    fn check_waiting(&self) -> Result<(), DownReason> {
        let (bytes_max, calls_max) = (self.message_bytes_max, self.calls_max);
        let calls = self.tx.backlog.iter().map(|waiting| waiting.payload.len());
        let sends = self.tx.messages.waiting.iter().map(|waiting| waiting.payload.len());
        if calls.chain(sends).any(|bytes| bytes > bytes_max) {
            let why = format!("a message that waited for it is over its limit of {bytes_max} bytes");
            return Err(DownReason::Refused { why });
        }
        if self.unanswered_calls.get() > calls_max {
            let why = format!("more calls waited for it than its limit of {calls_max}");
            return Err(DownReason::Refused { why });
        }
        Ok(())
    }

    /// The message at `at` in a record, if it is one that a receive may get in place.
    #[inline]
    pub fn message_at(&self, record: Record<'_>, at: usize) -> Option<Deferred<u16>> {
        let bytes_max = self.message_bytes_max.min(ENTRY_LENGTH_MAX);
        let (tag, bytes) = EntryHeader::tagged_message(record.word(at)?, bytes_max)?;
        let place = slot_of(self.id) as u16;
        Some(Deferred { source: self.rx.messages.source, tag: Tag(tag), bytes, place })
    }

    /// Counts a request or a response of the peer, if there may be one.
    #[inline]
    pub fn count_call(&mut self, kind: EntryKind) -> Result<(), Violation> {
        if kind.is_request() {
            if self.unanswered_requests >= self.calls_max {
                return Err(Violation("more unanswered calls than agreed"));
            }
            self.unanswered_requests += 1;
        } else if !self.unanswered_calls.take_one() {
            return Err(Violation("a response to no call"));
        }
        Ok(())
    }
}

impl<R: LaneReceiver> ReceiveHalf<R> {
    /// A record of the peer was read.
    #[inline]
    pub fn close_record(&mut self, record: Record<'_>) -> Result<(), Violation> {
        self.consumer.advance((RECORD_HEADER_BYTES + record.len()) as u64)
    }
}

impl<R> Reader<R> {
    /// What the peer has published next, or the record that was left, for a caller that reads these bytes of
    /// it now.
    #[inline(always)]
    pub fn record(
        &self,
        offset: usize,
        bytes: core::ops::Range<usize>,
    ) -> Result<Option<Record<'_>>, DownReason>
    where
        R: LaneReceiver,
    {
        self.receiver.peek(offset, bytes).map_err(reason_of)
    }
}

/// What all sessions of a ring share.
pub struct Shared<D> {
    pub driver: D,
    pub config: RingConfig,
    pub counters: RingCounters,
    pub tracer: CallTracer,
    /// The slots of sessions whose open record, or doorbell, waits for the next flush.
    pub dirty: Vec<u16>,
    /// Sessions to be ended at the end of the poll.
    pub closing: Vec<(usize, DownReason)>,
    /// Whether some session may have a backlog, borrowed blocks or notices, so that flushing must look after
    /// all.
    pub is_blocked: bool,
    pub ahead: Ahead,
}

impl<D> Shared<D> {
    /// Marks a session for its end; the reason given first counts.
    #[cold]
    pub fn close_later(&mut self, slot: usize, reason: DownReason) {
        if !self.is_closing(slot) {
            // What was to leave next does not.
            self.tracer.share(None);
            self.counters.violations.add(u64::from(matches!(reason, DownReason::Violation { .. })));
            self.closing.push((slot, reason));
        }
    }

    pub fn is_closing(&self, slot: usize) -> bool {
        self.closing.iter().any(|closing| closing.0 == slot)
    }

    /// Notes that flushing must look after some session's backlog or blocks.
    pub fn mark_blocked(&mut self) {
        self.is_blocked = true;
    }
}

/// What the end of a lane means for its session.
pub fn reason_of(fault: LaneFault) -> DownReason {
    match fault {
        LaneFault::NotThere | LaneFault::TimedOut => DownReason::Unreachable,
        LaneFault::PeerGone => DownReason::Dead,
        LaneFault::PeerClosed | LaneFault::Closed => DownReason::Closed,
        LaneFault::Fabric { why } => DownReason::Fabric { why },
        LaneFault::Corrupt { what } => DownReason::Violation { what },
        LaneFault::Unacceptable { why } => DownReason::Refused { why },
    }
}

impl From<Violation> for DownReason {
    fn from(violation: Violation) -> Self {
        Self::Violation { what: violation.0 }
    }
}
