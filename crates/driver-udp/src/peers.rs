//! Who the driver knows: socket addresses under small numbers.
//!
//! Peers that the caller resolved stay for the life of the driver. Peers known only from their packets are at most
//! [`LEARNED_PEERS_MAX`], so that forged sources cannot fill the memory; when there are that many, one that has been
//! silent makes room (second chance). A number carries a generation: one whose peer has been replaced is noticed and
//! never reaches the newcomer.

use std::collections::HashMap;
use std::net::SocketAddr;

use farcall_driver::Destination;

use crate::name::Name;

/// The most peers that are remembered only because they sent something.
pub const LEARNED_PEERS_MAX: usize = 1 << 16;

/// Bits of a destination that are the peer's index; the rest is the generation.
const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// The known peers.
pub struct Peers {
    peers: Vec<Peer>,
    by_address: HashMap<SocketAddr, u32>,
    /// Indices of the learned peers; resolving one takes it out.
    learned: Vec<u32>,
    learned_max: usize,
    /// Where the search for a silent peer goes on, in `learned`.
    hand: usize,
    /// The source of the last packet: most often also that of the next one.
    last: Option<(SocketAddr, Destination)>,
}

struct Peer {
    name: Name,
    address: SocketAddr,
    generation: u32,
    /// Learned peers only: heard again since it became known or the hand last passed by. One packet is not enough, so
    /// that a flood of forged sources replaces itself and not the peers that talk.
    heard: bool,
}

impl Peers {
    /// Nobody yet, and at most `learned_max` who just turn up.
    pub fn new(learned_max: usize) -> Self {
        let (peers, by_address, learned) = Default::default();
        Self { peers, by_address, learned, learned_max, hand: 0, last: None }
    }

    /// The number of a peer that is to stay.
    ///
    /// # Panics
    /// When a million peers are known.
    pub fn resolve(&mut self, address: SocketAddr) -> Destination {
        let Some(&index) = self.by_address.get(&address) else { return self.add(address) };
        self.learned.retain(|learned| *learned != index);
        self.destination(index)
    }

    /// The number of the peer that a packet came from, and whether another peer had to make room for it.
    #[inline]
    pub fn source(&mut self, address: SocketAddr) -> (Destination, bool) {
        match self.last {
            Some((last, destination)) if last == address => {
                self.peers[(destination.0 & INDEX_MASK) as usize].heard = true;
                (destination, false)
            }
            _ => self.source_not_last(address),
        }
    }

    /// The kernel's name of a peer; `None` when it has been replaced.
    #[inline]
    pub fn name(&self, to: Destination) -> Option<&Name> {
        let peer = self.peers.get((to.0 & INDEX_MASK) as usize)?;
        (peer.generation == to.0 >> INDEX_BITS).then_some(&peer.name)
    }

    fn source_not_last(&mut self, address: SocketAddr) -> (Destination, bool) {
        let (destination, replaced) = match self.by_address.get(&address) {
            Some(&index) => {
                self.peers[index as usize].heard = true;
                (self.destination(index), false)
            }
            None if self.learned.len() < self.learned_max => {
                let destination = self.add(address);
                self.learned.push(destination.0 & INDEX_MASK);
                (destination, false)
            }
            None => (self.replace_silent(address), true),
        };
        self.last = Some((address, destination));
        (destination, replaced)
    }

    fn add(&mut self, address: SocketAddr) -> Destination {
        let index = u32::try_from(self.peers.len()).ok().filter(|index| *index <= INDEX_MASK);
        let index = index.expect("a driver can know a million peers");
        self.peers.push(Peer { name: address.into(), address, generation: 0, heard: false });
        self.by_address.insert(address, index);
        Destination(index)
    }

    /// Gives the place of the next learned peer that was not heard since the last round to `address`.
    fn replace_silent(&mut self, address: SocketAddr) -> Destination {
        loop {
            self.hand = (self.hand + 1) % self.learned.len();
            let index = self.learned[self.hand];
            let peer = &mut self.peers[index as usize];
            if core::mem::take(&mut peer.heard) {
                continue;
            }
            self.by_address.remove(&peer.address);
            let generation = (peer.generation + 1) & (u32::MAX >> INDEX_BITS);
            *peer = Peer { name: address.into(), address, generation, heard: false };
            self.by_address.insert(address, index);
            return self.destination(index);
        }
    }

    fn destination(&self, index: u32) -> Destination {
        Destination(self.peers[index as usize].generation << INDEX_BITS | index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn an_address_has_one_number_however_it_became_known() {
        let mut peers = Peers::new(4);
        let resolved = peers.resolve(host(1));
        let (learned, _) = peers.source(host(2));
        assert_ne!(resolved, learned);
        assert_eq!((peers.source(host(1)), peers.resolve(host(2))), ((resolved, false), learned));
    }

    #[test]
    fn a_silent_peer_makes_room_and_its_number_reaches_nobody() {
        let mut peers = Peers::new(2);
        let pinned = peers.resolve(host(9));
        let (first, _) = peers.source(host(1));
        let (second, _) = peers.source(host(2));
        let (_, replaced) = peers.source(host(3));
        assert!(replaced);
        let gone = [first, second].map(|destination| peers.name(destination).is_none());
        assert_eq!(gone.iter().filter(|gone| **gone).count(), 1, "exactly one peer made room");
        assert_eq!(peers.name(pinned).and_then(|name| name.to_socket_address()), Some(host(9)));
    }

    #[test]
    fn a_peer_that_goes_on_talking_stays() {
        let mut peers = Peers::new(8);
        let (talker, _) = peers.source(host(1));
        peers.source(host(1));
        for port in 2..1000 {
            peers.source(host(port));
            assert_eq!(peers.source(host(1)), (talker, false), "after the stranger of port {port}");
        }
        assert_eq!(peers.by_address.len(), 8);
    }

    #[test]
    fn a_resolved_peer_is_never_replaced_even_if_it_was_learned_first() {
        let mut peers = Peers::new(2);
        let (learned, _) = peers.source(host(1));
        let resolved = peers.resolve(host(1));
        for port in 2..100 {
            peers.source(host(port));
        }
        assert_eq!((resolved, peers.resolve(host(1))), (learned, learned));
    }
}
