//! Requests and responses on their way to the sink.

use farcall_driver::LaneDriver;
use farcall_protocol::ring::{EntryHeader, Violation};

use super::Ring;
use super::inbound::TOO_LONG;
use super::session::Session;
use crate::batch::{Entries, Unanswered};
use crate::{
    CallId, DownReason, Incoming, RequestBatch, RequestId, Response, ResponseBatch, Service, SessionId, Sink,
    Status,
};

impl<D: LaneDriver> Ring<D> {
    /// Hands requests for one service, or answers, to the sink that begin with this entry, as many as follow each other and as it
    /// takes, untraced; says where the next entry is, and how many there were.
    #[inline(always)]
    pub(super) fn hand_on_calls(
        &mut self,
        slot: usize,
        entry: EntryHeader,
        entries: Entries<'_>,
        unanswered: &Unanswered,
        sink: &mut dyn Sink,
    ) -> (usize, u16) {
        if entry.kind.is_request() {
            self.hand_on_requests(slot, Service(entry.selector), entries, sink)
        } else {
            self.hand_on_responses(slot, entries, unanswered, sink)
        }
    }

    #[inline(always)]
    fn hand_on_requests(
        &mut self,
        slot: usize,
        service: Service,
        entries: Entries<'_>,
        sink: &mut dyn Sink,
    ) -> (usize, u16) {
        let session = &mut self.sessions[slot];
        let (id, bytes_max) = (session.id, session.message_bytes_max);
        let may_come = session.calls_max.saturating_sub(session.unanswered_requests);
        let entries = entries.first(u16::try_from(may_come).unwrap_or(u16::MAX));
        // Before they are answered, which takes them off again.
        session.unanswered_requests += entries.left();
        let mut batch = RequestBatch::new(entries, bytes_max, id, service);
        sink.requests(self, &mut batch);
        let (at, taken) = batch.end();
        self.counters.request_batches.add(u64::from(taken > 1));
        self.sessions[slot].unanswered_requests -= entries.left() - usize::from(taken);
        (at, taken)
    }

    #[inline(always)]
    fn hand_on_responses(
        &mut self,
        slot: usize,
        entries: Entries<'_>,
        unanswered: &Unanswered,
        sink: &mut dyn Sink,
    ) -> (usize, u16) {
        let Session { id, message_bytes_max, .. } = self.sessions[slot];
        let mut batch = ResponseBatch::new(entries, message_bytes_max, id, unanswered);
        sink.responses(self, &mut batch);
        let (at, taken) = batch.end();
        self.counters.response_batches.add(u64::from(taken > 1));
        (at, taken)
    }

    /// Hands a request or a response to the sink that the session has counted, with the payload that is in its record.
    #[inline(always)]
    pub(super) fn hand_on_inline(
        &mut self,
        id: SessionId,
        entry: EntryHeader,
        payload: &[u8],
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
        self.hand_on_call(id, entry, &Incoming::Borrowed(payload), sink)
    }

    /// Hands a request or a response to the sink that the session has counted.
    #[inline(always)]
    pub(super) fn hand_on_call(
        &mut self,
        id: SessionId,
        entry: EntryHeader,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
        if entry.kind.is_request() {
            let request = RequestId { session: id, token: u64::from(entry.call) };
            sink.requests(self, &mut RequestBatch::single(request, Service(entry.selector), *payload));
        } else {
            let status =
                Status::from_wire(entry.selector).ok_or(Violation("a response with an unknown status"))?;
            let response = Response { call: CallId(entry.call), status, payload: *payload };
            sink.responses(self, &mut ResponseBatch::single(id, response));
        }
        Ok(())
    }
}

impl<S> Session<S> {
    /// As [`Session::take_call`], for a payload inside the record.
    #[inline(always)]
    pub fn take_inline_call(&mut self, entry: EntryHeader) -> Result<SessionId, Violation> {
        if entry.length as usize > self.message_bytes_max {
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
        } else if !self.unanswered_calls.take_one() {
            return Err(Violation("a response to no call"));
        }
        Ok(self.id)
    }
}
