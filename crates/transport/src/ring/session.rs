//! One peer of a ring: its session, from the lane that is opened for it to the end that the sink is notified
//! of.
//!
//! A session is vacant, opening or up. What is private to one is here; what sessions share is in [`Ring`].

use std::collections::VecDeque;

use farcall_driver::{
    BlockDescriptor, LaneDriver, LaneEvent, LaneFault, LaneId, LaneSender, RECORD_HEADER_BYTES, RUNWAY_BYTES,
    Record,
};
use farcall_protocol::matching::{self, ReceiveWindow, SendWindow, Source, Tag};
use farcall_protocol::ring::{Consumer, EntryHeader, EntryKind, Hello, Producer, Violation, WORD_BYTES};

use super::Ring;
use super::record::Batch;
use crate::batch::Unanswered;
use crate::mail::Correspondent;
use crate::patience::Patience;
use crate::waiting::WaitingPayload;
use crate::{DownReason, SessionId, Sink};

/// The most sessions of one transport at a time.
pub const SESSIONS_MAX: usize = 1 << SLOT_BITS;

const SLOT_BITS: u32 = 12;

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

/// A message without its payload.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub direction: Direction,
    /// The call's number or the tag.
    pub call: u32,
    /// The service or the status; 0 with a tag.
    pub selector: u16,
}

impl Message {
    /// A message with a tag.
    pub fn tagged(tag: Tag) -> Self {
        Self { direction: Direction::OneWay, call: tag.0, selector: 0 }
    }
}

impl Message {
    /// The header of its entry when the payload is inside.
    #[inline]
    pub fn inline_header(self, length: usize) -> EntryHeader {
        let Self { direction, call, selector } = self;
        EntryHeader { kind: direction.inline_kind(), call, selector, length: length as u32 }
    }
}

/// A message that waits for room.
pub struct Waiting {
    pub message: Message,
    pub payload: WaitingPayload,
}

/// Whether a message asks, answers or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Request,
    Response,
    OneWay,
}

impl Direction {
    /// The kind of an entry with the payload inside.
    #[inline]
    pub fn inline_kind(self) -> EntryKind {
        match self {
            Self::Request => EntryKind::Request,
            Self::Response => EntryKind::Response,
            Self::OneWay => EntryKind::Message,
        }
    }

    /// The kind of an entry that names a block.
    pub fn block_kind(self) -> EntryKind {
        match self {
            Self::Request => EntryKind::RequestBlock,
            Self::Response => EntryKind::ResponseBlock,
            Self::OneWay => EntryKind::MessageBlock,
        }
    }
}

/// How far a record has been read whose next entry is a message that nobody expects, or waits for its block.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Where the next entry is.
    pub at: usize,
    /// Entries that were read.
    pub entries_read: u16,
    /// All entries.
    pub entries: u16,
    /// Entries that the last poll read of it.
    pub read_last: u16,
}

/// The reading side of a session. Taken out of the transport while a record is read, so that the sink can
/// have the rest.
pub struct Reader<R> {
    pub receiver: R,
    /// As in the sending side.
    pub unanswered: Unanswered,
}

/// The sending side of a session, and the limits that both sides agreed on.
pub struct Session<S> {
    pub id: SessionId,
    pub lane: LaneId,
    pub stage: Stage,
    pub sender: Option<S>,
    pub producer: Producer,
    pub consumer: Consumer,
    pub batch: Batch,
    /// Bounded by `calls_max` each for our calls and for the peer's, which are all that can wait.
    pub backlog: VecDeque<Waiting>,
    /// Tagged messages wait in a queue of their own, so that a full window does not hold up calls.
    pub mail: Correspondent,
    /// Polls in a row that found a record.
    pub consecutive_hits: u64,
    /// The record that was left in the middle.
    pub reading: Option<Reading>,
    /// Our calls that have no response yet.
    pub unanswered_calls: Unanswered,
    /// How many there were at most when records were opened for some, not long ago.
    pub recent_calls: usize,
    /// The peer's calls that we have not answered yet, or whose answers wait in the backlog.
    pub unanswered_requests: usize,
    /// Blocks that were lent to the peer and have not come back.
    pub lent_blocks: usize,
    /// Whether the peer gave blocks back when it was last waited for.
    pub is_worth_waiting_for: bool,
    /// Bytes of blocks that were lent to the peer since it was last looked for what it gave back.
    pub lent_unseen_bytes: usize,
    /// The peer's blocks that we hold or whose return is due.
    pub borrowed_blocks: usize,
    /// One of those that is due and for which there was no room.
    pub returning: Option<BlockDescriptor>,
    pub calls_max: usize,
    pub message_bytes_max: usize,
    /// Payloads of calls up to this travel inside the ring; no more than `message_bytes_max`, and none before
    /// the session is up.
    pub inline_bytes: usize,
    /// The same of tagged messages.
    pub message_inline_bytes: usize,
}

impl<S> Session<S> {
    /// A record of the peer was read.
    #[inline]
    pub fn close_record(&mut self, record: Record<'_>) -> Result<(), Violation> {
        self.consumer.advance((RECORD_HEADER_BYTES + record.len()) as u64)
    }

    /// Whether something has to be sent for which there was no room.
    #[inline]
    pub fn waits_for_room(&self) -> bool {
        !self.backlog.is_empty() || !self.mail.sends.is_empty()
    }

    /// Payloads up to this travel inside the ring.
    #[inline]
    pub fn inline_bytes_of(&self, direction: Direction) -> usize {
        match direction {
            Direction::Request | Direction::Response => self.inline_bytes,
            Direction::OneWay => self.message_inline_bytes,
        }
    }

    /// A free slot.
    pub fn vacant(slot: usize) -> Self {
        Self {
            id: SessionId(slot as u32),
            lane: LaneId(0),
            stage: Stage::Vacant,
            sender: None,
            producer: Producer::new(4096, 0),
            consumer: Consumer::new(4096),
            batch: Batch::default(),
            backlog: VecDeque::new(),
            mail: Correspondent::default(),
            consecutive_hits: 0,
            reading: None,
            unanswered_calls: Unanswered::default(),
            recent_calls: 0,
            unanswered_requests: 0,
            lent_blocks: 0,
            is_worth_waiting_for: true,
            lent_unseen_bytes: 0,
            borrowed_blocks: 0,
            returning: None,
            calls_max: 0,
            message_bytes_max: 0,
            inline_bytes: 0,
            message_inline_bytes: 0,
        }
    }

    /// A free slot whose next session has another number.
    pub fn vacant_again(slot: usize, last: SessionId) -> Self {
        Self { id: SessionId(last.0.wrapping_add(1 << SLOT_BITS)), ..Self::vacant(slot) }
    }
}

/// The slot of a session number.
pub fn slot_of(session: SessionId) -> usize {
    session.0 as usize & (SESSIONS_MAX - 1)
}

/// Bytes of a block's descriptor in an entry.
pub const DESCRIPTOR_BYTES: usize = 2 * WORD_BYTES;

/// A descriptor as the payload of an entry.
pub fn encode_descriptor(block: BlockDescriptor) -> [u8; DESCRIPTOR_BYTES] {
    let mut bytes = [0; DESCRIPTOR_BYTES];
    bytes[..WORD_BYTES].copy_from_slice(&block.offset.to_le_bytes());
    bytes[WORD_BYTES..].copy_from_slice(&block.length.to_le_bytes());
    bytes
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

impl<D: LaneDriver> Ring<D> {
    /// A slot for the session of a new lane; `None` when all are taken.
    pub(super) fn open_session(&mut self, lane: LaneId) -> Option<usize> {
        let vacant = self.sessions.iter().position(|session| session.stage == Stage::Vacant);
        let slot = vacant.unwrap_or(self.sessions.len());
        if slot == SESSIONS_MAX {
            return None;
        }
        if slot == self.sessions.len() {
            self.sessions.push(Session::vacant(slot));
        }
        let session = &mut self.sessions[slot];
        session.lane = lane;
        session.stage = Stage::Opening;
        session.calls_max = self.config.calls_max;
        session.message_bytes_max = self.config.message_bytes_max;
        Some(slot)
    }

    /// The lane is there: from now on messages flow, within the limits of both sides.
    pub(super) fn begin_session(
        &mut self,
        slot: usize,
        sender: D::Sender,
        receive_ring_bytes: usize,
        peer: &Hello,
    ) {
        let (message_bytes_max, calls_max) = self.hello.limits_with(peer);
        let session = &mut self.sessions[slot];
        let ring_bytes = sender.ring_bytes() as u64;
        let message_bytes_max = usize::try_from(message_bytes_max).unwrap_or(usize::MAX);
        let (of_calls, of_messages) = self.config.inline_bytes_in(sender.ring_bytes());
        session.inline_bytes = of_calls.min(message_bytes_max);
        // A message that is longer than the window would wait for ever; as a block it counts as an empty one.
        let window = matching::message_bytes_max(peer.unexpected_lines);
        session.message_inline_bytes = of_messages.min(message_bytes_max).min(window);
        session.producer = Producer::new(ring_bytes, RUNWAY_BYTES as u64);
        session.consumer = Consumer::new(receive_ring_bytes as u64);
        session.message_bytes_max = message_bytes_max;
        session.calls_max = calls_max as usize;
        session.mail.source = Source::new(peer.identity.rank, peer.identity.endpoint);
        session.mail.send_window = SendWindow::new(peer.unexpected_lines);
        session.mail.receive_window = ReceiveWindow::new(self.hello.unexpected_lines);
        session.sender = Some(sender);
        session.stage = Stage::Up;
        let (bytes_max, calls_max) = (session.message_bytes_max, session.calls_max);
        let calls = session.backlog.iter().map(|waiting| waiting.payload.len());
        let sends = session.mail.sends.iter().map(|waiting| waiting.payload.len());
        if calls.chain(sends).any(|bytes| bytes > bytes_max) {
            let why = format!("a message that waited for it is over its limit of {bytes_max} bytes");
            self.close_later(slot, DownReason::Refused { why });
        } else if session.unanswered_calls.get() > calls_max {
            let why = format!("more calls waited for it than its limit of {calls_max}");
            self.close_later(slot, DownReason::Refused { why });
        }
    }

    /// Closes the lane of a session that is about to be forgotten.
    pub(super) fn close_lane(&mut self, slot: usize) {
        let session = &mut self.sessions[slot];
        session.sender = None;
        self.driver.close(session.lane);
    }

    pub(super) fn forget_session(&mut self, slot: usize) {
        let last = self.sessions[slot].id;
        self.sessions[slot] = Session::vacant_again(slot, last);
        self.receives_from = None;
        self.dirty.retain(|&dirty| usize::from(dirty) != slot);
        self.closing.retain(|closing| closing.0 != slot);
    }

    pub(super) fn slot_of(&self, session: SessionId) -> Option<usize> {
        let slot = slot_of(session);
        // Nobody has been told the number of a vacant slot yet.
        (self.sessions.get(slot)?.id == session).then_some(slot)
    }

    pub(super) fn slot_of_lane(&self, lane: LaneId) -> Option<usize> {
        self.sessions.iter().position(|session| session.stage != Stage::Vacant && session.lane == lane)
    }

    /// Marks a session for its end; the reason given first counts.
    pub(super) fn close_later(&mut self, slot: usize, reason: DownReason) {
        if !self.is_closing(slot) {
            // What was to leave next does not.
            self.tracer.share(None);
            self.counters.violations.add(u64::from(matches!(reason, DownReason::Violation { .. })));
            self.closing.push((slot, reason));
        }
    }

    pub(super) fn is_closing(&self, slot: usize) -> bool {
        self.closing.iter().any(|closing| closing.0 == slot)
    }

    #[inline]
    pub(super) fn any_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    pub(super) fn next_closing(&mut self) -> Option<(usize, DownReason)> {
        self.closing.pop()
    }
}

/// How often a ring is looked at for what a peer published before it went: more records than a ring of the
/// default size holds, and a bound on what a peer can do that only says so.
const LAST_LOOKS_MAX: usize = 4096;

impl<D: LaneDriver> Ring<D> {
    /// Learns which sessions came up and which ended.
    #[inline(always)]
    pub(super) fn take_events(&mut self, sink: &mut dyn Sink) {
        if let Some(first) = self.driver.poll_event() {
            self.take_first_and_others(first, sink);
        }
    }

    #[cold]
    fn take_first_and_others(&mut self, first: LaneEvent, sink: &mut dyn Sink) {
        let mut next = Some(first);
        while let Some(event) = next {
            self.take_event(event, sink);
            next = self.driver.poll_event();
        }
    }

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

    /// Reads what a peer published before it went: answers that it has given are given.
    fn read_last_records(&mut self, slot: usize, sink: &mut dyn Sink) {
        if self.readers.len() <= slot {
            return;
        }
        for _ in 0..LAST_LOOKS_MAX {
            if self.is_closing(slot) || self.receive(slot, Patience::Never, sink) == 0 {
                return;
            }
        }
    }

    /// A session that we asked for. When its lane is down already, that event follows and says why.
    fn connected(&mut self, slot: usize, welcome: &[u8], sink: &mut dyn Sink) {
        let lane = self.sessions[slot].lane;
        match Hello::decode(welcome) {
            Ok(peer) => {
                if let Some(ends) = self.driver.take(lane) {
                    self.session_up(slot, ends, &peer, sink);
                }
            }
            Err(error) => {
                self.driver.close(lane);
                self.session_down(slot, &DownReason::Refused { why: error.to_string() }, sink);
            }
        }
    }

    /// A session that a peer asked for. Nobody is notified of one that never comes up.
    fn accepted(&mut self, lane: LaneId, hello: &[u8], sink: &mut dyn Sink) {
        let Some((peer, ends)) = Hello::decode(hello).ok().zip(self.driver.take(lane)) else {
            return self.driver.close(lane);
        };
        match self.open_session(lane) {
            Some(slot) => self.session_up(slot, ends, &peer, sink),
            None => self.driver.close(lane),
        }
    }

    fn session_up(
        &mut self,
        slot: usize,
        (sender, receiver): (D::Sender, D::Receiver),
        peer: &Hello,
        sink: &mut dyn Sink,
    ) {
        let readers = &mut self.readers;
        if readers.len() <= slot {
            readers.resize_with(slot + 1, || None);
        }
        let ring_bytes = self.driver.limits().ring_bytes;
        let unanswered = self.sessions[slot].unanswered_calls.clone();
        readers[slot] = Some(Box::new(Reader { receiver, unanswered }));
        self.begin_session(slot, sender, ring_bytes, peer);
        let session = self.sessions[slot].id;
        sink.session_up(self, session, peer.identity);
        if !self.is_closing(slot) {
            self.send_backlog(slot);
        }
    }

    fn session_down(&mut self, slot: usize, reason: &DownReason, sink: &mut dyn Sink) {
        let session = self.sessions[slot].id;
        if let Some(reader) = self.readers.get_mut(slot) {
            *reader = None;
        }
        self.part(slot, reason);
        self.forget_session(slot);
        self.report_sends(sink);
        sink.session_down(self, session, reason);
    }

    /// Ends the sessions whose peers broke the rules, or that were closed here.
    #[cold]
    pub(super) fn end_closing_sessions(&mut self, sink: &mut dyn Sink) {
        while let Some((slot, reason)) = self.next_closing() {
            self.close_lane(slot);
            self.session_down(slot, &reason, sink);
        }
    }
}
