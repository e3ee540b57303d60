//! The directory of ranks that live in one process: a map, and no connection to anybody.
//!
//! Ranks are threads, or the hosts of a simulated fabric. A cluster of one is the smallest of its kind.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use farcall_base::Address;

use super::super::limits::KEYS_PER_RANK_MAX;
use super::state::WaitError;

/// What the ranks of one process share.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The addresses of a rank's present life, by key.
    published: BTreeMap<(u32, String), (Address, u64)>,
    barriers: BTreeMap<String, Barrier>,
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
        shared.lock().published.retain(|(owner, _), _| *owner != rank);
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
            barrier.waiting.retain(|&rank| rank != self.rank);
            return Err(WaitError::TimedOut { connected: true });
        }
        Ok(())
    }
}

/// The end of a life: nobody finds it any more.
impl Drop for InProcess {
    fn drop(&mut self) {
        let life = (self.rank, self.incarnation);
        self.shared.lock().published.retain(|(rank, _), (_, incarnation)| (*rank, *incarnation) != life);
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
