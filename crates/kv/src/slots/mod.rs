//! Slots: how the processes of a host ask a daemon that polls.
//!
//! Each client shares one sealed segment with the daemon: a number of slots, each with a cell for a request
//! and one for its response, of whole cache lines. A cell is written by one side and read by the other; its
//! first word says which message it holds and how long it is, carries a tag of one byte, and is written last.
//! Messages need no system call, and no line is written by both sides.
//!
//! The socket over which a client got its segment stays open. The kernel closes it with either process, which
//! is how the daemon frees the slots of a dead client and a client learns that its daemon is gone.

mod attached;
mod client;
mod fuzz;
mod hello;
mod server;

pub use attached::Responder;
pub use client::{AttachError, DaemonGone, SlotClient};
pub use farcall_shm::access::Access;
pub use farcall_shm::cells::{SHORT_BYTES_MAX, ShortMessage};
#[doc(hidden)]
pub use fuzz::fuzz_slots;
pub use server::{Attendance, SlotAddress, SlotServer};

use farcall_shm::cells::cell_bytes;

/// A message in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotMessage<'a> {
    /// The byte that travels in the header.
    pub tag: u8,
    /// The rest.
    pub bytes: &'a [u8],
}

/// How many slots a client gets, and how long messages may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLayout {
    /// Slots of a client, from 1 to [`SLOTS_MAX`]: requests that it can have in flight.
    pub slots: usize,
    /// The longest request, in bytes, up to [`SLOT_BYTES_MAX`]. One of up to [`SHORT_BYTES_MAX`] takes one
    /// cache line.
    pub request_bytes: usize,
    /// The longest response, in bytes, up to [`SLOT_BYTES_MAX`].
    pub response_bytes: usize,
}

/// The most slots of a client.
pub const SLOTS_MAX: usize = 1024;

/// The longest message, in bytes.
pub const SLOT_BYTES_MAX: usize = 64 << 10;

/// How many slots ahead of the current one lines are prefetched for writing: their transfers overlap with the
/// work on it.
///
/// Lines to be read are not fetched ahead. With a side that has caught up with the other, they are those that
/// the other is about to write, and had prefetched.
const SLOTS_AHEAD: usize = 4;

/// The slot whose line is to be prefetched while `slot` is worked on. With so few that there is none ahead,
/// it is this one.
#[inline]
fn slot_ahead(slot: usize, slots: usize) -> usize {
    let ahead = slot + SLOTS_AHEAD;
    let ahead = if ahead < slots { ahead } else { ahead.wrapping_sub(slots) };
    if ahead < slots { ahead } else { slot }
}

impl SlotLayout {
    fn is_valid(&self) -> bool {
        (1..=SLOTS_MAX).contains(&self.slots)
            && self.request_bytes <= SLOT_BYTES_MAX
            && self.response_bytes <= SLOT_BYTES_MAX
    }

    /// Where the responses start in the segment, and how long it is.
    fn extent(&self) -> (usize, usize) {
        const PAGE_BYTES: usize = 4096;
        let responses = self.slots * cell_bytes(self.request_bytes);
        let end = responses + self.slots * cell_bytes(self.response_bytes);
        (responses, end.next_multiple_of(PAGE_BYTES))
    }
}

#[cfg(test)]
mod tests;
