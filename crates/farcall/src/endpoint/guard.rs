//! What the policy of an endpoint allows, looked up for each batch of requests.
//!
//! What a peer may do follows from its principal and is found out once for each that has sessions, and again
//! when the policy has changed. Without a policy there is no guard.

use std::collections::HashMap;
use std::sync::Arc;

use farcall_base::Principal;
use farcall_transport::{Service, SessionId};

use crate::policy::{Object, Policy, PolicyFile, Right};
use crate::said::{Kind, Level};

/// What is said of peers that are refused.
static REFUSED: Kind = Kind::new(Level::Warning, "refusals by the policy");

/// What a principal may do.
#[derive(Debug)]
struct Permit {
    principal: Principal,
    /// The services that it may call, as ranges of their numbers in ascending order.
    services: Vec<(u16, u16)>,
    may_send: bool,
}

impl Permit {
    fn of(principal: &Principal, policy: &Policy) -> Self {
        let services = policy.services_of(principal);
        let may_send = policy.allows(principal, &Object::Messages, Right::Send).is_some();
        Self { principal: principal.clone(), services, may_send }
    }

    fn may_call(&self, service: Service) -> bool {
        let behind = self.services.partition_point(|(first, _)| *first <= service.0);
        behind > 0 && service.0 <= self.services[behind - 1].1
    }
}

/// The policy, and what it means to the peers of an endpoint.
#[derive(Debug)]
pub struct Guard {
    file: PolicyFile,
    /// Whether the file is looked at again: a simulation is the same whenever it runs.
    renews: bool,
    permits: HashMap<SessionId, Arc<Permit>>,
    /// Those of all principals that have sessions.
    known: HashMap<Principal, Arc<Permit>>,
    /// What was found last: requests come in runs.
    last: Option<(SessionId, Service, bool)>,
    /// Whether whoever takes the requests checks them in its own terms.
    leaves_requests: bool,
}

impl Guard {
    /// A guard by that policy, whose file is looked at again if it `renews`.
    pub fn new(file: PolicyFile, renews: bool) -> Self {
        let (permits, known) = (HashMap::new(), HashMap::new());
        Self { file, renews, permits, known, last: None, leaves_requests: false }
    }

    /// From now on whoever takes the requests checks them.
    pub fn leave_requests(&mut self) {
        self.leaves_requests = true;
    }

    /// A session is up, or its peer is another principal now; says whether the peer may send messages.
    pub fn admit(&mut self, session: SessionId, principal: &Principal) -> bool {
        let permit = match self.known.get(principal) {
            Some(permit) => permit.clone(),
            None => {
                let permit = Arc::new(Permit::of(principal, self.file.policy()));
                self.known.insert(principal.clone(), permit.clone());
                permit
            }
        };
        let may_send = permit.may_send;
        let former = self.permits.insert(session, permit);
        self.let_go(former);
        self.last = None;
        may_send
    }

    /// A session is over.
    pub fn forget(&mut self, session: SessionId) {
        let former = self.permits.remove(&session);
        self.let_go(former);
        self.last = None;
    }

    /// A principal without sessions is not known any more.
    fn let_go(&mut self, permit: Option<Arc<Permit>>) {
        const HERE_AND_AMONG_THE_KNOWN: usize = 2;
        if let Some(permit) = permit
            && Arc::strong_count(&permit) == HERE_AND_AMONG_THE_KNOWN
        {
            self.known.remove(&permit.principal);
        }
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
        let allowed = self.permits.get(&session).is_some_and(|permit| permit.may_call(service));
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
        for (principal, permit) in &mut self.known {
            *permit = Arc::new(Permit::of(principal, self.file.policy()));
        }
        for permit in self.permits.values_mut() {
            *permit = self.known[&permit.principal].clone();
        }
        Some(self.permits.iter().map(|(session, permit)| (*session, permit.may_send)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const POLICY: &str =
        "service 10-20: call by uid 1\nservice 15-30: call by uid 1, uid 2\nservice 5: call by any\n";

    #[test]
    fn sessions_of_one_principal_share_what_it_may_do() {
        let folder = std::env::temp_dir().join(format!("farcall-guard-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the test");
        let path = folder.join("policy");
        fs::write(&path, POLICY).expect("a policy");
        let mut guard = Guard::new(PolicyFile::open(&path).expect("it is of use"), false);
        fs::remove_dir_all(&folder).expect("it is the test's");
        for session in 0..1000 {
            assert!(!guard.admit(SessionId(session), &Principal::User(1)));
        }
        assert_eq!(guard.known.len(), 1);
        assert_eq!(guard.known[&Principal::User(1)].services, [(5, 5), (10, 30)]);
        let allowed: Vec<_> = (0..40).filter(|of| guard.allows(SessionId(7), Service(*of))).collect();
        assert_eq!(allowed, [5].into_iter().chain(10..=30).collect::<Vec<_>>());
        for session in 0..1000 {
            assert_eq!(guard.known.len(), 1);
            guard.forget(SessionId(session));
        }
        assert!(guard.known.is_empty(), "a principal without sessions is forgotten");
    }
}
