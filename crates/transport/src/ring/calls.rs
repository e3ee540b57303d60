//! Requests and responses on their way to the sink.

use core::mem::ManuallyDrop;

use farcall_driver::{LaneDriver, Record};
use farcall_protocol::ring::{EntryHeader, Violation, WORD_BYTES, padded};

use super::inbound::{CUT_SHORT, TOO_LONG};
use super::outbound::Outbound;
use super::session::Session;
use crate::{CallId, DownReason, Incoming, RequestId, Service, SessionId, Sink, Status};

impl<D: LaneDriver> Outbound<D> {
    /// Hands requests and responses to the sink, as many as follow each other, untraced; says where the next entry is, and how
    /// many there were.
    #[inline(never)]
    pub fn deliver_calls(
        &mut self,
        slot: usize,
        record: Record<'_>,
        mut at: usize,
        entries: u16,
        sink: &mut dyn Sink,
    ) -> Result<(usize, u16), DownReason> {
        let mut taken = 0;
        while taken < entries
            && let Some(entry) = record.word(at).and_then(EntryHeader::of_call)
        {
            let payload = record.slice(at + WORD_BYTES, usize::from(entry.length)).ok_or(CUT_SHORT)?;
            let id = self.sessions[slot].take_inline_call(entry)?;
            self.hand_on_inline(id, entry, payload, sink)?;
            at += WORD_BYTES + padded(payload.len());
            taken += 1;
        }
        Ok((at, taken))
    }

    /// Hands a request or a response to the sink that the session has counted, with the payload that is in its record.
    #[inline(always)]
    pub fn hand_on_inline(
        &mut self,
        id: SessionId,
        entry: EntryHeader,
        payload: &[u8],
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
        // Borrowed bytes have nothing that would have to be dropped, which the compiler does not see.
        let payload = ManuallyDrop::new(Incoming::Borrowed(payload));
        self.hand_on_call(id, entry, &payload, sink)
    }

    /// Hands a request or a response to the sink that the session has counted.
    #[inline(always)]
    pub fn hand_on_call(
        &mut self,
        id: SessionId,
        entry: EntryHeader,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
        if entry.kind.is_request() {
            self.counters.requests_received.increment();
            let request = RequestId { session: id, token: u64::from(entry.call) };
            sink.request(self, request, Service(entry.selector), payload);
        } else {
            let status =
                Status::from_wire(entry.selector).ok_or(Violation("a response with an unknown status"))?;
            self.counters.responses_received.increment();
            sink.response(self, id, CallId(entry.call), status, payload);
        }
        Ok(())
    }
}

impl<S> Session<S> {
    /// As [`Session::take_call`], for a payload inside the record.
    #[inline(always)]
    pub fn take_inline_call(&mut self, entry: EntryHeader) -> Result<SessionId, Violation> {
        if usize::from(entry.length) > self.message_bytes_max {
            return Err(TOO_LONG);
        }
        self.take_call(entry)
    }

    /// Counts a request or a response of the peer, if there may be one.
    #[inline(always)]
    pub fn take_call(&mut self, entry: EntryHeader) -> Result<SessionId, Violation> {
        if entry.kind.is_request() {
            if self.unanswered_requests >= self.calls_max {
                return Err(Violation("more unanswered calls than agreed"));
            }
            self.unanswered_requests += 1;
        } else {
            let unanswered = self.unanswered_calls.checked_sub(1);
            self.unanswered_calls = unanswered.ok_or(Violation("a response to no call"))?;
        }
        Ok(self.id)
    }
}
