//! How far one poll reads: whether what comes next would be of use now, or only in the way of an answer.

use farcall_driver::LaneDriver;
use farcall_protocol::ring::EntryKind;

use super::Ring;
use super::session::Session;

/// A peer that was found to have published something in so many polls in a row is ahead of its reader.
const FINDS_OF_ONE_AHEAD: u64 = 16;

/// Whether to look for more behind an entry or a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    /// Not in this poll.
    Stop,
    /// Not before the block is here that the entry names.
    Halt,
}

/// What a record ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// Messages that somebody waited for.
    Expected,
    /// An entry that was looked at by itself.
    Entry(EntryKind),
    /// Calls, or nothing.
    Other,
}

impl<D: LaneDriver> Ring<D> {
    /// Whether to look for more behind a record of so many entries.
    #[inline]
    pub(super) fn flow_behind(&self, slot: usize, entries: u16, last: Last) -> Flow {
        let session = &self.sessions[slot];
        let is_stream = match (entries, last) {
            (0, _) => session.waits_for_room(),
            (1, Last::Entry(kind)) if kind.tells_of_room() => session.waits_for_room(),
            (1, Last::Entry(EntryKind::RequestBlock)) => true,
            (1, _) => session.finds > 1 && self.mail.expects_messages(),
            // What comes next would only be looked at to be left.
            (_, Last::Expected) => self.mail.expects_messages(),
            _ => true,
        };
        if is_stream { Flow::Continue } else { Flow::Stop }
    }
}

impl<S> Session<S> {
    /// Whether the peer is so far ahead that what is fetched is nowhere near to what it writes. Close behind it, a core that fetches
    /// on by itself takes lines away that are being written.
    #[inline(always)]
    pub fn is_far_behind(&self) -> bool {
        self.finds >= FINDS_OF_ONE_AHEAD
    }
}
