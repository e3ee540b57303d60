//! Who a datagram driver knows: addresses of its fabric under small numbers, each with what the driver needs to send there.
//!
//! Peers that the caller resolved stay for the life of the driver. Peers known only from their packets are at most
//! [`LEARNED_PEERS_MAX`], so that forged sources cannot fill the memory; when there are that many, one that has been
//! silent makes room (second chance). A number carries a generation: one whose peer has been replaced is noticed and
//! never reaches the newcomer.

use core::hash::Hash;
use std::collections::HashMap;

use crate::Destination;

/// The most peers that are remembered only because they sent something.
pub const LEARNED_PEERS_MAX: usize = 1 << 16;

/// Bits of a destination that are the peer's index; the rest is the generation.
const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// The known peers: `A` is an address of the fabric, `W` the way there.
pub struct Peers<A, W> {
    peers: Vec<Peer<A, W>>,
    by_address: HashMap<A, u32>,
    /// Indices of the learned peers; resolving one takes it out.
    learned: Vec<u32>,
    learned_max: usize,
    /// Where the search for a silent peer goes on, in `learned`.
    hand: usize,
    /// The source of the last packet: most often also that of the next one.
    last: Option<(A, Destination)>,
}

struct Peer<A, W> {
    way: W,
    address: A,
    generation: u32,
    /// Learned peers only: heard again since it became known or the hand last passed by. One packet is not enough, so
    /// that a flood of forged sources replaces itself and not the peers that talk.
    heard: bool,
}

impl<A: Copy + Eq + Hash, W> Peers<A, W> {
    /// Nobody yet, and at most `learned_max` who just turn up.
    pub fn new(learned_max: usize) -> Self {
        let (peers, by_address, learned) = (Vec::new(), HashMap::new(), Vec::new());
        Self { peers, by_address, learned, learned_max, hand: 0, last: None }
    }

    /// The number of a peer that is to stay.
    ///
    /// # Panics
    /// When a million peers are known.
    pub fn resolve(&mut self, address: A, way: impl FnOnce() -> W) -> Destination {
        let Some(&index) = self.by_address.get(&address) else { return self.add(address, way()) };
        self.learned.retain(|learned| *learned != index);
        self.destination(index)
    }

    /// The number of the peer that a packet came from, and the way to another one that had to make room for it.
    #[inline]
    pub fn source(&mut self, address: A, way: impl FnOnce() -> W) -> (Destination, Option<W>) {
        match self.last {
            Some((last, destination)) if last == address => {
                self.peers[(destination.0 & INDEX_MASK) as usize].heard = true;
                (destination, None)
            }
            _ => self.source_not_last(address, way),
        }
    }

    /// The way to a peer; `None` when it has been replaced.
    #[inline]
    pub fn way(&self, to: Destination) -> Option<&W> {
        let peer = self.peers.get((to.0 & INDEX_MASK) as usize)?;
        (peer.generation == to.0 >> INDEX_BITS).then_some(&peer.way)
    }

    fn source_not_last(&mut self, address: A, way: impl FnOnce() -> W) -> (Destination, Option<W>) {
        let (destination, replaced) = match self.by_address.get(&address) {
            Some(&index) => {
                self.peers[index as usize].heard = true;
                (self.destination(index), None)
            }
            None if self.learned.len() < self.learned_max => {
                let destination = self.add(address, way());
                self.learned.push(destination.0 & INDEX_MASK);
                (destination, None)
            }
            None => {
                let (destination, replaced) = self.replace_silent(address, way());
                (destination, Some(replaced))
            }
        };
        self.last = Some((address, destination));
        (destination, replaced)
    }

    fn add(&mut self, address: A, way: W) -> Destination {
        let index = u32::try_from(self.peers.len()).ok().filter(|index| *index <= INDEX_MASK);
        let index = index.expect("a driver can know a million peers");
        self.peers.push(Peer { way, address, generation: 0, heard: false });
        self.by_address.insert(address, index);
        Destination(index)
    }

    /// Gives the place of the next learned peer that was not heard since the last round to `address`.
    fn replace_silent(&mut self, address: A, way: W) -> (Destination, W) {
        loop {
            self.hand = (self.hand + 1) % self.learned.len();
            let index = self.learned[self.hand];
            let peer = &mut self.peers[index as usize];
            if core::mem::take(&mut peer.heard) {
                continue;
            }
            self.by_address.remove(&peer.address);
            let generation = (peer.generation + 1) & (u32::MAX >> INDEX_BITS);
            let replaced = core::mem::replace(peer, Peer { way, address, generation, heard: false });
            self.by_address.insert(address, index);
            return (self.destination(index), replaced.way);
        }
    }

    fn destination(&self, index: u32) -> Destination {
        Destination(self.peers[index as usize].generation << INDEX_BITS | index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Peers whose way is their address.
    struct Hosts(Peers<u16, u16>);

    impl Hosts {
        fn new(learned_max: usize) -> Self {
            Self(Peers::new(learned_max))
        }

        fn resolve(&mut self, host: u16) -> Destination {
            self.0.resolve(host, || host)
        }

        fn source(&mut self, host: u16) -> (Destination, Option<u16>) {
            self.0.source(host, || host)
        }
    }

    #[test]
    fn an_address_has_one_number_however_it_became_known() {
        let mut peers = Hosts::new(4);
        let resolved = peers.resolve(1);
        let (learned, _) = peers.source(2);
        assert_ne!(resolved, learned);
        assert_eq!((peers.source(1), peers.resolve(2)), ((resolved, None), learned));
    }

    #[test]
    fn a_silent_peer_makes_room_and_its_number_reaches_nobody() {
        let mut peers = Hosts::new(2);
        let pinned = peers.resolve(9);
        let (first, _) = peers.source(1);
        let (second, _) = peers.source(2);
        let (_, replaced) = peers.source(3);
        assert!(matches!(replaced, Some(1 | 2)));
        let gone = [first, second].map(|destination| peers.0.way(destination).is_none());
        assert_eq!(gone.iter().filter(|gone| **gone).count(), 1, "exactly one peer made room");
        assert_eq!(peers.0.way(pinned), Some(&9));
    }

    #[test]
    fn a_peer_that_goes_on_talking_stays() {
        let mut peers = Hosts::new(8);
        let (talker, _) = peers.source(1);
        peers.source(1);
        for host in 2..1000 {
            peers.source(host);
            assert_eq!(peers.source(1), (talker, None), "after stranger {host}");
        }
        assert_eq!(peers.0.by_address.len(), 8);
    }

    #[test]
    fn a_resolved_peer_is_never_replaced_even_if_it_was_learned_first() {
        let mut peers = Hosts::new(2);
        let (learned, _) = peers.source(1);
        let resolved = peers.resolve(1);
        for host in 2..100 {
            peers.source(host);
        }
        assert_eq!((resolved, peers.resolve(1)), (learned, learned));
    }
}
