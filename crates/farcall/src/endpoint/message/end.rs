//! How sends and receives end: what the transport reports, deadlines, cancellation.

use farcall_transport::{
    Arrived, CallId, DownReason, Incoming, Kept, Matched, MessageBatch, MessageId, Outbox, Tag,
};

use super::outcome::{Cancellation, Envelope, KeptMessage, ReceiveError, Received, SendError};
use crate::endpoint::completion::{OfReceive, OfSend};
use crate::endpoint::sessions::Peer;
use crate::endpoint::turn::Turn;

impl Turn<'_, '_> {
    /// A posted receive has its message.
    #[inline]
    pub fn end_receive(&mut self, outbox: &mut dyn Outbox, peer: Peer, message: &Matched<'_>) {
        let (id, bytes) = (CallId(message.receive.0), message.payload.as_slice());
        let &Matched { tag, payload, .. } = message;
        self.state.counters.received.increment();
        if self.sinks.events.is_some()
            && let Some(token) = self.state.operations.end_event(id, bytes.len())
        {
            return self.report::<OfReceive>(outbox, token, &Ok(Received { peer, tag, payload }));
        }
        if let Incoming::Borrowed(bytes) = payload
            && self.state.leave_copy(id, Envelope::new(peer, tag), bytes)
        {
            return;
        }
        self.end_receive_slowly(outbox, id, peer, tag, &payload);
    }

    fn end_receive_slowly(
        &mut self,
        outbox: &mut dyn Outbox,
        id: CallId,
        peer: Peer,
        tag: Tag,
        payload: &Incoming<'_>,
    ) {
        let Some(room) = self.state.operations.bytes_max_of_receive(id) else { return };
        let Some((_, completion)) = self.state.operations.end(id) else { return };
        let bytes = payload.as_slice().len();
        if bytes > room as usize {
            let error = truncated(peer, tag, bytes, room);
            return self.complete::<OfReceive>(outbox, id, completion, &Err(error));
        }
        let received = Received { peer, tag, payload: *payload };
        self.complete::<OfReceive>(outbox, id, completion, &Ok(received));
    }

    /// Messages came, and no receive waits for any. Those behind one whose handler has asked for a message
    /// are left.
    #[inline]
    pub fn hand_on(&mut self, outbox: &mut dyn Outbox, batch: &mut MessageBatch<'_>) {
        let peer = self.state.sessions.peer_of(batch.session());
        // The handler is taken out while it runs, so that it can have the rest of the state.
        let Some(mut handler) = self.state.messages.handler.take() else { return };
        self.state.guard(|state| handler.messages(outbox, state, peer, batch));
        self.state.counters.received.add(batch.taken() as u64);
        self.state.messages.handler.get_or_insert(handler);
    }

    /// One of the parts of a send has ended.
    pub fn end_part(&mut self, outbox: &mut dyn Outbox, id: CallId, outcome: Result<(), SendError>) {
        let Some(parts) = self.state.operations.parts_of_send(id) else { return };
        *parts -= 1;
        let is_last = *parts == 0;
        let failed = &mut self.state.messages.failed_parts;
        if let Err(error) = outcome {
            failed.entry(id).or_insert(error);
        }
        if is_last {
            let outcome = if failed.is_empty() { None } else { failed.remove(&id) };
            self.complete_send(outbox, id, outcome.map_or(Ok(()), Err));
        }
    }

    fn complete_send(&mut self, outbox: &mut dyn Outbox, id: CallId, outcome: Result<(), SendError>) {
        if let Some((_, completion)) = self.state.operations.end(id) {
            self.complete::<OfSend>(outbox, id, completion, &outcome);
        }
    }

    pub fn expire_send(&mut self, outbox: &mut dyn Outbox, id: CallId) {
        self.state.counters.timed_out.increment();
        outbox.cancel_send(MessageId(id.0));
        self.state.messages.failed_parts.remove(&id);
        self.complete_send(outbox, id, Err(SendError::TimedOut));
    }

    pub fn expire_receive(&mut self, outbox: &mut dyn Outbox, id: CallId) {
        self.state.counters.timed_out.increment();
        self.withdraw(outbox, id, ReceiveError::TimedOut);
    }

    pub fn fail_receive(&mut self, outbox: &mut dyn Outbox, id: CallId, reason: &DownReason) {
        self.withdraw(outbox, id, ReceiveError::PeerDown(reason.clone()));
    }

    /// Cancels a receive; whether it was in flight.
    pub fn cancel_receive(&mut self, outbox: &mut dyn Outbox, id: CallId) -> Cancellation {
        self.state.counters.cancelled.increment();
        self.withdraw(outbox, id, ReceiveError::Cancelled);
        Cancellation::Cancelled
    }

    fn withdraw(&mut self, outbox: &mut dyn Outbox, id: CallId, error: ReceiveError) {
        if outbox.cancel_receive(MessageId(id.0))
            && let Some((_, completion)) = self.state.operations.end(id)
        {
            self.complete::<OfReceive>(outbox, id, completion, &Err(error));
        }
    }

    /// Cancels what can be taken back of a send in flight.
    pub fn cancel_send(&mut self, outbox: &mut dyn Outbox, id: CallId) -> Cancellation {
        let taken_back = outbox.cancel_send(MessageId(id.0)) as u32;
        let Some(parts) = self.state.operations.parts_of_send(id) else { return Cancellation::Over };
        *parts -= taken_back;
        if *parts > 0 {
            return Cancellation::TooLate;
        }
        self.state.counters.cancelled.increment();
        self.state.messages.failed_parts.remove(&id);
        self.complete_send(outbox, id, Err(SendError::Cancelled));
        Cancellation::Cancelled
    }
}

/// What a receive has come to that was given its message when it was posted.
pub fn outcome_of(envelope: Envelope, room: u32, arrived: Arrived<'_>) -> Result<KeptMessage, ReceiveError> {
    let payload = match arrived {
        Arrived::Kept(payload) => payload,
        Arrived::InPlace(message) => Kept::from(&Incoming::Borrowed(message)),
    };
    let bytes = payload.len();
    if bytes > room as usize {
        return Err(truncated(envelope.peer(), envelope.tag(), bytes, room));
    }
    Ok(KeptMessage { envelope, payload })
}

fn truncated(peer: Peer, tag: Tag, bytes: usize, room: u32) -> ReceiveError {
    ReceiveError::Truncated { peer, tag, bytes, bytes_max: room as usize }
}
