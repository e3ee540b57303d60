//! Sessions whose two sides prove who they are: OPEN, RETRY and REFUSE as far as they differ from those with
//! a cluster key alone.
//!
//! An opener must know the acceptor's public key before. Where it does not, it asks: the acceptor answers
//! with RETRY, which says the key, and the opener goes on if it knows that key as one of a peer. So a key
//! that is told is never believed, only looked up.
//!
//! Reading an OPEN costs the acceptor two agreements on keys. Strangers to the cluster have none made,
//! because the code of their OPENs is wrong, and a repeated OPEN of a session that is there has none made.
//! Members, and those that repeat other OPENs of members, have so many made in a second as openers need not
//! prove their addresses for; beyond, an opener must come again with a cookie, and a host of which many
//! led to no session is read no more in this second. Of sessions a host has a number of its own.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use farcall_base::{Instant, PublicKey};

use crate::keys::{Acceptor, Identities, IdentityId, OFFER_BYTES, Opener, Unread};
use crate::wire::{
    Cookie, Head, Header, IDENTIFIED_VERSION, IdentifiedOpen, RefuseReason, SessionPacket, WireSession,
    announced_offer, offer_bytes, parse_identified_retry, put_identified_retry,
};

use super::hosts::Host;
use super::keyed::{Agreement, Keys};
use super::slot::State;
use super::{EndReason, PeerAddress, Sessions};

/// The time in which OPENs are counted.
const READS_INTERVAL: Duration = Duration::from_secs(1);

/// The most hosts whose failures are counted in it; others are not read then.
const FAILING_HOSTS_MAX: usize = 4096;

/// How many OPENs were read in this interval.
#[derive(Debug, Default)]
pub(super) struct Reads {
    since: Instant,
    /// Of openers that have not proved their addresses.
    unproven: u16,
    /// Those of openers that have which led to no session, by host; at most [`FAILING_HOSTS_MAX`].
    failed: BTreeMap<Host, u16>,
}

impl Reads {
    fn renew(&mut self, now: Instant) {
        if now.since(self.since) >= READS_INTERVAL {
            *self = Self { since: now, ..Self::default() };
        }
    }

    /// Whether one more may be read of an opener that has proved nothing: so many of them are.
    fn take_unproven(&mut self, most: u16, now: Instant) -> bool {
        self.renew(now);
        let may_read = self.unproven < most;
        self.unproven += u16::from(may_read);
        may_read
    }

    /// Whether one may be read of that host, which has proved its address: so many may fail of each.
    fn may_fail(&mut self, host: Host, most: u16, now: Instant) -> bool {
        self.renew(now);
        match self.failed.get(&host) {
            Some(failed) => *failed < most,
            None => most > 0 && self.failed.len() < FAILING_HOSTS_MAX,
        }
    }

    /// One of that host was read, and led to no session.
    fn note_failure(&mut self, host: Host) {
        *self.failed.entry(host).or_default() += 1;
    }
}

impl Sessions {
    /// Who this side is and whom it knows, if peers must prove who they are.
    pub(super) fn identities(&self) -> Option<&Arc<Identities>> {
        self.keys.as_ref()?.ring.identities()
    }

    /// Begins to agree on keys with an acceptor that has to prove who it is: asks the likely one, or which
    /// one it is.
    pub(super) fn begin_identified(&mut self, index: u16) {
        let Some(identities) = self.identities().map(Arc::clone) else { return };
        let must_be = identities.must_be(self.slots[usize::from(index)].expected.as_deref());
        match identities.guess(must_be) {
            Some(acceptor) => self.ask_identity(index, &identities, acceptor),
            None => {
                let Some(keys) = &self.keys else { return };
                let key = Box::new(keys.ring.own().clone());
                self.slots[usize::from(index)].agreement = Agreement::Wondering(key);
            }
        }
    }

    /// Asks the holder of a key, which must be known.
    fn ask_identity(&mut self, index: u16, identities: &Identities, acceptor: PublicKey) {
        let Some(name) = identities.name_of(&acceptor) else { return };
        let local = self.slots[usize::from(index)].local;
        let offer = SessionPacket::Open(self.offer_packet(local, self.config.offer), Cookie::NONE);
        let Some(keys) = &mut self.keys else { return };
        let Keys { ring, entropy, .. } = &mut **keys;
        let clear = IdentifiedOpen::clear(self.protocol as u8, local, ring.own().id);
        let peer = (acceptor, Arc::clone(name));
        let opener = Opener::of_identity((ring, identities), peer, clear, &offer_bytes(&offer), entropy);
        self.slots[usize::from(index)].agreement = Agreement::Asked(Box::new(opener));
    }

    pub(super) fn on_identified_open(&mut self, from: PeerAddress, host: Host, packet: &[u8], now: Instant) {
        let Ok(open) = IdentifiedOpen::parse(packet) else {
            self.counters.malformed += 1;
            return;
        };
        let Some(identities) = self.identities().map(Arc::clone) else { return };
        let Some(keys) = &self.keys else { return };
        let Some(key) = keys.ring.by_id(open.key).filter(|key| open.is_vouched_by(key)) else {
            return self.refuse_in_clear(from, open.reply_session, RefuseReason::OtherKey);
        };
        let key = key.clone();
        let has_proved =
            self.knows_sources() && self.cookies.accepts(open.cookie, from, open.reply_session, now);
        if open.identity != identities.id() {
            return self.ask_again(from, open.reply_session, now);
        }
        if let Some(index) = self.opened_from(from, open.reply_session) {
            return self.send_accept(index);
        }
        if !self.may_read(has_proved, now) {
            return self.ask_again(from, open.reply_session, now);
        }
        let most = self.config.half_open_per_host;
        let is_full = self.half_open_of(host) >= most;
        if is_full || has_proved && !self.reads.may_fail(host, most, now) {
            self.counters.openings_dropped += 1;
            return;
        }
        let Some(keys) = &mut self.keys else { return };
        let Keys { ring, entropy, .. } = &mut **keys;
        let read = Acceptor::of_identity((ring, &identities), &key, &open.clear, &open.hello, entropy);
        self.take_identified(from, host, &open, read, now);
        // One that led to a session is not read again; one that was refused could be repeated.
        if has_proved && self.opened_from(from, open.reply_session).is_none() {
            self.reads.note_failure(host);
        }
    }

    /// An OPEN was read, or could not be.
    fn take_identified(
        &mut self,
        from: PeerAddress,
        host: Host,
        open: &IdentifiedOpen<'_>,
        read: Result<(Acceptor, [u8; OFFER_BYTES]), Unread>,
        now: Instant,
    ) {
        let (acceptor, opened) = match read {
            Ok(read) => read,
            Err(Unread::Forged) => {
                self.counters.forged += 1;
                return;
            }
            Err(Unread::Stranger) => {
                self.counters.refused_identity += 1;
                let refusal = SessionPacket::Refuse(RefuseReason::IdentityUnknown);
                return self.queue(from, open.reply_session, refusal);
            }
        };
        match announced_offer(&open.clear, open.reply_session, &opened) {
            Ok(offer) => self.on_open(from, host, &offer, open.cookie, Some(acceptor), now),
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// Whether the OPEN of one that has the cluster key is worth two agreements on keys now.
    fn may_read(&mut self, has_proved: bool, now: Instant) -> bool {
        let most = self.config.cookies_from;
        has_proved
            || !self.knows_sources()
            || self.half_open() < usize::from(most) && self.reads.take_unproven(most, now)
    }

    /// The opener is to come again with a cookie, and where peers prove who they are with an OPEN that is
    /// made for this side.
    pub(super) fn ask_again(&mut self, to: PeerAddress, session: WireSession, now: Instant) {
        self.counters.retries_sent += 1;
        let cookie = self.cookies.issue(to, session, now);
        match self.keys.as_ref().and_then(|keys| Some((keys.ring.own(), keys.ring.identities()?))) {
            Some((key, identities)) => {
                let mut head = Head::new();
                put_identified_retry(session, cookie, identities.public(), key, &mut head);
                self.push(to, head);
            }
            None => self.queue(to, session, SessionPacket::Retry(cookie)),
        }
    }

    /// An opener is told by a member of the cluster whom it asks.
    pub(super) fn on_identified_retry(&mut self, from: PeerAddress, header: &Header, said: &[u8]) {
        let Ok((cookie, acceptor)) = parse_identified_retry(said) else {
            self.counters.malformed += 1;
            return;
        };
        let Some(index) = self.opening_at(from, header.session) else { return };
        let Some(identities) = self.identities().map(Arc::clone) else { return };
        let slot = &mut self.slots[usize::from(index)];
        let State::Opening(opening) = &mut slot.state else { return };
        let is_asked = slot.agreement.acceptor() == Some(&acceptor);
        if is_asked && opening.cookie == cookie {
            return;
        }
        opening.cookie = cookie;
        if !is_asked {
            let must_be = identities.must_be(slot.expected.as_deref());
            let reason = match identities.name_of(&acceptor) {
                Some(name) if must_be.is_none_or(|must_be| **name == *must_be) => None,
                Some(_) => Some(EndReason::OtherPeer),
                None => Some(EndReason::PeerUnknown),
            };
            if let Some(reason) = reason {
                self.counters.refused_identity += 1;
                return self.end(index, reason);
            }
            self.ask_identity(index, &identities, acceptor);
        }
        self.send_open(index);
    }

    /// An OPEN of a side that proves less, or more, than this one wants.
    pub(super) fn refuse_other_mode(&mut self, from: PeerAddress, session: WireSession, version: u8) {
        if version == IDENTIFIED_VERSION {
            self.refuse_in_clear(from, session, RefuseReason::Identityless);
        } else {
            self.counters.refused_identity += 1;
            self.push_clear_refusal(from, session, RefuseReason::IdentityWanted);
        }
    }

    /// Whether the peer of a session that is being agreed on is still known by the name that it was asked
    /// under, and may be the one that is looked for: the list may have been exchanged since.
    pub(super) fn knows_acceptor(&self, index: u16) -> bool {
        let slot = &self.slots[usize::from(index)];
        let Some((key, name)) = slot.agreement.wanted() else { return true };
        let Some(known) = self.identities() else { return false };
        let is_called_so = known.name_of(key).is_some_and(|now| **now == *name);
        is_called_so && known.must_be(slot.expected.as_deref()).is_none_or(|must_be| must_be == name)
    }

    /// For whom an OPEN was made.
    pub(super) fn identity_asked(opener: &Opener) -> Option<(IdentityId, &[u8])> {
        opener.acceptor().map(|acceptor| (IdentityId::of(acceptor), &*opener.hello))
    }
}
