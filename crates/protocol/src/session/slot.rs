//! One session, from the handshake to its end.
//!
//! ```text
//! Vacant ──open──▶ Opening ──accepted──▶ Up ──leave──▶ Vacant     the side that connects
//! Vacant ──offer─▶ HalfOpen ─confirmed─▶ Up ──leave──▶ Vacant     the side that is connected to
//! ```

use core::time::Duration;
use std::sync::Arc;

use crate::wire::{Cookie, Offer, RefuseReason, WireSession};
use farcall_base::{Identity, Instant, SessionNumbers};

use super::hosts::Host;
use super::keyed::Agreement;
use super::life::Life;
use super::path_mtu::PathMtu;
use super::{Link, PeerAddress, SessionId};

/// Where a session stands. A session is mostly up and quiet, and a server has thousands: what only some
/// states or rare events need is in boxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No session is here.
    Vacant,
    /// OPEN was sent.
    Opening(Box<Opening>),
    /// ACCEPT was sent; nothing proves yet that the opener is still there. It is forgotten then.
    HalfOpen {
        /// After how many more parts of the timeout.
        parts_left: u8,
    },
    /// Both sides know that the other is there.
    Up,
}

/// What an opener has tried and been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) handshake: Handshake,
    /// What the acceptor asked for.
    pub(super) cookie: Cookie,
    /// Why the acceptor has no room now.
    pub(super) refused: Option<RefuseReason>,
}

/// How long a side has tried, and when it tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handshake {
    pub(super) since: Instant,
    pub(super) retry_at: Instant,
    retry_after: Duration,
}

impl Handshake {
    /// Begins, and tries again after `retry_after`.
    pub(super) fn new(now: Instant, retry_after: Duration) -> Self {
        Self { since: now, retry_at: now + retry_after, retry_after }
    }

    /// Tries again, with twice the patience.
    pub(super) fn retry(&mut self, now: Instant, retry_after_max: Duration) {
        self.retry_after = (self.retry_after * 2).min(retry_after_max);
        self.retry_at = now + self.retry_after;
    }
}

/// An address from which packets of a session came, and which is asked whether the session is there now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) to: PeerAddress,
    /// What the PONG must say.
    pub(super) number: u64,
    pub(super) asked_at: Instant,
}

/// The place of one session after another.
#[derive(Debug)]
pub(super) struct Slot {
    /// The number that packets to this side carry; [`WireSession::NONE`] while vacant.
    pub(super) local: WireSession,
    /// The last sign of life.
    pub(super) heard_at: Instant,
    pub(super) state: State,
    /// Placeholders until the handshake fills them in, except for `to`.
    pub(super) link: Link,
    pub(super) pinged_at: Instant,
    /// Pings of the present silence; of no meaning unless `pinged_at` is later than `heard_at`.
    pub(super) unanswered_pings: u8,
    /// What the last ping said; 0 when it was answered.
    pub(super) ping_number: u64,
    pub(super) round_trip_nanos: u64,
    /// How long the handshake took, with all that was repeated in it.
    pub(super) handshake_nanos: u64,
    /// What is known of the peer's life beyond what it sends.
    pub(super) life: Life,
    /// Repeats the confirmation of a session that we opened until anything is heard in it.
    pub(super) confirming: Option<Box<Handshake>>,
    /// Where the session may have moved to.
    pub(super) path: Option<Box<Path>>,
    /// How long packets of the session may be on their way.
    pub(super) path_mtu: PathMtu,
    /// When its timer is due; [`Instant::NEVER`] without one.
    pub(super) wake_at: Instant,
    /// Which host opened it; `None` when this side did.
    pub(super) offered_by: Option<Host>,
    /// Under which name the peer was looked for, if under one.
    pub(super) expected: Option<Arc<str>>,
    /// With which keys its packets are sealed.
    pub(super) agreement: Agreement,
    /// In the high half of its number.
    generation: u16,
}

impl Slot {
    pub(super) const fn vacant() -> Self {
        Self {
            local: WireSession::NONE,
            heard_at: Instant::ZERO,
            state: State::Vacant,
            link: Link {
                to: PeerAddress(0),
                remote: WireSession::NONE,
                peer: Identity { incarnation: 0, rank: 0, endpoint: 0 },
                agreed: Offer {
                    message_bytes_max: 0,
                    mtu_bytes: 0,
                    unscheduled_bytes: 0,
                    calls_max: 0,
                    checksum: true,
                },
            },
            pinged_at: Instant::ZERO,
            unanswered_pings: 0,
            ping_number: 0,
            round_trip_nanos: 0,
            handshake_nanos: 0,
            life: Life::UNKNOWN,
            confirming: None,
            path: None,
            path_mtu: PathMtu::UNKNOWN,
            wake_at: Instant::NEVER,
            offered_by: None,
            expected: None,
            agreement: Agreement::None,
            generation: 0,
        }
    }

    pub(super) const fn id(&self, index: u16) -> SessionId {
        SessionId((self.generation as u32) << 16 | index as u32)
    }

    /// Vacant → Opening.
    pub(super) fn open(&mut self, local: WireSession, to: PeerAddress, offer: Offer, handshake: Handshake) {
        debug_assert_eq!(self.state, State::Vacant);
        self.local = local;
        self.link.to = to;
        self.link.agreed = offer;
        let opening = Opening { handshake, cookie: Cookie::NONE, refused: None };
        self.state = State::Opening(Box::new(opening));
    }

    /// Vacant → HalfOpen.
    pub(super) fn offered(
        &mut self,
        local: WireSession,
        link: Link,
        life: Life,
        (host, parts_left): (Host, u8),
        now: Instant,
    ) {
        debug_assert_eq!(self.state, State::Vacant);
        (self.local, self.heard_at) = (local, now);
        (self.link, self.life) = (link, life);
        self.offered_by = Some(host);
        self.state = State::HalfOpen { parts_left };
    }

    /// Opening → Up. The acceptor does not know it until a packet of the session reaches it.
    pub(super) fn accepted(&mut self, link: Link, life: Life, confirming: Handshake, now: Instant) {
        debug_assert!(matches!(self.state, State::Opening(_)));
        let since = match &self.state {
            State::Opening(opening) => opening.handshake.since,
            _ => now,
        };
        (self.link, self.life) = (link, life);
        self.confirming = Some(Box::new(confirming));
        self.up(since, now);
    }

    /// HalfOpen → Up.
    pub(super) fn confirmed(&mut self, now: Instant) {
        debug_assert!(matches!(self.state, State::HalfOpen { .. }));
        self.agreement.confirm();
        self.up(self.heard_at, now);
    }

    /// Vacant, to be numbered with these.
    pub(super) fn numbered(numbers: SessionNumbers) -> Self {
        Self { generation: (numbers.first() >> 16) as u16, ..Self::vacant() }
    }

    /// Any → Vacant. False when all of its numbers are used up. One that never came up has used none: its
    /// number was told to nobody here.
    pub(super) fn leave(&mut self, numbers: SessionNumbers) -> bool {
        let was_seen = !matches!(self.state, State::HalfOpen { .. });
        *self = Self { generation: self.generation, ..Self::vacant() };
        match numbers.behind(self.id(0).0, u32::from(was_seen) << 16) {
            Some(next) => {
                self.generation = (next >> 16) as u16;
                true
            }
            None => false,
        }
    }

    fn up(&mut self, since: Instant, now: Instant) {
        self.handshake_nanos = now.since(since).as_nanos() as u64;
        self.heard_at = now;
        self.state = State::Up;
    }
}
