//! Who listens under a name, as a watch keeps it: written by the thread that hears of changes, read by the
//! threads that connect.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use farcall_base::Address;

use super::limits::LISTED_MAX;
use super::messages::Listed;

/// How long servers are kept that a registry which was started again has not heard of: they come back within
/// about a second.
pub const KEPT_AFTER_RESTART: Duration = Duration::from_secs(3);

/// An endpoint that listens under a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// Of its process; 0 when it is not known.
    pub incarnation: u64,
    /// Of its process; `u32::MAX` without one.
    pub rank: u32,
    /// A number of its machine; 0 when it is not known.
    pub machine: u64,
    /// The name of its machine, for people.
    pub host: String,
    /// The name of its transport.
    pub transport: String,
    /// Its number within its process.
    pub endpoint: u32,
    /// Where it is reached.
    pub address: Address,
}

/// What tells the endpoints of a name apart, whoever numbers them: incarnation, endpoint, transport.
type Place = (u64, u32, String);

impl Server {
    fn place(&self) -> Place {
        (self.incarnation, self.endpoint, self.transport.clone())
    }

    /// What a registry says of a server; `None` when the key is not `transport#number`.
    pub(super) fn from_listed(listed: &Listed) -> Option<Self> {
        let (transport, endpoint) = listed.key.split_once('#')?;
        Some(Self {
            incarnation: listed.incarnation,
            rank: listed.rank,
            machine: listed.machine,
            host: listed.host.clone(),
            transport: transport.to_owned(),
            endpoint: endpoint.parse().ok()?,
            address: listed.address.clone(),
        })
    }
}

/// The servers of one name, kept up to date.
#[derive(Debug, Default)]
pub struct Listing {
    state: Mutex<State>,
    changed: Condvar,
    /// Rises with every change, so that a reader sees in one load that there is none.
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// By the number that the source gave; at most [`LISTED_MAX`].
    servers: BTreeMap<u64, Server>,
    /// Known from before the source was lost or began again, and not heard of again yet; as many at most.
    former: BTreeMap<Place, Server>,
    former_until: Option<Instant>,
    is_complete: bool,
    trouble: Option<String>,
}

impl Listing {
    /// A listing that a source will fill.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A listing that is complete and never changes.
    pub fn fixed(servers: Vec<Server>) -> Arc<Self> {
        let listing = Self::new();
        for (number, server) in (0..).zip(servers) {
            listing.listed(number, server);
        }
        listing.complete();
        listing
    }

    /// Rises with every change.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// All servers that are known now.
    pub fn servers(&self) -> Vec<Server> {
        let state = self.lock();
        state.servers.values().chain(state.former.values()).cloned().collect()
    }

    /// Whether the source has told all that it knew when it was asked.
    pub fn is_complete(&self) -> bool {
        self.lock().is_complete
    }

    /// Why the source does not tell anything now.
    pub fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// Waits until the version differs from `seen`, at most for `within`.
    pub fn wait_for_change(&self, seen: u64, within: Duration) {
        let unchanged = |_: &mut State| self.version.load(Ordering::Relaxed) == seen;
        drop(self.changed.wait_timeout_while(self.lock(), within, unchanged));
    }

    /// A server listens. More than a correct source lists are not taken note of.
    pub fn listed(&self, number: u64, server: Server) {
        self.change(|state| {
            if state.servers.len() < LISTED_MAX || state.servers.contains_key(&number) {
                state.former.remove(&server.place());
                state.servers.insert(number, server);
            }
        });
    }

    /// A server listens no more.
    pub fn gone(&self, number: u64) {
        self.change(|state| drop(state.servers.remove(&number)));
    }

    /// All servers that the source knows have been listed: those that it has known all the time and did not
    /// list again are gone.
    pub fn complete(&self) {
        self.change(|state| {
            (state.is_complete, state.trouble) = (true, None);
            if state.former_until.is_none() {
                state.former.clear();
            }
        });
    }

    /// The source is lost; what it said stays known.
    pub fn source_lost(&self, trouble: &str) {
        self.change(|state| state.trouble = Some(trouble.to_owned()));
    }

    /// The source is back and lists its servers from the beginning.
    pub fn source_back(&self, now: Instant) {
        self.change(|state| {
            state.set_aside();
            state.former_until = Some(now + KEPT_AFTER_RESTART);
        });
    }

    /// The source lists its servers from the beginning once more.
    pub fn restarted(&self) {
        self.change(State::set_aside);
    }

    /// When [`Listing::forget_former`] has something to do.
    pub fn former_until(&self) -> Option<Instant> {
        self.lock().former_until
    }

    /// Forgets the servers that the source has not heard of in time since it is back.
    pub fn forget_former(&self, now: Instant) {
        if self.former_until().is_some_and(|until| until <= now) {
            self.change(|state| (state.former, state.former_until) = (BTreeMap::new(), None));
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        self.version.fetch_add(1, Ordering::Release);
        drop(state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set_aside(&mut self) {
        for server in core::mem::take(&mut self.servers).into_values() {
            if self.former.len() < LISTED_MAX {
                self.former.insert(server.place(), server);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use farcall_base::NO_RANK;

    use super::*;

    fn server(incarnation: u64) -> Server {
        Server {
            incarnation,
            rank: NO_RANK,
            machine: 1,
            host: "node".to_owned(),
            transport: "ring+shm".to_owned(),
            endpoint: 0,
            address: Address::new(incarnation.to_le_bytes()).expect("short"),
        }
    }

    #[test]
    fn servers_stay_known_while_their_source_starts_again() {
        let (listing, now) = (Listing::new(), Instant::now());
        (1..=2).for_each(|number| listing.listed(number, server(number)));
        listing.complete();
        listing.source_lost("closed");
        assert_eq!((listing.servers().len(), listing.trouble().as_deref()), (2, Some("closed")));
        listing.source_back(now);
        listing.listed(7, server(2));
        listing.complete();
        assert_eq!(listing.servers(), [server(2), server(1)], "one is heard of, one may still come");
        listing.forget_former(now);
        assert_eq!(listing.servers().len(), 2);
        let seen = listing.version();
        listing.forget_former(now + KEPT_AFTER_RESTART);
        assert_eq!((listing.servers(), listing.version() > seen), (vec![server(2)], true));
        listing.gone(7);
        assert!(listing.servers().is_empty() && listing.is_complete() && listing.trouble().is_none());
    }

    #[test]
    fn servers_stay_known_while_their_source_lists_them_again_and_no_longer() {
        let listing = Listing::new();
        (1..=3).for_each(|number| listing.listed(number, server(number)));
        listing.complete();
        listing.restarted();
        assert_eq!(listing.servers().len(), 3);
        listing.listed(3, server(3));
        assert_eq!(listing.servers(), [server(3), server(1), server(2)]);
        listing.complete();
        assert_eq!(listing.servers(), [server(3)]);
    }

    #[test]
    fn a_source_that_lists_without_end_fills_no_memory() {
        let listing = Listing::new();
        for round in 0..3 {
            (0..2 * LISTED_MAX as u64)
                .for_each(|number| listing.listed(number, server(round << 32 | number)));
            listing.restarted();
        }
        assert!(listing.servers().len() <= 2 * LISTED_MAX, "{} servers", listing.servers().len());
    }
}
