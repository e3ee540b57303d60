//! The entries of a record, to whom they are for: what came together as a whole, the others singly.

use farcall_driver::{BlockDescriptor, LaneDriver, Record};
use farcall_protocol::matching::Tag;
use farcall_protocol::ring::{EntryHeader, EntryKind, Violation, WORD_BYTES};

use super::Ring;
use super::flow::Flow;
use super::inbound::{CUT_SHORT, TOO_LONG};
use super::session::{DESCRIPTOR_BYTES, Reader, reason_of};
use crate::batch::{Entries, MessageEntries};
use crate::mail::Verdict;
use crate::patience::Patience;
use crate::trace::event;
use crate::{DownReason, Incoming, Payload, Sink};

/// A sender of messages of this length may wait for each block: it is told of those that were read before the next is.
const TOLD_AT_ONCE_BYTES_MIN: usize = 256 << 10;

impl<D: LaneDriver> Ring<D> {
    /// Hands what came together with this entry to the sink, as much as it takes; says where the next entry is, and how many there
    /// were.
    #[inline(always)]
    pub(super) fn hand_on_together(
        &mut self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        entry: EntryHeader,
        unread: Entries<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(usize, u16), DownReason> {
        match entry.kind {
            EntryKind::Message => {
                let session = &self.sessions[slot];
                let (bytes_max, fetches) = (session.message_bytes_max, session.is_far_behind());
                let messages = MessageEntries::new(unread, bytes_max, fetches);
                self.hand_on_messages(slot, messages, sink)
            }
            EntryKind::Request | EntryKind::Response => {
                Ok(self.hand_on_calls(slot, entry, unread, &reader.unanswered, sink))
            }
            _ => Ok((unread.offset(), 0)),
        }
    }

    /// Hands an entry to the sink, unless it has to stay where it is.
    #[inline]
    pub(super) fn deliver_entry(
        &mut self,
        slot: usize,
        entry: EntryHeader,
        record: Record<'_>,
        at: usize,
        patience: &mut Patience,
        sink: &mut dyn Sink,
    ) -> Result<Flow, DownReason> {
        let payload = record.slice(at, entry.length as usize).ok_or(CUT_SHORT)?;
        match entry.kind {
            EntryKind::Request | EntryKind::Response => {
                let id = self.sessions[slot].take_inline_call(entry)?;
                self.hand_on_inline(id, entry, payload, sink)?;
            }
            EntryKind::RequestBlock => {
                let Some(block) = self.borrow(slot, entry, record, at)? else { return Ok(Flow::Halt) };
                let id = self.sessions[slot].take_call(entry)?;
                self.tracer.mark(event::DISPATCHED, entry.call, id);
                self.hand_on_call(id, entry, &Incoming::Owned(&block), sink)?;
                // Reading so much took long; the answer leaves before the next, and takes with it what was read.
                drop(block);
                self.send_block_returns(slot);
                self.publish(slot);
            }
            EntryKind::ResponseBlock => {
                let Some(block) = self.borrow(slot, entry, record, at)? else { return Ok(Flow::Halt) };
                let id = self.sessions[slot].take_call(entry)?;
                self.hand_on_call(id, entry, &Incoming::Owned(&block), sink)?;
            }
            EntryKind::BlockReturn | EntryKind::MessageCredit => self.use_again(slot, entry, record, at)?,
            EntryKind::Message => {
                if payload.len() > self.sessions[slot].message_bytes_max {
                    return Err(TOO_LONG.into());
                }
                let payload = Incoming::Borrowed(payload);
                let verdict =
                    self.arrive(slot, Tag(entry.call), &payload, *patience == Patience::Once, sink)?;
                if verdict == Verdict::Left {
                    return Ok(Flow::Stop);
                }
                *patience = patience.after(verdict);
            }
            EntryKind::MessageBlock => {
                let Some(block) = self.borrow(slot, entry, record, at)? else { return Ok(Flow::Halt) };
                let bytes = block.len();
                self.arrive(slot, Tag(entry.call), &Incoming::Owned(&block), false, sink)?;
                drop(block);
                if bytes >= TOLD_AT_ONCE_BYTES_MIN {
                    self.send_block_returns(slot);
                    self.publish(slot);
                }
            }
        }
        Ok(Flow::Continue)
    }

    /// All entries of a record are there when the first is; the others' turn comes after what is done with those before.
    #[cold]
    pub(super) fn mark_received(&self, slot: usize, entry: EntryHeader, found: u64, is_first: bool) {
        let (tracer, session) = (&self.tracer, &self.sessions[slot]);
        let mark = |event, number| tracer.mark_at(found, event, number, session.id);
        tracer.share(None);
        match entry.kind {
            EntryKind::Request => {
                mark(event::REQUEST_RECEIVED, entry.call);
                let turn = if is_first { found } else { tracer.begin().unwrap_or(found) };
                tracer.mark_at(turn, event::DISPATCHED, entry.call, session.id);
                tracer.share(Some(turn));
            }
            EntryKind::RequestBlock => mark(event::REQUEST_RECEIVED, entry.call),
            EntryKind::Response => {
                mark(event::RESPONSE_RECEIVED, entry.call);
                tracer.share(is_first.then_some(found));
            }
            EntryKind::ResponseBlock => mark(event::RESPONSE_RECEIVED, entry.call),
            // The next to be received. One that has to stay where it is will be marked again.
            EntryKind::Message | EntryKind::MessageBlock => {
                mark(event::MESSAGE_RECEIVED, session.mail.received);
            }
            _ => {}
        }
    }

    fn borrow(
        &mut self,
        slot: usize,
        entry: EntryHeader,
        record: Record<'_>,
        at: usize,
    ) -> Result<Option<Payload>, DownReason> {
        let block = descriptor(entry, record, at)?;
        let session = &mut self.sessions[slot];
        if block.length > session.message_bytes_max as u64 {
            return Err(TOO_LONG.into());
        }
        let bytes = block.length;
        let Some(block) = self.driver.borrow(session.lane, block).map_err(reason_of)? else {
            return Ok(None);
        };
        self.block_bytes_read += bytes;
        session.borrowed_blocks += 1;
        self.note_need();
        self.counters.blocks_received.increment();
        Ok(Some(block.into()))
    }
}

pub fn descriptor(entry: EntryHeader, record: Record<'_>, at: usize) -> Result<BlockDescriptor, DownReason> {
    if entry.length as usize != DESCRIPTOR_BYTES {
        return Err(Violation("a block descriptor of the wrong length").into());
    }
    let offset = record.word(at).ok_or(CUT_SHORT)?;
    let length = record.word(at + WORD_BYTES).ok_or(CUT_SHORT)?;
    Ok(BlockDescriptor { offset, length })
}
