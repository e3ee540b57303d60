//! A client's side: its slots.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use farcall_shm::access::Access;
use farcall_shm::cells::{CellCopy, CellHeader, Cells, ShortMessage};
use farcall_shm::place::{NotReached, reach};
use farcall_shm::segment::{Mapping, PeerAccess};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};

use super::{SlotLayout, SlotMessage, hello, slot_ahead};

/// How long to wait before the next try while nobody listens yet.
const RETRY_AFTER: Duration = Duration::from_millis(2);

/// Why a client has no slots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// Nobody answered in time: start the daemon first.
    #[error("no daemon answers; start it first")]
    NotThere,
    /// The daemon does not want this client.
    #[error("the daemon refused this client: {why}")]
    Refused {
        /// In its own words.
        why: String,
    },
    /// The system refused something, or the daemon offered unusable memory.
    #[error("cannot attach to the daemon: {why}")]
    Unusable {
        /// In words.
        why: String,
    },
}

/// The daemon ended; what it was asked for and did not answer may have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the daemon ended")]
pub struct DaemonGone;

/// Where a slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Free,
    Asked,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    stage: Stage,
    /// The number of the next request, or of the one that was asked.
    sequence: u32,
}

/// The slots of one client. Dropped by the process that attached, it leaves the daemon.
#[derive(Debug)]
pub struct SlotClient {
    socket: OwnedFd,
    /// The process that attached.
    process: u32,
    requests: Cells,
    responses: Cells,
    layout: SlotLayout,
    slots: Box<[Slot]>,
    response: CellCopy,
}

impl SlotClient {
    /// Attaches to the daemon that listens at a name, or will within the time.
    pub fn attach(name: &str, within: Duration) -> Result<Self, AttachError> {
        let (access, deadline) = (Access::default(), Instant::now() + within);
        let socket = reach_until(name, &access, deadline)?;
        Self::receive(socket, &access, deadline.saturating_duration_since(Instant::now()))
    }

    /// Attaches to the daemon that listens at a name already; it may take `within` to answer.
    pub fn attach_present(name: &str, access: &Access, within: Duration) -> Result<Self, AttachError> {
        Self::receive(reach_until(name, access, Instant::now())?, access, within)
    }

    fn receive(socket: OwnedFd, access: &Access, within: Duration) -> Result<Self, AttachError> {
        access.allow.check(&socket).map_err(unusable)?;
        if !has_something(&socket, within) {
            return Err(AttachError::NotThere);
        }
        match hello::receive(&socket).map_err(unusable)? {
            hello::Attachment::Refused(why) => Err(AttachError::Refused { why }),
            hello::Attachment::Segment(layout, segment) => {
                Self::new(socket, layout, &segment).map_err(unusable)
            }
        }
    }

    pub(super) fn new(socket: OwnedFd, layout: SlotLayout, segment: &OwnedFd) -> io::Result<Self> {
        let (responses, bytes) = layout.extent();
        let mapping = Arc::new(Mapping::of_peer(segment.as_fd(), bytes, PeerAccess::Write)?);
        let slots = vec![Slot { stage: Stage::Free, sequence: 1 }; layout.slots].into();
        let requests = Cells::new(Arc::clone(&mapping), 0, layout.request_bytes, layout.slots);
        let responses = Cells::new(mapping, responses, layout.response_bytes, layout.slots);
        let response = CellCopy::new(layout.response_bytes);
        let process = std::process::id();
        Ok(Self { socket, process, requests, responses, layout, slots, response })
    }

    /// What the slots can hold.
    pub fn layout(&self) -> SlotLayout {
        self.layout
    }

    /// Puts a request into a slot that is free.
    ///
    /// # Panics
    /// When it is not, or the request is over the limit.
    #[inline]
    pub fn ask(&mut self, slot: usize, tag: u8, request: &[u8]) {
        let sequence = self.occupy(slot);
        self.requests.cell(slot).publish(sequence, tag, request);
    }

    /// As [`ask`](Self::ask), for a request that was prepared.
    #[inline]
    pub fn ask_short(&mut self, slot: usize, tag: u8, request: &ShortMessage) {
        let sequence = self.occupy(slot);
        self.requests.cell(slot).publish_short(sequence, tag, request);
    }

    /// The number of the request that a free slot is about to hold.
    #[inline]
    fn occupy(&mut self, slot: usize) -> u32 {
        let state = &mut self.slots[slot];
        assert_eq!(state.stage, Stage::Free, "a slot holds one request at a time");
        state.stage = Stage::Asked;
        state.sequence
    }

    /// The response in a slot, once it is there. The slot is free then. One that no daemon gives counts as
    /// empty, with the tag 255.
    #[inline]
    pub fn take(&mut self, slot: usize) -> Option<SlotMessage<'_>> {
        let state = &mut self.slots[slot];
        if state.stage == Stage::Free {
            return None;
        }
        let bad = CellHeader { tag: u8::MAX, length: 0 };
        let cell = self.responses.cell(slot);
        let header = cell.published(state.sequence).unwrap_or(Some(bad))?;
        *state = Slot { stage: Stage::Free, sequence: state.sequence.wrapping_add(1) };
        self.requests.prefetch_for_write(slot_ahead(slot, self.slots.len()));
        cell.read(header, &mut self.response);
        Some(SlotMessage { tag: header.tag, bytes: self.response.bytes(header.length) })
    }

    /// Whether a slot holds a request whose response was not taken yet.
    #[inline]
    pub fn is_asked(&self, slot: usize) -> bool {
        self.slots[slot].stage == Stage::Asked
    }

    /// Whether the response to what a slot asked is there.
    #[inline]
    pub fn is_answered(&self, slot: usize) -> bool {
        let Slot { stage, sequence } = self.slots[slot];
        stage == Stage::Asked && self.responses.cell(slot).published(sequence) != Ok(None)
    }

    /// Whether the daemon still lives. Makes a system call: for now and then while waiting.
    pub fn check(&self) -> Result<(), DaemonGone> {
        if has_something(&self.socket, Duration::ZERO) { Err(DaemonGone) } else { Ok(()) }
    }
}

/// A forked child has the socket too, and would hold the place at the daemon for as long as it lives: so the
/// connection is ended and not only closed here. What the child drops is its parent's, and stays.
impl Drop for SlotClient {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            let _daemon_gone = shutdown(&self.socket, Shutdown::Both);
        }
    }
}

/// Connects, and tries again until somebody listens.
pub(super) fn reach_until(name: &str, access: &Access, deadline: Instant) -> Result<OwnedFd, AttachError> {
    loop {
        match reach(name, access) {
            Ok(socket) => return Ok(socket),
            Err(NotReached::NotThere | NotReached::Full) => {}
            Err(NotReached::Refused(error)) => return Err(unusable(error)),
        }
        if Instant::now() >= deadline {
            return Err(AttachError::NotThere);
        }
        std::thread::sleep(RETRY_AFTER);
    }
}

/// Whether there is something to read, or the end.
fn has_something(socket: &OwnedFd, within: Duration) -> bool {
    let timeout = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    matches!(poll(&mut polled, Some(&timeout)), Ok(ready) if ready > 0)
}

fn unusable(error: impl ToString) -> AttachError {
    AttachError::Unusable { why: error.to_string() }
}
