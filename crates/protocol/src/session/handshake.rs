//! OPEN, RETRY, ACCEPT, REFUSE, and the packet that confirms.
//!
//! The opener repeats OPEN until it is answered, and its confirmation until something comes back; the
//! acceptor only answers. What the acceptor keeps of an opener that has confirmed nothing is bounded, and
//! the oldest makes room. Once there are
//! [`SessionConfig::cookies_from`](super::SessionConfig::cookies_from) of them, an opener is answered by
//! RETRY, for which nothing is kept, and must come again with the cookie from it.

use core::time::Duration;

use crate::keys::Acceptor;
use crate::wire::{
    Cookie, Head, Header, Offer, OfferPacket, RefuseReason, SessionPacket, VERSION, WireSession,
};
use farcall_base::{Identity, Instant, NO_RANK};

use super::config::agree;
use super::hosts::Host;
use super::life::Life;
use super::liveness::PINGS;
use super::slot::{Handshake, Slot, State};
use super::{AddressUse, EndReason, Link, PeerAddress, SessionEvent, Sessions};

/// How long an answer to the first OPEN or confirmation is waited for before it is repeated; doubles each
/// time.
const RETRY_FIRST: Duration = Duration::from_millis(5);

/// The most endpoints of a rank: [`Source`](crate::matching::Source) tells no more apart.
const ENDPOINTS_MAX: u32 = 1 << 16;

/// What an OPEN leads to that asks for a new session.
enum Answer {
    Accept(Link),
    Retry,
    Refuse(RefuseReason),
    /// Its sender has asked for too many others.
    Nothing,
}

impl Sessions {
    pub(super) fn new_handshake(&self, now: Instant) -> Handshake {
        Handshake::new(now, RETRY_FIRST.min(self.retry_after_max()))
    }

    /// Several of them fit into the time after which a peer is given up.
    pub(super) fn retry_after_max(&self) -> Duration {
        self.config.peer_timeout / 8
    }

    pub(super) fn send_open(&mut self, index: u16) {
        let slot = &self.slots[usize::from(index)];
        let cookie = match &slot.state {
            State::Opening(opening) => opening.cookie,
            _ => Cookie::NONE,
        };
        let (to, local) = (slot.link.to, slot.local);
        if self.has_keys() {
            let mut head = Head::new();
            if self.put_open(index, cookie, &mut head) {
                self.push(to, head);
            }
            return;
        }
        let packet = SessionPacket::Open(self.offer_packet(local, self.config.offer), cookie);
        self.queue(to, WireSession::NONE, packet);
    }

    /// Agrees to a session, or to the same one once more when OPEN was repeated. `acceptor` agrees on its
    /// keys, if it is to have any.
    pub(super) fn on_open(
        &mut self,
        from: PeerAddress,
        host: Host,
        open: &OfferPacket,
        cookie: Cookie,
        acceptor: Option<Acceptor>,
        now: Instant,
    ) {
        if let Some(index) = self.offered_by(from, open) {
            return self.send_accept(index);
        }
        match self.judge_open(from, host, open, cookie, now) {
            Answer::Accept(link) => self.accept(link, Life::of(open.life), host, acceptor, now),
            Answer::Retry => self.ask_again(from, open.reply_session, now),
            Answer::Refuse(reason) => {
                self.counters.refused_host += u64::from(reason == RefuseReason::Full && !self.is_full());
                self.refuse(from, open.reply_session, reason);
            }
            Answer::Nothing => {}
        }
    }

    pub(super) fn refuse_version(&mut self, from: PeerAddress, reply_session: WireSession) {
        self.refuse(from, reply_session, RefuseReason::Version { theirs: VERSION });
    }

    fn refuse(&mut self, to: PeerAddress, session: WireSession, reason: RefuseReason) {
        self.counters.refused_full += u64::from(reason == RefuseReason::Full && self.is_full());
        self.queue(to, session, SessionPacket::Refuse(reason));
    }

    /// The acceptor wants the address proved: OPEN again, at once.
    pub(super) fn on_retry(&mut self, from: PeerAddress, session: WireSession, cookie: Cookie) {
        let Some(index) = self.opening_at(from, session) else { return };
        if let State::Opening(opening) = &mut self.slots[usize::from(index)].state {
            opening.cookie = cookie;
            self.send_open(index);
        }
    }

    pub(super) fn on_accept(
        &mut self,
        from: PeerAddress,
        header: &Header,
        accept: &OfferPacket,
        now: Instant,
    ) {
        let Some(index) = self.index_of(header.session) else {
            // A repeated OPEN of ours outlived its session; its acceptor need not wait for us.
            return self.answer_unknown(from, header.session, now);
        };
        if !self.is_from_peer(index, from) {
            self.counters.from_elsewhere += 1;
            return;
        }
        let confirming = self.new_handshake(now);
        let slot = &mut self.slots[usize::from(index)];
        match slot.state {
            // Its messages would count as those of another endpoint.
            State::Opening(_) if accept.sender.endpoint >= ENDPOINTS_MAX => self.counters.malformed += 1,
            State::Opening(_) => {
                let Ok(agreed) = agree(&self.config.offer, &accept.offer) else {
                    self.counters.malformed += 1;
                    return;
                };
                let link =
                    Link { to: slot.link.to, remote: accept.reply_session, peer: accept.sender, agreed };
                slot.accepted(link, Life::of(accept.life), confirming, now);
                self.by_remote.insert((link.remote.0, index));
                self.came_up(index, now);
                self.ping(index, now);
                self.wake_by(index, confirming.retry_at);
            }
            // Our confirmation was lost.
            State::Up if slot.link.remote == accept.reply_session => self.ping(index, now),
            State::Up | State::HalfOpen { .. } | State::Vacant => {}
        }
    }

    /// An acceptor without room may have some before the opener gives up.
    pub(super) fn on_refuse(&mut self, from: PeerAddress, session: WireSession, reason: RefuseReason) {
        let Some(index) = self.opening_at(from, session) else { return };
        match &mut self.slots[usize::from(index)].state {
            State::Opening(opening) if reason == RefuseReason::Full => opening.refused = Some(reason),
            _ => self.end(index, EndReason::Refused(reason)),
        }
    }

    /// The opener is there: its session exists from now on, if there is still room for it.
    #[cold]
    pub(super) fn confirm(&mut self, index: u16, now: Instant) -> bool {
        let Slot { link, offered_by, .. } = self.slots[usize::from(index)];
        let host_is_full = offered_by.is_some_and(|host| self.is_full_for(host));
        if self.is_full() || host_is_full {
            self.counters.refused_full += u64::from(!host_is_full);
            self.counters.refused_host += u64::from(host_is_full);
            self.queue_in(index, link.to, SessionPacket::Close { incarnation: self.identity.incarnation });
            self.end(index, EndReason::Refused(RefuseReason::Full));
            return false;
        }
        self.slots[usize::from(index)].confirmed(now);
        if let Some(host) = self.slots[usize::from(index)].offered_by {
            self.hosts.half_open_ended(host);
            self.hosts.came_up(host);
        }
        self.established += 1;
        self.came_up(index, now);
        true
    }

    /// Ends the sessions with the former lives of a peer that has a rank, then reports the new one.
    fn came_up(&mut self, index: u16, now: Instant) {
        let peer = self.in_this_world(self.slots[usize::from(index)].link.peer);
        if peer.rank != NO_RANK {
            self.end_former_lives(index, peer);
            self.by_peer.insert((peer.rank, peer.endpoint, index));
        }
        let id = self.slots[usize::from(index)].id(index);
        self.events.push_back(SessionEvent::Up { id, peer });
        self.wake_by(index, now + self.ping_after());
    }

    /// Where peers prove who they are, those of another one are no former lives.
    fn end_former_lives(&mut self, index: u16, peer: Identity) {
        let principal = self.slots[usize::from(index)].agreement.principal();
        let places = (peer.rank, peer.endpoint, 0)..=(peer.rank, peer.endpoint, u16::MAX);
        let others: Vec<u16> = self.by_peer.range(places).map(|(_, _, other)| *other).collect();
        for other in others {
            let slot = &self.slots[usize::from(other)];
            let is_same = self.identities().is_none() || slot.agreement.principal() == principal;
            if is_same && slot.link.peer.incarnation != peer.incarnation {
                self.end(other, EndReason::Restarted);
            }
        }
    }

    /// Whether an OPEN asks for a session of its own although its sender, at `from`, has opened one before
    /// that is not over here. The sender has given that one up, and with it perhaps what carried it.
    pub fn replaces_session(&self, from: PeerAddress, header: &Header, packet: &[u8]) -> bool {
        let Ok(SessionPacket::Open(open, _)) = SessionPacket::parse(header, packet) else { return false };
        let has_opened = |index: u16| self.slots[usize::from(index)].offered_by.is_some();
        self.to_address(from).any(has_opened) && self.offered_by(from, &open).is_none()
    }

    /// The session that this very OPEN, or an earlier copy, led to. Where nothing is proved yet, a copy from
    /// another address is an OPEN of its own: it would count against a host that may know nothing of it.
    fn offered_by(&self, from: PeerAddress, open: &OfferPacket) -> Option<u16> {
        let same = |index: &u16| {
            let slot = &self.slots[usize::from(*index)];
            let is_from_there = !matches!(slot.state, State::HalfOpen { .. }) || slot.link.to == from;
            slot.offered_by.is_some() && slot.link.peer == open.sender && is_from_there
        };
        self.with_remote(open.reply_session).find(same)
    }

    /// The session that an OPEN of that number led to which came from there: another one of the same is a
    /// copy.
    pub(super) fn opened_from(&self, from: PeerAddress, number: WireSession) -> Option<u16> {
        let same = |index: &u16| {
            let slot = &self.slots[usize::from(*index)];
            slot.offered_by.is_some() && slot.link.to == from
        };
        self.with_remote(number).find(same)
    }

    /// How many half-open sessions a host has.
    pub(super) fn half_open_of(&self, host: Host) -> u16 {
        self.hosts.of(host).half_open
    }

    fn judge_open(
        &self,
        from: PeerAddress,
        host: Host,
        open: &OfferPacket,
        cookie: Cookie,
        now: Instant,
    ) -> Answer {
        if open.protocol != self.protocol as u8 {
            return Answer::Refuse(RefuseReason::Protocol { theirs: self.protocol as u8 });
        }
        if open.sender.in_world_of(self.config.ranks).is_none() || open.sender.endpoint >= ENDPOINTS_MAX {
            return Answer::Refuse(RefuseReason::Rank);
        }
        let agreed = match agree(&self.config.offer, &open.offer) {
            Ok(agreed) => agreed,
            Err(reason) => return Answer::Refuse(reason),
        };
        if self.is_full() || self.is_full_for(host) {
            return Answer::Refuse(RefuseReason::Full);
        }
        let wants_proof = self.knows_sources() && self.half_open() >= usize::from(self.config.cookies_from);
        if wants_proof && !self.cookies.accepts(cookie, from, open.reply_session, now) {
            return Answer::Retry;
        }
        if self.half_open_of(host) >= self.config.half_open_per_host {
            return Answer::Nothing;
        }
        Answer::Accept(Link { to: from, remote: open.reply_session, peer: open.sender, agreed })
    }

    /// Whether a host has as many sessions as one may have.
    fn is_full_for(&self, host: Host) -> bool {
        self.hosts.of(host).up >= self.config.sessions_per_host
    }

    fn accept(&mut self, link: Link, life: Life, host: Host, acceptor: Option<Acceptor>, now: Instant) {
        if self.half_open() >= usize::from(self.config.half_open_max) {
            self.replace_oldest_half_open();
        }
        let Ok(index) = self.vacate_or_grow() else {
            return self.refuse(link.to, link.remote, RefuseReason::Full);
        };
        let local = self.draw_number(index);
        self.slots[usize::from(index)].offered(local, link, life, (host, PINGS), now);
        self.hosts.opens(host);
        self.half_open_ages.push_back((index, local));
        self.by_remote.insert((link.remote.0, index));
        self.by_address.insert((link.to, index));
        self.note_address(AddressUse::Needed(link.to));
        self.wake_by(index, now + self.ping_after());
        self.forget_former_ages();
        let has_keys = acceptor.is_none_or(|acceptor| self.answer_agreement(index, acceptor));
        if !has_keys {
            self.counters.malformed += 1;
            return self.end(index, EndReason::Unreachable);
        }
        self.send_accept(index);
    }

    fn replace_oldest_half_open(&mut self) {
        while let Some((index, number)) = self.half_open_ages.pop_front() {
            if self.is_half_open(index, number) {
                self.counters.half_open_replaced += 1;
                return self.end(index, EndReason::Unreachable);
            }
        }
    }

    /// Those that are not half-open any more go when they are the oldest, or too many.
    fn forget_former_ages(&mut self) {
        while let Some(&(index, number)) = self.half_open_ages.front()
            && !self.is_half_open(index, number)
        {
            self.half_open_ages.pop_front();
        }
        if self.half_open_ages.len() > 2 * usize::from(self.config.half_open_max) {
            let mut ages = core::mem::take(&mut self.half_open_ages);
            ages.retain(|(index, number)| self.is_half_open(*index, *number));
            self.half_open_ages = ages;
        }
    }

    fn is_half_open(&self, index: u16, number: WireSession) -> bool {
        let slot = &self.slots[usize::from(index)];
        slot.local == number && matches!(slot.state, State::HalfOpen { .. })
    }

    pub(super) fn send_accept(&mut self, index: u16) {
        let slot = &self.slots[usize::from(index)];
        let (link, local) = (slot.link, slot.local);
        if self.has_keys() {
            let mut head = Head::new();
            if self.put_accept(index, &mut head) {
                self.push(link.to, head);
            }
            return;
        }
        let packet = SessionPacket::Accept(self.offer_packet(local, link.agreed));
        self.queue(link.to, link.remote, packet);
    }

    pub(super) fn offer_packet(&self, reply_session: WireSession, offer: Offer) -> OfferPacket {
        let (protocol, sender, life) = (self.protocol as u8, self.identity, self.life);
        OfferPacket { protocol, reply_session, sender, offer, life }
    }

    /// The session that is being opened with whoever is at `from`.
    pub(super) fn opening_at(&mut self, from: PeerAddress, session: WireSession) -> Option<u16> {
        let index = self.index_of(session)?;
        let is_opening = matches!(self.slots[usize::from(index)].state, State::Opening(_));
        let is_from_peer = self.is_from_peer(index, from);
        self.counters.from_elsewhere += u64::from(is_opening && !is_from_peer);
        (is_opening && is_from_peer).then_some(index)
    }
}
