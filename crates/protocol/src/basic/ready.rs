//! Which slots have something to send.
//!
//! The queues hold references, not packets: a slot is in each of them once at most, and what it sends is decided when
//! its turn comes. Their lengths are therefore bounded by the slots, and a cancelled call leaves nothing behind but a
//! reference that is skipped.

use std::collections::VecDeque;

use super::upkeep::{Owed, Upkeep};

/// How many packets of one long message go out before the choice among them is made anew.
const BULK_TURN_PACKETS: u32 = 16;

/// Whose message a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// A call of ours.
    Caller,
    /// A call to us.
    Server,
}

/// Names a slot among all sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotRef {
    pub(super) session: u16,
    pub(super) slot: u16,
    pub(super) side: Side,
}

/// The queues, in the order in which they are served.
#[derive(Debug, Default)]
pub(super) struct Ready {
    pub(super) control: VecDeque<SlotRef>,
    /// Sessions that have calls to acknowledge.
    pub(super) acknowledging: VecDeque<u16>,
    /// Messages of one packet.
    pub(super) whole: VecDeque<SlotRef>,
    /// Longer ones.
    pub(super) bulk: Vec<SlotRef>,
    /// Which of the longer ones has its turn, and for how many more packets.
    pub(super) bulk_turn: Option<(usize, u32)>,
}

impl Ready {
    /// Queues a slot because it owes a control packet.
    pub(super) fn owe(&mut self, slot: SlotRef, upkeep: &mut Upkeep, owed: Owed) {
        upkeep.owed.add(owed);
        if !upkeep.control_queued {
            upkeep.control_queued = true;
            self.control.push_back(slot);
        }
    }

    /// Queues a slot because its message of one packet is due.
    #[inline]
    pub(super) fn queue_whole(&mut self, slot: SlotRef, upkeep: &mut Upkeep) {
        if !upkeep.whole_queued {
            upkeep.whole_queued = true;
            self.whole.push_back(slot);
        }
    }

    /// Queues a slot because bytes of its long message may be sent.
    pub(super) fn queue_bulk(&mut self, slot: SlotRef, upkeep: &mut Upkeep) {
        if !upkeep.bulk_queued {
            upkeep.bulk_queued = true;
            self.bulk.push(slot);
            self.bulk_turn = None;
        }
    }

    /// Gives the turn to the long message at `place`.
    pub(super) fn start_turn(&mut self, place: usize) {
        self.bulk_turn = Some((place, BULK_TURN_PACKETS));
    }

    /// The long message whose turn it is still; uses up one packet of the turn.
    pub(super) fn continue_turn(&mut self) -> Option<usize> {
        let (place, left) = self.bulk_turn?;
        self.bulk_turn = left.checked_sub(1).map(|left| (place, left));
        self.bulk_turn.map(|_| place)
    }

    /// Removes the long message at `place`.
    pub(super) fn remove_bulk(&mut self, place: usize) -> SlotRef {
        self.bulk_turn = None;
        self.bulk.swap_remove(place)
    }

    /// Whether anything waits.
    pub(super) fn is_empty(&self) -> bool {
        self.control.is_empty()
            && self.acknowledging.is_empty()
            && self.whole.is_empty()
            && self.bulk.is_empty()
    }
}
