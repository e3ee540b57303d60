//! What can be asked about calls and their sessions.

use core::time::Duration;

use super::{Calls, Counters, Policy};
use crate::session::{Link, SessionId, Sessions};
use crate::wire::CallKey;
use farcall_base::Identity;

impl<B: AsRef<[u8]>, P: Policy> Calls<B, P> {
    /// Whether calls can be made in a session: it is opening or up.
    pub fn is_open(&self, session: SessionId) -> bool {
        let channel = self.channels.get(session.index()).and_then(Option::as_deref);
        channel.is_some_and(|channel| channel.id == session)
    }

    /// Whether a session is open and has room for one more call.
    pub fn has_free_call(&self, session: SessionId) -> bool {
        let channel = self.channels.get(session.index()).and_then(Option::as_deref);
        channel.is_some_and(|channel| channel.id == session && channel.has_free_slot())
    }

    /// Whether all bytes of a call's request were sent once, or the call is over.
    pub fn is_transmitted(&self, session: SessionId, call: u32) -> bool {
        let channel = self.channels.get(session.index()).and_then(Option::as_deref);
        channel.filter(|channel| channel.id == session).is_none_or(|channel| channel.is_transmitted(call))
    }

    /// Under which name a call that is not over travels.
    pub fn key_of(&self, session: SessionId, call: u32) -> Option<CallKey> {
        let channel = self.channels.get(session.index())?.as_deref()?;
        (channel.id == session).then(|| channel.key_of(call)).flatten()
    }

    /// The session's other end and the limits that both sides agreed on, once it is up.
    pub fn link(&self, session: SessionId) -> Option<&Link> {
        self.sessions.link(session)
    }

    /// Who is at the session's other end, once it is up.
    pub fn peer(&self, session: SessionId) -> Option<Identity> {
        self.sessions.peer(session)
    }

    /// The session's round trip as measured so far; zero before the first measurement.
    pub fn round_trip(&self, session: SessionId) -> Duration {
        Duration::from_nanos(self.sessions.round_trip_nanos(session))
    }

    /// What happened to messages so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The sessions underneath, for their counters and configuration.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The same, which learn of the lives of peers so.
    pub fn sessions_mut(&mut self) -> &mut Sessions {
        &mut self.sessions
    }

    /// What decides about grants and order.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// Whether no call, request or unacknowledged result is held anywhere.
    pub fn is_idle(&self) -> bool {
        self.held() == (0, 0)
    }

    /// How many calls are held here as their caller, and how many requests as their server, until both sides
    /// know that they are over.
    pub fn held(&self) -> (usize, usize) {
        let held = self.channels.iter().flatten().map(|channel| channel.held());
        held.fold((0, 0), |sum, (calls, requests)| (sum.0 + calls, sum.1 + requests))
    }

    /// Bytes that peers make this endpoint hold.
    pub fn held_bytes(&self) -> usize {
        self.budget.held_bytes()
    }

    /// Panics unless what the policy keeps is true; for tests.
    pub(crate) fn check_policy(&self) {
        self.policy.check(|slot| {
            let channel = self.channels.get(usize::from(slot.session))?.as_deref()?;
            channel.arriving(slot)
        });
    }
}
