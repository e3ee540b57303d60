//! Sending: entries into records, records into rings.
//!
//! A record is opened at the first message for a peer and published at the next flush, so that everything a turn of
//! the poll loop produces for one peer costs one publication. What finds no room waits in the session's backlog.

use farcall_driver::{LaneDriver, LaneId, LaneSender, Loan, LoanError, RECORD_HEADER_BYTES, RUNWAY_BYTES};
use farcall_protocol::ring::{
    BatchHeader, Consumer, ENTRY_LENGTH_MAX, EntryHeader, EntryKind, Hello, Producer, Reservation,
    WORD_BYTES, padded, record_bytes_max,
};

use super::session::{
    Batch, DESCRIPTOR_BYTES, Direction, Message, SESSIONS_MAX, Session, Stage, Waiting, WaitingPayload,
    encode_descriptor, slot_of,
};
use super::{RingConfig, RingCounters};
use crate::{CallId, CallRefused, DownReason, Outbox, Outgoing, RequestId, Service, SessionId, Status};

/// Bytes of a record before its first entry: the lane's header and the batch header.
const RECORD_OVERHEAD: usize = RECORD_HEADER_BYTES + WORD_BYTES;

/// The most bytes in a record: its header counts entries in 16 bits, and an entry has at least a word.
const BATCH_BYTES_MAX: usize = u16::MAX as usize * WORD_BYTES;

/// Everything that sending needs.
pub struct Outbound<D: LaneDriver> {
    pub driver: D,
    pub hello: Hello,
    pub config: RingConfig,
    pub sessions: Vec<Session<D::Sender>>,
    pub counters: RingCounters,
    /// The slots of sessions with an open record.
    dirty: Vec<u16>,
    /// Sessions to be ended at the end of the poll.
    doomed: Vec<(usize, DownReason)>,
    /// Sessions that have a backlog or borrowed blocks, so that flushing must look after them.
    needy: usize,
}

impl<D: LaneDriver> Outbound<D> {
    pub fn new(driver: D, hello: Hello, config: RingConfig, counters: RingCounters) -> Self {
        let (sessions, dirty, doomed) = (Vec::new(), Vec::new(), Vec::new());
        Self { driver, hello, config, sessions, counters, dirty, doomed, needy: 0 }
    }

    /// A slot for the session of a new lane; `None` when all are taken.
    pub fn open_session(&mut self, lane: LaneId) -> Option<usize> {
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
    pub fn session_up(&mut self, slot: usize, sender: D::Sender, receive_ring_bytes: usize, peer: &Hello) {
        let (message_bytes_max, calls_max) = self.hello.limits_with(peer);
        let session = &mut self.sessions[slot];
        let ring_bytes = sender.ring_bytes() as u64;
        let entry_room = record_bytes_max(ring_bytes) as usize - RECORD_OVERHEAD - WORD_BYTES;
        session.inline_bytes = self.config.inline_bytes.min(ENTRY_LENGTH_MAX).min(entry_room);
        session.producer = Producer::new(ring_bytes, RUNWAY_BYTES as u64);
        session.consumer = Consumer::new(receive_ring_bytes as u64);
        session.message_bytes_max = usize::try_from(message_bytes_max).unwrap_or(usize::MAX);
        session.calls_max = calls_max as usize;
        session.sender = Some(sender);
        session.stage = Stage::Up;
    }

    pub fn forget_session(&mut self, slot: usize) {
        let last = self.sessions[slot].id;
        self.sessions[slot] = Session::vacant_again(slot, last);
        self.dirty.retain(|&dirty| usize::from(dirty) != slot);
        self.doomed.retain(|doomed| doomed.0 != slot);
    }

    pub fn slot_of(&self, session: SessionId) -> Option<usize> {
        let slot = slot_of(session);
        let entry = self.sessions.get(slot)?;
        (entry.id == session && entry.stage != Stage::Vacant).then_some(slot)
    }

    pub fn slot_of_lane(&self, lane: LaneId) -> Option<usize> {
        self.sessions.iter().position(|session| session.stage != Stage::Vacant && session.lane == lane)
    }

    /// Marks a session for its end; the reason given first counts.
    pub fn doom(&mut self, slot: usize, reason: DownReason) {
        if self.doomed.iter().all(|doomed| doomed.0 != slot) {
            self.counters.violations.add(u64::from(matches!(reason, DownReason::Violation { .. })));
            self.doomed.push((slot, reason));
        }
    }

    pub fn next_doomed(&mut self) -> Option<(usize, DownReason)> {
        self.doomed.pop()
    }

    /// Publishes all open records, after what waits has been given its chance.
    #[inline]
    pub fn flush(&mut self) {
        if self.needy > 0 {
            self.serve_the_needy();
        }
        while let Some(slot) = self.dirty.pop() {
            let slot = usize::from(slot);
            self.publish(slot);
            let session = &mut self.sessions[slot];
            session.batch.listed = false;
            session.sender.as_mut().expect("listed sessions are up").ring_doorbell();
        }
    }

    /// Returns credits with a record of their own when no other record is about to carry them.
    pub fn return_credit_if_due(&mut self, slot: usize) {
        let session = &mut self.sessions[slot];
        if session.batch.used > 0 || !session.consumer.credit_is_due() {
            return;
        }
        // A full ring is no loss: the peer has an earlier return of ours yet to read, and will answer it.
        if let Reservation::At { offset, .. } = session.producer.reserve_credit_return() {
            self.open_at(slot, offset, RECORD_OVERHEAD);
            self.counters.credit_records_sent.increment();
        }
    }

    /// Notes that flushing must look after some session's backlog or blocks.
    pub fn note_need(&mut self) {
        self.needy = self.needy.max(1);
    }

    /// Sends what waits, oldest first, until the room ends again.
    pub fn send_backlog(&mut self, slot: usize) {
        if self.sessions[slot].stage != Stage::Up {
            return;
        }
        while let Some(waiting) = self.sessions[slot].backlog.pop_front() {
            if let Err(waiting) = self.retry(slot, waiting) {
                self.sessions[slot].backlog.push_front(waiting);
                return;
            }
        }
    }

    fn retry(&mut self, slot: usize, waiting: Waiting) -> Result<(), Waiting> {
        let Waiting { message, payload } = waiting;
        match payload {
            WaitingPayload::Bytes(bytes) => match self.transmit(slot, message, Outgoing::Slice(&bytes)) {
                Ok(()) => Ok(()),
                Err(_) => Err(Waiting { message, payload: WaitingPayload::Bytes(bytes) }),
            },
            WaitingPayload::Loan(loan) => self
                .transmit(slot, message, Outgoing::Loan(loan))
                .map_err(|payload| Waiting { message, payload: payload.into() }),
        }
    }

    fn serve_the_needy(&mut self) {
        for slot in 0..self.sessions.len() {
            self.send_block_returns(slot);
            self.send_backlog(slot);
        }
        let is_needy = |session: &&Session<_>| !session.backlog.is_empty() || session.borrowed_blocks > 0;
        self.needy = self.sessions.iter().filter(is_needy).count();
        self.counters.backlog.set(self.sessions.iter().map(|session| session.backlog.len() as u64).sum());
    }

    /// Tells the peer which of its blocks are not read here any more.
    fn send_block_returns(&mut self, slot: usize) {
        while self.sessions[slot].borrowed_blocks > 0 && self.make_room(slot, WORD_BYTES + DESCRIPTOR_BYTES) {
            let Some(block) = self.driver.due_return(self.sessions[slot].lane) else { return };
            let length = DESCRIPTOR_BYTES as u16;
            let header = EntryHeader { kind: EntryKind::BlockReturn, call: 0, selector: 0, length };
            self.append(slot, header, &encode_descriptor(block));
            self.sessions[slot].borrowed_blocks -= 1;
        }
    }

    /// Sends a message now or puts it into the backlog.
    #[inline]
    fn submit(&mut self, slot: usize, message: Message, payload: Outgoing<'_>) {
        let session = &self.sessions[slot];
        if let Outgoing::Slice(bytes) = payload
            && session.stage == Stage::Up
            && session.backlog.is_empty()
            && self.transmit_inline(slot, message, bytes)
        {
            return;
        }
        self.submit_slowly(slot, message, payload);
    }

    fn submit_slowly(&mut self, slot: usize, message: Message, payload: Outgoing<'_>) {
        let session = &self.sessions[slot];
        let must_wait = session.stage != Stage::Up || !session.backlog.is_empty();
        let refused = if must_wait { Some(payload) } else { self.transmit(slot, message, payload).err() };
        if let Some(payload) = refused {
            let payload = payload.into();
            self.sessions[slot].backlog.push_back(Waiting { message, payload });
            self.counters.ring_full.increment();
            self.note_need();
        }
    }

    /// Puts a message into the open record; gives the payload back when there is no room.
    fn transmit<'p>(
        &mut self,
        slot: usize,
        message: Message,
        payload: Outgoing<'p>,
    ) -> Result<(), Outgoing<'p>> {
        if payload.len() > self.sessions[slot].inline_bytes {
            return self.transmit_block(slot, message, payload);
        }
        if self.transmit_inline(slot, message, payload.as_slice()) { Ok(()) } else { Err(payload) }
    }

    /// Puts a message with its payload into the open record, if it is short enough and there is room.
    #[inline]
    fn transmit_inline(&mut self, slot: usize, message: Message, payload: &[u8]) -> bool {
        let Message { direction, call, selector } = message;
        let length = payload.len();
        if length > self.sessions[slot].inline_bytes || !self.make_room(slot, WORD_BYTES + padded(length)) {
            return false;
        }
        self.append(
            slot,
            EntryHeader { kind: direction.inline_kind(), call, selector, length: length as u16 },
            payload,
        );
        true
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
        let loan = match payload {
            Outgoing::Loan(loan) if self.driver.owns(&loan) => loan,
            other => match self.driver.loan(other.len()) {
                Ok(mut loan) => {
                    loan.copy_from_slice(other.as_slice());
                    loan
                }
                Err(_) => return Err(other),
            },
        };
        let block = self.driver.lend(self.sessions[slot].lane, loan);
        let Message { direction, call, selector } = message;
        let length = DESCRIPTOR_BYTES as u16;
        let header = EntryHeader { kind: direction.block_kind(), call, selector, length };
        self.append(slot, header, &encode_descriptor(block));
        self.counters.blocks_sent.increment();
        Ok(())
    }

    /// Writes an entry for which `make_room` has found room.
    #[inline]
    fn append(&mut self, slot: usize, header: EntryHeader, payload: &[u8]) {
        let session = &mut self.sessions[slot];
        let batch = &mut session.batch;
        let sender = session.sender.as_mut().expect("sessions with room are up");
        let record = sender.record(batch.offset, batch.room);
        let entry = &mut record[batch.used - RECORD_HEADER_BYTES..];
        let (word, rest) = entry.split_first_chunk_mut::<WORD_BYTES>().expect("there is room");
        *word = header.to_word().to_le_bytes();
        rest[..payload.len()].copy_from_slice(payload);
        batch.used += WORD_BYTES + padded(payload.len());
        batch.entries += 1;
    }

    /// Whether the open record has room for `bytes` more, opening another one if need be.
    #[inline]
    fn make_room(&mut self, slot: usize, bytes: usize) -> bool {
        let batch = &self.sessions[slot].batch;
        batch.used + bytes <= batch.room || self.open_record(slot, bytes)
    }

    fn open_record(&mut self, slot: usize, entry_bytes: usize) -> bool {
        self.publish(slot);
        let bytes_min = RECORD_OVERHEAD + entry_bytes;
        loop {
            match self.sessions[slot].producer.reserve(bytes_min as u64) {
                Reservation::At { offset, bytes } => {
                    let room = bytes.min(self.config.batch_bytes.clamp(bytes_min, BATCH_BYTES_MAX));
                    self.open_at(slot, offset, room);
                    return true;
                }
                Reservation::WrapAt { offset } => self.wrap(slot, offset),
                Reservation::Full => return false,
            }
        }
    }

    fn open_at(&mut self, slot: usize, offset: usize, room: usize) {
        let batch = &mut self.sessions[slot].batch;
        if !batch.listed {
            self.dirty.push(slot as u16);
        }
        *batch = Batch { offset, used: RECORD_OVERHEAD, room, entries: 0, listed: true };
    }

    fn wrap(&mut self, slot: usize, offset: usize) {
        let session = &mut self.sessions[slot];
        let sender = session.sender.as_mut().expect("sessions with room are up");
        let header = BatchHeader { released_lines: session.consumer.take_credit(), entries: 0, wrap: true };
        sender.record(offset, RECORD_OVERHEAD)[..WORD_BYTES].copy_from_slice(&header.to_word().to_le_bytes());
        sender.publish(offset, RECORD_OVERHEAD, 0);
        session.producer.advance_to_start();
        self.counters.records_sent.increment();
        self.counters.wrap_records_sent.increment();
    }

    #[inline]
    fn publish(&mut self, slot: usize) {
        let session = &mut self.sessions[slot];
        let Batch { offset, used, entries, listed, .. } = session.batch;
        if used == 0 {
            return;
        }
        let sender = session.sender.as_mut().expect("sessions with an open record are up");
        let header = BatchHeader { released_lines: session.consumer.take_credit(), entries, wrap: false };
        sender.record(offset, used)[..WORD_BYTES].copy_from_slice(&header.to_word().to_le_bytes());
        let next_offset = session.producer.advance(used as u64);
        sender.publish(offset, used, next_offset);
        session.batch = Batch { listed, ..Batch::default() };
        self.counters.records_sent.increment();
    }
}

impl<D: LaneDriver> Outbox for Outbound<D> {
    #[inline]
    fn call(
        &mut self,
        to: SessionId,
        call: CallId,
        service: Service,
        payload: Outgoing<'_>,
    ) -> Result<(), CallRefused> {
        let slot = self.slot_of(to).ok_or(CallRefused::Down)?;
        let session = &mut self.sessions[slot];
        if payload.len() > session.message_bytes_max {
            return Err(CallRefused::TooLong { bytes: payload.len(), bytes_max: session.message_bytes_max });
        }
        if session.unanswered_calls >= session.calls_max {
            return Err(CallRefused::TooManyCalls { calls_max: session.calls_max });
        }
        session.unanswered_calls += 1;
        self.counters.calls_sent.increment();
        let message = Message { direction: Direction::Request, call: call.0, selector: service.0 };
        self.submit(slot, message, payload);
        Ok(())
    }

    #[inline]
    fn reply(&mut self, request: RequestId, status: Status, payload: Outgoing<'_>) {
        let Some(slot) = self.slot_of(request.session) else { return };
        let session = &mut self.sessions[slot];
        session.unanswered_requests -= 1;
        let call = request.token as u32;
        if payload.len() > session.message_bytes_max {
            let selector = Status::AnswerTooLong.to_wire();
            return self.submit(
                slot,
                Message { direction: Direction::Response, call, selector },
                Outgoing::Slice(&[]),
            );
        }
        let message = Message { direction: Direction::Response, call, selector: status.to_wire() };
        self.submit(slot, message, payload);
    }

    /// A request that has left cannot be called back; one that waits for room can.
    fn cancel(&mut self, session: SessionId, call: CallId) {
        let Some(slot) = self.slot_of(session) else { return };
        let session = &mut self.sessions[slot];
        let before = session.backlog.len();
        session.backlog.retain(|waiting| {
            waiting.message.direction != Direction::Request || waiting.message.call != call.0
        });
        session.unanswered_calls -= before - session.backlog.len();
    }

    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.driver.loan(bytes)
    }
}
