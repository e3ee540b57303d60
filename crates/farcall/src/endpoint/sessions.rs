//! Which peers an endpoint has sessions with.

use farcall_base::Identity;
use farcall_base::canary::{self, Rule};
use farcall_transport::{DownReason, SessionId};

/// An endpoint of another process, or of this one, that a session leads to.
///
/// The handle belongs to the session: when the peer is restarted, calls to it fail, and [`Endpoint::peer`]
/// gives a new one. Messages with one tag arrive in the order in which they were sent over one handle. Where
/// two endpoints have connected to each other at once there are two sessions between them; as long as its
/// session lasts, [`Endpoint::peer`] gives the same handle, so that order holds without a second thought.
///
/// [`Endpoint::peer`]: crate::Endpoint::peer
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    pub(crate) session: SessionId,
    pub(crate) rank: u32,
    pub(crate) endpoint: u32,
}

impl Peer {
    /// The rank of the peer's process.
    pub fn rank(self) -> u32 {
        self.rank
    }

    /// The number of the endpoint within that process.
    pub fn endpoint(self) -> u32 {
        self.endpoint
    }
}

/// Where a session stands, as the endpoint sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Asked for; calls wait.
    Opening,
    /// The peer has been heard of.
    Up,
}

/// The sessions that are opening or up, and why the last ones ended.
#[derive(Default)]
pub struct Sessions {
    live: Vec<(Peer, SessionState)>,
    /// Those of `live` that were chosen for what is sent to their endpoints: at most one for each endpoint,
    /// and none once its session has ended. Another session of the same endpoint could overtake it.
    chosen: Vec<Peer>,
    /// Where in `live` the last search ended: traffic comes in runs.
    last_found: usize,
    ended: Vec<(Peer, DownReason)>,
}

/// How many ended sessions are remembered, so that a later call can say why it fails, and a message that is
/// received later whom it is from: transports keep messages of as many.
const ENDED_MAX: usize = 64;

impl Sessions {
    /// A session that we asked for, because there was none to that endpoint.
    pub fn opening(&mut self, peer: Peer) {
        self.live.push((peer, SessionState::Opening));
        self.chosen.push(peer);
    }

    /// A session came up: one of those that are opening, or one that the peer opened.
    pub fn up(&mut self, session: SessionId, identity: Identity) {
        match self.live.iter_mut().find(|(peer, _)| peer.session == session) {
            Some((_, state)) => *state = SessionState::Up,
            None => {
                let peer = Peer { session, rank: identity.rank, endpoint: identity.endpoint };
                self.live.push((peer, SessionState::Up));
            }
        }
    }

    /// A session ended; gives the peer it led to.
    pub fn down(&mut self, session: SessionId, reason: &DownReason) -> Peer {
        let peer = self.peer_of(session);
        self.live.retain(|(peer, _)| peer.session != session);
        self.chosen.retain(|peer| peer.session != session);
        if self.ended.len() == ENDED_MAX {
            self.ended.remove(0);
        }
        self.ended.push((peer, reason.clone()));
        peer
    }

    /// Why a session ended, if that was not too long ago.
    pub fn reason_of(&self, session: SessionId) -> Option<&DownReason> {
        self.ended.iter().rev().find(|(peer, _)| peer.session == session).map(|(_, reason)| reason)
    }

    /// The session for what is sent to an endpoint: the same one until it ends.
    pub fn choose(&mut self, rank: u32, endpoint: u32) -> Option<Peer> {
        let leads_there = |peer: &&Peer| peer.rank == rank && peer.endpoint == endpoint;
        let chosen = self.chosen.iter().find(leads_there).copied();
        if chosen.is_some() && !canary::leaves_out(Rule::OneSession) {
            return chosen;
        }
        let found = self.find(rank, endpoint)?;
        self.chosen.push(found);
        Some(found)
    }

    /// A live session to an endpoint; one that is up rather than one that is opening.
    pub fn find(&self, rank: u32, endpoint: u32) -> Option<Peer> {
        let leads_there =
            |entry: &&(Peer, SessionState)| entry.0.rank == rank && entry.0.endpoint == endpoint;
        let up = self.live.iter().filter(leads_there).find(|(_, state)| *state == SessionState::Up);
        up.or_else(|| self.live.iter().find(leads_there)).map(|(peer, _)| *peer)
    }

    /// The peers that sessions lead to.
    pub fn live(&self) -> impl Iterator<Item = Peer> {
        self.live.iter().map(|(peer, _)| *peer)
    }

    /// Where a session stands; `None` when it has ended.
    pub fn state_of(&self, session: SessionId) -> Option<&SessionState> {
        self.live.iter().find(|(peer, _)| peer.session == session).map(|(_, state)| state)
    }

    /// The peer that a session leads to, or led to until not too long ago.
    #[inline]
    pub fn peer_of(&mut self, session: SessionId) -> Peer {
        match self.last_peer(session) {
            Some(peer) => peer,
            None => self.find_peer(session),
        }
    }

    /// As [`Sessions::peer_of`] of the session that was asked for last, and `None` for any other.
    #[inline]
    pub fn last_peer(&self, session: SessionId) -> Option<Peer> {
        let (peer, _) = self.live.get(self.last_found)?;
        (peer.session == session).then_some(*peer)
    }

    #[cold]
    fn find_peer(&mut self, session: SessionId) -> Peer {
        match self.live.iter().position(|(peer, _)| peer.session == session) {
            Some(place) => {
                self.last_found = place;
                self.live[place].0
            }
            None => self.ended_peer(session),
        }
    }

    fn ended_peer(&self, session: SessionId) -> Peer {
        let known = self.ended.iter().rev().find(|(peer, _)| peer.session == session);
        known.map_or(Peer { session, rank: u32::MAX, endpoint: u32::MAX }, |(peer, _)| *peer)
    }
}
