//! Which peers an endpoint has sessions with.

use core::cell::Cell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use farcall_base::canary::{self, Rule};
use farcall_base::{Address, Identity, NO_RANK, Principal};
use farcall_transport::{DownReason, SessionId};

/// An endpoint of another process, or of this one, that a session leads to.
///
/// The handle belongs to the session: when the peer is restarted, calls to it fail, and [`Endpoint::peer`]
/// gives a new one. Messages with one tag arrive in the order in which they were sent over one handle. Two
/// endpoints that have connected to each other at once have two sessions; [`Endpoint::peer`] gives the
/// handle of the one over which messages have gone, as long as that lasts.
///
/// [`Endpoint::peer`]: crate::Endpoint::peer
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    pub(crate) session: SessionId,
    pub(crate) rank: u32,
    pub(crate) endpoint: u32,
}

impl Peer {
    /// The rank of the peer's process in the world of this one; `u32::MAX` without one. The peer of a request
    /// or message has only said so.
    pub fn rank(self) -> u32 {
        self.rank
    }

    /// The number of the endpoint within that process.
    pub fn endpoint(self) -> u32 {
        self.endpoint
    }

    /// Its session, rank and endpoint, for languages that have no type for it.
    #[inline]
    pub fn to_numbers(self) -> [u32; 3] {
        [self.session.0, self.rank, self.endpoint]
    }

    /// The peer of these numbers. Numbers of no session are those of a peer whose session has ended.
    #[inline]
    pub fn from_numbers([session, rank, endpoint]: [u32; 3]) -> Self {
        Self { session: SessionId(session), rank, endpoint }
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

/// A session that is opening or up.
struct Live {
    peer: Peer,
    state: SessionState,
    /// While it opens, the peer's incarnation as the directory has it, 0 if it does not say; then the one
    /// that the peer gave.
    incarnation: u64,
    /// Whether it leads where the directory says that the peer is. A peer that opened it has only said so.
    is_confirmed: bool,
    /// Whether messages wait for it while it opens: over another session they would be overtaken.
    has_messages: Cell<bool>,
    /// Whether another process answered than the one that was asked for; it is to be closed.
    is_strangers: bool,
    /// Who the peer is, once the session is up.
    principal: Principal,
    /// Where it was opened to, if that was a server of a name.
    server: Option<Box<ServerPlace>>,
}

/// Where a server of a name is: its address, its incarnation as its source of names has it, and the name.
pub type ServerPlace = (Address, u64, Option<String>);

/// A session that has ended.
struct Ended {
    peer: Peer,
    reason: DownReason,
    /// Whether it ever carried anything.
    was_up: bool,
}

/// The sessions that are opening or up, and why the last ones ended.
#[derive(Default)]
pub struct Sessions {
    /// By session: a server has thousands, and looks one up for each request.
    live: BTreeMap<SessionId, Live>,
    /// Those of `live` whose endpoints have a rank, by rank and endpoint: an endpoint of a large world has
    /// thousands, and looks one up for each call.
    by_endpoint: BTreeSet<(u32, u32, SessionId)>,
    /// Those of `live` that were chosen for what is sent to their endpoints, by rank and endpoint, and none
    /// once its session has ended. Another session of the same endpoint could overtake it.
    chosen: BTreeMap<(u32, u32), Peer>,
    /// Those of `live` that were opened to servers of names: all connections of an endpoint that lead to a
    /// server share one.
    by_server: BTreeMap<ServerPlace, Peer>,
    /// What the last search found, if it has not ended: traffic comes in runs.
    last_found: Option<Peer>,
    ended: Vec<Ended>,
    /// Sessions in which another process answered than the one that was asked for; to be closed.
    strangers: Vec<SessionId>,
}

/// How many ended sessions are remembered, so that a later call can say why it fails, and a message that is
/// received later whom it is from: transports keep messages of as many.
const ENDED_MAX: usize = 64;

impl Sessions {
    /// A session that we asked for, at the address that the directory gives for the peer of this incarnation;
    /// 0 if it does not say.
    pub fn opening(&mut self, peer: Peer, incarnation: u64) {
        let live = Live {
            peer,
            state: SessionState::Opening,
            incarnation,
            is_confirmed: true,
            has_messages: Cell::new(false),
            is_strangers: false,
            principal: Principal::Unproven,
            server: None,
        };
        self.insert(live);
        if peer.rank != NO_RANK {
            self.chosen.entry((peer.rank, peer.endpoint)).or_insert(peer);
        }
    }

    /// A session was opened to a server of a name.
    pub fn leads_to(&mut self, peer: Peer, place: ServerPlace) {
        if let Some(live) = self.live.get_mut(&peer.session) {
            live.server = Some(Box::new(place.clone()));
            self.by_server.insert(place, peer);
        }
    }

    /// The session that was opened to a server of a name, unless it has ended or another process answered.
    pub fn to_server(&self, place: &ServerPlace) -> Option<Peer> {
        let peer = self.by_server.get(place).copied()?;
        self.live.get(&peer.session).is_some_and(|live| !live.is_strangers).then_some(peer)
    }

    fn insert(&mut self, live: Live) {
        let Peer { session, rank, endpoint } = live.peer;
        if rank != NO_RANK {
            self.by_endpoint.insert((rank, endpoint, session));
        }
        self.live.insert(session, live);
    }

    /// What is sent to the endpoint of a session does not go over that session any more.
    fn choose_no_more(&mut self, peer: Peer) {
        if let Entry::Occupied(chosen) = self.chosen.entry((peer.rank, peer.endpoint))
            && chosen.get().session == peer.session
        {
            chosen.remove();
        }
    }

    /// A session came up: one of those that are opening, or one that the peer opened.
    pub fn up(&mut self, session: SessionId, identity: Identity, principal: Principal) {
        let Identity { incarnation, rank, endpoint } = identity;
        let Some(live) = self.live.get_mut(&session) else {
            let peer = Peer { session, rank, endpoint };
            let live = Live {
                peer,
                state: SessionState::Up,
                incarnation,
                is_confirmed: false,
                has_messages: Cell::new(false),
                is_strangers: false,
                principal,
                server: None,
            };
            self.insert(live);
            return;
        };
        (live.state, live.principal) = (SessionState::Up, principal);
        if live.is_answered_by(&identity) {
            live.incarnation = incarnation;
        } else {
            (live.is_confirmed, live.is_strangers) = (false, true);
            let peer = live.peer;
            self.choose_no_more(peer);
            self.strangers.push(session);
        }
    }

    /// Whether another process answered in some session than the one that was asked for.
    #[inline]
    pub fn any_strangers(&self) -> bool {
        !self.strangers.is_empty()
    }

    /// Those sessions.
    pub fn take_strangers(&mut self) -> Vec<SessionId> {
        core::mem::take(&mut self.strangers)
    }

    /// Why a session ends: one in which another process answered is closed from here, and what it means is
    /// that the peer has started again.
    pub fn meaning_of(&self, session: SessionId, reason: DownReason) -> DownReason {
        let is_strangers = self.live.get(&session).is_some_and(|live| live.is_strangers);
        if is_strangers { DownReason::Restarted } else { reason }
    }

    /// A session ended; gives the peer it led to.
    pub fn down(&mut self, session: SessionId, reason: &DownReason) -> Peer {
        let peer = self.peer_of(session);
        let was_up = self.state_of(session) != Some(&SessionState::Opening);
        if let Some(live) = self.live.remove(&session) {
            self.by_endpoint.remove(&(live.peer.rank, live.peer.endpoint, session));
            self.choose_no_more(live.peer);
            if let Some(place) = live.server.as_deref()
                && self.by_server.get(place).is_some_and(|peer| peer.session == session)
            {
                self.by_server.remove(place);
            }
        }
        self.last_found.take_if(|peer| peer.session == session);
        if self.ended.len() == ENDED_MAX {
            self.ended.remove(0);
        }
        self.ended.push(Ended { peer, reason: reason.clone(), was_up });
        peer
    }

    /// Why a session ended, if that was not too long ago.
    pub fn reason_of(&self, session: SessionId) -> Option<&DownReason> {
        self.ended_session(session).map(|ended| &ended.reason)
    }

    /// Whether a session is known to have ended before it came up: none of its calls ran.
    pub fn never_came_up(&self, session: SessionId) -> bool {
        self.ended_session(session).is_some_and(|ended| !ended.was_up)
    }

    fn ended_session(&self, session: SessionId) -> Option<&Ended> {
        self.ended.iter().rev().find(|ended| ended.peer.session == session)
    }

    /// The session for what is sent to an endpoint, which leads where the directory says: the same one until
    /// it ends. One that is still opening and that no message waits for makes room for one that is up: it may
    /// lead to where the peer was in a former life.
    pub fn choose(&mut self, rank: u32, endpoint: u32) -> Option<Peer> {
        let before = self.chosen.get(&(rank, endpoint)).copied();
        if let Some(chosen) = before.filter(|chosen| !self.may_change(*chosen)) {
            return Some(chosen);
        }
        let found = self.find_confirmed(rank, endpoint).or(before)?;
        self.chosen.insert((rank, endpoint), found);
        Some(found)
    }

    /// Whether a session is opening and no message waits for it.
    fn may_change(&self, chosen: Peer) -> bool {
        self.live.get(&chosen.session).is_some_and(|live| {
            let keeps = live.has_messages.get() && !canary::leaves_out(Rule::OneSession);
            live.state == SessionState::Opening && !keeps
        })
    }

    /// Whether another session may be the better one: this is opening, no message waits for it, and a peer
    /// that claims to be that endpoint has opened one that is up.
    pub fn has_rival(&self, chosen: Peer) -> bool {
        let claims = |live: &Live| live.state == SessionState::Up && !live.is_confirmed;
        self.may_change(chosen) && self.to_endpoint(chosen.rank, chosen.endpoint).any(claims)
    }

    /// A message waits for room in a session, or for the session itself.
    pub fn message_waits(&self, session: SessionId) {
        if let Some(live) = self.live.get(&session) {
            live.has_messages.set(true);
        }
    }

    /// The live session to an endpoint, confirmed or not; one that is up rather than one that is opening.
    pub fn find(&self, rank: u32, endpoint: u32) -> Option<Peer> {
        self.find_among(rank, endpoint, |_| true)
    }

    /// As [`Sessions::find`], of those that lead where the directory says.
    pub fn find_confirmed(&self, rank: u32, endpoint: u32) -> Option<Peer> {
        self.find_among(rank, endpoint, |live| live.is_confirmed)
    }

    /// Sessions whose peers say that they are this endpoint of this process.
    pub fn claimed(&self, rank: u32, endpoint: u32, incarnation: u64) -> Vec<Peer> {
        let claims = |live: &&Live| live.state == SessionState::Up && live.incarnation == incarnation;
        self.to_endpoint(rank, endpoint).filter(claims).map(|live| live.peer).collect()
    }

    /// A session leads where the directory says that its peer is.
    pub fn confirm(&mut self, session: SessionId) {
        if let Some(live) = self.live.get_mut(&session) {
            live.is_confirmed = true;
        }
    }

    fn find_among(&self, rank: u32, endpoint: u32, takes: impl Fn(&Live) -> bool) -> Option<Peer> {
        let mut found = self.to_endpoint(rank, endpoint).filter(|live| takes(live));
        let first = found.clone().next()?;
        let up = found.find(|live| live.state == SessionState::Up);
        Some(up.unwrap_or(first).peer)
    }

    /// Those that lead to an endpoint, or say so.
    fn to_endpoint(&self, rank: u32, endpoint: u32) -> impl Iterator<Item = &Live> + Clone {
        let all = (rank, endpoint, SessionId(u32::MIN))..=(rank, endpoint, SessionId(u32::MAX));
        self.by_endpoint.range(all).filter_map(|(_, _, session)| self.live.get(session))
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.live.len() as u64
    }

    /// The peers that sessions lead to.
    pub fn live(&self) -> impl Iterator<Item = Peer> {
        self.live.values().map(|live| live.peer)
    }

    /// Where a session stands; `None` when it has ended.
    pub fn state_of(&self, session: SessionId) -> Option<&SessionState> {
        self.live.get(&session).map(|live| &live.state)
    }

    /// Who the peer of a session is; of one that is not up nothing is proven.
    pub fn principal_of(&self, session: SessionId) -> &Principal {
        self.live.get(&session).map_or(&Principal::Unproven, |live| &live.principal)
    }

    /// The life of the process that a session leads to; 0 if that is not known, or the session has ended.
    pub fn incarnation_of(&self, session: SessionId) -> u64 {
        self.live.get(&session).map_or(0, |live| live.incarnation)
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
        self.last_found.filter(|peer| peer.session == session)
    }

    #[cold]
    fn find_peer(&mut self, session: SessionId) -> Peer {
        match self.live.get(&session) {
            Some(live) => {
                self.last_found = Some(live.peer);
                live.peer
            }
            None => self.ended_peer(session),
        }
    }

    fn ended_peer(&self, session: SessionId) -> Peer {
        let stranger = Peer { session, rank: NO_RANK, endpoint: u32::MAX };
        self.ended_session(session).map_or(stranger, |ended| ended.peer)
    }
}

impl Live {
    /// Whether the process that answers is the one that was asked for.
    fn is_answered_by(&self, identity: &Identity) -> bool {
        let is_same_life = self.incarnation == 0 || self.incarnation == identity.incarnation;
        let is_same_place = self.peer.rank == NO_RANK
            || (self.peer.rank, self.peer.endpoint) == (identity.rank, identity.endpoint);
        is_same_life && is_same_place
    }
}
