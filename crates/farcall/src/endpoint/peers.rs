//! Finding peers, and the sessions to them.

use core::time::Duration;

use farcall_transport::CallRefused;

use super::Endpoint;
use super::outcome::CallError;
use super::sessions::{Peer, SessionState};
use crate::connect::ConnectError;

impl Endpoint {
    /// The endpoint of the same transport and number 0 in the process of that rank.
    ///
    /// Looks the peer up and starts a session unless there is one. Waits until the peer has published its
    /// endpoint, at most `endpoint.resolve_timeout`; the session itself comes up during later polls, and
    /// calls may be made at once. Gives the same handle until that session ends, also where the peer has
    /// opened another one meanwhile: what is sent to a rank keeps its order.
    pub fn peer(&self, rank: u32) -> Result<Peer, ConnectError> {
        self.peer_endpoint(rank, 0)
    }

    /// As [`Endpoint::peer`], for the endpoint of the given number.
    pub fn peer_endpoint(&self, rank: u32, endpoint: u32) -> Result<Peer, ConnectError> {
        let within = self.core().directions.within();
        self.find_peer(rank, endpoint, within)
    }

    /// As [`Endpoint::peer`], for a peer that has most likely published its endpoint, or is not there: waits
    /// for it at most `within`.
    pub fn peer_within(&self, rank: u32, within: Duration) -> Result<Peer, ConnectError> {
        self.find_peer(rank, 0, within)
    }

    fn find_peer(&self, rank: u32, endpoint: u32, within: Duration) -> Result<Peer, ConnectError> {
        let core = &mut *self.core();
        if let Some(peer) = core.state.sessions.choose(rank, endpoint) {
            return Ok(peer);
        }
        let address = core.directions.find(rank, endpoint, within)?;
        let session = core.transport.connect(&address, core.clock.now())?;
        let peer = Peer { session, rank, endpoint };
        core.state.sessions.opening(peer);
        Ok(peer)
    }

    /// The endpoint of number 0 in the process of that rank, if the session that [`Endpoint::peer`] would
    /// give is there and up, whichever side opened it.
    pub fn session_with(&self, rank: u32) -> Option<Peer> {
        let sessions = &mut self.core().state.sessions;
        let peer = sessions.choose(rank, 0)?;
        (sessions.state_of(peer.session) == Some(&SessionState::Up)).then_some(peer)
    }

    /// Polls until the session to `peer` is up.
    pub fn wait_for(&self, peer: Peer) -> Result<(), CallError> {
        self.poll_until(|state| state.sessions.state_of(peer.session) != Some(&SessionState::Opening));
        let state = &self.core().state;
        match state.sessions.state_of(peer.session) {
            Some(_) => Ok(()),
            None => Err(state
                .sessions
                .reason_of(peer.session)
                .map_or(CallError::NotSent(CallRefused::Down), |reason| CallError::PeerDown(reason.clone()))),
        }
    }

    /// Ends the session to a peer. Its calls complete with [`CallError::PeerDown`].
    pub fn close(&self, peer: Peer) {
        let core = &mut *self.core();
        core.transport.close(peer.session, core.state.now);
    }
}
