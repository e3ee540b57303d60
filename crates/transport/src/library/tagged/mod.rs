//! Tagged messages: out through the peer's window and in batches, in through the matching.
//!
//! Short messages gather until the next flush and travel as one message of the library, which costs as much
//! as ten of them. While the library has a backlog they go on gathering, until a batch is full. A library may
//! let what is short overtake what is long, so packets are put back in order by their numbers before anything
//! is matched.

mod batch;
mod expected;
mod notices;
mod receiving;
mod sending;

use farcall_driver::Destination;
use farcall_protocol::matching::{ReceiveWindow, Sequencer, Source, Tag, lines, lines_max};
use farcall_protocol::session::{Link, SessionId};
use farcall_protocol::wire::{Batch, HEADER_BYTES, TaggedPacket, put_tagged};

use super::LibraryTransport;
use super::seam::Library;
use crate::matcher::{MatchState, SendQueue};
use crate::{Kept, Outgoing};

/// What is in front of the messages of a batch.
const FRONT_BYTES: usize = 1 + HEADER_BYTES;

pub(super) const OVERRUN: &str = "more messages, or more credit for them, than there can be";

/// The tagged messages of one session.
#[derive(Default)]
pub struct Tagged {
    /// Those that come.
    pub matching: MatchState,
    /// Those that leave.
    pub sends: SendQueue,
    /// How much the peer has room for; 0 until it has said so.
    lines_of_peer: u32,
    /// Whether the peer has said that it reads brief heads.
    peer_reads_brief: bool,
    /// Messages that leave with the next flush, composed with room for their head; empty when there are none.
    batch: Vec<u8>,
    /// Whether the next flush looks at it.
    is_open: bool,
    /// The number of the first message in it.
    first_in_batch: u32,
    batch_bytes_max: usize,
    packets_sent: u32,
    sequencer: Sequencer<Early>,
    /// The payloads of packets that came before those in front of them, in bytes.
    early_bytes: usize,
}

/// A packet that came before those in front of it.
struct Early {
    contents: Contents,
    payload: Kept,
    /// When it was found, if that is traced.
    found: Option<u64>,
}

/// What is left of a packet with a message that nobody expects yet.
#[derive(Clone, Copy)]
pub struct Rest {
    pub id: SessionId,
    contents: Contents,
    /// Where the next message of a batch begins.
    at: usize,
    /// When it was found, if that is traced.
    found: Option<u64>,
}

impl Rest {
    /// The messages of a batch that are left.
    #[inline]
    pub fn unread<'b>(&self, bytes: &'b [u8]) -> Option<Batch<'b>> {
        matches!(self.contents, Contents::Batch).then_some(Batch::new(bytes.get(self.at..)?))
    }

    /// What is in front of `at` was read.
    #[inline]
    pub fn read_up_to(&mut self, at: usize) {
        self.at = at;
    }
}

/// What the payload of a packet is.
#[derive(Clone, Copy)]
enum Contents {
    Message(Tag),
    Batch,
    /// A notice of this code, about the tag.
    Notice(u8, Tag),
}

impl Tagged {
    /// What a message counts, if the peer has room for it, and has said so.
    #[inline]
    fn admitted(&self, bytes: usize) -> Option<u32> {
        let counted = self.lines_of(bytes);
        (self.lines_of_peer > 0 && self.sends.window.admits(counted)).then_some(counted)
    }

    /// What a message counts at the peer.
    #[inline]
    fn lines_of(&self, bytes: usize) -> u32 {
        lines(bytes).min(lines_max(self.lines_of_peer))
    }

    /// The packet whose turn it is, if it has come.
    fn pop(&mut self) -> Option<Early> {
        let early = self.sequencer.pop()?;
        self.early_bytes -= early.payload.len();
        Some(early)
    }

    /// Whether the packet has come whose turn it is.
    pub fn has_early(&self) -> bool {
        self.sequencer.has_next()
    }

    fn next_number(&mut self) -> u32 {
        let number = self.packets_sent;
        self.packets_sent = number.wrapping_add(1);
        number
    }
}

impl<L: Library> LibraryTransport<L> {
    /// A session is up: says how much may be sent here.
    pub(in crate::library) fn open_messages(&mut self, link: &Link, id: SessionId, source: Source) {
        let limit = self.unexpected_lines;
        let batch_bytes_max = self.library.short_bytes_max();
        let Some(channel) = self.channel(id) else { return };
        let batch_bytes_max = batch_bytes_max.min(FRONT_BYTES + channel.message_bytes_max());
        let tagged = &mut channel.tagged;
        tagged.matching.source = source;
        tagged.matching.window = ReceiveWindow::new(limit);
        tagged.batch_bytes_max = batch_bytes_max;
        self.transmit_credit(link, 0);
    }

    fn transmit_credit(&mut self, link: &Link, consumed: u32) {
        let limit = self.unexpected_lines;
        let credit = TaggedPacket::Credit { reads_brief: true, reads_notices: true, consumed, limit };
        self.transmit_tagged(link, credit, Outgoing::Slice(&[]));
    }

    fn transmit_tagged(&mut self, link: &Link, packet: TaggedPacket, payload: Outgoing<'_>) {
        put_tagged(&mut self.head, link.remote, packet);
        self.library.send(Destination(link.to.0), self.head.as_bytes(), payload);
    }
}
