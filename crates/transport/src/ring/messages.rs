//! Messages into records: inside when short, as a block when long, and into the backlog when there is no room.

use farcall_driver::{BlockDescriptor, LaneDriver};
use farcall_protocol::ring::{EntryKind, WORD_BYTES};

use super::Ring;
use super::session::{DESCRIPTOR_BYTES, Direction, Message, Session, Stage, Waiting};
use crate::waiting::WaitingPayload;
use crate::{Outgoing, Submitted};

impl<D: LaneDriver> Ring<D> {
    /// Notes that flushing must look after some session's backlog or blocks.
    pub(super) fn note_need(&mut self) {
        self.needy = self.needy.max(1);
    }

    /// Sends what waits, oldest first, until the room ends again.
    pub(super) fn send_backlog(&mut self, slot: usize) {
        if self.sessions[slot].stage != Stage::Up {
            return;
        }
        while let Some(waiting) = self.sessions[slot].backlog.pop_front() {
            let is_response = waiting.message.direction == Direction::Response;
            if let Err(waiting) = self.retry(slot, waiting) {
                self.sessions[slot].backlog.push_front(waiting);
                return;
            }
            self.sessions[slot].unanswered_requests -= usize::from(is_response);
        }
    }

    fn retry(&mut self, slot: usize, waiting: Waiting) -> Result<(), Waiting> {
        let Waiting { message, payload } = waiting;
        let sent = payload.offer(|payload| self.transmit(slot, message, payload));
        sent.map(|spare| self.mail.spares.keep(spare)).map_err(|payload| Waiting { message, payload })
    }

    #[inline(never)]
    pub(super) fn serve_the_needy(&mut self) {
        for slot in 0..self.sessions.len() {
            self.send_block_returns(slot);
            self.send_backlog(slot);
            self.return_message_credit_if_due(slot);
            self.send_waiting(slot);
            // What was learned of room between two polls was read, too, and may have been of no use to what waits.
            self.return_credit_if_due(slot);
        }
        let is_needy = |session: &&Session<_>| {
            session.waits_for_room()
                || session.borrowed_blocks > 0
                || session.mail.receive_window.credit_is_due()
        };
        self.needy = self.sessions.iter().filter(is_needy).count();
        self.counters.backlog.set(self.sessions.iter().map(|session| session.backlog.len() as u64).sum());
    }

    /// Tells the peer which of its blocks are not read here any more.
    pub(super) fn send_block_returns(&mut self, slot: usize) {
        while self.sessions[slot].borrowed_blocks > 0 {
            let session = &mut self.sessions[slot];
            let due = session.returning.take().or_else(|| self.driver.due_return(session.lane));
            let Some(block) = due else { return };
            // Only now, or as long as a block is held each flush would open a record, and publish it empty.
            if !self.make_room(slot, WORD_BYTES + DESCRIPTOR_BYTES) {
                self.sessions[slot].returning = Some(block);
                return;
            }
            self.append_descriptor(slot, EntryKind::BlockReturn, 0, 0, block);
            self.sessions[slot].borrowed_blocks -= 1;
        }
    }

    /// Sends a message now or puts it into the backlog. Always inlined, because the parts of the message would otherwise be
    /// moved through memory.
    #[inline(always)]
    pub(super) fn submit(&mut self, slot: usize, message: Message, payload: Outgoing<'_>) -> Submitted {
        if let Outgoing::Slice(bytes) = payload
            && self.append_at_once(slot, message, bytes)
        {
            return Submitted::Sent;
        }
        self.submit_slowly(slot, message, payload)
    }

    /// Lends the payload, or lets the message wait.
    #[inline(never)]
    fn submit_slowly(&mut self, slot: usize, message: Message, payload: Outgoing<'_>) -> Submitted {
        let session = &self.sessions[slot];
        let must_wait = session.stage != Stage::Up || !session.backlog.is_empty();
        let refused = if must_wait { Some(payload) } else { self.transmit(slot, message, payload).err() };
        let Some(payload) = refused else { return Submitted::Sent };
        let payload = WaitingPayload::without_block(payload, &mut self.mail.spares);
        let session = &mut self.sessions[slot];
        // A peer that does not read its answers must not make us keep more of them than it may have open calls.
        session.unanswered_requests += usize::from(message.direction == Direction::Response);
        session.backlog.push_back(Waiting { message, payload });
        self.counters.ring_full.increment();
        self.note_need();
        Submitted::Queued
    }

    /// Puts a message into the open record; gives the payload back when there is no room, in a loan if it was copied.
    pub(super) fn transmit<'p>(
        &mut self,
        slot: usize,
        message: Message,
        payload: Outgoing<'p>,
    ) -> Result<(), Outgoing<'p>> {
        if payload.len() > self.sessions[slot].inline_bytes_of(message.direction) {
            return self.transmit_block(slot, message, payload);
        }
        let bytes = payload.as_slice();
        let header = message.inline_header(bytes.len()).to_word();
        if !self.append_to_record(slot, header, bytes) {
            return Err(payload);
        }
        Ok(())
    }

    fn transmit_block<'p>(
        &mut self,
        slot: usize,
        message: Message,
        payload: Outgoing<'p>,
    ) -> Result<(), Outgoing<'p>> {
        if !self.make_room(slot, WORD_BYTES + DESCRIPTOR_BYTES) {
            return Err(payload);
        }
        let payload = match payload {
            Outgoing::Loan(loan) => match self.driver.lend(self.sessions[slot].lane, loan) {
                Ok(block) => {
                    self.announce_block(slot, message, block);
                    return Ok(());
                }
                Err(loan) => Outgoing::Loan(loan),
            },
            other => other,
        };
        let bytes = payload.as_slice();
        let Ok(mut loan) = self.block_for(slot, bytes.len()) else { return Err(payload) };
        self.fill(slot, &mut loan, bytes);
        // From here on it is not moved about: what is stored in small pieces and loaded in larger ones has to wait until all that
        // was copied has left this core.
        let block = self.driver.lend(self.sessions[slot].lane, loan).expect("a loan of this driver");
        self.announce_block(slot, message, block);
        Ok(())
    }

    /// Names a block that was lent in a message for which `make_room` has found room.
    #[inline(never)]
    fn announce_block(&mut self, slot: usize, message: Message, block: BlockDescriptor) {
        let Message { direction, call, selector } = message;
        self.append_descriptor(slot, direction.block_kind(), call, selector, block);
        self.sessions[slot].lent_blocks += 1;
        self.counters.blocks_sent.increment();
        // Writing so much took long; the peer can read it while we write the next.
        self.publish(slot);
    }
}
