//! One session, from the handshake to its end.
//!
//! ```text
//! Vacant ──open──▶ Opening ──accepted──▶ Up ──leave──▶ Vacant     the side that connects
//! Vacant ──offer─▶ HalfOpen ─confirmed─▶ Up ──leave──▶ Vacant     the side that is connected to
//! ```

use core::time::Duration;

use crate::wire::{Offer, WireSession};
use farcall_base::{Identity, Instant};

use super::{Link, PeerAddress, SessionId};

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No session is here.
    Vacant,
    /// OPEN was sent.
    Opening(Handshake),
    /// ACCEPT was sent; nothing proves yet that the opener is still there.
    HalfOpen(Handshake),
    /// Both sides know that the other is there.
    Up,
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
    pub(super) round_trip_nanos: u64,
    /// Whether the peer opened it.
    pub(super) is_offered: bool,
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
            round_trip_nanos: 0,
            is_offered: false,
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
        self.state = State::Opening(handshake);
    }

    /// Vacant → HalfOpen.
    pub(super) fn offered(&mut self, local: WireSession, link: Link, handshake: Handshake) {
        debug_assert_eq!(self.state, State::Vacant);
        self.local = local;
        self.link = link;
        self.is_offered = true;
        self.state = State::HalfOpen(handshake);
    }

    /// Opening → Up.
    pub(super) fn accepted(&mut self, link: Link, now: Instant) {
        debug_assert!(matches!(self.state, State::Opening(_)));
        self.link = link;
        self.up(now);
    }

    /// HalfOpen → Up.
    pub(super) fn confirmed(&mut self, now: Instant) {
        debug_assert!(matches!(self.state, State::HalfOpen(_)));
        self.up(now);
    }

    /// Any → Vacant. False when all of its numbers are used up.
    pub(super) fn leave(&mut self) -> bool {
        *self = Self { generation: self.generation, ..Self::vacant() };
        match self.generation.checked_add(1) {
            Some(next) => {
                self.generation = next;
                true
            }
            None => false,
        }
    }

    fn up(&mut self, now: Instant) {
        self.heard_at = now;
        self.state = State::Up;
    }
}
