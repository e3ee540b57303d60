//! How a send begins: to one peer or to several, with one end.

use core::cell::RefMut;
use core::time::Duration;

use farcall_transport::{
    CallId, MessageId, Outbox, Outgoing, Owned, Payload, Refused, SendRefused, SessionId, Submission,
    Submitted, Tag,
};

use super::outcome::SendError;
use crate::endpoint::Endpoint;
use crate::endpoint::context::Context;
use crate::endpoint::core::Core;
use crate::endpoint::sessions::Peer;
use crate::endpoint::slab::{Completion, OPERATIONS_MAX};
use crate::endpoint::state::State;

/// Where a message goes.
#[derive(Clone, Copy)]
pub enum Destinations<'p> {
    One(Peer),
    Many(&'p [Peer]),
}

/// How far a send came at once.
pub enum Begun {
    Done,
    Pending(Parts),
}

/// The parts of a send that have not ended, and the first failure of those that have.
pub struct Parts {
    pending: u32,
    failure: Option<SendError>,
}

impl Parts {
    /// Adds the operation under whose number the parts were sent.
    pub fn follow(self, state: &mut State, timeout: Option<Duration>, completion: Completion) -> CallId {
        let operations = &mut state.operations;
        let id = operations.add_send(timeout, self.pending, completion).expect("the number was free");
        if let Some(failure) = self.failure {
            state.messages.failed_parts.insert(id, failure);
        }
        id
    }
}

/// Hands a message to the transport, which most often is the end of it.
#[inline(always)]
pub fn begin(
    context: &mut Context<'_>,
    to: Destinations<'_>,
    tag: Tag,
    payload: Outgoing<'_>,
) -> Result<Begun, SendError> {
    match payload.into_slice() {
        Ok(bytes) => begin_slice(context, to, tag, bytes),
        Err(owned) => begin_owned(context, to, tag, owned),
    }
}

/// As [`begin`], for the caller that has yet to borrow the endpoint. By then nothing is left of a borrowed
/// payload that would have to be dropped, and thus be in memory.
#[inline(always)]
pub fn begin_at<'e>(
    endpoint: &'e Endpoint,
    to: Destinations<'_>,
    tag: Tag,
    payload: Outgoing<'_>,
) -> (RefMut<'e, Core>, Result<Begun, SendError>) {
    match payload.into_slice() {
        Ok(bytes) => {
            let mut core = endpoint.core();
            let begun = match (to, core.state.operations.next_id()) {
                // The outbox is borrowed for the send alone, and takes no register behind it.
                (Destinations::One(Peer { session, .. }), Some(id)) => {
                    let submitted = core.transport.send(session, MessageId(id.0), tag, bytes);
                    begun(&core.state, session, submitted, bytes.len())
                }
                (to, _) => begin_slice(&mut core.context(), to, tag, bytes),
            };
            (core, begun)
        }
        Err(owned) => {
            let mut core = endpoint.core();
            let begun = begin_owned(&mut core.context(), to, tag, owned);
            (core, begun)
        }
    }
}

#[inline(always)]
fn begin_slice(
    context: &mut Context<'_>,
    to: Destinations<'_>,
    tag: Tag,
    bytes: &[u8],
) -> Result<Begun, SendError> {
    let Context { outbox, state } = context;
    let Some(id) = state.operations.next_id() else { return Err(too_many()) };
    let id = MessageId(id.0);
    let Destinations::One(Peer { session, .. }) = to else {
        return begin_many(*outbox, state, to, id, tag, Outgoing::Slice(bytes));
    };
    let submitted = outbox.send(session, id, tag, bytes);
    begun(state, session, submitted, bytes.len())
}

#[inline(never)]
fn begin_owned(
    context: &mut Context<'_>,
    to: Destinations<'_>,
    tag: Tag,
    owned: Owned,
) -> Result<Begun, SendError> {
    let Context { outbox, state } = context;
    let Some(id) = state.operations.next_id() else { return Err(too_many()) };
    let id = MessageId(id.0);
    let Destinations::One(peer) = to else { return begin_many(*outbox, state, to, id, tag, owned.into()) };
    let (session, bytes) = (peer.session, owned.len());
    let submitted = outbox.submit_owned(Submission::Message { session, send: id, tag }, owned);
    begun(state, session, submitted, bytes)
}

/// How far a send of so many bytes came. Given the session alone: a peer would be in memory.
#[inline(always)]
fn begun(state: &State, session: SessionId, submitted: Submitted, bytes: usize) -> Result<Begun, SendError> {
    match submitted {
        Submitted::Sent => Ok(Begun::Done),
        Submitted::Queued => {
            state.sessions.message_waits(session);
            Ok(Begun::Pending(Parts { pending: 1, failure: None }))
        }
        Submitted::Refused(refused) => Err(not_sent(state, session, refused, bytes)),
    }
}

#[cold]
fn too_many() -> SendError {
    SendError::TooMany { operations_max: OPERATIONS_MAX }
}

#[inline(never)]
fn begin_many(
    outbox: &mut dyn Outbox,
    state: &mut State,
    to: Destinations<'_>,
    id: MessageId,
    tag: Tag,
    payload: Outgoing<'_>,
) -> Result<Begun, SendError> {
    let peers = match &to {
        Destinations::One(peer) => core::slice::from_ref(peer),
        Destinations::Many(peers) => peers,
    };
    // Memory on loan can go to one peer only; the others would have to wait for it.
    let payload = match payload {
        Outgoing::Loan(loan) => Outgoing::Shared(Payload::from(loan.to_vec())),
        other => other,
    };
    let mut parts = Parts { pending: 0, failure: None };
    for &peer in peers {
        let (session, bytes) = (peer.session, payload.len());
        let submitted = match &payload {
            Outgoing::Shared(shared) => {
                let submission = Submission::Message { session, send: id, tag };
                outbox.submit_owned(submission, Owned::Shared(shared.clone()))
            }
            other => outbox.send(session, id, tag, other.as_slice()),
        };
        match submitted {
            Submitted::Sent => {}
            Submitted::Queued => {
                state.sessions.message_waits(session);
                parts.pending += 1;
            }
            Submitted::Refused(refused) => {
                _ = parts.failure.get_or_insert_with(|| not_sent(state, session, refused, bytes));
            }
        }
    }
    match parts {
        Parts { pending: 0, failure: None } => Ok(Begun::Done),
        Parts { pending: 0, failure: Some(error) } => Err(error),
        parts => Ok(Begun::Pending(parts)),
    }
}

#[cold]
fn not_sent(state: &State, session: SessionId, refused: Refused, bytes: usize) -> SendError {
    match (refused.of_message(bytes), state.sessions.reason_of(session)) {
        (SendRefused::Down, Some(reason)) => SendError::PeerDown(reason.clone()),
        (refused, _) => SendError::NotSent(refused),
    }
}
