//! Grants: which message gets how much, and at which priority.

use crate::calls::{Incoming, SlotRef};

use super::policy::HomaPolicy;

/// What bounds a grant, beside the window of the message.
#[derive(Clone, Copy)]
enum Limits {
    /// What is outstanding of its sender, and of all.
    OfActive,
    /// The least grant: its share goes beyond the limits for the others.
    OfOldest,
}

impl HomaPolicy {
    /// Gives the grants that are due: to the active messages until no place is free, then to the oldest.
    pub(super) fn give_grants<B: AsRef<[u8]>>(&mut self, incoming: &mut Incoming<'_, B, Self>) {
        while self.grant_to_active(incoming) {}
        self.grant_to_oldest(incoming);
    }

    /// Grants to a message as much as it may have, within `limits`; how many bytes.
    fn grant<B: AsRef<[u8]>>(
        &mut self,
        slot: SlotRef,
        scheduled_priority: u8,
        limits: Limits,
        incoming: &mut Incoming<'_, B, Self>,
    ) -> u32 {
        let Some((message, peer, window)) = incoming.message(slot) else {
            debug_assert!(false, "{slot:?} is ranked and receives nothing");
            self.arriving.remove(slot);
            return 0;
        };
        let (outstanding, ungranted) =
            (message.granted() - message.received(), message.total() - message.granted());
        let window_bytes = self.rules.window_bytes(window.bytes());
        let least = self.rules.window_bytes(0).saturating_sub(outstanding);
        let room = match limits {
            Limits::OfActive => self.room_bytes(slot, window_bytes, least),
            Limits::OfOldest => self.rules.grant_bytes,
        };
        let more = window_bytes.saturating_sub(outstanding).min(ungranted).min(room);
        if more < self.rules.grant_bytes.min(ungranted) {
            return 0;
        }
        let unpaced = least.min(more);
        let more = if more <= unpaced { more } else { window.take(slot, more).max(unpaced) };
        if more == 0 {
            incoming.queue_grant(slot, false);
            return 0;
        }
        let missing = message.total() - message.received();
        let is_tail = more == ungranted && missing <= self.rules.rtt_bytes;
        // The end of a message competes as a message of that length would.
        let as_short = if is_tail { self.cutoffs.priority(missing) } else { 0 };
        message.grant(message.granted() + more, scheduled_priority.max(as_short));
        let sender = peer.identity;
        self.arriving.update(slot, sender, ungranted - more, outstanding + more, window_bytes);
        incoming.queue_grant(slot, true);
        more
    }

    /// How much more may be outstanding by a grant to an active message. All senders together have as many
    /// windows as messages may be active. Each has one, over all of its messages, since more would wait in
    /// queues; but `least` is left to its first message, whatever others began.
    fn room_bytes(&self, slot: SlotRef, window_bytes: u32, least: u32) -> u32 {
        let of_sender = u64::from(window_bytes).saturating_sub(self.arriving.outstanding_of_sender(slot));
        let of_all = u64::from(self.rules.overcommit) * u64::from(window_bytes);
        let of_all = of_all.saturating_sub(self.arriving.outstanding_bytes());
        u32::try_from(of_sender.max(u64::from(least)).min(of_all)).unwrap_or(u32::MAX)
    }

    /// Grants to the active messages in turn; whether one of them has all it needs now, and left its place to
    /// another.
    fn grant_to_active<B: AsRef<[u8]>>(&mut self, incoming: &mut Incoming<'_, B, Self>) -> bool {
        let mut active = core::mem::take(&mut self.active);
        active.extend(self.arriving.first(self.rules.overcommit));
        let mut place_is_free = false;
        for (rank, &slot) in active.iter().enumerate() {
            let priority = self.scheduled_priority(rank, active.len());
            let granted = self.grant(slot, priority, Limits::OfActive, incoming);
            self.grants_to_oldest.served(granted, false);
            place_is_free |= granted > 0 && !self.arriving.waits(slot);
        }
        active.clear();
        self.active = active;
        place_is_free
    }

    /// Grants its share to the oldest message, beyond the limits for the others.
    fn grant_to_oldest<B: AsRef<[u8]>>(&mut self, incoming: &mut Incoming<'_, B, Self>) {
        let bytes = self.rules.grant_bytes;
        if self.grants_to_oldest.is_due(bytes)
            && let Some(slot) = self.arriving.oldest()
        {
            let priority = self.scheduled_priorities() - 1;
            let granted = self.grant(slot, priority, Limits::OfOldest, incoming);
            self.grants_to_oldest.served(granted, true);
        }
    }

    /// How many of the priorities scheduled bytes have. The lowest; with a single one they share it.
    fn scheduled_priorities(&self) -> u8 {
        let unscheduled = self.cutoffs.lengths().len() as u8 + 1;
        self.rules.priorities.saturating_sub(unscheduled).max(1)
    }

    /// The priority of the message at `rank` of `count` active ones: when they are few, the lowest levels, so
    /// that a shorter one that comes can get a higher one at once.
    fn scheduled_priority(&self, rank: usize, count: usize) -> u8 {
        let levels = count.min(usize::from(self.scheduled_priorities()));
        (levels - 1).saturating_sub(rank) as u8
    }
}
