//! Where messages go, by the numbers that the layer above knows destinations by.

use std::collections::{HashMap, VecDeque};

use farcall_driver::{Address, AddressError, Destination};
use farcall_libfabric::{Endpoint, Kind, Place};

/// The kind of this transport's addresses; their number is that of the endpoint in tags.
pub const KIND: Kind = *b"fOFI";

/// One peer.
pub struct Peer {
    /// libfabric's number for its address.
    pub at: u64,
    address: Address,
    /// The number of its endpoint in tags.
    number: u32,
    /// Sends that the provider has not taken yet, oldest first.
    pub waiting: VecDeque<u32>,
    /// Sends that the provider has, and those that wait.
    pub under_way: u32,
    is_lost: bool,
    is_forgotten: bool,
}

/// All peers. Numbers are never used again.
#[derive(Default)]
pub struct Peers {
    peers: Vec<Option<Peer>>,
    by_address: HashMap<Address, u32>,
    /// The numbers of endpoints that are known, to tell them apart.
    by_number: HashMap<u32, u32>,
}

impl Peers {
    /// The peer at an address: known already, or now.
    pub fn resolve(
        &mut self,
        endpoint: &mut Endpoint,
        provider: &str,
        to: &Address,
    ) -> Result<Destination, AddressError> {
        if let Some(&known) = self.by_address.get(to) {
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
            under_way: 0,
            is_lost: false,
            is_forgotten: false,
        }));
        Ok(Destination(destination))
    }

    /// The peer to send to; `None` when it was forgotten or is lost.
    #[inline]
    pub fn reachable(&mut self, to: Destination) -> Option<&mut Peer> {
        let peer = self.peers.get_mut(to.0 as usize)?.as_mut()?;
        (!peer.is_lost && !peer.is_forgotten).then_some(peer)
    }

    /// The destination whose long payloads have this number in their tags.
    pub fn with_number(&self, number: u32) -> Option<Destination> {
        self.by_number.get(&number).copied().map(Destination)
    }

    /// Takes note that nothing reaches the peer any more; gives what waited for it. `None` when that was known. A new
    /// session to its address gets a new destination.
    pub fn lose(&mut self, lost: Destination) -> Option<VecDeque<u32>> {
        let peer = self.peers.get_mut(lost.0 as usize)?.as_mut()?;
        if core::mem::replace(&mut peer.is_lost, true) || peer.is_forgotten {
            return None;
        }
        Some(self.part(lost))
    }

    /// Lets go of a peer, once nothing is under way to it; gives its number in tags and what waited for it.
    pub fn forget(&mut self, endpoint: &mut Endpoint, to: Destination) -> Option<(u32, VecDeque<u32>)> {
        let peer = self.peers.get_mut(to.0 as usize)?.as_mut()?;
        peer.is_forgotten = true;
        let number = peer.number;
        let waiting = self.part(to);
        self.remove_if_idle(endpoint, to);
        Some((number, waiting))
    }

    /// A send to the peer is over.
    #[inline]
    pub fn end_send(&mut self, endpoint: &mut Endpoint, to: Destination) {
        let Some(Some(peer)) = self.peers.get_mut(to.0 as usize) else { return };
        peer.under_way -= 1;
        if peer.is_forgotten {
            self.remove_if_idle(endpoint, to);
        }
    }

    /// Takes a peer out of the maps; gives what waited for it.
    fn part(&mut self, from: Destination) -> VecDeque<u32> {
        let Some(Some(peer)) = self.peers.get_mut(from.0 as usize) else { return VecDeque::new() };
        if self.by_address.get(&peer.address) == Some(&from.0) {
            self.by_address.remove(&peer.address);
            self.by_number.remove(&peer.number);
        }
        peer.under_way -= peer.waiting.len() as u32;
        core::mem::take(&mut peer.waiting)
    }

    /// libfabric must not forget an address that something is under way to.
    fn remove_if_idle(&mut self, endpoint: &mut Endpoint, to: Destination) {
        let place = &mut self.peers[to.0 as usize];
        if let Some(peer) = place.take_if(|peer| peer.under_way == 0) {
            endpoint.remove(peer.at);
        }
    }
}
