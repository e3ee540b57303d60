//! The verbs that the seam promises.

use farcall_driver::{LaneDriver, Loan, LoanError};
use farcall_protocol::matching::Tag;
use farcall_protocol::ring::EntryHeader;

use super::outbound::Outbound;
use super::session::{Direction, Message};
use crate::trace::event;
use crate::{
    CallId, CallRefused, MessageId, Origin, Outbox, Outgoing, ReceiveProgress, RequestId, SendProgress,
    SendRefused, Service, SessionId, Status,
};

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
        if session.unanswered_calls.get() >= session.calls_max {
            return Err(CallRefused::TooManyCalls { calls_max: session.calls_max });
        }
        session.unanswered_calls.add(1);
        let message = Message { direction: Direction::Request, call: call.0, selector: service.0 };
        self.submit(slot, message, payload);
        Ok(())
    }

    #[inline]
    fn call_at_once(&mut self, to: SessionId, call: CallId, service: Service, payload: &[u8]) -> bool {
        let Some(slot) = self.slot_of(to) else { return false };
        let session = &mut self.sessions[slot];
        if session.unanswered_calls.get() >= session.calls_max || !session.may_append(payload) {
            return false;
        }
        let message = Message { direction: Direction::Request, call: call.0, selector: service.0 };
        let header = message.inline_header(payload.len()).to_word();
        if !session.append_brief(header, payload) {
            return self.call_in_record(slot, header, payload);
        }
        session.unanswered_calls.add(1);
        true
    }

    #[inline]
    fn reply(&mut self, request: RequestId, status: Status, payload: Outgoing<'_>) {
        let Some(slot) = self.slot_of(request.session) else { return };
        let session = &mut self.sessions[slot];
        session.unanswered_requests -= 1;
        let payload = match payload.into_slice() {
            Ok(bytes) => {
                if !self.tracer.is_on() && session.may_append(bytes) {
                    let header = response(request, status).inline_header(bytes.len()).to_word();
                    if session.append_brief(header, bytes) {
                        return;
                    }
                    return self.reply_in_record(slot, header, bytes);
                }
                Outgoing::Slice(bytes)
            }
            Err(payload) => payload,
        };
        self.reply_otherwise(slot, request, status, payload);
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

    #[inline]
    fn send(
        &mut self,
        session: SessionId,
        send: MessageId,
        tag: Tag,
        payload: Outgoing<'_>,
    ) -> Result<SendProgress, SendRefused> {
        self.send_tagged(session, send, tag, payload)
    }

    #[inline]
    fn send_at_once(&mut self, session: SessionId, tag: Tag, payload: &[u8]) -> bool {
        self.send_short(session, tag, payload)
    }

    fn cancel_send(&mut self, send: MessageId) -> usize {
        self.sessions.iter_mut().map(|session| session.mail.cancel(send)).sum()
    }

    #[inline]
    fn receive(&mut self, receive: MessageId, from: Option<Origin>, tag: Option<Tag>) -> ReceiveProgress {
        self.post_receive(receive, from, tag)
    }

    #[inline]
    fn receive_at_once(&mut self, receive: MessageId, from: Origin, tag: Tag) -> bool {
        self.may_receive_from(from.session) && self.mail.post_at_once(receive, from.source, tag)
    }

    fn cancel_receive(&mut self, receive: MessageId) -> bool {
        self.mail.withdraw(receive)
    }

    fn hand_on_unexpected(&mut self, hand_on: bool) {
        self.mail.hands_on = hand_on;
    }

    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.block(bytes)
    }
}

impl<D: LaneDriver> Outbound<D> {
    /// Writes a request into a record; false when there is no room.
    #[inline(never)]
    fn call_in_record(&mut self, slot: usize, header: u64, payload: &[u8]) -> bool {
        let session = &mut self.sessions[slot];
        if !self.tracer.is_on() && session.send_at_once(header, payload, &mut self.dirty, &self.counters) {
            session.unanswered_calls.add(1);
            return true;
        }
        let is_sent = self.append_to_record(slot, header, payload);
        self.sessions[slot].unanswered_calls.add(usize::from(is_sent));
        is_sent
    }

    /// Writes an answer into a record, or lets it wait for room. With no more than what both functions get in registers, it is
    /// jumped to.
    #[inline(never)]
    fn reply_in_record(&mut self, slot: usize, header: u64, payload: &[u8]) {
        let is_sent = self.sessions[slot].send_at_once(header, payload, &mut self.dirty, &self.counters)
            || self.append_to_record(slot, header, payload);
        if !is_sent && let Some(EntryHeader { call, selector, .. }) = EntryHeader::of_call(header) {
            let message = Message { direction: Direction::Response, call, selector };
            self.submit(slot, message, Outgoing::Slice(payload));
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
        if payload.len() <= self.sessions[slot].message_bytes_max {
            return self.submit(slot, message, payload);
        }
        self.submit(slot, response(request, Status::AnswerTooLong), Outgoing::Slice(&[]));
    }
}

/// The answer to a request, without its payload.
#[inline(always)]
fn response(request: RequestId, status: Status) -> Message {
    let (call, selector) = (request.token as u32, status.to_wire());
    Message { direction: Direction::Response, call, selector }
}
