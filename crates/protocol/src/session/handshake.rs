//! OPEN, ACCEPT, REFUSE, and the packet that confirms.

use core::time::Duration;

use crate::wire::{Header, Offer, OfferPacket, RefuseReason, SessionPacket, VERSION, WireSession};
use farcall_base::Instant;

use super::config::agree;
use super::slot::Handshake;
use super::{EndReason, Link, PeerAddress, SessionEvent, Sessions, State};

/// How long an answer to the first OPEN or ACCEPT is waited for before it is repeated; doubles each time.
const RETRY_FIRST: Duration = Duration::from_millis(5);

impl Sessions {
    pub(super) fn begin_handshake(&mut self, now: Instant) -> Handshake {
        let handshake = Handshake::new(now, RETRY_FIRST.min(self.retry_after_max()));
        self.wake_by(handshake.retry_at);
        handshake
    }

    /// Several of them fit into the time after which a peer is given up.
    pub(super) fn retry_after_max(&self) -> Duration {
        self.config.peer_timeout / 8
    }

    pub(super) fn send_open(&mut self, index: u16) {
        let slot = &self.slots[usize::from(index)];
        let (to, local) = (slot.link.to, slot.local);
        let packet = SessionPacket::Open(self.offer_packet(local, self.config.offer));
        self.queue(to, WireSession::NONE, packet);
    }

    /// Agrees to a session, or to the same one once more when OPEN was repeated.
    pub(super) fn on_open(&mut self, from: PeerAddress, open: &OfferPacket, now: Instant) {
        match self.offered_by(open) {
            Some(index) => self.send_accept(index),
            None => match self.new_half_open(from, open, now) {
                Ok(index) => self.send_accept(index),
                Err(reason) => self.queue(from, open.reply_session, SessionPacket::Refuse(reason)),
            },
        }
    }

    pub(super) fn refuse_version(&mut self, from: PeerAddress, reply_session: WireSession) {
        let reason = RefuseReason::Version { theirs: VERSION };
        self.queue(from, reply_session, SessionPacket::Refuse(reason));
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
        let slot = &mut self.slots[usize::from(index)];
        match slot.state {
            State::Opening(_) => {
                let Ok(agreed) = agree(&self.config.offer, &accept.offer) else {
                    self.counters.malformed += 1;
                    return;
                };
                let link =
                    Link { to: slot.link.to, remote: accept.reply_session, peer: accept.sender, agreed };
                slot.accepted(link, now);
                self.came_up(index, now);
                self.ping(index, now);
            }
            // Our confirmation was lost.
            State::Up if slot.link.remote == accept.reply_session => self.ping(index, now),
            State::Up | State::HalfOpen(_) | State::Vacant => {}
        }
    }

    pub(super) fn on_refuse(&mut self, session: WireSession, reason: RefuseReason) {
        if let Some(index) = self.index_of(session)
            && matches!(self.slots[usize::from(index)].state, State::Opening(_))
        {
            self.end(index, EndReason::Refused(reason));
        }
    }

    /// The opener is there: its session exists from now on.
    #[cold]
    pub(super) fn confirm(&mut self, index: u16, now: Instant) {
        self.slots[usize::from(index)].confirmed(now);
        self.came_up(index, now);
    }

    /// Ends the sessions with the peer's former lives, then reports the new one.
    fn came_up(&mut self, index: u16, now: Instant) {
        let peer = self.slots[usize::from(index)].link.peer;
        for other in 0..self.slots.len() {
            let slot = &self.slots[other];
            let former = slot.link.peer;
            let same_place = (former.rank, former.endpoint) == (peer.rank, peer.endpoint);
            if matches!(slot.state, State::Up) && same_place && former.incarnation != peer.incarnation {
                self.end(other as u16, EndReason::Restarted);
            }
        }
        let id = self.slots[usize::from(index)].id(index);
        self.events.push_back(SessionEvent::Up { id, peer });
        self.wake_by(now + self.ping_after());
    }

    /// Whether an OPEN asks for a session of its own although its sender, at `from`, has opened one before
    /// that is not over here. The sender has given that one up, and with it perhaps what carried it.
    pub fn replaces_session(&self, from: PeerAddress, header: &Header, packet: &[u8]) -> bool {
        let Ok(SessionPacket::Open(open)) = SessionPacket::parse(header, packet) else { return false };
        let has_opened = |slot: &super::Slot| slot.is_offered && slot.link.to == from;
        self.slots.iter().any(has_opened) && self.offered_by(&open).is_none()
    }

    /// The session that this very OPEN, or an earlier copy, led to.
    fn offered_by(&self, open: &OfferPacket) -> Option<u16> {
        let same = |slot: &super::Slot| {
            matches!(slot.state, State::HalfOpen(_) | State::Up)
                && slot.link.remote == open.reply_session
                && slot.link.peer == open.sender
        };
        self.slots.iter().position(same).map(|index| index as u16)
    }

    fn new_half_open(
        &mut self,
        from: PeerAddress,
        open: &OfferPacket,
        now: Instant,
    ) -> Result<u16, RefuseReason> {
        if open.protocol != self.protocol as u8 {
            return Err(RefuseReason::Protocol { theirs: self.protocol as u8 });
        }
        let agreed = agree(&self.config.offer, &open.offer)?;
        let index = self.vacate_or_grow().map_err(|_| RefuseReason::Full)?;
        let link = Link { to: from, remote: open.reply_session, peer: open.sender, agreed };
        let local = self.entropy.wire_session(index);
        let handshake = self.begin_handshake(now);
        self.slots[usize::from(index)].offered(local, link, handshake);
        Ok(index)
    }

    pub(super) fn send_accept(&mut self, index: u16) {
        let slot = &self.slots[usize::from(index)];
        let (link, local) = (slot.link, slot.local);
        let packet = SessionPacket::Accept(self.offer_packet(local, link.agreed));
        self.queue(link.to, link.remote, packet);
    }

    fn offer_packet(&self, reply_session: WireSession, offer: Offer) -> OfferPacket {
        OfferPacket { protocol: self.protocol as u8, reply_session, sender: self.identity, offer }
    }
}
