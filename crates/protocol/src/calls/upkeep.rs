//! What each slot of a call keeps for its timer and for its control packets.

/// The silence, in ticks, before the first question. Two, because the first tick can come right after the
/// packet.
const PATIENCE_MIN_TICKS: u8 = 2;

/// The most ticks between two questions, but for the round trip and what is drawn. Each question without news
/// doubles the distance.
pub(super) const PATIENCE_MAX_TICKS: u8 = 32;

/// The part of a distance that is drawn in addition: what was lost together because it came together is not
/// asked for together again.
const SPREAD: u16 = 4;

/// Control packets that a slot has to send. A set, so that a slot never has two of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Control(u8);

impl Control {
    pub(super) const BUSY: Self = Self(1);
    pub(super) const GRANT: Self = Self(2);
    pub(super) const RESEND: Self = Self(4);
    pub(super) const RESTART: Self = Self(8);
    pub(super) const NEED_ACKNOWLEDGE: Self = Self(16);

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Removes one of them: what keeps bytes flowing first.
    pub(super) fn take_first(&mut self) -> Option<Self> {
        let order = [Self::GRANT, Self::RESEND, Self::RESTART, Self::BUSY, Self::NEED_ACKNOWLEDGE];
        let first = order.into_iter().find(|one| self.0 & one.0 != 0)?;
        self.0 &= !first.0;
        Some(first)
    }

    pub(super) fn add(&mut self, one: Self) {
        self.0 |= one.0;
    }
}

/// Timer, debts, and presence in queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upkeep {
    quiet_ticks: u8,
    patience_ticks: u8,
    /// How much of the spread the next question waits in addition, of 256.
    spread: u8,
    /// Ticks since the peer last said anything about this call.
    silent_ticks: u32,
    /// Whether the slot is among those of its session that wait for ticks.
    pub(super) awake: bool,
    pub(super) control: Control,
    /// Whether a reference to the slot is in the control queue.
    pub(super) control_queued: bool,
    /// Whether a reference to the slot is in the queue of messages of one packet.
    pub(super) whole_queued: bool,
    /// Whether a reference to the slot is in the list of long messages.
    pub(super) bulk_queued: bool,
    /// Whether the slot is in the queue of those that wait for their turn to ask.
    pub(super) question_queued: bool,
    /// Whether it still has something to ask.
    pub(super) question_wanted: bool,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            quiet_ticks: 0,
            patience_ticks: PATIENCE_MIN_TICKS,
            spread: 0,
            silent_ticks: 0,
            awake: false,
            control: Control::default(),
            control_queued: false,
            whole_queued: false,
            bulk_queued: false,
            question_queued: false,
            question_wanted: false,
        }
    }
}

impl Upkeep {
    /// A new call: debts and patience of the last one are void, references in queues are still there.
    #[inline]
    pub(super) fn renew(&mut self) {
        self.heard();
        self.control = Control::default();
    }

    /// Takes over the place of another slot, to which references in queues may exist.
    pub(super) fn take_place_of(&mut self, other: &Self) {
        self.awake = other.awake;
        self.control_queued = other.control_queued;
        self.whole_queued = other.whole_queued;
        self.bulk_queued = other.bulk_queued;
        self.question_queued = other.question_queued;
    }

    /// The peer made progress with this call.
    #[inline]
    pub(super) fn heard(&mut self) {
        self.heard_busy();
        (self.patience_ticks, self.spread) = (PATIENCE_MIN_TICKS, 0);
    }

    /// The peer is alive but made no progress: ask again, but not more often.
    #[inline]
    pub(super) fn heard_busy(&mut self) {
        self.quiet_ticks = 0;
        self.silent_ticks = 0;
        self.question_wanted = false;
    }

    /// The peer waits for what we withhold: it has not given the call up.
    pub(super) fn heard_patient(&mut self) {
        self.silent_ticks = 0;
    }

    /// One tick passed in silence. When it is time to ask, how many did; `base_ticks` is what the round trip
    /// alone takes, and `drawn` is another number for each slot and tick.
    pub(super) fn ask_after_tick(&mut self, base_ticks: u8, drawn: impl FnOnce() -> u64) -> Option<u8> {
        self.quiet_ticks = self.quiet_ticks.saturating_add(1);
        let wait_ticks = u16::from(self.patience_ticks.max(base_ticks));
        let spread_ticks = (wait_ticks / SPREAD + 1) * u16::from(self.spread) / 256;
        if u16::from(self.quiet_ticks) < (wait_ticks + spread_ticks).min(u16::from(u8::MAX)) {
            return None;
        }
        self.patience_ticks = (self.patience_ticks * 2).min(PATIENCE_MAX_TICKS);
        self.spread = drawn() as u8;
        Some(core::mem::take(&mut self.quiet_ticks))
    }

    /// One tick passed in silence. True from the `ticks`-th on, until something is heard or done.
    pub(super) fn quiet_for(&mut self, ticks: u8) -> bool {
        self.quiet_ticks = self.quiet_ticks.saturating_add(1);
        self.quiet_ticks >= ticks
    }

    /// What was due after some quiet ticks is done.
    pub(super) fn quiet_again(&mut self) {
        self.quiet_ticks = 0;
    }

    /// One tick passed in which the peer said nothing about this call. True when it was silent for `ticks`.
    pub(super) fn abandoned_after(&mut self, ticks: u32) -> bool {
        self.silent_ticks = self.silent_ticks.saturating_add(1);
        self.silent_ticks >= ticks
    }
}

#[cfg(test)]
mod tests {
    use farcall_base::Random;

    use super::*;

    /// Slots that wait from the same tick on, and the most of them that ask in one tick, question by
    /// question.
    #[test]
    fn what_was_lost_together_is_not_asked_for_together_again() {
        const SLOTS: usize = 64;
        for base_ticks in [1, 3, 21, 200, u8::MAX] {
            let mut random = Random::new(u64::from(base_ticks));
            let mut slots = [Upkeep::default(); SLOTS];
            let mut asked = [0; SLOTS];
            let mut last_together = SLOTS;
            for _ in 0..1200 {
                let mut now = 0;
                for (slot, questions) in slots.iter_mut().zip(&mut asked) {
                    if let Some(ticks) = slot.ask_after_tick(base_ticks, || random.bits()) {
                        assert!(ticks >= base_ticks, "an answer could not be here before");
                        *questions += 1;
                        now += 1;
                    }
                }
                if now > 0 {
                    last_together = now;
                }
            }
            assert!(asked.iter().all(|questions| *questions > 2), "{asked:?}");
            let is_saturated = base_ticks == u8::MAX;
            assert!(is_saturated || last_together < SLOTS / 2, "{base_ticks}: {last_together} at once");
        }
    }
}
