//! The verbs that the seam promises, and what becomes of a payload: inside a record when it is short, as a
//! block when it is long, and into a queue when there is no room.
//!
//! Each verb has one way, with one branch in front: a short payload, an open record with room for it, and
//! nothing that must leave before.

use farcall_driver::{BlockDescriptor, LaneDriver, Loan, LoanError};
use farcall_protocol::matching::{Tag, lines};
use farcall_protocol::ring::{EntryHeader, EntryKind, WORD_BYTES};

use super::Ring;
use super::record::BRIEF_BYTES;
use super::session::{DESCRIPTOR_BYTES, Direction, Message, Session, Stage, Waiting};
use crate::mail::WaitingSend;
use crate::trace::event;
use crate::waiting::WaitingPayload;
use crate::{
    CallId, Deliver, DownReason, MessageId, Origin, Outbox, Outgoing, Owned, Posted, Refused, RequestId,
    Service, SessionId, Sink, Status, Submission, Submitted,
};

impl<D: LaneDriver> Outbox for Ring<D> {
    #[inline]
    fn call(&mut self, to: SessionId, call: CallId, service: Service, payload: &[u8]) -> Submitted {
        let Some(slot) = self.slot_of(to) else { return Submitted::DOWN };
        let session = &mut self.sessions[slot];
        let message = request(call, service);
        if session.unanswered_calls.get() >= session.calls_max || !session.may_append(payload) {
            return self.call_otherwise(slot, message, payload);
        }
        let header = message.inline_header(payload.len()).to_word();
        if !session.append_brief(header, payload) {
            return self.call_in_record(slot, header, payload);
        }
        session.unanswered_calls.add(1);
        Submitted::Sent
    }

    #[inline]
    fn reply(&mut self, request: RequestId, status: Status, payload: &[u8]) {
        let Some(slot) = self.slot_of(request.session) else { return };
        let session = &mut self.sessions[slot];
        session.unanswered_requests -= 1;
        if self.tracer.is_on() || !session.may_append(payload) {
            return self.reply_otherwise(slot, request, status, Outgoing::Slice(payload));
        }
        let header = response(request, status).inline_header(payload.len()).to_word();
        if !session.append_brief(header, payload) {
            self.reply_in_record(slot, header, payload);
        }
    }

    #[inline]
    fn send(&mut self, to: SessionId, send: MessageId, tag: Tag, payload: &[u8]) -> Submitted {
        let Some(slot) = self.slot_of(to) else { return Submitted::DOWN };
        let session = &mut self.sessions[slot];
        let counted = lines(payload.len());
        if !session.mail.may_send(counted) || payload.len() > session.message_inline_bytes {
            return self.send_otherwise(slot, send, tag, Outgoing::Slice(payload));
        }
        // This way makes no call, so that there are no registers to be kept; and a length that is known to be
        // small is put into the header in fewer steps.
        if payload.len() <= BRIEF_BYTES && !self.tracer.is_on() {
            let header = Message::tagged(tag).inline_header(payload.len()).to_word();
            if session.append_brief(header, payload) {
                session.mail.send(counted);
                return Submitted::Sent;
            }
        }
        self.send_in_record(slot, send, tag, payload)
    }

    fn submit_owned(&mut self, submission: Submission, payload: Owned) -> Submitted {
        let (Submission::Call { session, .. }
        | Submission::Message { session, .. }
        | Submission::Reply { request: RequestId { session, .. }, .. }) = submission;
        let Some(slot) = self.slot_of(session) else { return Submitted::DOWN };
        let payload = payload.into();
        match submission {
            Submission::Call { call, service, .. } => self.submit_call(slot, request(call, service), payload),
            Submission::Message { send, tag, .. } => self.send_otherwise(slot, send, tag, payload),
            Submission::Reply { request, status } => {
                self.sessions[slot].unanswered_requests -= 1;
                self.reply_otherwise(slot, request, status, payload);
                Submitted::Sent
            }
        }
    }

    /// A request that has left cannot be called back; one that waits for room can.
    fn cancel(&mut self, session: SessionId, call: CallId) {
        let Some(slot) = self.slot_of(session) else { return };
        let session = &mut self.sessions[slot];
        let before = session.backlog.len();
        session.backlog.retain(|waiting| {
            waiting.message.direction != Direction::Request || waiting.message.call != call.0
        });
        let cancelled = before - session.backlog.len();
        session.unanswered_calls.take_back(cancelled);
    }

    /// What is in a record leaves at the end of the turn at the latest.
    fn is_transmitted(&self, session: SessionId, call: CallId) -> bool {
        let is_it = |message: &Message| message.direction == Direction::Request && message.call == call.0;
        let waits = |slot: usize| self.sessions[slot].backlog.iter().any(|waiting| is_it(&waiting.message));
        !self.slot_of(session).is_some_and(waits)
    }

    fn cancel_send(&mut self, send: MessageId) -> usize {
        self.sessions.iter_mut().map(|session| session.mail.cancel(send)).sum()
    }

    #[inline]
    fn post(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
        in_place_bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> Posted {
        if let (Some(origin), Some(tag)) = (from, tag)
            && self.receives_from == from
            && self.mail.post_at_once(receive, origin.source(), tag)
        {
            return Posted::Waiting;
        }
        self.post_otherwise(receive, from, tag, in_place_bytes_max, deliver)
    }

    fn cancel_receive(&mut self, receive: MessageId) -> bool {
        self.mail.withdraw(receive)
    }

    fn hand_on_unexpected(&mut self, hand_on: bool) {
        self.mail.hands_on = hand_on;
    }

    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.driver.loan(bytes)
    }
}

impl<D: LaneDriver> Ring<D> {
    /// Writes a request into a record, or lets it wait for room.
    #[inline(never)]
    fn call_in_record(&mut self, slot: usize, header: u64, payload: &[u8]) -> Submitted {
        let session = &mut self.sessions[slot];
        let is_sent = !self.tracer.is_on()
            && session.send_at_once(header, payload, &mut self.dirty, &self.counters)
            || self.append_to_record(slot, header, payload);
        if is_sent {
            self.sessions[slot].unanswered_calls.add(1);
            return Submitted::Sent;
        }
        match EntryHeader::of_call(header) {
            Some(EntryHeader { call, selector, .. }) => {
                self.call_otherwise(slot, request(CallId(call), Service(selector)), payload)
            }
            None => unreachable!("it is the header of a request"),
        }
    }

    #[cold]
    fn call_otherwise(&mut self, slot: usize, message: Message, payload: &[u8]) -> Submitted {
        self.submit_call(slot, message, Outgoing::Slice(payload))
    }

    /// Sends a request, or lets it wait, if it is within the limits.
    fn submit_call(&mut self, slot: usize, message: Message, payload: Outgoing<'_>) -> Submitted {
        let session = &mut self.sessions[slot];
        let &mut Session { message_bytes_max: bytes_max, calls_max, .. } = session;
        if payload.len() > bytes_max {
            return Submitted::Refused(Refused::TooLong { bytes_max });
        }
        if session.unanswered_calls.get() >= calls_max {
            return Submitted::Refused(Refused::TooManyCalls { calls_max });
        }
        session.unanswered_calls.add(1);
        self.submit(slot, message, payload)
    }

    /// Writes an answer into a record, or lets it wait for room. With no more than what both functions get in
    /// registers, it is jumped to.
    #[inline(never)]
    fn reply_in_record(&mut self, slot: usize, header: u64, payload: &[u8]) {
        let is_sent = self.sessions[slot].send_at_once(header, payload, &mut self.dirty, &self.counters)
            || self.append_to_record(slot, header, payload);
        if !is_sent && let Some(EntryHeader { call, selector, .. }) = EntryHeader::of_call(header) {
            let message = Message { direction: Direction::Response, call, selector };
            _ = self.submit(slot, message, Outgoing::Slice(payload));
        }
    }

    #[inline(never)]
    fn reply_otherwise(&mut self, slot: usize, request: RequestId, status: Status, payload: Outgoing<'_>) {
        let message = response(request, status);
        if let Outgoing::Slice(bytes) = payload
            && self.append_at_once(slot, message, bytes)
        {
            return self.tracer.mark_reply(request);
        }
        // It may leave at once, or have to wait for room.
        self.tracer.mark_request(event::REPLIED, request);
        _ = if payload.len() <= self.sessions[slot].message_bytes_max {
            self.submit(slot, message, payload)
        } else {
            self.submit(slot, response(request, Status::AnswerTooLong), Outgoing::Slice(&[]))
        };
    }
}

/// A request, without its payload.
#[inline(always)]
fn request(call: CallId, service: Service) -> Message {
    Message { direction: Direction::Request, call: call.0, selector: service.0 }
}

/// The answer to a request, without its payload.
#[inline(always)]
fn response(request: RequestId, status: Status) -> Message {
    let (call, selector) = (request.token as u32, status.to_wire());
    Message { direction: Direction::Response, call, selector }
}

impl<D: LaneDriver> Ring<D> {
    /// Notes that flushing must look after some session's backlog or blocks.
    pub(super) fn mark_blocked(&mut self) {
        self.blocked = self.blocked.max(1);
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
    pub(super) fn retry_blocked(&mut self) {
        for slot in 0..self.sessions.len() {
            self.send_block_returns(slot);
            self.send_backlog(slot);
            self.return_message_credit_if_due(slot);
            self.send_waiting(slot);
            // What was learned of room between two polls was read, too, and may have been of no use to what
            // waits.
            self.return_credit_if_due(slot);
        }
        let is_blocked = |session: &&Session<_>| {
            session.waits_for_room()
                || session.borrowed_blocks > 0
                || session.mail.receive_window.credit_is_due()
        };
        self.blocked = self.sessions.iter().filter(is_blocked).count();
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

    /// Sends a message now or puts it into the backlog. Always inlined, because the parts of the message
    /// would otherwise be moved through memory.
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
        // A peer that does not read its answers must not make us keep more of them than it may have open
        // calls.
        session.unanswered_requests += usize::from(message.direction == Direction::Response);
        session.backlog.push_back(Waiting { message, payload });
        self.counters.ring_full.increment();
        self.mark_blocked();
        Submitted::Queued
    }

    /// Puts a message into the open record; gives the payload back when there is no room, in a loan if it was
    /// copied.
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
        if let Outgoing::Loan(loan) = payload {
            self.driver.recycle(loan);
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
        // From here on it is not moved about: what is stored in small pieces and loaded in larger ones has to
        // wait until all that was copied has left this core.
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

impl<D: LaneDriver> Ring<D> {
    /// Sends a message that goes into a record now, most likely into one that is opened for it.
    #[inline(never)]
    pub(super) fn send_in_record(
        &mut self,
        slot: usize,
        send: MessageId,
        tag: Tag,
        payload: &[u8],
    ) -> Submitted {
        let header = Message::tagged(tag).inline_header(payload.len()).to_word();
        let session = &mut self.sessions[slot];
        if !self.tracer.is_on()
            && session.append_brief_to_new(header, payload, self.config.batch_bytes, &mut self.dirty)
        {
            session.mail.send(lines(payload.len()));
            return Submitted::Sent;
        }
        let submitted = self.tracer.begin();
        if !self.append_to_record(slot, header, payload) {
            return self.send_otherwise(slot, send, tag, Outgoing::Slice(payload));
        }
        let session = &mut self.sessions[slot];
        self.tracer.mark_submitted(submitted, session.mail.send(lines(payload.len())), session.id);
        Submitted::Sent
    }

    /// Sends a message as a block, or lets it wait, if it is within the limit.
    #[inline(never)]
    pub(super) fn send_otherwise(
        &mut self,
        slot: usize,
        send: MessageId,
        tag: Tag,
        payload: Outgoing<'_>,
    ) -> Submitted {
        let bytes_max = self.sessions[slot].message_bytes_max;
        if payload.len() > bytes_max {
            return Submitted::Refused(Refused::TooLong { bytes_max });
        }
        let submitted = self.tracer.begin();
        if !self.sessions[slot].mail.sends.is_empty() && self.learn_of_room(slot) {
            self.send_waiting(slot);
        }
        let session = &self.sessions[slot];
        let must_wait = session.stage != Stage::Up || !session.mail.sends.is_empty();
        let refused = match must_wait {
            true => Some(payload),
            false => self.transmit_tagged(slot, tag, payload, submitted).err(),
        };
        let Some(payload) = refused else { return Submitted::Sent };
        let payload = WaitingPayload::without_block(payload, &mut self.mail.spares);
        let waiting = WaitingSend { send, tag, payload, submitted };
        self.sessions[slot].mail.sends.push_back(waiting);
        self.counters.ring_full.increment();
        self.mark_blocked();
        Submitted::Queued
    }

    /// Sends a message now, or gives its payload back when it has to wait.
    fn transmit_tagged<'p>(
        &mut self,
        slot: usize,
        tag: Tag,
        payload: Outgoing<'p>,
        submitted: Option<u64>,
    ) -> Result<(), Outgoing<'p>> {
        let session = &self.sessions[slot];
        // A block stays with the sender until somebody reads it: at the receiver it is a few words.
        let counted =
            if payload.len() > session.message_inline_bytes { lines(0) } else { lines(payload.len()) };
        let is_admitted = session.mail.send_window.admits(counted)
            || self.learn_of_room(slot) && self.sessions[slot].mail.send_window.admits(counted);
        if !is_admitted {
            return Err(payload);
        }
        self.transmit(slot, Message::tagged(tag), payload)?;
        let session = &mut self.sessions[slot];
        let number = session.mail.send(counted);
        self.tracer.mark_submitted(submitted, number, session.id);
        if !session.batch.is_open() {
            // Its record has left, and could not count it.
            self.counters.messages_sent.increment();
        }
        Ok(())
    }

    /// Sends the messages that wait, oldest first, until room or window end again.
    pub(super) fn send_waiting(&mut self, slot: usize) {
        if self.sessions[slot].stage != Stage::Up {
            return;
        }
        while let Some(waiting) = self.sessions[slot].mail.sends.pop_front() {
            let WaitingSend { send, tag, payload, submitted } = waiting;
            match payload.offer(|payload| self.transmit_tagged(slot, tag, payload, submitted)) {
                Ok(spare) => self.mail.has_left(send, spare),
                Err(payload) => {
                    let waiting = WaitingSend { send, tag, payload, submitted };
                    return self.sessions[slot].mail.sends.push_front(waiting);
                }
            }
        }
    }

    /// A session is over, and with it the sends that wait for it.
    pub(super) fn part(&mut self, slot: usize, reason: &DownReason) {
        let session = &mut self.sessions[slot];
        self.mail.part(&mut session.mail, session.id, reason);
    }

    /// Tells the sink which sends have ended.
    #[inline(always)]
    pub(super) fn report_sends(&mut self, sink: &mut dyn Sink) {
        if !self.mail.ended_sends.is_empty() {
            self.report_ended_sends(sink);
        }
    }

    #[inline(never)]
    fn report_ended_sends(&mut self, sink: &mut dyn Sink) {
        let mut ended = core::mem::take(&mut self.mail.ended_sends);
        ended.drain(..).for_each(|(send, outcome)| sink.sent(self, send, outcome));
        self.mail.reuse(ended);
    }
}
