//! Where messages go, by the numbers that the layer above knows destinations by.

use std::collections::{HashMap, VecDeque};

use farcall_driver::{Address, AddressError, Destination};
use farcall_libfabric::{Endpoint, Kind, Place};

/// The kind of this transport's addresses; their number is that of the endpoint in tags.
pub const KIND: Kind = *b"fOFI";

/// One peer.
struct Peer {
    /// libfabric's number for its address.
    at: u64,
    address: Address,
    /// The number of its endpoint in tags.
    number: u32,
    /// Sends that the provider has not taken yet, oldest first.
    waiting: VecDeque<u32>,
    /// How many sends the provider has.
    posted: usize,
    is_lost: bool,
    is_forgotten: bool,
}

impl Peer {
    fn is_reachable(&self) -> bool {
        !self.is_lost && !self.is_forgotten
    }
}

/// All peers. Numbers are never used again.
pub struct Peers {
    peers: Vec<Option<Peer>>,
    by_address: HashMap<Address, u32>,
    /// The numbers of endpoints that are known, to tell them apart.
    by_number: HashMap<u32, u32>,
    /// The most sends that the provider is given at a time.
    tx_depth: usize,
    /// How many it has. Those to peers that are lost or forgotten do not count: many providers never end them.
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
            is_lost: false,
            is_forgotten: false,
        }));
        Ok(Destination(destination))
    }

    /// How many sends count among those that the provider is given.
    #[cfg(test)]
    pub fn posted(&self) -> usize {
        self.posted
    }

    /// Where to send to at once; `None` when the peer was forgotten or is lost, or when others wait for it.
    #[inline]
    pub fn free_way(&self, to: Destination) -> Option<u64> {
        let peer = self.reachable(to)?;
        peer.waiting.is_empty().then_some(peer.at)
    }

    /// Whether the peer was neither forgotten nor is it lost.
    #[inline]
    pub fn is_reachable(&self, to: Destination) -> bool {
        self.reachable(to).is_some()
    }

    #[inline]
    fn reachable(&self, to: Destination) -> Option<&Peer> {
        let peer = self.peers.get(to.0 as usize)?.as_ref()?;
        peer.is_reachable().then_some(peer)
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
        self.reachable(to).is_some_and(|peer| !peer.waiting.is_empty())
    }

    /// The next send for the provider, and where to; `None` when none waits, or it has enough of those to this peer.
    ///
    /// It is given as many for a peer as are left for all others, so that those who stand still leave something to the rest:
    /// the *dynamic thresholds* of switches that share memory among ports (Choudhury and Hahne, 1998). One it always gets.
    #[inline]
    pub fn next_send(&self, to: Destination) -> Option<(u32, u64)> {
        let peer = self.reachable(to)?;
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
        self.posted += 1;
    }

    /// The destination whose long payloads have this number in their tags.
    pub fn with_number(&self, number: u32) -> Option<Destination> {
        self.by_number.get(&number).copied().map(Destination)
    }

    /// Takes note that nothing reaches the peer any more; gives what waited for it. `None` when that was known. A new
    /// session to its address gets a new destination.
    pub fn lose(&mut self, lost: Destination) -> Option<VecDeque<u32>> {
        if !self.is_reachable(lost) {
            return None;
        }
        let waiting = self.part(lost);
        self.peers.get_mut(lost.0 as usize)?.as_mut()?.is_lost = true;
        Some(waiting)
    }

    /// Lets go of a peer, once nothing is under way to it; gives its number in tags and what waited for it.
    pub fn forget(&mut self, endpoint: &mut Endpoint, to: Destination) -> Option<(u32, VecDeque<u32>)> {
        let waiting = self.part(to);
        let peer = self.peers.get_mut(to.0 as usize)?.as_mut()?;
        peer.is_forgotten = true;
        let number = peer.number;
        self.remove_if_idle(endpoint, to);
        Some((number, waiting))
    }

    /// A send to the peer is over.
    #[inline]
    pub fn end_send(&mut self, endpoint: &mut Endpoint, to: Destination) {
        let Some(Some(peer)) = self.peers.get_mut(to.0 as usize) else { return };
        peer.posted -= 1;
        if peer.is_reachable() {
            self.posted -= 1;
        } else if peer.is_forgotten {
            self.remove_if_idle(endpoint, to);
        }
    }

    /// Takes a peer out of the maps and of the count, before it is noted as lost or forgotten; gives what waited for it.
    fn part(&mut self, from: Destination) -> VecDeque<u32> {
        let Some(Some(peer)) = self.peers.get_mut(from.0 as usize) else { return VecDeque::new() };
        if peer.is_reachable() {
            self.posted -= peer.posted;
        }
        if self.by_address.get(&peer.address) == Some(&from.0) {
            self.by_address.remove(&peer.address);
            self.by_number.remove(&peer.number);
        }
        core::mem::take(&mut peer.waiting)
    }

    /// libfabric must not forget an address that something is under way to.
    fn remove_if_idle(&mut self, endpoint: &mut Endpoint, to: Destination) {
        let place = &mut self.peers[to.0 as usize];
        if let Some(peer) = place.take_if(|peer| peer.posted == 0) {
            endpoint.remove(peer.at);
        }
    }
}
