//! One call of ours after another, in one slot.
//!
//! ```text
//! Idle ──begin──▶ Waiting ──launch──▶ Requesting ──receive──▶ Receiving ──finish──▶ Done ──settle──▶ Idle
//!                    └─────────────────────┴──────────finish or cancel──────────────▶┘
//! ```
//!
//! Done and Idle slots are both free for the next call. They differ in what the server knows: after Done it
//! still holds the result, until the slot's next request or an ACKNOWLEDGE reaches it.

use crate::wire::CallKey;

use super::assembly::Assembly;
use super::event::Payload;
use super::sending::Sending;
use super::upkeep::Upkeep;

/// Where a call of ours stands.
#[derive(Debug)]
pub(super) enum CallerState {
    /// No call, and the server holds nothing.
    Idle,
    /// For the session, or for a slot that the peer accepts.
    Waiting,
    /// Nothing of the response is here yet.
    Requesting,
    /// A part of the response is here, so the whole request is there.
    Receiving(Box<Assembly>),
    /// No call, but the server may hold the last one's result.
    Done,
}

/// The place of one call after another.
#[derive(Debug)]
pub(super) struct CallerSlot<B> {
    pub(super) state: CallerState,
    /// The number of the present call, or of the last one.
    pub(super) sequence: u64,
    /// The caller's own number for the call.
    pub(super) call: u32,
    /// The next free slot, while this one is free: see [`FreeSlots`].
    next_free: u16,
    pub(super) upkeep: Upkeep,
    pub(super) request: Sending<B>,
}

impl<B> Default for CallerSlot<B> {
    fn default() -> Self {
        Self {
            state: CallerState::Idle,
            sequence: 0,
            call: 0,
            next_free: FreeSlots::NONE,
            upkeep: Upkeep::default(),
            request: Sending::default(),
        }
    }
}

/// The slots for the next calls, as a list through the slots themselves. The one freed last is used first,
/// since its memory is warm.
#[derive(Debug)]
pub(super) struct FreeSlots {
    first: u16,
}

impl FreeSlots {
    /// There are at most as many slots as this number, so that none has it.
    const NONE: u16 = u16::MAX;

    pub(super) const fn none() -> Self {
        Self { first: Self::NONE }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == Self::NONE
    }

    #[inline]
    pub(super) fn push<B>(&mut self, slot: u16, callers: &mut [CallerSlot<B>]) {
        callers[usize::from(slot)].next_free = core::mem::replace(&mut self.first, slot);
    }

    #[inline]
    pub(super) fn pop<B>(&mut self, callers: &[CallerSlot<B>]) -> Option<u16> {
        let slot = self.first;
        self.first = callers.get(usize::from(slot))?.next_free;
        Some(slot)
    }

    /// Leaves out the slots from `end` on; the others keep their order.
    pub(super) fn keep_below<B>(&mut self, end: u16, callers: &mut [CallerSlot<B>]) {
        let all: Vec<u16> = core::iter::from_fn(|| self.pop(callers)).collect();
        all.into_iter().rev().filter(|&slot| slot < end).for_each(|slot| self.push(slot, callers));
    }
}

/// How a packet's call relates to a slot of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// It is the present call.
    Present,
    /// It is over, and nothing in this slot will tell the server so.
    Over,
    /// It is an earlier one, which the present one makes the server forget.
    Former,
    /// It was never made.
    Never,
}

impl<B: AsRef<[u8]>> CallerSlot<B> {
    /// Idle or Done → Waiting.
    #[inline(always)]
    pub(super) fn begin(&mut self, call: u32, service: u16, payload: Payload<'_, B>) {
        debug_assert!(!self.is_occupied());
        self.sequence += 1;
        self.call = call;
        self.upkeep.renew();
        self.request.load(service, payload);
        self.state = CallerState::Waiting;
    }

    /// Waiting → Requesting.
    #[inline]
    pub(super) fn launch(&mut self) {
        debug_assert!(matches!(self.state, CallerState::Waiting));
        self.state = CallerState::Requesting;
    }

    /// Requesting → Receiving. The request is not needed any more.
    pub(super) fn receive(&mut self, response: Box<Assembly>) {
        debug_assert!(matches!(self.state, CallerState::Requesting));
        self.request.clear();
        self.state = CallerState::Receiving(response);
    }

    /// Requesting or Receiving → Done; gives the response back if it came in pieces. Also the way of a
    /// cancelled call, from Waiting too.
    #[must_use = "the policy must learn that the response does not arrive any more"]
    #[inline(always)]
    pub(super) fn finish(&mut self) -> Option<Box<Assembly>> {
        debug_assert!(self.is_occupied());
        let response = match core::mem::replace(&mut self.state, CallerState::Done) {
            CallerState::Receiving(response) => Some(response),
            _ => None,
        };
        self.request.clear();
        self.upkeep.renew();
        response
    }

    /// Done → Idle: the server was told.
    pub(super) fn settle(&mut self) {
        debug_assert!(!self.is_occupied());
        self.state = CallerState::Idle;
    }

    /// Whether a call is here that is not over.
    #[inline]
    pub(super) fn is_occupied(&self) -> bool {
        !matches!(self.state, CallerState::Idle | CallerState::Done)
    }

    /// Whether all bytes of the present call's request were sent once.
    pub(super) fn is_request_sent(&self) -> bool {
        match self.state {
            CallerState::Waiting => false,
            CallerState::Requesting => self.request.is_sent(),
            CallerState::Idle | CallerState::Receiving(_) | CallerState::Done => true,
        }
    }

    /// How the call number `key` of a packet relates to this slot.
    #[inline]
    pub(super) fn relation(&self, key: CallKey) -> Relation {
        match self.state {
            _ if key.sequence() > self.sequence => Relation::Never,
            CallerState::Idle | CallerState::Done => Relation::Over,
            _ if key.sequence() < self.sequence => Relation::Former,
            CallerState::Requesting | CallerState::Receiving(_) => Relation::Present,
            CallerState::Waiting => Relation::Never,
        }
    }

    /// The response under construction.
    pub(super) fn response_mut(&mut self) -> Option<&mut Assembly> {
        match &mut self.state {
            CallerState::Receiving(response) => Some(response),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_freed_last_is_used_first_and_slots_beyond_the_limit_are_left_out() {
        let mut callers: Vec<CallerSlot<Vec<u8>>> = (0..6).map(|_| CallerSlot::default()).collect();
        let mut free = FreeSlots::none();
        assert!(free.is_empty() && free.pop(&callers).is_none());
        [3, 0, 5, 1].into_iter().for_each(|slot| free.push(slot, &mut callers));
        free.keep_below(4, &mut callers);
        assert!(!free.is_empty());
        assert_eq!([(); 4].map(|()| free.pop(&callers)), [Some(1), Some(0), Some(3), None]);
        assert!(free.is_empty());
    }
}
