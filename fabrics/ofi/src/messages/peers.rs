//! Where messages go, by the numbers that the layer above knows destinations by.

use std::collections::{HashMap, VecDeque};

use crate::libfabric::{Endpoint, Kind, Place};
use farcall_base::{Address, AddressError};
use farcall_driver::Destination;

use crate::messages::peer::{Peer, Standing};

/// The kind of this transport's addresses; their number is that of the endpoint in tags.
pub const KIND: Kind = *b"fOFI";

/// All peers. Numbers are never used again.
pub struct Peers {
    peers: Vec<Option<Peer>>,
    by_address: HashMap<Address, u32>,
    /// The numbers of endpoints that are known, to tell them apart.
    by_number: HashMap<u32, u32>,
    /// The most sends that the provider is given at a time.
    tx_depth: usize,
    /// How many it has for peers in use. Others do not count, because many providers never end sends to the
    /// dead.
    posted: usize,
}

impl Peers {
    /// No peers yet, who will share `tx_depth` sends.
    pub fn new(tx_depth: usize) -> Self {
        Self { peers: Vec::new(), by_address: HashMap::new(), by_number: HashMap::new(), tx_depth, posted: 0 }
    }

    /// The peer at an address: known already, or now.
    pub fn resolve(
        &mut self,
        endpoint: &mut Endpoint,
        provider: &str,
        to: &Address,
    ) -> Result<Destination, AddressError> {
        if let Some(&known) = self.by_address.get(to) {
            self.revive(Destination(known));
            return Ok(Destination(known));
        }
        let place = Place::parse(to, KIND, provider)?;
        if self.by_number.contains_key(&place.number) {
            let why = "two endpoints have drawn the same number; start one of them again";
            return Err(AddressError::OutOfReach { why });
        }
        let at = endpoint.insert(place.name).ok_or(AddressError::WrongKind { driver: "ofi" })?;
        let destination = self.peers.len() as u32;
        self.by_address.insert(to.clone(), destination);
        self.by_number.insert(place.number, destination);
        self.peers.push(Some(Peer {
            at,
            address: to.clone(),
            number: place.number,
            waiting: VecDeque::new(),
            posted: 0,
            standing: Standing::InUse,
            is_silent: false,
        }));
        Ok(Destination(destination))
    }

    /// How many sends count among those that the provider is given.
    #[cfg(test)]
    pub fn posted(&self) -> usize {
        self.posted
    }

    /// A peer without a session, which may have been silent, gets one again.
    fn revive(&mut self, to: Destination) {
        let Some(Some(peer)) = self.peers.get_mut(to.0 as usize) else { return };
        peer.is_silent = false;
        if peer.standing == Standing::Resting {
            peer.standing = Standing::InUse;
            self.posted += peer.posted;
        }
    }

    #[inline]
    fn get(&self, to: Destination) -> Option<&Peer> {
        self.peers.get(to.0 as usize)?.as_ref()
    }

    /// Where to send to at once; `None` when the peer was forgotten or is lost, or when others wait for it.
    #[inline]
    pub fn free_way(&self, to: Destination) -> Option<u64> {
        let peer = self.get(to).filter(|peer| peer.standing == Standing::InUse)?;
        peer.waiting.is_empty().then_some(peer.at)
    }

    /// Whether the peer was neither forgotten nor is it lost.
    #[inline]
    pub fn is_reachable(&self, to: Destination) -> bool {
        self.get(to).is_some_and(|peer| peer.standing == Standing::InUse)
    }

    /// Whether sends wait for a peer that was forgotten.
    pub fn is_resting(&self, to: Destination) -> bool {
        self.get(to).is_some_and(|peer| peer.standing == Standing::Resting && !peer.waiting.is_empty())
    }

    /// Lets a send wait behind others to the same peer; returns how many wait now.
    #[inline]
    pub fn enqueue(&mut self, to: Destination, send: u32) -> usize {
        let Some(Some(peer)) = self.peers.get_mut(to.0 as usize) else { return 0 };
        peer.waiting.push_back(send);
        peer.waiting.len()
    }

    /// Whether sends wait for a peer.
    pub fn any_waiting(&self, to: Destination) -> bool {
        self.get(to).is_some_and(|peer| peer.may_go_on() && !peer.waiting.is_empty())
    }

    /// Whether the provider has sends to a peer.
    pub fn any_posted(&self, to: Destination) -> bool {
        self.get(to).is_some_and(|peer| peer.posted > 0)
    }

    /// The next send for the provider, and where to; `None` when none waits, or it has enough of those to
    /// this peer.
    ///
    /// It is given as many for a peer as are left for all others, so that those who stand still leave
    /// something to the rest: the *dynamic thresholds* of switches that share memory among ports (Choudhury
    /// and Hahne, 1998). One it always gets.
    #[inline]
    pub fn next_send(&self, to: Destination) -> Option<(u32, u64)> {
        let peer = self.get(to).filter(|peer| peer.may_go_on())?;
        let &send = peer.waiting.front()?;
        let left = self.tx_depth.saturating_sub(self.posted);
        (peer.posted == 0 || peer.posted < left).then_some((send, peer.at))
    }

    /// The provider has taken the send that `next_send` gave.
    #[inline]
    pub fn begin_send(&mut self, to: Destination) {
        let Some(Some(peer)) = self.peers.get_mut(to.0 as usize) else { return };
        peer.waiting.pop_front();
        peer.posted += 1;
        self.posted += usize::from(peer.standing == Standing::InUse);
    }

    /// The destination whose long payloads have this number in their tags.
    pub fn with_number(&self, number: u32) -> Option<Destination> {
        self.by_number.get(&number).copied().map(Destination)
    }

    /// The number of a peer's endpoint in tags.
    pub fn number(&self, to: Destination) -> Option<u32> {
        self.get(to).map(|peer| peer.number)
    }

    /// Takes note that a peer is silent.
    pub fn set_silent(&mut self, to: Destination) {
        if let Some(Some(peer)) = self.peers.get_mut(to.0 as usize) {
            peer.is_silent = true;
        }
    }

    /// Takes note that nothing reaches the peer any more; gives what waited for it, and whether it was in use
    /// until now. A new session to its address gets a new destination.
    pub fn lose(&mut self, endpoint: &mut Endpoint, lost: Destination) -> (VecDeque<u32>, bool) {
        match self.get(lost).map(|peer| peer.standing) {
            Some(Standing::InUse) => (self.part(lost, Standing::Lost), true),
            Some(Standing::Resting) => (self.give_up(endpoint, lost), false),
            Some(Standing::Lost | Standing::GivenUp) | None => (VecDeque::new(), false),
        }
    }

    /// Drops a peer once what was sent to it has left; false when nobody can wait for that, because it is
    /// lost or silent.
    pub fn rest(&mut self, endpoint: &mut Endpoint, to: Destination) -> bool {
        let Some(Some(peer)) = self.peers.get_mut(to.0 as usize) else { return true };
        if peer.standing != Standing::InUse || peer.is_silent {
            return peer.standing == Standing::Resting;
        }
        peer.standing = Standing::Resting;
        self.posted -= peer.posted;
        self.remove_if_over(endpoint, to);
        true
    }

    /// Drops a peer; gives what waited for it.
    pub fn give_up(&mut self, endpoint: &mut Endpoint, to: Destination) -> VecDeque<u32> {
        let waiting = self.part(to, Standing::GivenUp);
        self.remove_if_over(endpoint, to);
        waiting
    }

    /// A send to the peer is over.
    #[inline]
    pub fn end_send(&mut self, endpoint: &mut Endpoint, to: Destination) {
        let Some(Some(peer)) = self.peers.get_mut(to.0 as usize) else { return };
        peer.posted -= 1;
        if peer.standing == Standing::InUse {
            self.posted -= 1;
        } else {
            self.remove_if_over(endpoint, to);
        }
    }

    /// Gives a peer one of its last standings: takes it out of the maps and of the count. Gives what waited
    /// for it.
    fn part(&mut self, from: Destination, standing: Standing) -> VecDeque<u32> {
        let Some(Some(peer)) = self.peers.get_mut(from.0 as usize) else { return VecDeque::new() };
        if core::mem::replace(&mut peer.standing, standing) == Standing::InUse {
            self.posted -= peer.posted;
        }
        let waiting = core::mem::take(&mut peer.waiting);
        self.unmap(from);
        waiting
    }

    /// Takes a peer out of the maps, if it is still there.
    fn unmap(&mut self, to: Destination) {
        let Some(Some(peer)) = self.peers.get(to.0 as usize) else { return };
        if self.by_address.get(&peer.address) == Some(&to.0) {
            self.by_address.remove(&peer.address);
            self.by_number.remove(&peer.number);
        }
    }

    /// libfabric must not forget an address that something is in flight to.
    fn remove_if_over(&mut self, endpoint: &mut Endpoint, to: Destination) {
        if self.get(to).is_some_and(Peer::is_over) {
            self.unmap(to);
            if let Some(peer) = self.peers[to.0 as usize].take() {
                endpoint.remove(peer.at);
            }
        }
    }
}
