//! One peer of a ring transport.

use std::collections::VecDeque;

use farcall_driver::{BlockDescriptor, LaneFault, LaneId, RECORD_HEADER_BYTES, Record};
use farcall_protocol::matching::Tag;
use farcall_protocol::ring::{Consumer, EntryHeader, EntryKind, Producer, Violation, WORD_BYTES};

use super::batch::Batch;
use crate::batch::Unanswered;
use crate::mail::Correspondent;
use crate::waiting::WaitingPayload;
use crate::{DownReason, SessionId};

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

/// The reading side of a session. Taken out of the transport while a record is read, so that the sink can have the rest.
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
    pub finds: u64,
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
    /// Payloads of calls up to this travel inside the ring; no more than `message_bytes_max`, and none before the session is up.
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
            finds: 0,
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
