//! How a call begins.

use core::time::Duration;

use farcall_transport::trace::event;
use farcall_transport::{CallId, CallRefused, Outbox, Outgoing, Owned, Service, Submission, Submitted};

use super::MESSAGES;
use super::ending::Ending;
use super::outcome::CallError;
use super::sessions::Peer;
use super::slab::{Kind, OPERATIONS_MAX};
use super::state::State;

/// Adds the operation and sends its request. Always inlined, because the parts of the call would otherwise be moved
/// through memory several times.
#[inline(always)]
pub fn start(
    outbox: &mut dyn Outbox,
    state: &mut State,
    peer: Peer,
    service: Service,
    payload: Outgoing<'_>,
    timeout: Option<Duration>,
    ending: impl Ending,
) -> Result<CallId, CallError> {
    match payload.into_slice() {
        Ok(bytes) => {
            let call = begin(state, peer, service, timeout, ending)?;
            match outbox.call(peer.session, call, service, bytes) {
                Submitted::Refused(refused) => Err(not_sent(state, peer, call, refused.of_call(bytes.len()))),
                Submitted::Sent | Submitted::Queued => Ok(call),
            }
        }
        Err(payload) => start_owned(outbox, state, peer, service, payload, timeout, ending),
    }
}

/// As [`start`], with a payload that is given away.
#[inline(never)]
fn start_owned(
    outbox: &mut dyn Outbox,
    state: &mut State,
    peer: Peer,
    service: Service,
    payload: Owned,
    timeout: Option<Duration>,
    ending: impl Ending,
) -> Result<CallId, CallError> {
    let (session, bytes) = (peer.session, payload.len());
    let call = begin(state, peer, service, timeout, ending)?;
    match outbox.submit_owned(Submission::Call { session, call, service }, payload) {
        Submitted::Refused(refused) => Err(not_sent(state, peer, call, refused.of_call(bytes))),
        Submitted::Sent | Submitted::Queued => Ok(call),
    }
}

/// Adds the operation.
#[inline(always)]
fn begin(
    state: &mut State,
    peer: Peer,
    service: Service,
    timeout: Option<Duration>,
    ending: impl Ending,
) -> Result<CallId, CallError> {
    if service == MESSAGES {
        return Err(CallError::UnknownService);
    }
    let begun = state.tracer.begin();
    let call = ending
        .add_to(&mut state.operations, peer.session, timeout)
        .ok_or(CallError::TooManyCalls { calls_max: OPERATIONS_MAX })?;
    if let Some(begun) = begun {
        state.tracer.mark_at(begun, event::SUBMITTED, call.0, peer.session);
    }
    Ok(call)
}

#[cold]
fn not_sent(state: &mut State, peer: Peer, call: CallId, refused: CallRefused) -> CallError {
    state.operations.take_back(call, Kind::Call);
    match (refused, state.sessions.reason_of(peer.session)) {
        (CallRefused::Down, Some(reason)) => CallError::PeerDown(reason.clone()),
        (refused, _) => CallError::NotSent(refused),
    }
}
