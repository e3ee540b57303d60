//! A member of an etcd, and the addresses of its host.
//!
//! The system's resolver has no limit, so a thread asks it beside: the addresses of before are used
//! meanwhile, and without any a caller waits no longer than it has time.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::bootstrap::HostPort;

/// How long addresses are used before they are looked up again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A member, by host and port.
#[derive(Debug)]
pub struct Member {
    pub place: HostPort,
    lookup: Arc<Lookup>,
}

type Resolve = dyn Fn(&HostPort) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// What callers and the thread that asks the resolver share.
struct Lookup {
    state: Mutex<State>,
    changed: Condvar,
    resolve: Box<Resolve>,
}

#[derive(Debug, Default)]
struct State {
    /// What the resolver said last, unless it failed.
    known: Vec<SocketAddr>,
    /// Why the last look failed.
    trouble: Option<String>,
    /// A thread asks.
    is_looking: bool,
    /// When a look has succeeded last.
    looked_at: Option<Instant>,
}

impl Lookup {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, place: &HostPort) {
        let found = (self.resolve)(place);
        let mut state = self.lock();
        state.is_looking = false;
        match found {
            Ok(known) => (state.known, state.trouble, state.looked_at) = (known, None, Some(Instant::now())),
            Err(error) => state.trouble = Some(error.to_string()),
        }
        self.changed.notify_all();
    }
}

impl Member {
    pub fn new(place: HostPort) -> Self {
        Self::with_resolver(place, HostPort::look_up)
    }

    fn with_resolver(
        place: HostPort,
        resolve: impl Fn(&HostPort) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { place, lookup: Arc::new(Lookup { state, changed, resolve: Box::new(resolve) }) }
    }

    /// The addresses of its host; waits for the first ones at most `within`.
    pub fn addresses(&self, within: Duration) -> io::Result<Vec<SocketAddr>> {
        if let Ok(written) = self.place.to_string().parse() {
            return Ok(vec![written]);
        }
        let mut state = self.lookup.lock();
        if !state.is_looking && state.looked_at.is_none_or(|at| at.elapsed() >= LOOK_AGAIN) {
            let (lookup, place) = (Arc::clone(&self.lookup), self.place.clone());
            std::thread::Builder::new().name("etcd-hosts".to_owned()).spawn(move || lookup.look(&place))?;
            state.is_looking = true;
        }
        let is_awaited = |state: &mut State| state.known.is_empty() && state.is_looking;
        let waited = self.lookup.changed.wait_timeout_while(state, within, is_awaited);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &state.trouble {
            _ if !state.known.is_empty() => Ok(state.known.clone()),
            Some(trouble) if !state.is_looking => Err(io::Error::other(trouble.clone())),
            _ => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lookup").field(&*self.lock()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Far longer than anything here takes.
    const PLENTY: Duration = Duration::from_secs(60);

    #[test]
    fn a_resolver_that_is_silent_holds_nobody_up() {
        let (answers, answered) = mpsc::channel::<io::Result<Vec<SocketAddr>>>();
        let answered = Mutex::new(answered);
        let place = HostPort::parse("etcd.test:2379").expect("a place");
        let member = Member::with_resolver(place, move |_| {
            answered.lock().expect("no panic").recv().unwrap_or_else(|_| Err(io::Error::other("it is over")))
        });
        let silent = member.addresses(Duration::from_millis(1)).expect_err("it does not answer");
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
        let address: SocketAddr = "10.0.0.1:2379".parse().expect("an address");
        answers.send(Ok(vec![address])).expect("it is asked");
        assert_eq!(member.addresses(PLENTY).expect("it has answered"), [address]);
        // It is asked once more, and what it said before is used without a wait for it.
        member.lookup.lock().looked_at = None;
        assert_eq!(member.addresses(PLENTY).expect("they are known"), [address]);
        assert!(member.lookup.lock().is_looking);
        answers.send(Err(io::Error::other("no such host"))).expect("it is asked");
        let mut state = member.lookup.lock();
        while state.is_looking {
            state = member.lookup.changed.wait(state).expect("no panic");
        }
        assert_eq!((&state.known[..], state.trouble.as_deref()), (&[address][..], Some("no such host")));
    }

    #[test]
    fn an_address_that_is_written_needs_no_resolver() {
        let place = HostPort::parse("[::1]:2379").expect("a place");
        let member = Member::with_resolver(place, |_| panic!("nobody asks it"));
        assert_eq!(
            member.addresses(PLENTY).expect("it is there"),
            ["[::1]:2379".parse().expect("an address")]
        );
    }

    #[test]
    fn a_host_that_is_not_known_is_an_error_with_its_reason() {
        let place = HostPort::parse("etcd.test:2379").expect("a place");
        let member = Member::with_resolver(place, |_| Err(io::Error::other("no such host")));
        assert_eq!(member.addresses(PLENTY).expect_err("it is not known").to_string(), "no such host");
    }
}
