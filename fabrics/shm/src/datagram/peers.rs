//! Who the driver knows: sockets' names under small numbers, and the way to each.
//!
//! Peers that the caller resolved stay for the life of the driver. Peers known only because they connected to us are
//! forgotten with their last connection, so that strangers cannot fill the memory. A number carries a generation: one
//! whose peer has been forgotten is noticed and never reaches another.

use std::collections::HashMap;
use std::time::Instant;

use farcall_driver::{Destination, LaneId};

/// Bits of a destination that are the peer's index; the rest is the generation.
const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// How packets get to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Nobody has tried.
    Idle,
    /// By a connection that we asked for.
    Calling(LaneId),
    /// By the connection of this index.
    Up(usize),
    /// Not before this time: the last connection failed.
    Failed {
        /// When to try again.
        retry_at: Instant,
    },
    /// Never again: the socket does not exist, and names are not used twice.
    Gone,
}

/// One of them.
#[derive(Debug)]
pub struct Peer {
    /// The name of its socket.
    pub name: Vec<u8>,
    /// The way to it.
    pub route: Route,
    generation: u32,
    resolved: bool,
}

/// The known peers.
#[derive(Debug, Default)]
pub struct Peers {
    peers: Vec<Peer>,
    by_name: HashMap<Vec<u8>, u32>,
    /// Indices of forgotten peers.
    vacant: Vec<u32>,
}

impl Peers {
    /// The number of a peer that is to stay.
    ///
    /// # Panics
    /// When a million peers are known.
    pub fn resolve(&mut self, name: &[u8]) -> Destination {
        let destination = self.learn(name);
        self.peers[index_of(destination)].resolved = true;
        destination
    }

    /// The number of a peer that connected to us.
    ///
    /// # Panics
    /// When a million peers are known.
    pub fn learn(&mut self, name: &[u8]) -> Destination {
        if let Some(&index) = self.by_name.get(name) {
            return self.destination(index);
        }
        let index = self.vacant.pop().unwrap_or_else(|| {
            assert!(self.peers.len() <= INDEX_MASK as usize, "a driver can know a million peers");
            let (name, route) = (Vec::new(), Route::Idle);
            self.peers.push(Peer { name, route, generation: 0, resolved: false });
            self.peers.len() as u32 - 1
        });
        self.peers[index as usize].name = name.to_vec();
        self.by_name.insert(name.to_vec(), index);
        self.destination(index)
    }

    /// The peer of this number; `None` when it has been forgotten.
    #[inline]
    pub fn get(&mut self, to: Destination) -> Option<&mut Peer> {
        let peer = self.peers.get_mut(index_of(to))?;
        (peer.generation == to.0 >> INDEX_BITS).then_some(peer)
    }

    /// Forgets a peer that nobody resolved.
    pub fn forget_stranger(&mut self, stranger: Destination) {
        let Some(peer) = self.get(stranger) else { return };
        if peer.resolved {
            return;
        }
        peer.generation = (peer.generation + 1) & (u32::MAX >> INDEX_BITS);
        peer.route = Route::Idle;
        let name = core::mem::take(&mut peer.name);
        self.by_name.remove(&name);
        self.vacant.push(index_of(stranger) as u32);
    }

    fn destination(&self, index: u32) -> Destination {
        Destination(self.peers[index as usize].generation << INDEX_BITS | index)
    }
}

#[inline]
fn index_of(destination: Destination) -> usize {
    (destination.0 & INDEX_MASK) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_however_it_became_known() {
        let mut peers = Peers::default();
        let (a, b) = (peers.resolve(b"a"), peers.learn(b"b"));
        assert_ne!(a, b);
        assert_eq!((peers.learn(b"a"), peers.resolve(b"b")), (a, b));
    }

    #[test]
    fn a_forgotten_strangers_number_reaches_nobody() {
        let mut peers = Peers::default();
        let stranger = peers.learn(b"stranger");
        peers.forget_stranger(stranger);
        let next = peers.learn(b"next");
        assert!(peers.get(stranger).is_none());
        assert_eq!(peers.get(next).map(|peer| peer.name.as_slice()), Some(&b"next"[..]));
        assert_eq!(peers.peers.len(), 1, "the place is used again");
    }

    #[test]
    fn a_resolved_peer_stays_even_if_it_was_a_stranger_first() {
        let mut peers = Peers::default();
        let stranger = peers.learn(b"a");
        let resolved = peers.resolve(b"a");
        peers.forget_stranger(stranger);
        assert!(peers.get(resolved).is_some());
    }
}
