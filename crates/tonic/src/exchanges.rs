//! The exchanges that a server has with its callers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use farcall::{Deferred, Peer};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::status::{TOO_MANY, UNKNOWN_EXCHANGE};

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

#[derive(Default)]
struct All {
    by_peer: HashMap<Peer, OfPeer>,
    /// The server has ended: none begins any more.
    is_closed: bool,
    /// No ask reaches them any more.
    is_leaving: bool,
}

/// All exchanges of a server. The task of each has a clone: [`Exchanges::close`] ends the circle.
#[derive(Clone, Default)]
pub struct Exchanges(Arc<Mutex<All>>);

impl Exchanges {
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one of that number may begin; if not, the code with which it is refused. Until the same thread
    /// has added it, only closing changes that.
    pub fn check(&self, peer: Peer, number: u64) -> Result<(), u8> {
        let all = self.all();
        let of_peer = all.by_peer.get(&peer);
        if of_peer.is_some_and(|of| of.len() >= EXCHANGES_MAX || of.contains_key(&number)) {
            return Err(TOO_MANY);
        }
        if all.is_closed { Err(UNKNOWN_EXCHANGE) } else { Ok(()) }
    }

    /// Adds one that was checked. After the end of the server it is over at once.
    pub fn add(&self, peer: Peer, number: u64, exchange: Exchange) {
        let mut all = self.all();
        if !all.is_closed {
            all.by_peer.entry(peer).or_default().insert(number, exchange);
        }
    }

    /// Says which task works for an exchange; ends it if the exchange is over.
    pub fn set_task(&self, peer: Peer, number: u64, task: AbortHandle) {
        match self.all().by_peer.get_mut(&peer).and_then(|of_peer| of_peer.get_mut(&number)) {
            Some(exchange) => exchange.task = Some(task),
            None => task.abort(),
        }
    }

    /// What `look` finds in an exchange.
    pub fn with<T>(&self, peer: Peer, number: u64, look: impl FnOnce(&Exchange) -> Option<T>) -> Option<T> {
        look(self.all().by_peer.get(&peer)?.get(&number)?)
    }

    /// Ends an exchange.
    pub fn remove(&self, peer: Peer, number: u64) {
        let mut all = self.all();
        let Some(of_peer) = all.by_peer.get_mut(&peer) else { return };
        let removed = of_peer.remove(&number);
        if of_peer.is_empty() {
            all.by_peer.remove(&peer);
        }
        // Its end may drop what takes long.
        drop(all);
        drop(removed);
    }

    /// Ends those of a caller that is dead.
    pub fn remove_all_of(&self, peer: Peer) {
        let removed = self.all().by_peer.remove(&peer);
        drop(removed);
    }

    /// No ask reaches them any more: an exchange is over when it has answered those that did, and what its
    /// request lacks does not come.
    pub fn leave(&self) {
        let mut all = self.all();
        all.is_leaving = true;
        let ways = |exchange: &mut Exchange| {
            (exchange.pushes.take(), core::mem::replace(&mut exchange.pulls, mpsc::channel(1).0))
        };
        let closed: Vec<_> = all.by_peer.values_mut().flat_map(HashMap::values_mut).map(ways).collect();
        drop(all);
        drop(closed);
    }

    /// Whether no ask reaches them any more.
    pub fn is_leaving(&self) -> bool {
        self.all().is_leaving
    }

    /// Ends all, and lets none begin.
    pub fn close(&self) {
        let mut all = self.all();
        all.is_closed = true;
        let removed = core::mem::take(&mut all.by_peer);
        drop(all);
        drop(removed);
    }

    /// The callers that have some.
    pub fn peers(&self) -> Vec<Peer> {
        self.all().by_peer.keys().copied().collect()
    }
}
