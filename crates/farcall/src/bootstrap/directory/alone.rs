//! The directory of a cluster of one process: a map, and no connection to anybody.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use farcall_driver::Address;

use super::super::limits::KEYS_PER_RANK_MAX;

/// What the one process has published.
#[derive(Default)]
pub(super) struct Alone {
    published: Mutex<BTreeMap<String, Address>>,
    changed: Condvar,
}

impl Alone {
    /// Publishes or replaces; false when the process has published too much.
    pub(super) fn publish(&self, key: &str, address: Address) -> bool {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        if published.len() >= KEYS_PER_RANK_MAX && !published.contains_key(key) {
            return false;
        }
        published.insert(key.to_owned(), address);
        self.changed.notify_all();
        true
    }

    /// The address, when another thread publishes it before `deadline`.
    pub(super) fn resolve(&self, key: &str, deadline: Instant) -> Option<Address> {
        let published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        let left = deadline.saturating_duration_since(Instant::now());
        let absent = |published: &mut BTreeMap<String, Address>| !published.contains_key(key);
        let (published, _) =
            self.changed.wait_timeout_while(published, left, absent).unwrap_or_else(PoisonError::into_inner);
        published.get(key).cloned()
    }
}
