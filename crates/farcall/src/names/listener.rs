//! The side that serves: an endpoint under a name.

use core::time::Duration;
use std::sync::Arc;

use farcall_base::Instant;

use super::NamesBook;
use crate::bootstrap::{JoinError, PublishError};
use crate::endpoint::Endpoint;

/// How long a leaving server waits for requests that were sent before their callers knew.
const LINGER: Duration = Duration::from_millis(250);

/// An endpoint is listed under a name until this is dropped; if there are several of that name and endpoint,
/// until the last is.
#[derive(Debug)]
#[must_use = "the name is withdrawn when it is dropped"]
pub struct Listener {
    names: Arc<NamesBook>,
    name: String,
    key: String,
}

/// Why an endpoint is not listed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// The registry cannot be told.
    #[error(transparent)]
    Registry(#[from] JoinError),
    /// It does not take the name.
    #[error(transparent)]
    Refused(#[from] PublishError),
}

/// How a server left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Requests that were not answered in time.
    pub unanswered: usize,
}

impl Endpoint {
    /// Lists the endpoint under `name`, where [`Endpoint::connect`] of others finds it, as one of the servers
    /// of that name. Several endpoints may have the same name, and one several names.
    ///
    /// Does not wait for the registry. While that is away, it is told when it is back. When this process
    /// dies, the name is gone as soon as the kernel says so, and within `names.lease` in any case.
    pub fn listen(&self, name: &str) -> Result<Listener, ListenError> {
        let directions = self.directions();
        let (names, key) = (Arc::clone(&directions.names), directions.key());
        names.listen(name, &key, |own| directions.register(own, name, self.address()))?;
        Ok(Listener { names, name: name.to_owned(), key })
    }
}

impl Listener {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Leaves before a planned stop: the name is withdrawn; requests that arrive from now on do not run,
    /// which [`NamedCall`](super::NamedCall)s take to another server; those that have arrived are answered.
    /// Polls `endpoint` meanwhile, until all are answered and none has come for a while, at most for
    /// `within`.
    ///
    /// The endpoint's handlers are gone afterwards. Requests that [`Endpoint::poll_requests`] hands out are
    /// the caller's to refuse.
    pub fn leave(self, endpoint: &Endpoint, within: Duration) -> Drained {
        self.names.withdraw(&self.name, &self.key);
        endpoint.stop_serving();
        let clock = endpoint.clock();
        let (mut quiet_since, deadline) = (clock.now(), clock.now() + within);
        let mut came = endpoint.requests_taken();
        loop {
            endpoint.turn();
            let now = clock.now();
            let unanswered = endpoint.requests_unanswered();
            if unanswered > 0 || endpoint.requests_taken() != came {
                (came, quiet_since) = (endpoint.requests_taken(), now);
            }
            if is_over(now, quiet_since, deadline) {
                return Drained { unanswered };
            }
        }
    }
}

fn is_over(now: Instant, quiet_since: Instant, deadline: Instant) -> bool {
    now >= deadline || now - quiet_since >= LINGER
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.names.listen_no_more(&self.name, &self.key);
    }
}
