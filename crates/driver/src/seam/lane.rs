//! Drivers of the second shape: a reliable, ordered byte ring in one peer's memory.
//!
//! A lane is raw: its sender writes at ring offsets that its caller chooses, and makes a record visible with
//! `publish`. Which offsets are free is the caller's business (the `ring` protocol keeps positions and
//! credits), so that credits can ride on the caller's own records and a lane needs no second message for
//! them.
//!
//! A record starts at a multiple of [`RECORD_ALIGN`], never crosses the end of the ring, and begins with
//! [`RECORD_HEADER_BYTES`] that belong to the lane: they are the record's own publication flag. Each ring
//! holds the records of one direction; the memory of the ring that a process reads is that process's own.
//!
//! Large payloads do not pass through the ring. The driver lends [`Loan`]s from memory that peers can read,
//! and a sender passes a [`BlockDescriptor`] in a record.

use core::ops::Range;
use core::time::Duration;

use farcall_base::{Instant, Principal};

use super::Wait;
use crate::{Block, BlockDescriptor, Loan, LoanError, Record};
use farcall_base::{Address, AddressError};

/// Records start at multiples of this: a cache line.
pub const RECORD_ALIGN: usize = 64;

/// The first bytes of each record, reserved for the lane's publication flag.
pub const RECORD_HEADER_BYTES: usize = 8;

/// Bytes beyond the end of a record that must be free when it is published: the lane clears flags of the
/// lines that come next. Callers keep this much of the ring unused, in addition to their own reserve.
pub const RUNWAY_BYTES: usize = 8 * RECORD_ALIGN;

/// Names a lane of one driver. Numbers are not used again while the driver lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(pub u32);

/// What a record is part of. How it is copied and published, and what is fetched for it, is the driver's
/// business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// An exchange in which the peer waits for it.
    Conversation,
    /// A stream, in which the peer has others to read: what it takes to write and to read counts, not how
    /// soon it is there.
    Stream,
}

/// What a lane driver can do. Fixed for the life of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    /// Bytes in the ring that peers write into, of every lane; a power of two.
    pub ring_bytes: usize,
    /// The longest [`Loan`], in bytes.
    pub loan_bytes_max: usize,
    /// Whether peers read lent blocks where they were written, without a copy.
    pub blocks_in_place: bool,
}

/// The writing end of a lane: the ring in the peer's memory.
pub trait LaneSender: Send {
    /// Bytes in the ring; a power of two.
    fn ring_bytes(&self) -> usize;

    /// Begins a record of about `length` bytes at `offset`: what has to be done for its place can be done
    /// while it is being written. Promises nothing.
    fn begin(&mut self, offset: usize, length: usize);

    /// The memory of a record that is being written: `length` bytes at `offset`, of which the first
    /// [`RECORD_HEADER_BYTES`] are not part of the returned slice. Contents are unspecified until written,
    /// and the same again, even after its publication, until another record is begun.
    ///
    /// # Panics
    /// Here, or when it is published: when `offset` is not a multiple of [`RECORD_ALIGN`] or the record would
    /// cross the end of the ring.
    fn record(&mut self, offset: usize, length: usize) -> &mut [u8];

    /// Writes a long payload into the record at `offset`, at `at` of what [`LaneSender::record`] returns.
    /// What is written behind it has higher offsets, nothing of it is written again, and the record is
    /// published before another is begun. The driver need not keep it: only what is not written by this
    /// method is in the slice afterwards.
    fn write_payload(&mut self, offset: usize, at: usize, payload: &[u8]);

    /// Makes the record of `length` bytes at `offset` visible to the peer, all at once, and at the latest
    /// with the next `ring_doorbell`.
    ///
    /// `next_offset` is where the following record will start (the next aligned offset after this one, or 0
    /// after a wrap). Records must be published in the order of their positions, and the [`RUNWAY_BYTES`]
    /// from `next_offset` on must not be in use by the peer.
    fn publish(&mut self, kind: RecordKind, offset: usize, length: usize, next_offset: usize);

    /// Makes sure that what was published is seen, also by a peer which went to sleep: one doorbell for all
    /// of it. `false` when the fabric had no room for all; ring again after a poll.
    fn ring_doorbell(&mut self) -> bool;

    /// Copies a payload into a loan for the peer of this lane, to be lent with a record that comes next.
    ///
    /// # Panics
    /// When the lengths differ.
    fn copy_payload(&mut self, kind: RecordKind, loan: &mut Loan, payload: &[u8]);

    /// What comes next lies in the first `used_bytes` of the ring: where its memory comes when it is touched,
    /// it may come now, and with `kept` other memory may go. The offsets in `kept` may be in use by the peer
    /// or hold what is cleared ahead; they go on at the start of the ring where the end is not behind the
    /// start. Everything else is free then, and can be written again.
    fn fit(&mut self, used_bytes: usize, kept: Option<Range<usize>>);

    /// When the doorbell must be rung again although nothing else happens; `None` when it need not.
    fn next_deadline(&self) -> Option<Instant>;
}

/// The reading end of a lane: the ring in this process's memory.
pub trait LaneReceiver: Send {
    /// Whether [`LaneReceiver::peek`] at `offset` is worth its call: `false` only when it would find nothing
    /// now. For a caller that looks again and again, and mostly in vain.
    fn may_have_record(&self, offset: usize) -> bool;

    /// The record at `offset`, when it has been published. It stays readable until the peer is told that its
    /// place is free, which is the caller's business. The caller reads these `bytes` of it now, counted from
    /// behind the lane's header; others it may read too.
    fn peek(&self, offset: usize, bytes: Range<usize>) -> Result<Option<Record<'_>>, LaneFault>;
}

/// A fabric that connects each pair of peers by a lane: a [`LaneSender`] and a [`LaneReceiver`] on either
/// side.
pub trait LaneDriver: Wait + Send {
    /// The writing end of its lanes.
    type Sender: LaneSender;
    /// The reading end of its lanes.
    type Receiver: LaneReceiver;

    /// What this driver can do.
    fn limits(&self) -> LaneLimits;

    /// Where other processes reach this driver.
    fn address(&self) -> Address;

    /// Starts to connect. `hello` reaches the peer with its [`LaneEvent::Accepted`]; the outcome comes as
    /// [`LaneEvent::Connected`] or [`LaneEvent::Down`]. At most [`HELLO_BYTES_MAX`] bytes.
    fn connect(&mut self, to: &Address, hello: &[u8], within: Duration) -> Result<LaneId, AddressError>;

    /// The bytes that answer every accepted connection's hello, in the connector's [`LaneEvent::Connected`].
    fn set_welcome(&mut self, welcome: &[u8]);

    /// The next thing that happened to a connection. Costs one load when nothing did.
    fn poll_event(&mut self) -> Option<LaneEvent>;

    /// Both ends of a lane that has just come up; `None` when it is not up or was taken before. They stay
    /// usable, to no effect, after the lane is down.
    fn take(&mut self, lane: LaneId) -> Option<(Self::Sender, Self::Receiver)>;

    /// Who the peer of a lane is that is up, as far as the fabric proves it.
    fn principal(&self, lane: LaneId) -> Principal;

    /// Tears a lane down; its peer sees [`LaneEvent::Down`], and so does the caller. Blocks lent to the peer
    /// come home when it has let go of them. Drop the writing end before: a decorator may keep records, and
    /// publishes them then.
    fn close(&mut self, lane: LaneId);

    /// Lends `bytes` bytes of memory that peers can read: write into it, then send it without a copy.
    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError>;

    /// Takes a loan whose bytes were copied, for the next of about its length: a short loan then costs no allocation.
    /// One of another driver is dropped.
    fn recycle(&mut self, loan: Loan);

    /// Passes a loan to the peer of `lane`; it stays lent until the peer's return arrives at `take_back`.
    /// Another driver's loan is given back.
    fn lend(&mut self, lane: LaneId, loan: Loan) -> Result<BlockDescriptor, Loan>;

    /// Ends the lending of a block, because the peer of `lane` says so. A fault when it has no such block.
    fn take_back(&mut self, lane: LaneId, block: BlockDescriptor) -> Result<(), LaneFault>;

    /// The block that the peer of `lane` lent us, readable; `None` while it is on its way, or waits for
    /// memory: ask again after a poll. Dropping it makes it due for return.
    fn borrow(&mut self, lane: LaneId, block: BlockDescriptor) -> Result<Option<Block>, LaneFault>;

    /// Does some of what can be done ahead for the next message through `sender`, should its record have
    /// `length` bytes; returns whether there is more to do. For a caller that has nothing else to do. That
    /// record's place, from the last `next_offset` on, and the [`RUNWAY_BYTES`] behind it must not be in use
    /// by the peer any more; with a length of 0, they may be.
    fn prepare(&mut self, sender: &mut Self::Sender, length: usize) -> bool;

    /// The next block of `lane` that was dropped here and whose return the peer must be told.
    fn due_return(&mut self, lane: LaneId) -> Option<BlockDescriptor>;
}

/// The longest hello or welcome, in bytes.
pub const HELLO_BYTES_MAX: usize = 256;

/// What happened to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneEvent {
    /// A lane that we asked for is up; `welcome` is what the peer set.
    Connected {
        /// The lane that `connect` named.
        lane: LaneId,
        /// The peer's welcome.
        welcome: Vec<u8>,
    },
    /// A peer connected to us; `hello` is what it passed to `connect`.
    Accepted {
        /// A new lane, up.
        lane: LaneId,
        /// The peer's hello.
        hello: Vec<u8>,
    },
    /// A lane is gone, or never came up.
    Down {
        /// The lane, whose number is not used again.
        lane: LaneId,
        /// Why.
        fault: LaneFault,
    },
}

/// Why a lane ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaneFault {
    /// Nobody listens at the address: the peer is not there (any more).
    #[error("no process listens at the peer's address")]
    NotThere,
    /// The peer's process ended.
    #[error("the peer's process ended")]
    PeerGone,
    /// The peer closed the lane.
    #[error("the peer closed the connection")]
    PeerClosed,
    /// The peer did not finish connecting in time.
    #[error("the peer did not answer the connection in time")]
    TimedOut,
    /// The fabric gave the connection up: the way to the peer or a device is broken.
    #[error("the fabric gave the connection up: {why}")]
    Fabric {
        /// What it reported.
        why: &'static str,
    },
    /// The peer wrote what no correct peer writes. Only this lane is lost.
    #[error("the peer broke the lane's rules: {what}")]
    Corrupt {
        /// What was wrong.
        what: &'static str,
    },
    /// The peer runs under another user, speaks another version or offered unusable memory.
    #[error("the peer was refused: {why}")]
    Unacceptable {
        /// What was wrong with it.
        why: String,
    },
    /// We closed it.
    #[error("the connection was closed here")]
    Closed,
}
