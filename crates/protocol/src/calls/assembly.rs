//! A long message on its way in, put together from pieces that come in any order and more than once.
//!
//! Pieces lie at multiples of the session's piece length and fill it, but for the last one. Whatever does not
//! fit is not of this message, and two pieces are either the same one or do not overlap. Nor does a piece
//! count that begins beyond what was permitted: so memory is written to only a round trip ahead of what came.

use super::gaps::Gaps;
use super::lots::Lots;
use super::sending::Cut;
use super::spares::Spares;
use super::window::{Counted, Window};

/// What a piece did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It was new.
    New,
    /// It was new, and nothing is missing any more.
    Complete,
    /// It was there already.
    Twice,
    /// It does not fit.
    Misfit,
}

/// The message so far. Slots have a box of it: most messages are of one packet, and most slots of quiet
/// sessions.
#[derive(Debug)]
pub struct Assembly {
    /// From the start to behind the last piece that is here. The memory for all is reserved at once, but
    /// takes pages only as far as it is written to.
    bytes: Vec<u8>,
    total: u32,
    /// One bit a piece.
    present: Vec<u64>,
    pieces_missing: u32,
    received_bytes: u32,
    /// What the sender may send as far as we know.
    granted: u32,
    /// What of that the sender was told.
    told: u32,
    /// The priority of what was granted last.
    priority: u8,
    tag: u16,
    fragment_bytes: u32,
    lots: Lots,
    gaps: Gaps,
    /// What of it is in the sums of the session.
    pub(super) counted: Counted,
}

impl Assembly {
    /// An empty message. The caller has checked `total` against the session's limit. `None` when the system
    /// has no memory for it.
    pub(super) fn new(tag: u16, total: u32, cut: &Cut, spares: &mut Spares) -> Option<Box<Self>> {
        let pieces = total.div_ceil(cut.fragment_bytes);
        let (mut bytes, mut present) = (spares.take(total as usize).unwrap_or_default(), Vec::new());
        bytes.try_reserve_exact(total as usize).ok()?;
        present.try_reserve_exact(pieces.div_ceil(64) as usize).ok()?;
        present.resize(pieces.div_ceil(64) as usize, 0);
        Some(Box::new(Self {
            bytes,
            total,
            present,
            pieces_missing: pieces,
            received_bytes: 0,
            granted: cut.unscheduled_bytes.min(total),
            told: cut.unscheduled_bytes.min(total),
            priority: 0,
            tag,
            fragment_bytes: cut.fragment_bytes,
            lots: Lots::default(),
            gaps: Gaps::default(),
            counted: Counted::default(),
        }))
    }

    /// Length of the whole message.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Service or status.
    pub(super) fn tag(&self) -> u16 {
        self.tag
    }

    /// How much of it is here, in bytes.
    pub fn received(&self) -> u32 {
        self.received_bytes
    }

    /// What the sender may send: all bytes below.
    pub fn granted(&self) -> u32 {
        self.granted
    }

    /// Whether all that was granted is here: the sender waits for us, not we for it.
    pub fn is_withheld(&self) -> bool {
        self.received_bytes >= self.granted
    }

    /// Permits bytes up to `offset`, or to the end if that comes first, to come at `priority`.
    pub fn grant(&mut self, offset: u32, priority: u8) {
        if priority > self.priority {
            self.gaps.leave_below(self.granted.div_ceil(self.fragment_bytes));
        }
        self.granted = self.granted.max(offset.min(self.total()));
        self.priority = priority;
    }

    /// The sender is told what it may send; what it was told before.
    pub(super) fn tell(&mut self) -> u32 {
        core::mem::replace(&mut self.told, self.granted)
    }

    /// The priority that goes with the grant.
    pub(super) fn priority(&self) -> u8 {
        self.priority
    }

    /// The complete message.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        debug_assert_eq!(self.pieces_missing, 0);
        self.bytes
    }

    /// Puts a piece where it belongs.
    pub(super) fn add(&mut self, tag: u16, total: u32, offset: u32, payload: &[u8]) -> Added {
        let same_message = tag == self.tag && total == self.total();
        if !same_message || !offset.is_multiple_of(self.fragment_bytes) || offset >= total {
            return Added::Misfit;
        }
        if payload.len() as u32 != self.fragment_bytes.min(total - offset) || offset >= self.granted {
            return Added::Misfit;
        }
        let piece = offset / self.fragment_bytes;
        let (word, bit) = ((piece / 64) as usize, 1_u64 << (piece % 64));
        if self.present[word] & bit != 0 {
            return Added::Twice;
        }
        self.present[word] |= bit;
        self.put(offset as usize, payload);
        self.received_bytes += payload.len() as u32;
        self.granted = self.granted.max(offset + payload.len() as u32);
        self.pieces_missing -= 1;
        if self.pieces_missing == 0 { Added::Complete } else { Added::New }
    }

    /// Writes a piece; what is missing in front of it is nought meanwhile.
    fn put(&mut self, offset: usize, payload: &[u8]) {
        if self.bytes.len() <= offset {
            self.bytes.resize(offset, 0);
            self.bytes.extend_from_slice(payload);
        } else {
            self.bytes[offset..][..payload.len()].copy_from_slice(payload);
        }
    }

    /// The timer asks for what is missing.
    pub(super) fn ask(&mut self, window: &mut Window) {
        window.silent(self.granted - self.received_bytes);
        let (permitted, present) = (self.granted.div_ceil(self.fragment_bytes), &self.present);
        self.lots.ask(permitted, |piece| has(present, piece));
    }

    /// A new piece came, the one at `offset`. Whether the next question follows it at once.
    #[inline]
    pub(super) fn asks_on(&mut self, offset: u32) -> bool {
        let (last, present) = (self.bytes.len() as u32 / self.fragment_bytes, &self.present);
        self.lots.came(offset / self.fragment_bytes, last, |piece| has(present, piece))
    }

    /// A new piece came, the one at `offset`, which was sent before if `repeated`. How many are found to be
    /// lost by that. While the timer asks by lots, lots alone decide.
    pub(super) fn find_lost(&mut self, offset: u32, repeated: bool) -> u32 {
        if repeated || self.lots.are_asked() {
            return 0;
        }
        let permitted = self.granted.div_ceil(self.fragment_bytes);
        let present = &self.present;
        self.gaps.came(offset / self.fragment_bytes, permitted, |piece| has(present, piece))
    }

    /// A question leaves about what was found to be lost, or none is to.
    pub(super) fn asked(&mut self) {
        self.gaps.asked();
    }

    /// What is asked for of what was permitted and is not here, as offset and length, in order.
    pub(super) fn missing(&self) -> impl Iterator<Item = (u32, u32)> {
        let permitted = self.granted.div_ceil(self.fragment_bytes);
        let (mut piece, pieces) = match self.gaps.wanted() {
            Some(range) if !self.lots.are_asked() => range,
            _ => (0, self.lots.asked_to(permitted)),
        };
        core::iter::from_fn(move || {
            while piece < pieces && has(&self.present, piece) {
                piece += 1;
            }
            let first = piece;
            while piece < pieces && !has(&self.present, piece) {
                piece += 1;
            }
            let (offset, end) = (first * self.fragment_bytes, piece.saturating_mul(self.fragment_bytes));
            (first < piece).then(|| (offset, end.min(self.total()) - offset))
        })
    }
}

fn has(present: &[u64], piece: u32) -> bool {
    present[(piece / 64) as usize] & (1 << (piece % 64)) != 0
}
