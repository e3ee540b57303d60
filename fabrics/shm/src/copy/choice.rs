//! Which stores copies to a peer use, and when the others are tried.
//!
//! Where the peer's core is near, a line comes from its cache as fast as from memory, or faster; where it is
//! far, it takes ten times as long. No program can ask how far it is, and a virtual machine changes it. So
//! both kinds of stores are timed now and then. How they are timed is the sampler's business: `payload.rs`
//! and `stream.rs`.

use core::ops::RangeInclusive;

use super::nontemporal::Stores;

/// When trials come.
#[derive(Debug)]
pub struct Rules {
    /// Bytes that are copied between two trials, doubled each time.
    pub pauses_bytes: RangeInclusive<usize>,
    /// Bytes that are copied before the trial that confirms the last one.
    pub confirm_bytes: usize,
}

/// The stores in use.
#[derive(Debug)]
pub struct Choice {
    stores: Stores,
    /// Bytes to be copied until the next trial; `None` when the stores are given.
    until_trial: Option<usize>,
    /// Whether the last trial spoke for the others, which may have been an accident.
    is_doubted: bool,
    /// Bytes to be copied until the trial after the coming one.
    pause_bytes: usize,
    rules: &'static Rules,
}

impl Choice {
    /// Non-temporal stores or not, as it is told; with `None`, as trials tell.
    pub fn new(nontemporal: Option<bool>, rules: &'static Rules) -> Self {
        Self {
            stores: Stores::of(nontemporal == Some(true)),
            until_trial: if nontemporal.is_some() { None } else { Some(0) },
            is_doubted: false,
            pause_bytes: *rules.pauses_bytes.start(),
            rules,
        }
    }

    /// The stores in use while nothing is tried.
    #[inline]
    pub fn stores(&self) -> Stores {
        self.stores
    }

    /// Whether it has to be found out which stores are better.
    #[inline]
    pub fn trial_is_due(&self) -> bool {
        self.until_trial == Some(0)
    }

    /// This many bytes were copied.
    #[inline]
    pub fn count(&mut self, bytes: usize) {
        if let Some(left) = &mut self.until_trial {
            *left = left.saturating_sub(bytes);
        }
    }

    /// A trial has ended. The other stores are taken when two in a row have spoken for them.
    pub fn judge(&mut self, others_are_better: bool) {
        if others_are_better && !self.is_doubted {
            (self.is_doubted, self.until_trial) = (true, Some(self.rules.confirm_bytes));
            return;
        }
        if others_are_better {
            self.stores = self.stores.other();
        }
        (self.is_doubted, self.until_trial) = (false, Some(self.pause_bytes));
        self.pause_bytes = (2 * self.pause_bytes).min(*self.rules.pauses_bytes.end());
    }
}

#[cfg(test)]
impl Choice {
    /// Has a trial come now.
    pub fn make_trial_due(&mut self) {
        self.until_trial = Some(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { pauses_bytes: 1000..=6000, confirm_bytes: 100 };

    fn judged(choice: &mut Choice, trials: &[bool]) -> Stores {
        trials.iter().for_each(|&others_are_better| choice.judge(others_are_better));
        choice.stores()
    }

    #[test]
    fn the_others_are_taken_when_two_trials_in_a_row_speak_for_them() {
        let mut choice = Choice::new(None, &RULES);
        assert_eq!(judged(&mut choice, &[true]), Stores::Cached, "it may have been an accident");
        assert_eq!(judged(&mut choice, &[false, true]), Stores::Cached, "not in a row");
        assert_eq!(judged(&mut choice, &[true]), Stores::NonTemporal);
        assert_eq!(judged(&mut choice, &[true, false, true]), Stores::NonTemporal, "not in a row");
        assert_eq!(judged(&mut choice, &[true, false, false]), Stores::Cached);
    }

    #[test]
    fn a_trial_is_due_at_first_soon_after_a_doubt_and_then_less_and_less_often() {
        let mut choice = Choice::new(None, &RULES);
        let bytes_until_due = |choice: &mut Choice| {
            let mut bytes = 0;
            while !choice.trial_is_due() {
                choice.count(10);
                bytes += 10;
            }
            bytes
        };
        assert_eq!(bytes_until_due(&mut choice), 0);
        choice.judge(true);
        assert_eq!(bytes_until_due(&mut choice), RULES.confirm_bytes);
        for pause in [1000, 2000, 4000, 6000, 6000] {
            choice.judge(false);
            assert_eq!(bytes_until_due(&mut choice), pause);
        }
    }

    #[test]
    fn stores_that_are_given_are_not_tried() {
        for nontemporal in [false, true] {
            let mut choice = Choice::new(Some(nontemporal), &RULES);
            choice.count(usize::MAX);
            assert!(!choice.trial_is_due() && choice.stores() == Stores::of(nontemporal));
        }
    }
}
