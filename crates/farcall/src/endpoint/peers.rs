//! Finding peers, and the sessions to them.

use core::time::Duration;

use farcall_base::{Address, AddressError};
use farcall_transport::{CallRefused, Taken};

use super::Endpoint;
use super::call::CallError;
use super::poll::Core;
use super::sessions::{Peer, SessionState};
use crate::bootstrap::Server;
use crate::connect::ConnectError;
use crate::names::address_at;

impl Endpoint {
    /// The endpoint of the same transport and number 0 in the process of that rank.
    ///
    /// Looks the peer up and starts a session unless there is one. Waits until the peer has published its
    /// endpoint, at most `endpoint.resolve_timeout`; the session itself comes up during later polls, and
    /// calls may be made at once. Once something was sent with it, gives the same handle until that session
    /// ends, also where the peer has opened another one meanwhile: messages to a rank keep their order.
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

    /// How long [`Endpoint::peer`] waits for a peer to publish its endpoint (`endpoint.resolve_timeout`).
    pub fn resolve_timeout(&self) -> Duration {
        self.core().directions.within()
    }

    fn find_peer(&self, rank: u32, endpoint: u32, within: Duration) -> Result<Peer, ConnectError> {
        let core = &mut *self.core();
        let chosen = core.state.sessions.choose(rank, endpoint);
        let within = match chosen {
            Some(peer) if !core.state.sessions.has_rival(peer) => return Ok(peer),
            Some(_) => Duration::ZERO,
            None => within,
        };
        let (address, incarnation) = match (core.directions.find(rank, endpoint, within), chosen) {
            (Ok(found), _) => found,
            (Err(_), Some(peer)) => return Ok(peer),
            (Err(error), None) => return Err(error.into()),
        };
        // A peer that opened a session has said who it is, which anybody can.
        for peer in core.state.sessions.claimed(rank, endpoint, incarnation) {
            if core.transport.comes_from(peer.session, &address) {
                core.state.sessions.confirm(peer.session);
                return Ok(core.state.sessions.choose(rank, endpoint).unwrap_or(peer));
            }
        }
        match chosen {
            Some(peer) => Ok(peer),
            None => Ok(core.open_session(&address, None, (rank, endpoint), incarnation)?),
        }
    }

    /// The endpoint of number 0 in the process of that rank, if the session that [`Endpoint::peer`] would
    /// give leads where the directory says and is up, whichever side opened it. A session that the peer
    /// opened counts from the first [`Endpoint::peer`] on.
    pub fn session_with(&self, rank: u32) -> Option<Peer> {
        let sessions = &mut self.core().state.sessions;
        let peer = sessions.choose(rank, 0)?;
        (sessions.state_of(peer.session) == Some(&SessionState::Up)).then_some(peer)
    }

    /// As [`Endpoint::session_with`], of peers that have only said so too: for what anybody may be told, such
    /// as that this process gives up.
    pub fn unconfirmed_session_with(&self, rank: u32) -> Option<Peer> {
        let sessions = &self.core().state.sessions;
        let peer = sessions.find(rank, 0)?;
        (sessions.state_of(peer.session) == Some(&SessionState::Up)).then_some(peer)
    }

    /// Whether the session to `peer` has not ended.
    pub(crate) fn has_session(&self, peer: Peer) -> bool {
        self.core().state.sessions.state_of(peer.session).is_some()
    }

    /// Whether the session to `peer` ended before it came up, so that nothing that was called over it ran.
    pub(crate) fn never_came_up(&self, peer: Peer) -> bool {
        self.core().state.sessions.never_came_up(peer.session)
    }

    /// The session with an endpoint that listens under that name, if it was looked for under one; starts one
    /// unless there is one already. One under another name is another one: there the name may have to be
    /// proved.
    pub(crate) fn open_session(&self, server: &Server, name: Option<&str>) -> Result<Peer, AddressError> {
        let core = &mut *self.core();
        let place = (core.directions.rank_of(server), server.endpoint);
        let address = address_at(server, core.directions.kind).ok_or(AddressError::OutOfReach {
            why: "the server and this endpoint have no transport in common",
        })?;
        let server_place = (address, server.incarnation, name.map(str::to_owned));
        if let Some(peer) = core.state.sessions.to_server(&server_place) {
            return Ok(peer);
        }
        let peer = core.open_session(&server_place.0, name, place, server.incarnation)?;
        core.state.sessions.leads_to(peer, server_place);
        Ok(peer)
    }

    /// Which transport the session to `peer` takes or tries, and why none of the others; `None` when the
    /// session has ended, or no way has been found yet.
    pub fn way(&self, peer: Peer) -> Option<Taken> {
        let core = self.core();
        core.state.sessions.state_of(peer.session)?;
        if !core.directions.kind.is_several() {
            return Some(Taken { way: core.directions.transport(), not_taken: Vec::new() });
        }
        core.transport.taken_way(peer.session)
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

impl Core {
    fn open_session(
        &mut self,
        address: &Address,
        name: Option<&str>,
        (rank, endpoint): (u32, u32),
        incarnation: u64,
    ) -> Result<Peer, AddressError> {
        let session = self.transport.connect(address, name, self.clock.now())?;
        let peer = Peer { session, rank, endpoint };
        self.state.sessions.opening(peer, incarnation);
        self.state.counters.sessions.set(self.state.sessions.count());
        Ok(peer)
    }

    /// Closes the sessions in which another process answered than the one that was asked for.
    pub fn close_strangers(&mut self) {
        for session in self.state.sessions.take_strangers() {
            self.transport.close(session, self.state.now);
        }
    }
}
