//! Which way long payloads are copied to a peer: through the caches, or past them.
//!
//! Where the peer's core is near, lines come from its cache as fast as from memory, or faster; where it is far, they take ten
//! times as long. Nobody tells how far it is, and under a virtual machine it changes. So it is tried now and then, with a part
//! of each kind of a payload that is copied anyway.

use farcall_driver::clock::cycles_after_stores;
use farcall_driver::{copy_past_caches, copy_through_caches};

/// Shorter payloads are copied through the caches: there is nothing to win.
const PAST_CACHES_BYTES_MIN: usize = 2048;

/// What is copied either way in a trial: long enough for the times to say something.
const TRIAL_BYTES: usize = 4096;

/// So much is copied between two trials. Where the peer is far, a part of a trial takes as long as fifty thousand bytes.
const BETWEEN_TRIALS_BYTES: usize = 4 << 20;

/// Past the caches is the way to take if that is so many times faster. The peer has to fetch from memory then, what it could have
/// had from a cache.
const TIMES_FASTER: u64 = 2;

/// How payloads are copied into memory that a peer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ThroughCaches,
    PastCaches,
}

/// Whether it has to be found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// The way is given.
    Never,
    /// When so many bytes more have been copied.
    In { bytes: usize },
    /// The last one spoke for the other way, which may have been an accident.
    Again,
}

/// Copies payloads to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copier {
    way: Way,
    trial: Trial,
}

impl Copier {
    /// Copies past the caches or not, as it is told; with `None`, as trials tell.
    pub fn new(past_caches: Option<bool>) -> Self {
        let way = if past_caches == Some(true) { Way::PastCaches } else { Way::ThroughCaches };
        let trial = if past_caches.is_some() { Trial::Never } else { Trial::In { bytes: 0 } };
        Self { way, trial }
    }

    /// Whether it helps when the lines of a payload's block have been won back before it is copied. Where a trial is due, they
    /// must not have been.
    pub fn wants_lines_ahead(&self, bytes: usize) -> bool {
        self.way == Way::ThroughCaches && !self.trial_is_due(bytes)
    }

    /// Whether a payload of `bytes` bytes is copied past the caches.
    pub fn goes_past_caches(&self, bytes: usize) -> bool {
        self.way == Way::PastCaches && bytes >= PAST_CACHES_BYTES_MIN
    }

    /// Copies a payload, or a part of one.
    pub fn copy(&mut self, to: &mut [u8], from: &[u8]) {
        let tried_bytes = if self.trial_is_due(from.len()) { self.try_both(to, from) } else { 0 };
        let (to, from) = (&mut to[tried_bytes..], &from[tried_bytes..]);
        if self.goes_past_caches(from.len()) {
            copy_past_caches(to, from);
        } else {
            copy_through_caches(to, from);
        }
        if let Trial::In { bytes } = &mut self.trial {
            *bytes = bytes.saturating_sub(from.len());
        }
    }

    fn trial_is_due(&self, bytes: usize) -> bool {
        bytes >= 2 * TRIAL_BYTES && matches!(self.trial, Trial::In { bytes: 0 } | Trial::Again)
    }

    /// Copies the first bytes, by halves either way, and returns how many these were.
    #[cold]
    fn try_both(&mut self, to: &mut [u8], from: &[u8]) -> usize {
        let parts = TRIAL_BYTES..2 * TRIAL_BYTES;
        let begin = cycles_after_stores();
        copy_through_caches(&mut to[..parts.start], &from[..parts.start]);
        let middle = cycles_after_stores();
        copy_past_caches(&mut to[parts.clone()], &from[parts.clone()]);
        let end = cycles_after_stores();
        self.judge(middle.saturating_sub(begin), end.saturating_sub(middle));
        parts.end
    }

    /// Takes the other way when two trials in a row have spoken for it.
    fn judge(&mut self, through_caches: u64, past_caches: u64) {
        let better =
            if through_caches > TIMES_FASTER * past_caches { Way::PastCaches } else { Way::ThroughCaches };
        self.trial = if better == self.way || self.trial == Trial::Again {
            self.way = better;
            Trial::In { bytes: BETWEEN_TRIALS_BYTES }
        } else {
            Trial::Again
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD_BYTES: usize = 64 << 10;

    /// One that has tried both ways so often, with the same times.
    fn judged(times: u32, through_caches: u64, past_caches: u64) -> Copier {
        let mut copier = Copier::new(None);
        (0..times).for_each(|_| copier.judge(through_caches, past_caches));
        copier
    }

    fn copies_all(copier: &mut Copier, bytes: usize) {
        let from: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8 + 1).collect();
        let mut to = vec![0; bytes];
        copier.copy(&mut to, &from);
        assert_eq!(to, from);
    }

    #[test]
    fn all_is_copied_whichever_way() {
        for bytes in [0, 1, PAST_CACHES_BYTES_MIN, 2 * TRIAL_BYTES - 1, 2 * TRIAL_BYTES, PAYLOAD_BYTES] {
            for past_caches in [None, Some(false), Some(true)] {
                copies_all(&mut Copier::new(past_caches), bytes);
            }
        }
    }

    #[test]
    fn the_other_way_is_taken_when_two_trials_in_a_row_speak_for_it() {
        assert!(!judged(1, 2001, 1000).goes_past_caches(PAYLOAD_BYTES), "it may have been an accident");
        assert!(judged(1, 2001, 1000).trial_is_due(PAYLOAD_BYTES), "so it is tried again at once");
        let mut copier = judged(2, 2001, 1000);
        assert!(copier.goes_past_caches(PAYLOAD_BYTES));
        assert!(!copier.goes_past_caches(PAST_CACHES_BYTES_MIN - 1), "nothing to win");
        copier.judge(2000, 1000);
        assert!(copier.goes_past_caches(PAYLOAD_BYTES));
        copier.judge(2001, 1000);
        copier.judge(2000, 1000);
        assert!(copier.goes_past_caches(PAYLOAD_BYTES), "not in a row");
        copier.judge(2000, 1000);
        assert!(!copier.goes_past_caches(PAYLOAD_BYTES));
    }

    #[test]
    fn a_trial_is_due_at_first_and_when_enough_was_copied() {
        let mut copier = Copier::new(None);
        assert!(copier.trial_is_due(PAYLOAD_BYTES) && !copier.trial_is_due(2 * TRIAL_BYTES - 1));
        copier.judge(1000, 1000);
        for _ in 0..BETWEEN_TRIALS_BYTES / PAYLOAD_BYTES {
            assert!(!copier.trial_is_due(PAYLOAD_BYTES));
            copies_all(&mut copier, PAYLOAD_BYTES);
        }
        assert!(copier.trial_is_due(PAYLOAD_BYTES));
    }

    #[test]
    fn a_way_that_is_given_is_not_tried() {
        for past_caches in [false, true] {
            let mut copier = Copier::new(Some(past_caches));
            copies_all(&mut copier, 2 * BETWEEN_TRIALS_BYTES);
            assert!(!copier.trial_is_due(PAYLOAD_BYTES));
            assert_eq!(copier.goes_past_caches(PAYLOAD_BYTES), past_caches);
        }
    }

    #[test]
    fn lines_are_wanted_ahead_only_for_what_goes_through_caches_and_is_not_tried() {
        assert!(Copier::new(Some(false)).wants_lines_ahead(PAYLOAD_BYTES));
        assert!(!Copier::new(Some(true)).wants_lines_ahead(PAYLOAD_BYTES));
        assert!(!Copier::new(None).wants_lines_ahead(PAYLOAD_BYTES));
        assert!(judged(1, 1000, 1000).wants_lines_ahead(PAYLOAD_BYTES));
    }
}
