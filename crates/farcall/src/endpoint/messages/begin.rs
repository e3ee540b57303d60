//! How a send begins: to one peer or to several, with one end.

use core::time::Duration;

use farcall_transport::{CallId, MessageId, Outbox, Outgoing, Payload, SendProgress, SendRefused, Tag};

use super::outcome::SendError;
use crate::endpoint::context::Context;
use crate::endpoint::operations::{Completion, OPERATIONS_MAX};
use crate::endpoint::sessions::Peer;
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
    match at_once(to, payload, |peer, bytes| context.outbox.send_at_once(peer.session, tag, bytes)) {
        None => Ok(Begun::Done),
        Some(payload) => begin_slowly(context.outbox, context.state, to, tag, payload),
    }
}

/// Gives the payload back unless it is borrowed bytes for one peer that `leaves` has sent.
#[inline(always)]
pub fn at_once<'p>(
    to: Destinations<'_>,
    payload: Outgoing<'p>,
    leaves: impl FnOnce(Peer, &[u8]) -> bool,
) -> Option<Outgoing<'p>> {
    let Destinations::One(peer) = to else { return Some(payload) };
    match payload.into_slice() {
        // Only a payload that is needed again is made again: it would have to be dropped.
        Ok(bytes) if leaves(peer, bytes) => None,
        Ok(bytes) => Some(Outgoing::Slice(bytes)),
        Err(payload) => Some(payload),
    }
}

pub fn begin_slowly(
    outbox: &mut dyn Outbox,
    state: &mut State,
    to: Destinations<'_>,
    tag: Tag,
    payload: Outgoing<'_>,
) -> Result<Begun, SendError> {
    let id = state.operations.next_id().ok_or(SendError::TooMany { operations_max: OPERATIONS_MAX })?;
    match to {
        Destinations::One(peer) => match outbox.send(peer.session, MessageId(id.0), tag, payload) {
            Ok(SendProgress::Done) => Ok(Begun::Done),
            Ok(SendProgress::Pending) => Ok(Begun::Pending(Parts { pending: 1, failure: None })),
            Err(refused) => Err(not_sent(state, peer, refused)),
        },
        Destinations::Many(peers) => begin_many(outbox, state, peers, MessageId(id.0), tag, payload),
    }
}

fn begin_many(
    outbox: &mut dyn Outbox,
    state: &mut State,
    peers: &[Peer],
    id: MessageId,
    tag: Tag,
    payload: Outgoing<'_>,
) -> Result<Begun, SendError> {
    // Memory on loan can go to one peer only; the others would have to wait for it.
    let payload = match payload {
        Outgoing::Loan(loan) => Outgoing::Shared(Payload::from(loan.to_vec())),
        other => other,
    };
    let mut parts = Parts { pending: 0, failure: None };
    for &peer in peers {
        let payload = match &payload {
            Outgoing::Shared(shared) => Outgoing::Shared(shared.clone()),
            other => Outgoing::Slice(other.as_slice()),
        };
        match outbox.send(peer.session, id, tag, payload) {
            Ok(progress) => parts.pending += u32::from(progress == SendProgress::Pending),
            Err(refused) => _ = parts.failure.get_or_insert_with(|| not_sent(state, peer, refused)),
        }
    }
    match parts {
        Parts { pending: 0, failure: None } => Ok(Begun::Done),
        Parts { pending: 0, failure: Some(error) } => Err(error),
        parts => Ok(Begun::Pending(parts)),
    }
}

#[cold]
fn not_sent(state: &State, peer: Peer, refused: SendRefused) -> SendError {
    match (refused, state.sessions.reason_of(peer.session)) {
        (SendRefused::Down, Some(reason)) => SendError::PeerDown(reason.clone()),
        (refused, _) => SendError::NotSent(refused),
    }
}
