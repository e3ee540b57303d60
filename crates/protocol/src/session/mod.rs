//! Sessions over datagrams: who is at the other end, what both sides can do, and whether it is still alive.
//!
//! A session is opened by a handshake of three packets. OPEN carries the opener's identity and limits;
//! ACCEPT the acceptor's identity and the smaller of both limits; then any packet that carries the number
//! which the acceptor chose proves that the opener is there *now*, and only then does the session exist for
//! the acceptor. A stray OPEN of a former life therefore disturbs nothing.
//!
//! - Each side numbers the session for packets *to* itself, by 48 bits that nobody can foretell. What
//!   carries a number of a former session is dropped, counted, and answered by RESET, so that its sender
//!   learns at once that this process forgot it.
//! - A packet counts only from where the session is. From elsewhere it is dropped, and that address is
//!   asked for a number that only its owner can read; when the answer comes from there, the session has
//!   moved.
//! - Only the opener repeats itself, and no more leaves for an address than came from it, until it has
//!   proved that it reads what is sent there. With many half-open sessions an opener must prove that before
//!   anything is kept of it.
//! - Sessions have no direction: either side can call over one. When both sides connect at the same time, two
//!   sessions come to be, and both work.
//! - A peer that opens a session under the same rank and endpoint but with another incarnation was
//!   restarted; its older sessions end. Ranks are taken at their word here: who leads to whom is the
//!   caller's to check.
//! - Any packet is a sign of life. After a quarter of the peer timeout without one a side pings, and after
//!   the whole of it the peer is dead, unless its process answers elsewhere that it lives (`life.rs`).
//!
//! Nothing but RESET, CLOSE and REFUSE ends a session from outside. Each must name a number of 48 bits and
//! come from the session's address, and CLOSE must name the incarnation. So who cannot read what the two
//! sides send cannot end it. Without keys ([`crate::keys`]) nothing is encrypted: who can read can do all of
//! it.

mod config;
mod cookies;
mod counters;
mod fuzz_keyed;
mod handshake;
mod hosts;
mod identified;
mod keyed;
mod life;
mod liveness;
mod parts;
mod path;
mod path_mtu;
mod receive;
mod slot;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::wire::{
    Head, LifePort, Offer, Part, Protocol, RefuseReason, SessionPacket, WireSession, put_part,
};
use farcall_base::{Entropy, Identity, Instant, NO_RANK};

pub use config::{ConfigError, HALF_OPEN_MAX, MTU_BYTES_MIN, SESSIONS_MAX, SessionConfig};
use cookies::Cookies;
pub use counters::SessionCounters;
pub(crate) use fuzz_keyed::fuzz_keyed;
use hosts::Hosts;
use identified::Reads;
use keyed::Keys;
pub use keyed::Opened;
pub use life::LifeQuestion;
use liveness::ResetBudget;
use parts::WaitingForParts;
use slot::{Slot, State};

/// A session, as this process numbers it. A number is never used for another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u32);

impl SessionId {
    /// Where the session is kept; another session can come to be there later.
    pub const fn index(self) -> usize {
        (self.0 & 0xffff) as usize
    }
}

/// Where packets go to or come from: a small number that the driver gave to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerAddress(pub u32);

/// A session that both sides agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where its packets go to.
    pub to: PeerAddress,
    /// The number that they carry.
    pub remote: WireSession,
    /// Who is there.
    pub peer: Identity,
    /// The limits that hold.
    pub agreed: Offer,
}

/// What happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// It is ready.
    Up {
        /// One that we asked for, or a new one that the peer opened.
        id: SessionId,
        /// Who is there.
        peer: Identity,
    },
    /// Its peer is reached elsewhere now.
    Moved {
        /// Which.
        id: SessionId,
        /// Where its packets go to.
        to: PeerAddress,
    },
    /// It is over.
    Down {
        /// Which.
        id: SessionId,
        /// Why.
        reason: EndReason,
    },
}

/// What becomes of an address that a session leads to. Each that is needed is named once for each session,
/// and released as often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressUse {
    /// A session leads there.
    Needed(PeerAddress),
    /// A session does not lead there any more.
    Released(PeerAddress),
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndReason {
    /// Nobody answered: check the address, or wait for the peer to start.
    #[error("nobody answers at the peer's address")]
    Unreachable,
    /// The peer was silent for the whole of the peer timeout, and so was its process.
    #[error("the peer was silent for longer than the limit")]
    Dead,
    /// The peer's process lives, but its endpoint was not polled for longer than this side's limit.
    #[error("the peer's process lives, but its endpoint was not polled for longer than the limit")]
    NotPolled,
    /// The peer's process is another one now: connect again.
    #[error("the peer was restarted")]
    Restarted,
    /// One of the two sides closed it.
    #[error("the session was closed")]
    Closed,
    /// The peer declined.
    #[error("{0}")]
    Refused(#[from] RefuseReason),
    /// The peer's public key is not one of those that this side knows: add it, or do not connect there.
    #[error("security.peers_file does not have the peer's identity: add what farcall key show says there")]
    PeerUnknown,
    /// The peer that answers is known, and not by the name that it was looked for under.
    #[error("another peer answers than the one that security.peers_file lists under the name")]
    OtherPeer,
    /// The peer sent what no correct peer sends.
    #[error("the peer broke the protocol: {what}")]
    Violation {
        /// What was wrong.
        what: &'static str,
    },
    /// The peer sent what this side's user does not let it send.
    #[error("the peer sent what it may not")]
    NotAllowed,
    /// A call that waited for the session is longer than the limit agreed with the peer.
    #[error("a waiting call of {bytes} bytes is over the limit of {bytes_max} agreed with the peer")]
    WaitingCallTooLong {
        /// The call's length.
        bytes: usize,
        /// The agreed limit.
        bytes_max: usize,
    },
}

/// There are [`SessionConfig::sessions_max`] sessions already: close some first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {sessions_max} sessions already; close some, or raise the limit")]
pub struct SessionsFull {
    /// The limit.
    pub sessions_max: u16,
}

/// A packet that waits for transmission.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most are heads, and a box would be an allocation for each")]
enum Outgoing {
    /// One that is no more than a head.
    Short(Head),
    /// A probe of a length, in the search of that number, for the session at `index`.
    Probe { index: u16, number: u64, bytes: u32 },
    /// A part of a packet.
    Part { remote: WireSession, number: u64, total: u32, count: u16, index: u16, bytes: Vec<u8> },
}

/// The most session packets that wait for transmission. What finds no room is repeated by a timer.
pub const QUEUED_PACKETS_MAX: usize = 1024;

/// All sessions of one endpoint.
#[derive(Debug)]
pub struct Sessions {
    config: SessionConfig,
    protocol: Protocol,
    identity: Identity,
    /// Session numbers.
    numbers: Entropy,
    /// What pings say.
    pings: Entropy,
    cookies: Cookies,
    /// What sessions are sealed with, if they are.
    keys: Option<Box<Keys>>,
    /// How many OPENs with identities were read of late.
    reads: Reads,
    slots: Vec<Slot>,
    /// Sessions that are opening or up; the half-open ones are counted by `hosts`.
    established: usize,
    /// The sessions that each host opened, and how many of all are half open.
    hosts: Hosts,
    /// The half-open sessions, the oldest first, among others that are not half-open any more.
    half_open_ages: VecDeque<(u16, WireSession)>,
    /// By the peer's number: where the session is.
    by_remote: BTreeSet<(u64, u16)>,
    /// By the address that packets go to: where the session is.
    by_address: BTreeSet<(PeerAddress, u16)>,
    /// The sessions that are up, by rank and endpoint.
    by_peer: BTreeSet<(u32, u32, u16)>,
    /// First in, first out, so that a number rests as long as possible before its index is used again.
    vacant: VecDeque<u16>,
    outgoing: VecDeque<(PeerAddress, Outgoing)>,
    /// What follows the head of the packet that was polled last.
    payload: Vec<u8>,
    /// Where probes are sealed.
    sealed_probe: Vec<u8>,
    /// Sessions whose paths are searched, and when the first of them is looked at.
    searching: Vec<u16>,
    search_at: Instant,
    /// How many sessions have paths that do not carry the full length.
    short_paths: usize,
    /// How many packets went out in parts.
    parts_numbered: u64,
    waiting_for_parts: WaitingForParts,
    events: VecDeque<SessionEvent>,
    addresses: VecDeque<AddressUse>,
    /// When each session that waits is looked at.
    timers: BTreeSet<(Instant, u16)>,
    /// The earliest of them.
    sweep_at: Instant,
    resets: ResetBudget,
    /// Where this side's process answers for it.
    life: Option<LifePort>,
    /// For how long a peer may not poll although its process lives; without a limit as long as it lives.
    poll_timeout: Option<Duration>,
    questions: VecDeque<LifeQuestion>,
    counters: SessionCounters,
}

impl Sessions {
    /// No sessions yet. All numbers that peers must not foretell come from `entropy`.
    pub fn new(
        config: SessionConfig,
        protocol: Protocol,
        identity: Identity,
        mut entropy: Entropy,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        if identity.incarnation == 0 {
            return Err(ConfigError::IncarnationZero);
        }
        Ok(Self {
            config,
            protocol,
            identity,
            numbers: entropy.split(),
            pings: entropy.split(),
            cookies: Cookies::new(entropy),
            keys: None,
            reads: Reads::default(),
            slots: Vec::new(),
            established: 0,
            hosts: Hosts::default(),
            half_open_ages: VecDeque::new(),
            by_remote: BTreeSet::new(),
            by_address: BTreeSet::new(),
            by_peer: BTreeSet::new(),
            vacant: VecDeque::new(),
            outgoing: VecDeque::new(),
            payload: Vec::new(),
            sealed_probe: Vec::new(),
            searching: Vec::new(),
            search_at: Instant::NEVER,
            short_paths: 0,
            parts_numbered: 0,
            waiting_for_parts: WaitingForParts::default(),
            events: VecDeque::new(),
            addresses: VecDeque::new(),
            timers: BTreeSet::new(),
            sweep_at: Instant::NEVER,
            resets: ResetBudget::default(),
            life: None,
            poll_timeout: None,
            questions: VecDeque::new(),
            counters: SessionCounters::default(),
        })
    }

    /// Starts to open a session; the outcome comes as an event.
    pub fn connect(&mut self, to: PeerAddress, now: Instant) -> Result<SessionId, SessionsFull> {
        self.connect_to(to, None, now)
    }

    /// The same, with a peer that was looked for under a name: where peers prove who they are and one is
    /// known by that name, no other one is taken for it.
    pub fn connect_to(
        &mut self,
        to: PeerAddress,
        expected: Option<&str>,
        now: Instant,
    ) -> Result<SessionId, SessionsFull> {
        if self.is_full() {
            return Err(SessionsFull { sessions_max: self.config.sessions_max });
        }
        let index = self.vacate_or_grow()?;
        let local = self.draw_number(index);
        let handshake = self.new_handshake(now);
        let slot = &mut self.slots[usize::from(index)];
        slot.open(local, to, self.config.offer, handshake);
        slot.expected = expected.map(Arc::from);
        let id = slot.id(index);
        self.established += 1;
        self.by_address.insert((to, index));
        self.note_address(AddressUse::Needed(to));
        self.wake_by(index, handshake.retry_at);
        self.begin_agreement(index);
        self.send_open(index);
        Ok(id)
    }

    /// Ends a session and tells the peer.
    pub fn close(&mut self, id: SessionId) {
        self.end_because(id, EndReason::Closed);
    }

    /// Ends a session for a reason of the caller's and tells the peer. Nothing happens when it is over
    /// already.
    pub fn end_because(&mut self, id: SessionId, reason: EndReason) {
        let Some(slot) = self.slot(id) else { return };
        let index = id.index() as u16;
        if slot.link.remote != WireSession::NONE {
            let packet = SessionPacket::Close { incarnation: self.identity.incarnation };
            self.queue_in(index, slot.link.to, packet);
        }
        self.end(index, reason);
    }

    /// The session's other end and limits, once it is up.
    pub fn link(&self, id: SessionId) -> Option<&Link> {
        self.slot(id).filter(|slot| matches!(slot.state, State::Up)).map(|slot| &slot.link)
    }

    /// Who is at the session's other end, once it is up; without a rank where it claims one that is not of
    /// this world.
    pub fn peer(&self, id: SessionId) -> Option<Identity> {
        self.link(id).map(|link| self.in_this_world(link.peer))
    }

    pub(super) fn in_this_world(&self, claimed: Identity) -> Identity {
        claimed.in_world_of(self.config.ranks).unwrap_or(Identity { rank: NO_RANK, ..claimed })
    }

    /// The session's round trip as measured so far, in nanoseconds; 0 before the first measurement.
    pub fn round_trip_nanos(&self, id: SessionId) -> u64 {
        self.slot(id).map_or(0, |slot| slot.round_trip_nanos)
    }

    /// How long the session's handshake took, in nanoseconds: a round trip at least. 0 before it is up.
    pub fn handshake_nanos(&self, id: SessionId) -> u64 {
        self.slot(id).map_or(0, |slot| slot.handshake_nanos)
    }

    /// When anything was last heard in a session; at the beginning of time in one that is over.
    pub fn heard_at(&self, id: SessionId) -> Instant {
        self.slot(id).map_or(Instant::ZERO, |slot| slot.heard_at)
    }

    /// The next packet to send, and where to: its beginning, written into `head`. What follows is
    /// [`Sessions::payload`].
    pub fn poll_transmit(&mut self, head: &mut Head) -> Option<PeerAddress> {
        let (to, packet) = self.outgoing.pop_front()?;
        self.payload.clear();
        match packet {
            Outgoing::Short(packet) => *head = packet,
            Outgoing::Probe { index, number, bytes } => self.put_probe(index, number, bytes, head),
            Outgoing::Part { remote, number, total, count, index, bytes } => {
                put_part(head, remote, &Part { number, total, count, index, bytes: &bytes });
                self.payload = bytes;
            }
        }
        Some(to)
    }

    /// What follows the head of the packet that was polled last: nothing but in probes and parts.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        self.events.pop_front()
    }

    /// Whether [`Sessions::poll_event`] has something.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next address that is needed, or is not any more; none where the protocol's packets do not say
    /// where they are from.
    pub fn poll_address(&mut self) -> Option<AddressUse> {
        self.addresses.pop_front()
    }

    /// Whether [`Sessions::poll_address`] has something.
    #[inline]
    pub fn has_addresses(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// How many sessions others have asked for and not confirmed.
    pub fn half_open(&self) -> usize {
        self.hosts.half_open()
    }

    /// How many sessions are opening or up.
    pub fn established(&self) -> usize {
        self.established
    }

    /// Whether [`Sessions::poll_transmit`] has something.
    #[inline]
    pub fn wants_transmit(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// What happened so far.
    pub fn counters(&self) -> &SessionCounters {
        &self.counters
    }

    /// What this side was configured with.
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    fn slot(&self, id: SessionId) -> Option<&Slot> {
        let slot = self.slots.get(id.index())?;
        (slot.id(id.index() as u16) == id && !matches!(slot.state, State::Vacant)).then_some(slot)
    }

    /// Whether packets say where they came from. Those of a library do not, and nobody but its processes
    /// sends them.
    #[inline(always)]
    fn knows_sources(&self) -> bool {
        !matches!(self.protocol, Protocol::Library)
    }

    fn is_full(&self) -> bool {
        self.established >= usize::from(self.config.sessions_max)
    }

    /// A number for the session at `index`: the index below, 48 drawn bits above, never 0.
    fn draw_number(&mut self, index: u16) -> WireSession {
        loop {
            let drawn = self.numbers.bits() & !0xffff;
            if drawn != 0 {
                return WireSession(drawn | u64::from(index));
            }
        }
    }

    fn vacate_or_grow(&mut self) -> Result<u16, SessionsFull> {
        if let Some(index) = self.vacant.pop_front() {
            return Ok(index);
        }
        let places = usize::from(self.config.sessions_max) + usize::from(self.config.half_open_max);
        if self.slots.len() >= places {
            return Err(SessionsFull { sessions_max: self.config.sessions_max });
        }
        self.slots.push(Slot::numbered(self.config.numbers));
        Ok((self.slots.len() - 1) as u16)
    }

    /// The one way out of a session. An index whose numbers are used up is not used again.
    fn end(&mut self, index: u16, reason: EndReason) {
        let slot = &mut self.slots[usize::from(index)];
        let (id, link, wake_at) = (slot.id(index), slot.link, slot.wake_at);
        let (is_half_open, offered_by) = (matches!(slot.state, State::HalfOpen { .. }), slot.offered_by);
        let numbers = self.config.numbers;
        if slot.state == State::Vacant {
            return;
        }
        self.forget_path(index);
        let slot = &mut self.slots[usize::from(index)];
        if slot.leave(numbers) {
            self.vacant.push_back(index);
        }
        self.timers.remove(&(wake_at, index));
        self.by_remote.remove(&(link.remote.0, index));
        self.by_address.remove(&(link.to, index));
        if let (true, Some(host)) = (is_half_open, offered_by) {
            self.hosts.half_open_ended(host);
        } else {
            offered_by.into_iter().for_each(|host| self.hosts.went_down(host));
            self.established -= 1;
            self.by_peer.remove(&(link.peer.rank, link.peer.endpoint, index));
            self.events.push_back(SessionEvent::Down { id, reason });
        }
        self.note_address(AddressUse::Released(link.to));
    }

    fn note_address(&mut self, address: AddressUse) {
        if self.knows_sources() {
            self.addresses.push_back(address);
        }
    }

    /// A packet of a session that is here.
    fn queue_in(&mut self, index: u16, to: PeerAddress, packet: SessionPacket) {
        let mut head = Head::new();
        self.put_in_session(index, packet, &mut head);
        self.push(to, head);
    }

    /// A packet that belongs to no session here, yet or any more.
    fn queue(&mut self, to: PeerAddress, session: WireSession, packet: SessionPacket) {
        let mut head = Head::new();
        self.put_outside(session, packet, &mut head);
        self.push(to, head);
    }

    fn push(&mut self, to: PeerAddress, packet: Head) {
        self.push_outgoing(to, Outgoing::Short(packet));
    }

    fn push_outgoing(&mut self, to: PeerAddress, packet: Outgoing) {
        if self.outgoing.len() == QUEUED_PACKETS_MAX {
            self.counters.queue_full += 1;
            return;
        }
        self.outgoing.push_back((to, packet));
    }
}
