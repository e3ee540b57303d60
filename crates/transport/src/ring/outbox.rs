//! The verbs that the seam promises.

use farcall_driver::{LaneDriver, Loan, LoanError};
use farcall_protocol::matching::{Tag, lines};
use farcall_protocol::ring::EntryHeader;

use super::Ring;
use super::entries::BRIEF_BYTES;
use super::session::{Direction, Message, Session};
use crate::trace::event;
use crate::{
    CallId, Deliver, MessageId, Origin, Outbox, Outgoing, Owned, Posted, Refused, RequestId, Service,
    SessionId, Status, Submission, Submitted,
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
        // This way makes no call, so that there are no registers to be kept; and a length that is known to be small is put into the
        // header in fewer steps.
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
        if let (Some(from), Some(tag)) = (from, tag)
            && self.receives_from == Some(from.session)
            && self.mail.post_at_once(receive, from.source, tag)
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

    /// Writes an answer into a record, or lets it wait for room. With no more than what both functions get in registers, it is
    /// jumped to.
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
