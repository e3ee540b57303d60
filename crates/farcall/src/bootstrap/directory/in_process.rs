//! The directory of ranks that live in one process: a map, and no connection to anybody.
//!
//! Ranks are threads, or the hosts of a simulated fabric. A cluster of one is the smallest of its kind.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use farcall_base::Address;

use super::super::incarnation::{host_name, machine_number};
use super::super::limits::KEYS_PER_RANK_MAX;
use super::super::listing::{Listing, Server};
use super::super::messages::MISSING_NAMED_MAX;
use super::error::MissingRanks;
use super::state::WaitError;

/// What the ranks of one process share.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The incarnation of each rank's present life.
    lives: BTreeMap<u32, u64>,
    /// The addresses of a rank's present life, by key.
    published: BTreeMap<(u32, String), (Address, u64)>,
    barriers: BTreeMap<String, Barrier>,
    /// The servers of each name.
    listings: BTreeMap<String, Arc<Listing>>,
    /// The name and number of each key that a rank's present life registered.
    registered: BTreeMap<(u32, String, String), u64>,
    numbers_used: u64,
    /// By key: revision and value.
    values: BTreeMap<String, (u64, Vec<u8>)>,
}

/// A barrier in use.
#[derive(Default)]
struct Barrier {
    /// Ranks that wait.
    waiting: Vec<u32>,
    /// How often all ranks have met.
    meetings: u64,
}

/// One rank's way to the shared map.
pub(super) struct InProcess {
    shared: Arc<Shared>,
    rank: u32,
    size: u32,
    incarnation: u64,
}

impl InProcess {
    /// A new life of `rank`: what an earlier one published is not found any more.
    pub(super) fn new(shared: &Arc<Shared>, rank: u32, size: u32, incarnation: u64) -> Self {
        let shared = Arc::clone(shared);
        let mut state = shared.lock();
        state.forget_life(rank);
        state.lives.insert(rank, incarnation);
        drop(state);
        Self { shared, rank, size, incarnation }
    }

    /// Publishes or replaces; false when the rank has published too much.
    pub(super) fn publish(&self, key: &str, address: Address) -> bool {
        let published = &mut self.shared.lock().published;
        let place = (self.rank, key.to_owned());
        let keys = published.range((self.rank, String::new())..(self.rank + 1, String::new())).count();
        if keys >= KEYS_PER_RANK_MAX && !published.contains_key(&place) {
            return false;
        }
        published.insert(place, (address, self.incarnation));
        self.shared.changed.notify_all();
        true
    }

    /// Registers an endpoint under a name, or its new address; false when the rank has registered too much.
    pub(super) fn register(&self, name: &str, key: &str, address: Address) -> bool {
        let mut state = self.shared.lock();
        let of_rank = state.registered.keys().filter(|(rank, ..)| *rank == self.rank).count();
        let Some((transport, endpoint)) = key.split_once('#') else { return false };
        if of_rank >= KEYS_PER_RANK_MAX {
            return false;
        }
        state.withdraw(self.rank, name, key);
        state.numbers_used += 1;
        let number = state.numbers_used;
        let server = Server {
            incarnation: self.incarnation,
            rank: self.rank,
            machine: machine_number(),
            host: host_name(),
            transport: transport.to_owned(),
            endpoint: endpoint.parse().unwrap_or(0),
            address,
        };
        state.registered.insert((self.rank, name.to_owned(), key.to_owned()), number);
        state.listing(name).listed(number, server);
        true
    }

    pub(super) fn withdraw(&self, name: &str, key: &str) {
        self.shared.lock().withdraw(self.rank, name, key);
    }

    pub(super) fn watch(&self, name: &str) -> Arc<Listing> {
        self.shared.lock().listing(name)
    }

    pub(super) fn compare_and_set(&self, key: &str, expected: u64, value: &[u8]) -> (bool, u64, Vec<u8>) {
        let mut state = self.shared.lock();
        let (revision, present) = state.values.get(key).cloned().unwrap_or_default();
        if revision != expected {
            return (false, revision, present);
        }
        state.numbers_used += 1;
        let revision = state.numbers_used;
        state.values.insert(key.to_owned(), (revision, value.to_vec()));
        (true, revision, value.to_vec())
    }

    /// The address and the incarnation behind it, when they are published before `deadline`.
    pub(super) fn resolve(&self, rank: u32, key: &str, deadline: Instant) -> Option<(Address, u64)> {
        let place = (rank, key.to_owned());
        let state = self.shared.wait_while(deadline, |state| !state.published.contains_key(&place));
        state.published.get(&place).cloned()
    }

    /// Returns when all ranks have called it.
    pub(super) fn barrier(&self, name: &str, deadline: Instant) -> Result<(), WaitError> {
        let mut state = self.shared.lock();
        let barrier = state.barriers.entry(name.to_owned()).or_default();
        if barrier.waiting.contains(&self.rank) {
            return Err(WaitError::Occupied);
        }
        barrier.waiting.push(self.rank);
        if barrier.waiting.len() == self.size as usize {
            barrier.waiting.clear();
            barrier.meetings += 1;
            self.shared.changed.notify_all();
            return Ok(());
        }
        let meeting = barrier.meetings;
        drop(state);
        let mut state = self.shared.wait_while(deadline, |state| state.barriers[name].meetings == meeting);
        let barrier = state.barriers.get_mut(name).expect("barriers stay");
        if barrier.meetings == meeting {
            let missing: Vec<u32> = (0..self.size).filter(|rank| !barrier.waiting.contains(rank)).collect();
            barrier.waiting.retain(|&rank| rank != self.rank);
            let count = missing.len() as u32;
            let first = missing.into_iter().take(MISSING_NAMED_MAX).collect();
            return Err(WaitError::Missing(MissingRanks { count, first }));
        }
        Ok(())
    }
}

/// The end of a life: nobody finds it any more.
impl Drop for InProcess {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.lives.get(&self.rank) == Some(&self.incarnation) {
            state.forget_life(self.rank);
        }
    }
}

impl State {
    fn listing(&mut self, name: &str) -> Arc<Listing> {
        let listing = self.listings.entry(name.to_owned()).or_insert_with(|| Listing::fixed(Vec::new()));
        Arc::clone(listing)
    }

    fn withdraw(&mut self, rank: u32, name: &str, key: &str) {
        if let Some(number) = self.registered.remove(&(rank, name.to_owned(), key.to_owned())) {
            self.listing(name).gone(number);
        }
    }

    fn forget_life(&mut self, rank: u32) {
        self.published.retain(|(owner, _), _| *owner != rank);
        let of_rank = (rank, String::new(), String::new())..(rank + 1, String::new(), String::new());
        let places: Vec<_> = self.registered.range(of_rank).map(|(place, _)| place.clone()).collect();
        for (rank, name, key) in places {
            self.withdraw(rank, &name, &key);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, deadline: Instant, condition: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.lock(), left, |state| condition(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
