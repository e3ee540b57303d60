//! Who a datagram driver knows: addresses of its fabric under small numbers, each with what the driver
//! needs to send there.
//!
//! A peer that the caller resolved stays until the last session that leads there is over, and so does one
//! that was only heard of ([`Peers::keep`]). Whoever else sends something is a stranger, and so is a peer of
//! former sessions. Of strangers the last [`STRANGERS_MAX`] are remembered, so that they can be answered;
//! forged sources therefore replace each other, and nobody who has proved to be there. A number carries a
//! generation: one whose peer has been replaced is noticed and never reaches the newcomer.

use core::hash::Hash;
use std::collections::{HashMap, VecDeque};

use farcall_base::AddressError;

use crate::Destination;

/// The most peers that are remembered only because they sent something.
pub const STRANGERS_MAX: usize = 1 << 16;

/// The most peers that are known when another one is resolved. So many more are free for strangers that the
/// index of no peer is ever too large.
const RESOLVED_MAX: usize = 1 << 19;

/// Bits of a destination that are the peer's index; the rest is the generation.
const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// The known peers: `A` is an address of the fabric, `W` the way there.
pub struct Peers<A, W> {
    peers: Vec<Peer<A, W>>,
    by_address: HashMap<A, u32>,
    /// Indices of the strangers, the first that came first. One that became more than that leaves when its
    /// turn comes.
    strangers: VecDeque<u32>,
    strangers_max: usize,
    resolved_max: usize,
    /// The source of the last packet: most often also that of the next one.
    last: Option<(A, Destination)>,
}

struct Peer<A, W> {
    way: W,
    address: A,
    generation: u32,
    /// For how many reasons it stays: sessions, and one when it was resolved.
    reasons: u32,
    is_resolved: bool,
    /// Whether it is among the strangers' indices.
    is_queued: bool,
}

impl<A: Copy + Eq + Hash, W> Peers<A, W> {
    /// Nobody yet, and at most `strangers_max` who just turn up.
    pub fn new(strangers_max: usize) -> Self {
        let (peers, by_address, strangers) = (Vec::new(), HashMap::new(), VecDeque::new());
        Self { peers, by_address, strangers, strangers_max, resolved_max: RESOLVED_MAX, last: None }
    }

    /// The number of a peer that is to stay until no session leads there any more, and the way to a stranger
    /// that had to make room for it.
    ///
    /// # Errors
    /// As many peers are known as may be.
    pub fn resolve(
        &mut self,
        address: A,
        way: impl FnOnce() -> W,
    ) -> Result<(Destination, Option<W>), AddressError> {
        let (index, replaced) = match self.by_address.get(&address) {
            Some(&index) => (index, None),
            None => match self.oldest_stranger() {
                Some(index) => (index, Some(self.replace(index, address, way()))),
                None if self.peers.len() >= self.resolved_max => {
                    return Err(AddressError::TooManyPeers { peers_max: self.resolved_max });
                }
                None => (self.add(address, way()), None),
            },
        };
        let peer = &mut self.peers[index as usize];
        if !core::mem::replace(&mut peer.is_resolved, true) {
            peer.reasons += 1;
        }
        Ok((self.destination(index), replaced))
    }

    /// The number of the peer that a packet came from, and the way to a stranger that had to make room for
    /// it.
    #[inline]
    pub fn source(&mut self, address: A, way: impl FnOnce() -> W) -> (Destination, Option<W>) {
        match self.last {
            Some((last, destination)) if last == address => (destination, None),
            _ => self.source_not_last(address, way),
        }
    }

    /// The number of the peer at an address, if it is known.
    pub fn find(&self, address: A) -> Option<Destination> {
        self.by_address.get(&address).map(|&index| self.destination(index))
    }

    /// A session leads to a peer, or does not any more when `keep` is false: the last one takes with it that
    /// the peer was resolved. Nothing happens to one that has been replaced.
    pub fn keep(&mut self, peer: Destination, keep: bool) {
        let index = peer.0 & INDEX_MASK;
        let Some(known) = self.peers.get_mut(index as usize) else { return };
        if known.generation != peer.0 >> INDEX_BITS {
            return;
        }
        if keep {
            known.reasons += 1;
            return;
        }
        known.reasons = known.reasons.saturating_sub(1);
        if known.is_resolved && known.reasons <= 1 {
            (known.reasons, known.is_resolved) = (0, false);
        }
        if known.reasons == 0 && !core::mem::replace(&mut known.is_queued, true) {
            self.strangers.push_back(index);
        }
    }

    /// The way to a peer; `None` when it has been replaced.
    #[inline]
    pub fn way(&self, to: Destination) -> Option<&W> {
        let peer = self.peers.get((to.0 & INDEX_MASK) as usize)?;
        (peer.generation == to.0 >> INDEX_BITS).then_some(&peer.way)
    }

    /// The address of a peer; `None` when it has been replaced.
    pub fn address(&self, of: Destination) -> Option<A> {
        let peer = self.peers.get((of.0 & INDEX_MASK) as usize)?;
        (peer.generation == of.0 >> INDEX_BITS).then_some(peer.address)
    }

    fn source_not_last(&mut self, address: A, way: impl FnOnce() -> W) -> (Destination, Option<W>) {
        let (index, replaced) = match self.by_address.get(&address) {
            Some(&index) => (index, None),
            None => match self.oldest_stranger() {
                Some(index) => (index, Some(self.replace(index, address, way()))),
                None => (self.add(address, way()), None),
            },
        };
        let peer = &mut self.peers[index as usize];
        if peer.reasons == 0 && !core::mem::replace(&mut peer.is_queued, true) {
            self.strangers.push_back(index);
        }
        let destination = self.destination(index);
        self.last = Some((address, destination));
        (destination, replaced)
    }

    /// Takes out the stranger that has been known longest, when there are as many as may be.
    fn oldest_stranger(&mut self) -> Option<u32> {
        while self.strangers.len() >= self.strangers_max {
            let index = self.strangers.pop_front()?;
            let peer = &mut self.peers[index as usize];
            peer.is_queued = false;
            if peer.reasons == 0 {
                return Some(index);
            }
        }
        None
    }

    fn add(&mut self, address: A, way: W) -> u32 {
        let index = u32::try_from(self.peers.len()).ok().filter(|index| *index <= INDEX_MASK);
        let index = index.expect("a driver can know a million peers");
        self.peers.push(Peer {
            way,
            address,
            generation: 0,
            reasons: 0,
            is_resolved: false,
            is_queued: false,
        });
        self.by_address.insert(address, index);
        index
    }

    /// Gives a stranger's place to `address`.
    fn replace(&mut self, index: u32, address: A, way: W) -> W {
        let peer = &mut self.peers[index as usize];
        let former = core::mem::replace(&mut peer.address, address);
        peer.generation = (peer.generation + 1) & (u32::MAX >> INDEX_BITS);
        let replaced = core::mem::replace(&mut peer.way, way);
        self.last = None;
        self.by_address.remove(&former);
        self.by_address.insert(address, index);
        replaced
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
        fn new(strangers_max: usize) -> Self {
            Self(Peers::new(strangers_max))
        }

        fn resolve(&mut self, host: u16) -> Destination {
            self.0.resolve(host, || host).expect("there is room").0
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
    fn the_oldest_stranger_makes_room_and_its_number_reaches_nobody() {
        let mut peers = Hosts::new(2);
        let pinned = peers.resolve(9);
        let (first, _) = peers.source(1);
        let (second, _) = peers.source(2);
        let (third, replaced) = peers.source(3);
        assert_eq!((replaced, peers.0.way(first)), (Some(1), None));
        assert_eq!([pinned, second, third].map(|to| peers.0.way(to).copied()), [Some(9), Some(2), Some(3)]);
    }

    #[test]
    fn a_peer_that_a_session_leads_to_stays_whatever_strangers_come() {
        let mut peers = Hosts::new(8);
        let (peer, _) = peers.source(1);
        peers.0.keep(peer, true);
        for host in 2..1000 {
            peers.source(host);
        }
        assert_eq!(peers.source(1), (peer, None));
        assert!(peers.0.peers.len() <= 9, "{} peers are known", peers.0.peers.len());
        peers.0.keep(peer, false);
        for host in 2..1000 {
            peers.source(host);
        }
        assert_eq!(peers.0.way(peer), None, "it is a stranger again");
        assert!(peers.0.peers.len() <= 9 && peers.0.by_address.len() <= 9);
    }

    #[test]
    fn a_peer_stays_until_the_last_of_its_sessions_is_over() {
        let mut peers = Hosts::new(1);
        let (peer, _) = peers.source(1);
        peers.0.keep(peer, true);
        peers.0.keep(peer, true);
        peers.0.keep(peer, false);
        for host in 2..9 {
            peers.source(host);
        }
        assert_eq!(peers.0.way(peer), Some(&1));
        peers.0.keep(peer, false);
        for host in 2..9 {
            peers.source(host);
        }
        assert_eq!(peers.0.way(peer), None);
        // What comes late for the former one does nothing to the newcomer.
        peers.0.keep(peer, true);
    }

    #[test]
    fn a_peer_that_was_resolved_is_forgotten_after_its_last_session() {
        let mut peers = Hosts::new(4);
        for host in 0..1000 {
            let peer = peers.resolve(host);
            peers.0.keep(peer, true);
            // Another look does not make it stay.
            assert_eq!(peers.resolve(host), peer);
            peers.0.keep(peer, false);
        }
        assert!(peers.0.peers.len() <= 6, "{} peers are known", peers.0.peers.len());
        assert!(peers.0.strangers.len() <= 5 && peers.0.by_address.len() <= 6);
    }

    #[test]
    fn a_stranger_that_made_room_for_a_resolved_peer_is_known_again() {
        let mut peers = Hosts::new(1);
        let (former, _) = peers.source(1);
        let resolved = peers.0.resolve(2, || 2).expect("there is room");
        assert_eq!((resolved.1, peers.0.way(former)), (Some(1), None));
        let (stranger, _) = peers.source(1);
        assert_eq!([stranger, resolved.0].map(|to| peers.0.way(to).copied()), [Some(1), Some(2)]);
    }

    #[test]
    fn more_peers_than_there_is_room_for_are_refused_and_strangers_are_still_answered() {
        let mut peers = Hosts::new(4);
        peers.0.resolved_max = 10;
        for host in 0..10 {
            peers.resolve(host);
        }
        let refused = peers.0.resolve(10, || 10);
        assert_eq!(refused, Err(AddressError::TooManyPeers { peers_max: 10 }));
        assert_eq!(peers.resolve(9), peers.resolve(9), "one that is known");
        let (stranger, _) = peers.source(77);
        assert_eq!(peers.0.way(stranger), Some(&77));
        let one = peers.resolve(3);
        peers.0.keep(one, true);
        peers.0.keep(one, false);
        for host in 100..200 {
            peers.source(host);
        }
        assert!(peers.0.peers.len() <= 16, "{} peers are known", peers.0.peers.len());
    }

    #[test]
    fn a_resolved_peer_is_never_replaced_even_if_it_was_a_stranger_first() {
        let mut peers = Hosts::new(2);
        let (stranger, _) = peers.source(1);
        let resolved = peers.resolve(1);
        for host in 2..100 {
            peers.source(host);
        }
        assert_eq!((resolved, peers.resolve(1)), (stranger, stranger));
    }
}
