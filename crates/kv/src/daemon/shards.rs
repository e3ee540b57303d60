//! The way of a daemon to the other shards.
//!
//! Sessions are opened when a daemon starts, to those that are there, and again when one has ended: two
//! daemons that could not hear each other for a while both live on, and nobody else would bring them
//! together. A look at the directory blocks, so there is one at a time, short, and the longer a shard is gone
//! the rarer.

use core::time::Duration;

use crate::slots::SlotAddress;
use farcall::{Endpoint, Instant, Peer, Service};

/// A look at the directory takes no longer; mostly as long as a message there and back, since a shard that
/// was lost has been there.
const LOOK_WITHIN: Duration = Duration::from_millis(10);

/// The time between the first two looks for a shard; each further look doubles it.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The longest time between two looks.
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(5);

/// The shards, whose numbers are their ranks.
pub struct Shards {
    own: u32,
    /// The session to each other one, once they have met.
    peers: Vec<Option<Peer>>,
    /// Those that were not there, or whose session has ended, until there is another.
    lost: Vec<Lost>,
}

/// A shard that a daemon looks for.
struct Lost {
    rank: u32,
    look_at: Instant,
    /// When it was looked for last.
    looked_at: Instant,
    look_again_after: Duration,
}

impl Shards {
    /// `count` shards, of which `own` is the daemon's own; the others are looked for.
    pub fn new(own: u32, count: u32) -> Self {
        let mut shards = Self { own, peers: vec![None; count as usize], lost: Vec::new() };
        shards.others().for_each(|rank| shards.look_for(rank));
        shards
    }

    /// The daemon's own.
    pub fn own(&self) -> u32 {
        self.own
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> u32 {
        self.peers.len() as u32
    }

    /// The ranks of the other shards.
    pub fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let own = self.own;
        (0..self.count()).filter(move |rank| *rank != own)
    }

    /// From now on requests for a shard go over this session.
    pub fn met(&mut self, peer: Peer) {
        self.peers[peer.rank() as usize] = Some(peer);
        self.lost.retain(|lost| lost.rank != peer.rank());
    }

    /// Sends a request to the shard that has the object; says whether that could be done.
    #[inline]
    pub fn pass_on(
        &mut self,
        endpoint: &Endpoint,
        owner: u32,
        service: Service,
        message: &[u8],
        address: SlotAddress,
    ) -> bool {
        let Some(peer) = self.peer(endpoint, owner) else { return false };
        endpoint.call(peer, service, message).post(address.to_bits()).is_ok()
    }

    /// The session to a shard, if there is one.
    #[inline]
    pub fn peer(&mut self, endpoint: &Endpoint, owner: u32) -> Option<Peer> {
        let peer = self.peers[owner as usize];
        // We have opened a session to one that we had lost. One that says that it is the shard does not count
        // before the directory has confirmed it: it would be given what clients store.
        let Some(peer) = peer.or_else(|| endpoint.session_with(owner)) else {
            if endpoint.unconfirmed_session_with(owner).is_some() {
                self.look_soon(owner);
            }
            return None;
        };
        self.peers[owner as usize] = Some(peer);
        Some(peer)
    }

    /// A session has ended. If it led to a shard, and no newer one does, that is looked for.
    pub fn lost(&mut self, down: Peer) {
        let is_shard = down.rank() != self.own && down.rank() < self.count();
        if !is_shard || self.peers[down.rank() as usize].is_some_and(|peer| peer != down) {
            return;
        }
        self.peers[down.rank() as usize] = None;
        self.look_for(down.rank());
    }

    /// From now on a shard is looked for.
    fn look_for(&mut self, rank: u32) {
        if self.lost.iter().all(|lost| lost.rank != rank) {
            let (look_at, looked_at) = (Instant::ZERO, Instant::ZERO);
            self.lost.push(Lost { rank, look_at, looked_at, look_again_after: LOOK_AGAIN_AFTER });
        }
    }

    /// Something says that it is a shard that is looked for.
    fn look_soon(&mut self, rank: u32) {
        if let Some(lost) = self.lost.iter_mut().find(|lost| lost.rank == rank) {
            lost.look_at = lost.look_at.min(lost.looked_at + LOOK_AGAIN_AFTER);
        }
    }

    /// Opens a session to one of the shards that were lost, if it is time to. Requests take it when it is up:
    /// until then it may lead to a process that is no more.
    pub fn look_for_lost(&mut self, endpoint: &Endpoint) {
        if self.lost.is_empty() {
            return;
        }
        let now = endpoint.clock().now();
        let Some(place) = self.lost.iter().position(|lost| lost.look_at <= now) else { return };
        let lost = &mut self.lost[place];
        if endpoint.session_with(lost.rank).is_some() {
            self.lost.swap_remove(place);
            return;
        }
        lost.looked_at = now;
        lost.look_at = now + lost.look_again_after;
        lost.look_again_after = (2 * lost.look_again_after).min(LOOK_AGAIN_MAX);
        // One that is not there is looked for again, like one whose session does not come up.
        let _ = endpoint.peer_within(lost.rank, LOOK_WITHIN);
    }
}
