//! Sessions with keys: which packets are believed, and how those of ours are sealed.
//!
//! A packet of a session is sealed with the keys that its slot holds; those vanish with it. The handshake
//! begins before there are any. What the acceptor learns from an OPEN before it does anything costly is that
//! its sender has the cluster key. It then answers as without keys: with RETRY, REFUSE, or an ACCEPT, which
//! it keeps and sends again when the same OPEN comes again, so that a copy of an OPEN leads to no second
//! agreement on keys.
//!
//! A refusal without a code may be forged by whoever sees the OPEN. It therefore ends nothing: the opener
//! remembers it as a likely reason, and goes on until its time is over.

use farcall_base::{Entropy, Instant, NO_RANK, Principal, PublicKey};

use crate::keys::{
    Acceptor, CODE_BYTES, Keyring, Opener, REPLY_BYTES, RESET_CODE_BYTES, SessionKeys, StatelessKey,
    TAG_BYTES, Unsealed,
};
use crate::wire::{
    Cookie, HEADER_BYTES, Head, Header, IDENTIFIED_VERSION, IdentifiedOpen, KEYED_VERSION, KeyedOpen,
    OfferPacket, Opcode, Protocol, RefuseReason, SessionPacket, WireSession, announced_offer,
    checksum_matches, life_code, offer_bytes, parse_keyed_accept, parse_opened, put_coded,
    put_identified_open, put_keyed_accept, put_keyed_open, split_coded, with_identity,
};

use super::hosts::Host;
use super::slot::State;
use super::{PeerAddress, SessionId, Sessions};

/// The keys of an endpoint, and what it draws those of its sessions from.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) ring: Keyring,
    pub(super) entropy: Entropy,
    /// Where short packets are sealed.
    room: Vec<u8>,
}

/// How far the two sides of a session have agreed on keys.
#[derive(Debug, Default)]
pub(super) enum Agreement {
    /// Not at all, for want of a cluster key or of an offer.
    #[default]
    None,
    /// OPEN was sent.
    Asked(Box<Opener>),
    /// An OPEN was sent that asks who the acceptor is, by that cluster key.
    Wondering(Box<StatelessKey>),
    /// ACCEPT was sent, which is kept until the opener has confirmed it.
    Answered(Box<SessionKeys>, Box<[u8; REPLY_BYTES]>),
    /// Both sides have the same keys.
    Agreed(Box<SessionKeys>),
}

impl Agreement {
    #[inline]
    fn keys(&mut self) -> Option<&mut SessionKeys> {
        match self {
            Self::None | Self::Asked(_) | Self::Wondering(_) => None,
            Self::Answered(keys, _) | Self::Agreed(keys) => Some(keys),
        }
    }

    /// Who the peer has proved to be.
    pub(super) fn principal(&self) -> Principal {
        match self {
            Self::None | Self::Asked(_) | Self::Wondering(_) => Principal::Unproven,
            Self::Answered(keys, _) | Self::Agreed(keys) => keys.principal(),
        }
    }

    /// Whose answer is wanted, where the acceptor has to prove who it is and is known.
    pub(super) fn acceptor(&self) -> Option<&PublicKey> {
        self.wanted().map(|(key, _)| key)
    }

    /// The same, with what it is to be called.
    pub(super) fn wanted(&self) -> Option<(&PublicKey, &str)> {
        match self {
            Self::Asked(opener) => opener.acceptor().zip(opener.peer()),
            _ => None,
        }
    }

    /// The opener has confirmed it.
    pub(super) fn confirm(&mut self) {
        *self = match core::mem::take(self) {
            Self::Answered(keys, _) => Self::Agreed(keys),
            other => other,
        };
    }
}

/// A packet as its sender made it: checked by the keys of its session, if sessions have keys here.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'a>(&'a [u8]);

impl<'a> Opened<'a> {
    /// The packet's bytes.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Whether a packet is sealed with the keys of its session, as all are but those without a session, and
/// parts: they are of packets that are.
fn is_sealed(opcode: Opcode) -> bool {
    use Opcode::{Accept, Open, Part, Refuse, Reset, Retry};
    !matches!(opcode, Open | Accept | Refuse | Retry | Reset | Part)
}

impl Sessions {
    /// From now on sessions have keys, agreed on by the cluster keys of `ring`. To be called before the first
    /// session begins. What peers must not foretell comes from `entropy`.
    ///
    /// # Panics
    /// Where packets do not say where they are from: those of libraries are not sealed.
    pub fn set_keys(&mut self, ring: Keyring, entropy: Entropy) {
        assert!(self.protocol != Protocol::Library, "packets of libraries are not sealed");
        let offer = &mut self.config.offer;
        offer.mtu_bytes = offer.mtu_bytes.saturating_sub(TAG_BYTES as u32);
        offer.checksum = false;
        self.keys = Some(Box::new(Keys { ring, entropy, room: Vec::new() }));
    }

    /// Exchanges the cluster keys, where there are any. Sessions that are there keep what they agreed on.
    pub fn exchange_keys(&mut self, ring: Keyring) {
        if let Some(keys) = &mut self.keys {
            keys.ring = ring;
        }
    }

    /// Who the peer of a session has proved to be; of a session that is over, nobody.
    pub fn principal_of(&self, id: SessionId) -> Principal {
        let slot = self.slots.get(id.index()).filter(|slot| slot.id(id.index() as u16) == id);
        slot.map_or(Principal::Unproven, |slot| slot.agreement.principal())
    }

    /// Whether sessions have keys here.
    #[inline]
    pub fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Checks a packet by the keys of its session and opens it into `room`; `None` of one that is to be
    /// dropped. Without keys packets are taken as they are.
    #[inline]
    pub fn open<'a>(
        &mut self,
        from: PeerAddress,
        packet: &'a [u8],
        room: &'a mut Vec<u8>,
        now: Instant,
    ) -> Option<Opened<'a>> {
        if self.keys.is_none() {
            return Some(Opened(packet));
        }
        let Ok(header) = Header::parse(packet) else {
            self.counters.malformed += 1;
            return None;
        };
        if !is_sealed(header.opcode) {
            return Some(Opened(packet));
        }
        match self.slots.get_mut(usize::from(header.session.index())) {
            Some(slot) if slot.local == header.session => match slot.agreement.keys() {
                Some(keys) => {
                    room.clear();
                    room.extend_from_slice(packet);
                    match keys.open(room) {
                        Ok(()) => return Some(Opened(room)),
                        Err(Unsealed::Forged) => self.counters.forged += 1,
                        Err(Unsealed::Replayed) => self.counters.replayed += 1,
                    }
                }
                // Our number, but no keys go with it yet.
                None => self.counters.forged += 1,
            },
            // Whoever may not know better is answered, if that is no longer than what came.
            _ if packet.len() >= HEADER_BYTES + TAG_BYTES => {
                self.answer_unknown(from, header.session, now);
            }
            _ => self.counters.malformed += 1,
        }
        None
    }

    /// Seals a packet of a session, made of two parts, into `room`. False when the session has no keys.
    #[inline]
    pub(crate) fn seal(&mut self, index: u16, parts: [&[u8]; 2], room: &mut Vec<u8>) -> bool {
        let Some(keys) = self.slots[usize::from(index)].agreement.keys() else { return false };
        room.clear();
        parts.into_iter().for_each(|part| room.extend_from_slice(part));
        keys.seal(room);
        true
    }

    /// Puts the packet of a session into `head`, sealed if it has keys.
    pub(super) fn put_in_session(&mut self, index: u16, packet: SessionPacket, head: &mut Head) {
        let remote = self.slots[usize::from(index)].link.remote;
        let Some(keys) = &mut self.keys else { return packet.put(remote, head) };
        let mut room = core::mem::take(&mut keys.room);
        packet.put_unchecked(remote, head);
        if self.seal(index, [head.as_bytes(), &[]], &mut room) {
            head.replace(&room);
        }
        if let Some(keys) = &mut self.keys {
            keys.room = room;
        }
    }

    /// Puts a packet that belongs to no session here into `head`, with a code if there are keys.
    pub(super) fn put_outside(&self, session: WireSession, packet: SessionPacket, head: &mut Head) {
        match &self.keys {
            Some(keys) => put_coded(&packet, session, keys.ring.own(), &self.identity, head),
            None => packet.put(session, head),
        }
    }

    /// The version of OPEN and ACCEPT with keys, as far as this side wants to know who its peers are.
    fn version(&self) -> u8 {
        if self.identities().is_some() { IDENTIFIED_VERSION } else { KEYED_VERSION }
    }

    /// Begins to agree on keys with an acceptor, where there is a cluster key.
    pub(super) fn begin_agreement(&mut self, index: u16) {
        if !self.has_keys() {
            return;
        }
        if self.identities().is_some() {
            return self.begin_identified(index);
        }
        let local = self.slots[usize::from(index)].local;
        let offer = SessionPacket::Open(self.offer_packet(local, self.config.offer), Cookie::NONE);
        let Some(keys) = &mut self.keys else { return };
        let Keys { ring, entropy, .. } = &mut **keys;
        let clear = KeyedOpen::clear(self.protocol as u8, local, ring.own().id);
        let opener = Opener::of_cluster(ring, clear, &offer_bytes(&offer), entropy);
        self.slots[usize::from(index)].agreement = Agreement::Asked(Box::new(opener));
    }

    /// Puts the OPEN of a session with keys into `head`. False when there is none to be sent.
    pub(super) fn put_open(&self, index: u16, cookie: Cookie, head: &mut Head) -> bool {
        let slot = &self.slots[usize::from(index)];
        match &slot.agreement {
            Agreement::Asked(opener) => match Self::identity_asked(opener) {
                None => put_keyed_open(opener.clear, &opener.hello, cookie, head),
                made => put_identified_open(opener.clear, made, cookie, opener.key(), head),
            },
            Agreement::Wondering(key) => {
                let clear = IdentifiedOpen::clear(self.protocol as u8, slot.local, key.id);
                put_identified_open(clear, None, cookie, key, head);
            }
            _ => return false,
        }
        true
    }

    /// Answers an opener, with which the session at `index` is to be. False when its public key is none.
    pub(super) fn answer_agreement(&mut self, index: u16, acceptor: Acceptor) -> bool {
        let slot = &self.slots[usize::from(index)];
        let offer = SessionPacket::Accept(self.offer_packet(slot.local, slot.link.agreed));
        let Some((reply, keys)) = acceptor.answer(&offer_bytes(&offer)) else { return false };
        self.slots[usize::from(index)].agreement = Agreement::Answered(keys, Box::new(reply));
        true
    }

    /// Puts the ACCEPT of a session with keys into `head`. False when the opener has it: it has said so.
    pub(super) fn put_accept(&self, index: u16, head: &mut Head) -> bool {
        let slot = &self.slots[usize::from(index)];
        let Agreement::Answered(_, reply) = &slot.agreement else { return false };
        put_keyed_accept(slot.link.remote, [self.version(), self.protocol as u8], reply, head);
        true
    }

    /// What a packet of the session layer says, where there are keys.
    pub(super) fn handle_keyed(
        &mut self,
        from: PeerAddress,
        host: Host,
        header: &Header,
        packet: &[u8],
        now: Instant,
    ) {
        // What is not sealed may be damaged: it is not to be taken for a word of an attacker.
        if !is_sealed(header.opcode) && !checksum_matches(packet) {
            self.counters.checksum_errors += 1;
            return;
        }
        match header.opcode {
            Opcode::Open => self.on_keyed_open(from, host, header, packet, now),
            Opcode::Accept => self.on_keyed_accept(from, header, packet, now),
            Opcode::Refuse => self.on_keyed_refuse(from, header, packet),
            Opcode::Retry => match self.said_with_code(packet) {
                Some(said) if self.identities().is_some() => self.on_identified_retry(from, header, said),
                Some(said) => self.on_checked(from, host, header, said, now),
                None => self.counters.forged += 1,
            },
            Opcode::Reset => self.on_keyed_reset(from, header, packet),
            _ => self.on_checked(from, host, header, packet, now),
        }
    }

    /// A packet that is known to be as a peer made it.
    fn on_checked(&mut self, from: PeerAddress, host: Host, header: &Header, packet: &[u8], now: Instant) {
        match SessionPacket::parse_checked(header, packet) {
            Ok(parsed) => self.act(from, host, header, packet, parsed, now),
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// What a REFUSE or RETRY says that carries the code of a cluster key.
    fn said_with_code<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let keys = self.keys.as_ref()?;
        let (said, covered, code) = split_coded::<CODE_BYTES>(packet)?;
        keys.ring.vouches(covered, code).then_some(said)
    }

    /// A RESET counts when the session's very peer says it. Any other process of the cluster does not know
    /// the session either, and says so to whoever asks. With identities a member is not
    /// believed for being one: it must know the life of the peer.
    fn on_keyed_reset(&mut self, from: PeerAddress, header: &Header, packet: &[u8]) {
        let Some((said, covered, code)) = split_coded::<RESET_CODE_BYTES>(packet) else {
            self.counters.malformed += 1;
            return;
        };
        let parsed = SessionPacket::parse(header, said);
        let Ok(SessionPacket::Reset { life_code: told }) = parsed else {
            self.counters.malformed += 1;
            return;
        };
        let Some(index) = self.with_remote(header.session).find(|index| self.is_from_peer(*index, from))
        else {
            self.counters.unknown_sessions += 1;
            return;
        };
        let peer = self.slots[usize::from(index)].link.peer;
        let vouched = |keys: &Keys| keys.ring.vouches(&with_identity(covered, &peer), code);
        // Without a rank nothing tells a later life of the peer from other processes: silence does.
        let may_be_later = peer.rank != NO_RANK && self.identities().is_none();
        let is_of_peer = may_be_later || life_code(peer.incarnation, header.session) == told;
        if is_of_peer && self.keys.as_deref().is_some_and(vouched) {
            self.on_reset(from, header.session, told);
        } else {
            self.counters.forged += 1;
        }
    }

    fn on_keyed_open(&mut self, from: PeerAddress, host: Host, header: &Header, packet: &[u8], now: Instant) {
        match (packet.get(HEADER_BYTES), self.identities().is_some()) {
            (Some(&KEYED_VERSION), false) => {}
            (Some(&IDENTIFIED_VERSION), true) => return self.on_identified_open(from, host, packet, now),
            _ => return self.refuse_without_key(from, header, packet),
        }
        let Ok(open) = KeyedOpen::parse(packet) else {
            self.counters.malformed += 1;
            return;
        };
        let Some(keys) = &mut self.keys else { return };
        let Keys { ring, entropy, .. } = &mut **keys;
        let key = ring.by_id(open.key);
        let read = key.and_then(|key| Acceptor::of_cluster(ring, key, &open.clear, &open.hello, entropy));
        let Some((acceptor, opened)) = read else {
            return self.refuse_in_clear(from, open.reply_session, RefuseReason::OtherKey);
        };
        match announced_offer(&open.clear, open.reply_session, &opened) {
            Ok(offer) => self.on_open(from, host, &offer, open.cookie, Some(acceptor), now),
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// An OPEN without keys, with less or more than is wanted here, or of a version of farcall that is not
    /// known.
    fn refuse_without_key(&mut self, from: PeerAddress, header: &Header, packet: &[u8]) {
        match SessionPacket::parse(header, packet) {
            Ok(SessionPacket::Open(OfferPacket { reply_session, .. }, _)) => {
                self.refuse_in_clear(from, reply_session, RefuseReason::KeyWanted);
            }
            Ok(SessionPacket::OpenOfVersion {
                version: version @ (KEYED_VERSION | IDENTIFIED_VERSION),
                reply_session,
            }) => self.refuse_other_mode(from, reply_session, version),
            Ok(SessionPacket::OpenOfVersion { reply_session, .. }) => {
                let theirs = self.version();
                self.refuse_in_clear(from, reply_session, RefuseReason::Version { theirs });
            }
            _ => self.counters.malformed += 1,
        }
    }

    /// Refuses a stranger, in words that anybody could say.
    pub(super) fn refuse_in_clear(&mut self, to: PeerAddress, session: WireSession, reason: RefuseReason) {
        self.counters.refused_key += 1;
        self.push_clear_refusal(to, session, reason);
    }

    pub(super) fn push_clear_refusal(&mut self, to: PeerAddress, session: WireSession, reason: RefuseReason) {
        let mut head = Head::new();
        SessionPacket::Refuse(reason).put(session, &mut head);
        self.push(to, head);
    }

    fn on_keyed_accept(&mut self, from: PeerAddress, header: &Header, packet: &[u8], now: Instant) {
        let Some(index) = self.opening_at(from, header.session) else { return };
        let parsed = parse_keyed_accept(packet, [self.version(), self.protocol as u8]).ok();
        let Some(reply) = parsed.filter(|_| self.knows_acceptor(index)) else {
            self.counters.forged += 1;
            return;
        };
        let slot = &mut self.slots[usize::from(index)];
        let Agreement::Asked(opener) = &mut slot.agreement else { return };
        let Some((opened, keys)) = opener.finish(&reply) else {
            self.counters.forged += 1;
            return;
        };
        slot.agreement = Agreement::Agreed(keys);
        match parse_opened(&opened) {
            Ok(accept) => self.on_accept(from, header, &accept, now),
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// With a code it is as without keys; without one it is no more than a hint.
    fn on_keyed_refuse(&mut self, from: PeerAddress, header: &Header, packet: &[u8]) {
        let coded = self.said_with_code(packet);
        let said = coded.unwrap_or(packet);
        let Ok(SessionPacket::Refuse(reason)) = SessionPacket::parse(header, said) else {
            self.counters.malformed += 1;
            return;
        };
        if coded.is_some() {
            return self.on_refuse(from, header.session, reason);
        }
        let Some(index) = self.opening_at(from, header.session) else { return };
        let has_identity = self.identities().is_some();
        if let State::Opening(opening) = &mut self.slots[usize::from(index)].state {
            opening.refused = Some(match reason {
                // That is how a peer of a former version declines an OPEN with keys.
                RefuseReason::Version { theirs } if theirs < KEYED_VERSION => RefuseReason::Keyless,
                RefuseReason::Version { theirs: KEYED_VERSION } if has_identity => RefuseReason::Identityless,
                reason => reason,
            });
        }
    }
}
