//! The verbs that the seam promises, and what becomes of a payload: inside a record when it is short, as a
//! block when it is long, and into a queue when there is no room.
//!
//! Each verb has one fast branch in front: a brief payload, an open record with room for it, and nothing that
//! must leave before it. It makes no call, so that it keeps no registers. What is behind it in the verb tries
//! another record; all else is `submit`, or `submit_message` for tagged messages, which have a window and a
//! queue of their own.

use farcall_driver::{BlockDescriptor, LaneDriver, LaneSender, Loan, LoanError, probes};
use farcall_protocol::matching::{Tag, lines};

use super::Ring;
use super::entry::{Direction, EntryHead};
use super::session::{Session, Shared, Stage, Waiting};
use crate::matcher::{Matcher, WaitingSend};
use crate::trace::event;
use crate::waiting::WaitingPayload;
use crate::{
    CallId, Deliver, MessageId, Origin, Outbox, Outgoing, Owned, Posted, Refused, RequestId, Service,
    SessionId, Sink, Spares, Status, Submission, Submitted,
};

impl<D: LaneDriver> Outbox for Ring<D> {
    #[inline]
    fn call(&mut self, to: SessionId, call: CallId, service: Service, payload: &[u8]) -> Submitted {
        let Some(slot) = self.slot_of(to) else { return Submitted::DOWN };
        let session = &mut self.sessions[slot];
        if session.unanswered_calls.get() < session.calls_max
            && session.tx.may_append(payload)
            && session.tx.put_brief(request(call, service).inline_header(payload.len()), payload)
        {
            session.unanswered_calls.add(1);
            return Submitted::Sent;
        }
        self.call_bytes(slot, call, service, payload)
    }

    #[inline]
    fn reply(&mut self, request: RequestId, status: Status, payload: &[u8]) {
        let Some(slot) = self.slot_of(request.session) else { return };
        let session = &mut self.sessions[slot];
        session.unanswered_requests -= 1;
        if session.tx.may_append(payload)
            && !self.shared.tracer.is_on()
            && session.tx.put_brief(response(request, status).inline_header(payload.len()), payload)
        {
            return;
        }
        self.reply_bytes(slot, request.token as u32, status, payload);
    }

    #[inline]
    fn send(&mut self, to: SessionId, send: MessageId, tag: Tag, payload: &[u8]) -> Submitted {
        let Some(slot) = self.slot_of(to) else { return Submitted::DOWN };
        let session = &mut self.sessions[slot];
        let counted = lines(payload.len());
        if session.tx.messages.may_send(counted)
            && payload.len() <= session.tx.message_inline_bytes
            && !self.shared.tracer.is_on()
            && session.tx.put_brief(EntryHead::tagged(tag).inline_header(payload.len()), payload)
        {
            session.tx.messages.send(counted);
            return Submitted::Sent;
        }
        self.send_bytes(slot, send, tag, payload)
    }

    fn submit_owned(&mut self, submission: Submission, payload: Owned) -> Submitted {
        let (Submission::Call { session, .. }
        | Submission::Message { session, .. }
        | Submission::Reply { request: RequestId { session, .. }, .. }) = submission;
        let Some(slot) = self.slot_of(session) else { return Submitted::DOWN };
        let payload = payload.into();
        match submission {
            Submission::Call { call, service, .. } => self.submit_call(slot, request(call, service), payload),
            Submission::Message { send, tag, .. } => self.submit_message(slot, send, tag, payload),
            Submission::Reply { request, status } => {
                self.sessions[slot].unanswered_requests -= 1;
                self.submit_reply(slot, request, status, payload);
                Submitted::Sent
            }
        }
    }

    /// A request that has left cannot be called back; one that waits for room can.
    fn cancel(&mut self, session: SessionId, call: CallId) {
        let Some(slot) = self.slot_of(session) else { return };
        let session = &mut self.sessions[slot];
        let before = session.tx.backlog.len();
        session.tx.backlog.retain(|waiting| {
            waiting.message.direction != Direction::Request || waiting.message.call != call.0
        });
        let cancelled = before - session.tx.backlog.len();
        session.unanswered_calls.take_back(cancelled);
    }

    /// What is in a record leaves at the end of the poll at the latest.
    fn is_transmitted(&self, session: SessionId, call: CallId) -> bool {
        let is_it = |message: &EntryHead| message.direction == Direction::Request && message.call == call.0;
        let waits =
            |slot: usize| self.sessions[slot].tx.backlog.iter().any(|waiting| is_it(&waiting.message));
        !self.slot_of(session).is_some_and(waits)
    }

    fn cancel_send(&mut self, send: MessageId) -> usize {
        self.sessions.iter_mut().map(|session| session.tx.messages.cancel(send)).sum()
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
            && self.matcher.post_at_once(receive, origin.source(), tag)
        {
            return Posted::Waiting;
        }
        self.post_otherwise(receive, from, tag, in_place_bytes_max, deliver)
    }

    fn cancel_receive(&mut self, receive: MessageId) -> bool {
        self.matcher.withdraw(receive)
    }

    fn hand_on_unexpected(&mut self, hand_on: bool) {
        self.matcher.hands_on = hand_on;
    }

    fn let_send(&mut self, session: SessionId, may_send: bool) {
        if let Some(slot) = self.slot_of(session) {
            self.sessions[slot].rx.messages.is_refused = !may_send;
        }
    }

    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.shared.driver.loan(bytes)
    }
}

/// A request, without its payload.
#[inline]
fn request(call: CallId, service: Service) -> EntryHead {
    EntryHead { direction: Direction::Request, call: call.0, selector: service.0 }
}

/// The response to a request, without its payload.
#[inline]
fn response(request: RequestId, status: Status) -> EntryHead {
    let (call, selector) = (request.token as u32, status.to_wire());
    EntryHead { direction: Direction::Response, call, selector }
}

impl<D: LaneDriver> Ring<D> {
    /// Sends a request that is not brief, or the first in its record; or lets it wait.
    #[inline(never)]
    fn call_bytes(&mut self, slot: usize, call: CallId, service: Service, payload: &[u8]) -> Submitted {
        let session = &mut self.sessions[slot];
        let message = request(call, service);
        if session.unanswered_calls.get() < session.calls_max
            && session.tx.may_append(payload)
            && session.publish_or_append(message.inline_header(payload.len()), payload, &mut self.shared)
        {
            session.unanswered_calls.add(1);
            return Submitted::Sent;
        }
        self.submit_call(slot, message, Outgoing::Slice(payload))
    }

    /// Sends a response that is not brief, is traced, or is the first in its record; or lets it wait.
    #[inline(never)]
    fn reply_bytes(&mut self, slot: usize, call: u32, status: Status, payload: &[u8]) {
        let session = &mut self.sessions[slot];
        let request = RequestId { session: session.id, token: u64::from(call) };
        let message = response(request, status);
        if session.tx.may_append(payload)
            && session.publish_or_append(message.inline_header(payload.len()), payload, &mut self.shared)
        {
            return self.shared.tracer.mark_reply(request);
        }
        self.submit_reply(slot, request, status, Outgoing::Slice(payload));
    }

    /// Sends a request, or lets it wait, if it is within the limits.
    #[cold]
    fn submit_call(&mut self, slot: usize, message: EntryHead, payload: Outgoing<'_>) -> Submitted {
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

    /// Sends a response, or lets it wait.
    #[cold]
    fn submit_reply(&mut self, slot: usize, request: RequestId, status: Status, payload: Outgoing<'_>) {
        // It may leave at once, or have to wait for room.
        self.shared.tracer.mark_request(event::REPLIED, request);
        _ = if payload.len() <= self.sessions[slot].message_bytes_max {
            self.submit(slot, response(request, status), payload)
        } else {
            self.submit(slot, response(request, status.without_payload()), Outgoing::Slice(&[]))
        };
    }

    /// Sends a request or a response now, or puts it into the backlog.
    fn submit(&mut self, slot: usize, message: EntryHead, payload: Outgoing<'_>) -> Submitted {
        let Self { sessions, shared, matcher, .. } = self;
        let session = &mut sessions[slot];
        let must_wait = session.stage != Stage::Up || !session.tx.backlog.is_empty();
        let refused = match must_wait {
            true => Some(payload),
            false => session.transmit(message, payload, shared).err(),
        };
        let Some(payload) = refused else { return Submitted::Sent };
        let payload = WaitingPayload::without_block(payload, &mut matcher.spares);
        // A peer that does not read its responses must not make us keep more of them than it may have open
        // calls.
        session.unanswered_requests += usize::from(message.direction == Direction::Response);
        session.tx.backlog.push_back(Waiting { message, payload });
        // What waits for its session to open says nothing about room.
        if session.stage == Stage::Up {
            shared.counters.waited_for_room.increment();
        }
        shared.mark_blocked();
        Submitted::Queued
    }

    /// Sends a tagged message that is not brief, or the first in its record; or lets it wait.
    #[inline(never)]
    fn send_bytes(&mut self, slot: usize, send: MessageId, tag: Tag, payload: &[u8]) -> Submitted {
        let session = &mut self.sessions[slot];
        let counted = lines(payload.len());
        if session.tx.messages.may_send(counted)
            && payload.len() <= session.tx.message_inline_bytes
            && !self.shared.tracer.is_on()
            && session.append(EntryHead::tagged(tag).inline_header(payload.len()), payload, &mut self.shared)
        {
            session.tx.messages.send(counted);
            return Submitted::Sent;
        }
        self.submit_message(slot, send, tag, Outgoing::Slice(payload))
    }

    /// Sends a tagged message now, or lets it wait, if it is within the limit.
    fn submit_message(&mut self, slot: usize, send: MessageId, tag: Tag, payload: Outgoing<'_>) -> Submitted {
        let Self { sessions, shared, matcher, .. } = self;
        let session = &mut sessions[slot];
        let bytes_max = session.message_bytes_max;
        if payload.len() > bytes_max {
            return Submitted::Refused(Refused::TooLong { bytes_max });
        }
        let submitted = shared.tracer.begin();
        if !session.tx.messages.waiting.is_empty() && session.learn_of_room(shared) {
            session.send_waiting(shared, matcher);
        }
        let must_wait = session.stage != Stage::Up || !session.tx.messages.waiting.is_empty();
        let refused = match must_wait {
            true => Some(payload),
            false => session.transmit_message(tag, payload, submitted, shared).err(),
        };
        let Some(payload) = refused else { return Submitted::Sent };
        let payload = WaitingPayload::without_block(payload, &mut matcher.spares);
        session.tx.messages.waiting.push_back(WaitingSend { send, tag, payload, submitted });
        // What waits for its session to open says nothing about room.
        if session.stage == Stage::Up {
            shared.counters.waited_for_room.increment();
        }
        shared.mark_blocked();
        Submitted::Queued
    }

    /// Publishes all open records, after what waits has been given its chance.
    #[inline]
    pub(super) fn publish_all(&mut self) {
        if self.shared.is_blocked || !self.shared.dirty.is_empty() {
            self.publish_dirty();
        }
    }

    #[inline(never)]
    fn publish_dirty(&mut self) {
        let before = probes::ARE_BUILT.then(|| self.shared.counters.records_sent.get());
        if self.shared.is_blocked {
            self.retry_blocked();
        }
        let mut index = 0;
        while let Some(&slot) = self.shared.dirty.get(index) {
            let session = &mut self.sessions[usize::from(slot)];
            session.publish(&mut self.shared);
            session.tx.record.grown = 0;
            if session.tx.sender.as_mut().expect("listed sessions are up").ring_doorbell() {
                session.tx.record.listed = false;
                self.shared.dirty.swap_remove(index);
            } else {
                index += 1;
            }
        }
        if let Some(sent) = before.map(|before| self.shared.counters.records_sent.get() - before)
            && sent > 0
        {
            probes::flush(sent);
        }
    }

    #[cold]
    fn retry_blocked(&mut self) {
        let Self { sessions, shared, matcher, .. } = self;
        for session in sessions.iter_mut() {
            session.return_blocks(shared);
            session.send_backlog(shared, &mut matcher.spares);
            session.return_message_credit_if_due(shared);
            session.exchange_notices(shared, matcher);
            session.send_waiting(shared, matcher);
            // What was learned of room between two polls was read, too, and may have been of no use to what
            // waits.
            session.return_credit_if_due(shared);
        }
        let is_blocked = |session: &Session<D>| {
            session.tx.waits_for_room()
                || session.rx.borrowed_blocks > 0
                || session.rx.messages.window.credit_is_due()
                || session.has_notices()
        };
        shared.is_blocked = sessions.iter().any(is_blocked);
        shared.counters.backlog.set(sessions.iter().map(|session| session.tx.backlog.len() as u64).sum());
    }

    /// Tells the sink which sends have ended.
    #[cold]
    pub(super) fn report_sends(&mut self, sink: &mut dyn Sink) {
        let mut ended = core::mem::take(&mut self.matcher.ended_sends);
        ended.drain(..).for_each(|(send, outcome)| sink.sent(self, send, outcome));
        self.matcher.reuse(ended);
    }
}

impl<D: LaneDriver> Session<D> {
    /// Puts a message into a record; gives the payload back when there is no room.
    fn transmit<'p>(
        &mut self,
        message: EntryHead,
        payload: Outgoing<'p>,
        shared: &mut Shared<D>,
    ) -> Result<(), Outgoing<'p>> {
        if payload.len() > self.tx.inline_bytes_of(message.direction) {
            return self.transmit_block(message, payload, shared);
        }
        let bytes = payload.as_slice();
        if !self.append(message.inline_header(bytes.len()), bytes, shared) {
            return Err(payload);
        }
        if let Outgoing::Loan(loan) = payload {
            shared.driver.recycle(loan);
        }
        Ok(())
    }

    fn transmit_block<'p>(
        &mut self,
        message: EntryHead,
        payload: Outgoing<'p>,
        shared: &mut Shared<D>,
    ) -> Result<(), Outgoing<'p>> {
        if !self.make_room_for_descriptor(shared) {
            return Err(payload);
        }
        let payload = match payload {
            Outgoing::Loan(loan) => match shared.driver.lend(self.lane, loan) {
                Ok(block) => {
                    self.announce_block(message, block, shared);
                    return Ok(());
                }
                Err(loan) => Outgoing::Loan(loan),
            },
            other => other,
        };
        let bytes = payload.as_slice();
        let Ok(mut loan) = self.block_for(bytes.len(), shared) else {
            shared.counters.blocks_full.increment();
            return Err(payload);
        };
        self.fill(&mut loan, bytes, shared);
        // From here on it is not moved about: what is stored in small pieces and loaded in larger ones has to
        // wait until all that was copied has left this core.
        let block = shared.driver.lend(self.lane, loan).expect("a loan of this driver");
        self.announce_block(message, block, shared);
        Ok(())
    }

    /// Names a block that was lent in a message for which there is room.
    #[inline(never)]
    fn announce_block(&mut self, message: EntryHead, block: BlockDescriptor, shared: &mut Shared<D>) {
        self.append_descriptor(message.block_header(), block);
        self.tx.lent_blocks += 1;
        shared.counters.blocks_sent.increment();
        // Writing so much took long; the peer can read it while we write the next.
        self.publish(shared);
    }

    /// Sends a tagged message now, or gives its payload back when it has to wait.
    fn transmit_message<'p>(
        &mut self,
        tag: Tag,
        payload: Outgoing<'p>,
        submitted: Option<u64>,
        shared: &mut Shared<D>,
    ) -> Result<(), Outgoing<'p>> {
        let counted = self.lines_of(payload.len());
        let is_admitted = self.tx.messages.window.admits(counted)
            || self.learn_of_room(shared) && self.tx.messages.window.admits(counted);
        if !is_admitted {
            shared.counters.window_full.increment();
            return Err(payload);
        }
        self.transmit_counted(tag, payload, counted, submitted, shared)
    }

    /// What a message counts. A block stays with the sender until it is read: at the receiver it is a few
    /// words.
    pub(super) fn lines_of(&self, bytes: usize) -> u32 {
        if bytes <= self.tx.message_inline_bytes { lines(bytes) } else { lines(0) }
    }

    /// Sends a tagged message that counts this many lines of the window, or gives its payload back when there
    /// is no room in the ring.
    pub(super) fn transmit_counted<'p>(
        &mut self,
        tag: Tag,
        payload: Outgoing<'p>,
        counted: u32,
        submitted: Option<u64>,
        shared: &mut Shared<D>,
    ) -> Result<(), Outgoing<'p>> {
        self.transmit(EntryHead::tagged(tag), payload, shared)?;
        let number = self.tx.messages.send(counted);
        shared.tracer.mark_submitted(submitted, number, self.id);
        if !self.tx.record.is_open() {
            // Its record has left, and could not count it.
            shared.counters.messages_sent.increment();
        }
        Ok(())
    }

    /// Sends the calls and responses that wait, oldest first, until the room ends again.
    pub(super) fn send_backlog(&mut self, shared: &mut Shared<D>, spares: &mut Spares) {
        if self.stage != Stage::Up {
            return;
        }
        while let Some(Waiting { message, payload }) = self.tx.backlog.pop_front() {
            match payload.offer(|payload| self.transmit(message, payload, shared)) {
                Ok(spare) => spares.keep(spare),
                Err(payload) => return self.tx.backlog.push_front(Waiting { message, payload }),
            }
            self.unanswered_requests -= usize::from(message.direction == Direction::Response);
        }
    }

    /// Sends the tagged messages that wait, oldest first, until room or window end again. None may overtake
    /// the one that is promised.
    fn send_waiting(&mut self, shared: &mut Shared<D>, matcher: &mut Matcher) {
        if self.stage != Stage::Up || self.tx.messages.notices.promised().is_some() {
            return;
        }
        while let Some(waiting) = self.tx.messages.waiting.pop_front() {
            let WaitingSend { send, tag, payload, submitted } = waiting;
            match payload.offer(|payload| self.transmit_message(tag, payload, submitted, shared)) {
                Ok(spare) => {
                    self.tx.messages.notices.left();
                    matcher.has_left(send, spare);
                }
                Err(payload) => {
                    let waiting = WaitingSend { send, tag, payload, submitted };
                    return self.tx.messages.waiting.push_front(waiting);
                }
            }
        }
    }
}
