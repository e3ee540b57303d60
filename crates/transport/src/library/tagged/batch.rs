//! The end of a batch: what it is sent as, and under which head.

use core::ops::Range;

use farcall_protocol::matching::Tag;
use farcall_protocol::wire::{
    BATCH_ENTRY_BYTES, BRIEF_HEAD_BYTES, Batch, BriefHead, HEADER_BYTES, Head, TaggedPacket, WireSession,
    put_tagged,
};

use super::{FRONT_BYTES, Tagged};

/// What is in front of a message with a brief head.
const BRIEF_FRONT_BYTES: usize = 1 + BRIEF_HEAD_BYTES;

/// The longest message that is moved when it turns out to be alone in its batch, in bytes.
const VERY_SHORT_BYTES_MAX: usize = 64;

impl Tagged {
    /// Puts the head in front of what is in the batch. A very short message that has it for itself travels
    /// without a batch around it, so that it takes a line less of the memory through which it travels.
    #[inline]
    pub fn end_batch(&mut self, session: WireSession, head: &mut Head) {
        let number = self.next_number();
        let Some((tag, message)) = self.single() else {
            return self.put_head(session, TaggedPacket::Batch { number }, head);
        };
        let front_bytes = if self.peer_reads_brief { BRIEF_FRONT_BYTES } else { FRONT_BYTES };
        let end = front_bytes + message.len();
        self.batch.copy_within(message, front_bytes);
        self.batch.truncate(end);
        if self.peer_reads_brief {
            self.batch[0] = BRIEF_HEAD_BYTES as u8;
            self.batch[1..BRIEF_FRONT_BYTES].copy_from_slice(&BriefHead { session, number, tag }.to_bytes());
        } else {
            self.put_head(session, TaggedPacket::One { number, tag }, head);
        }
    }

    /// The only message of the batch, if it is very short: its tag, and where it lies.
    #[inline]
    fn single(&self) -> Option<(Tag, Range<usize>)> {
        let is_single = self.sends.sent.wrapping_sub(self.first_in_batch) == 1;
        if !is_single || self.batch.len() > FRONT_BYTES + BATCH_ENTRY_BYTES + VERY_SHORT_BYTES_MAX {
            return None;
        }
        let (tag, message) = Batch::new(&self.batch[FRONT_BYTES..]).next()?.ok()?;
        let begin = FRONT_BYTES + BATCH_ENTRY_BYTES;
        Some((tag, begin..begin + message.len()))
    }

    #[inline]
    fn put_head(&mut self, session: WireSession, packet: TaggedPacket, head: &mut Head) {
        put_tagged(head, session, packet);
        self.batch[1..=HEADER_BYTES].copy_from_slice(head.as_bytes());
    }
}
