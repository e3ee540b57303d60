//! What the policy of an endpoint allows, looked up for each batch of requests.
//!
//! What a peer may do follows from its principal and is found out once for each session, and again when the
//! policy has changed. Without a policy there is no guard.

use std::collections::HashMap;

use farcall_base::Principal;
use farcall_transport::{Service, SessionId};

use crate::policy::{Object, PolicyFile, Right};
use crate::said::{Kind, Level};

/// What is said of peers that are refused.
static REFUSED: Kind = Kind::new(Level::Warning, "refusals by the policy");

/// What the peer of a session may do.
#[derive(Debug)]
struct Permit {
    principal: Principal,
    /// The services that it may call, as ranges of their numbers.
    services: Vec<(u16, u16)>,
}

/// The policy, and what it means to the peers of an endpoint.
#[derive(Debug)]
pub struct Guard {
    file: PolicyFile,
    /// Whether the file is looked at again: a simulation is the same whenever it runs.
    renews: bool,
    permits: HashMap<SessionId, Permit>,
    /// What was found last: requests come in runs.
    last: Option<(SessionId, Service, bool)>,
    /// Whether whoever takes the requests checks them in its own terms.
    leaves_requests: bool,
}

impl Guard {
    /// A guard by that policy, whose file is looked at again if it `renews`.
    pub fn new(file: PolicyFile, renews: bool) -> Self {
        let (permits, last, leaves_requests) = (HashMap::new(), None, false);
        Self { file, renews, permits, last, leaves_requests }
    }

    /// From now on whoever takes the requests checks them.
    pub fn leave_requests(&mut self) {
        self.leaves_requests = true;
    }

    /// A session is up, or its peer is another principal now; says whether the peer may send messages.
    pub fn admit(&mut self, session: SessionId, principal: &Principal) -> bool {
        let services = self.file.policy().services_of(principal);
        self.permits.insert(session, Permit { principal: principal.clone(), services });
        self.last = None;
        self.may_send(principal)
    }

    fn may_send(&self, principal: &Principal) -> bool {
        self.file.policy().allows(principal, &Object::Messages, Right::Send).is_some()
    }

    /// A session is over.
    pub fn forget(&mut self, session: SessionId) {
        self.permits.remove(&session);
        self.last = None;
    }

    /// Whether the peer of a session may call a service.
    #[inline]
    pub fn allows(&mut self, session: SessionId, service: Service) -> bool {
        match self.last {
            _ if self.leaves_requests => true,
            Some((of, asked, allowed)) if (of, asked) == (session, service) => allowed,
            _ => self.find(session, service),
        }
    }

    fn find(&mut self, session: SessionId, service: Service) -> bool {
        let permit = self.permits.get(&session);
        let has = |&(first, last): &(u16, u16)| (first..=last).contains(&service.0);
        let allowed = permit.is_some_and(|permit| permit.services.iter().any(has));
        self.last = Some((session, service, allowed));
        allowed
    }

    /// Says on standard error that calls were refused; gives the sentence for the caller.
    pub fn refuse_calls(&mut self, session: SessionId, service: Service) -> String {
        let unproven = Principal::Unproven;
        let principal = self.permits.get(&session).map_or(&unproven, |permit| &permit.principal);
        let why = format!("{principal} may not call service {}", service.0);
        REFUSED.say(format_args!("refused by the policy: {why}"));
        why
    }

    /// Says on standard error that a session ended because its peer sent a message.
    pub fn message_refused(&mut self, principal: &Principal) {
        REFUSED.say(format_args!("refused by the policy: {principal} may not send messages"));
    }

    /// Takes a changed policy over. Gives the sessions that are up, and whether their peers may send; `None`
    /// while nothing has changed.
    pub fn renew(&mut self) -> Option<Vec<(SessionId, bool)>> {
        if !self.renews || !self.file.renew() {
            return None;
        }
        self.last = None;
        for permit in self.permits.values_mut() {
            permit.services = self.file.policy().services_of(&permit.principal);
        }
        let may_send =
            |(session, permit): (&SessionId, &Permit)| (*session, self.may_send(&permit.principal));
        Some(self.permits.iter().map(may_send).collect())
    }
}
