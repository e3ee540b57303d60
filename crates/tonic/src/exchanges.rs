//! The exchanges that a server has with its callers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use farcall::{Deferred, Peer};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// The most exchanges of one caller.
pub const EXCHANGES_MAX: usize = 4096;

/// More of a request, and the duty to say that it was taken.
pub struct Pushed {
    pub data: Bytes,
    pub is_last: bool,
    pub taken: Deferred,
}

/// An exchange, as requests for it reach it.
pub struct Exchange {
    /// `None` when the request was whole.
    pub pushes: Option<mpsc::Sender<Pushed>>,
    pub pulls: mpsc::Sender<Deferred>,
    /// `None` until its task is there.
    pub task: Option<AbortHandle>,
}

/// Dropped, it ends its task, and with that what the service does for it.
impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

type OfPeer = HashMap<u64, Exchange>;

/// All exchanges of a server.
#[derive(Clone, Default)]
pub struct Exchanges(Arc<Mutex<HashMap<Peer, OfPeer>>>);

impl Exchanges {
    fn all(&self) -> MutexGuard<'_, HashMap<Peer, OfPeer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one; false if the caller has too many, or one of that number.
    pub fn add(&self, peer: Peer, number: u64, exchange: Exchange) -> bool {
        let mut all = self.all();
        let of_peer = all.entry(peer).or_default();
        if of_peer.len() >= EXCHANGES_MAX || of_peer.contains_key(&number) {
            return false;
        }
        of_peer.insert(number, exchange);
        true
    }

    /// Says which task works for an exchange; ends it if the exchange is over.
    pub fn set_task(&self, peer: Peer, number: u64, task: AbortHandle) {
        match self.all().get_mut(&peer).and_then(|of_peer| of_peer.get_mut(&number)) {
            Some(exchange) => exchange.task = Some(task),
            None => task.abort(),
        }
    }

    /// What `look` finds in an exchange.
    pub fn with<T>(&self, peer: Peer, number: u64, look: impl FnOnce(&Exchange) -> Option<T>) -> Option<T> {
        look(self.all().get(&peer)?.get(&number)?)
    }

    /// Ends an exchange.
    pub fn remove(&self, peer: Peer, number: u64) {
        let mut all = self.all();
        let Some(of_peer) = all.get_mut(&peer) else { return };
        let removed = of_peer.remove(&number);
        if of_peer.is_empty() {
            all.remove(&peer);
        }
        // Its end may drop what takes long.
        drop(all);
        drop(removed);
    }

    /// Ends those of a caller that is dead.
    pub fn remove_all_of(&self, peer: Peer) {
        let removed = self.all().remove(&peer);
        drop(removed);
    }

    /// The callers that have some.
    pub fn peers(&self) -> Vec<Peer> {
        self.all().keys().copied().collect()
    }
}
