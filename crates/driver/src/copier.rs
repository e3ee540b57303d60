//! Which way long payloads are copied to a peer: through the caches, or past them.
//!
//! Where the peer's core is near, lines come from its cache as fast as from memory, or faster; where it is far, they take ten
//! times as long. Nobody tells how far it is, and under a virtual machine it changes. So it is tried now and then,
//! through the caches with a part of what is copied anyway, and past them with memory that nobody reads.

use crate::clock::cycles_after_stores;
use crate::copying::{Way, copy_past_caches, copy_through_caches};

/// What is shorter is copied through the caches: there is nothing to win. Whoever has a faster way for short copies takes that.
pub const LONG_COPY_BYTES: usize = 2048;

/// What is copied either way in a trial: long enough for the times to say something.
const TRIAL_BYTES: usize = 4096;

/// So much is copied between two trials. Where the peer is far, a part of a trial takes as long as fifty thousand bytes. It begins
/// with less and doubles: what is written for the first time, no peer has read.
const BETWEEN_TRIALS_BYTES: core::ops::RangeInclusive<usize> = 64 << 10..=4 << 20;

/// So much is copied, at most, until memory that is to be tried has its turn again.
const TURN_BYTES_MAX: usize = 16 << 20;

/// In how many percent of its time the other way must take at least, for the one past the caches to be taken: the peer reads as
/// fast as payloads are written, and past the caches it has to fetch from memory what it could have had from a cache.
const TAKE_PERCENT: u64 = 200;

/// And to be kept.
const KEEP_PERCENT: u64 = 150;

/// When it has to be found out which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// Not at all: the way is given.
    Never,
    /// When so many bytes more have been copied.
    In { bytes: usize },
    /// When this place is written again. It was written through the caches although everything else goes past them: how long that
    /// takes depends on where its lines were left the last time. When so many bytes more have been copied, it is given up.
    At { address: usize, within_bytes: usize },
}

/// Copies to one peer.
#[derive(Debug)]
pub struct Copier {
    way: Way,
    trial: Trial,
    /// Whether the last trial spoke for the other way, which may have been an accident.
    is_doubted: bool,
    /// How much is copied until the next trial after the coming one.
    between_trials_bytes: usize,
    /// Memory for trials.
    unread: Box<[u8]>,
}

impl Copier {
    /// One that copies past the caches or not, as it is told; with `None`, as trials tell.
    pub fn new(past_caches: Option<bool>) -> Self {
        let way = Way::of(past_caches == Some(true));
        let trial = if past_caches.is_some() { Trial::Never } else { Trial::In { bytes: 0 } };
        let between_trials_bytes = *BETWEEN_TRIALS_BYTES.start();
        Self { way, trial, is_doubted: false, between_trials_bytes, unread: vec![0; TRIAL_BYTES].into() }
    }

    /// Whether `bytes` bytes are copied past the caches.
    #[inline]
    pub fn goes_past_caches(&self, bytes: usize) -> bool {
        self.way == Way::PastCaches && bytes >= LONG_COPY_BYTES
    }

    /// Whether `bytes` bytes are copied faster to lines that were won back before. Where a trial is due, they must not have been.
    #[inline]
    pub fn wants_lines_ahead(&self, bytes: usize) -> bool {
        !self.goes_past_caches(bytes) && !self.trial_is_due(bytes)
    }

    /// Whether it may be copied part by part, as it comes: where no trial is due, for which much has to come together, and nothing goes
    /// past the caches, which takes whole lines.
    #[inline]
    pub fn may_go_by_parts(&self) -> bool {
        self.way == Way::ThroughCaches && self.trial != Trial::In { bytes: 0 }
    }

    /// Copies a part, through the caches.
    ///
    /// # Panics
    /// When the lengths differ.
    #[inline]
    pub fn copy_part(&mut self, to: &mut [u8], from: &[u8]) {
        to.copy_from_slice(from);
        self.count_down(from.len());
    }

    /// Copies, and returns whether that was past the caches.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn copy(&mut self, to: &mut [u8], from: &[u8]) -> bool {
        let past_caches = self.goes_past_caches(from.len());
        let way = Way::of(past_caches);
        if let Some(begin) = self.place_of_trial(to) {
            let end = begin + TRIAL_BYTES;
            way.copy(&mut to[..begin], &from[..begin]);
            self.try_both(&mut to[begin..end], &from[begin..end]);
            way.copy(&mut to[end..], &from[end..]);
        } else if past_caches && self.trial_is_due(from.len()) {
            let (place, to) = to.split_at_mut(TRIAL_BYTES);
            copy_through_caches(place, &from[..TRIAL_BYTES]);
            way.copy(to, &from[TRIAL_BYTES..]);
            self.trial = Trial::At { address: place.as_ptr().addr(), within_bytes: TURN_BYTES_MAX };
        } else {
            way.copy(to, from);
        }
        self.count_down(from.len());
        past_caches
    }

    fn trial_is_due(&self, bytes: usize) -> bool {
        bytes >= TRIAL_BYTES && self.trial == Trial::In { bytes: 0 }
    }

    /// Where in this memory the way through the caches is to be tried now.
    fn place_of_trial(&self, to: &[u8]) -> Option<usize> {
        match (self.way, self.trial) {
            (Way::ThroughCaches, Trial::In { .. }) => self.trial_is_due(to.len()).then_some(0),
            (_, Trial::At { address, .. }) => {
                let place = address.checked_sub(to.as_ptr().addr())?;
                (place.checked_add(TRIAL_BYTES)? <= to.len()).then_some(place)
            }
            _ => None,
        }
    }

    fn count_down(&mut self, copied_bytes: usize) {
        match &mut self.trial {
            Trial::Never => {}
            Trial::In { bytes } => *bytes = bytes.saturating_sub(copied_bytes),
            Trial::At { within_bytes, .. } if *within_bytes > copied_bytes => *within_bytes -= copied_bytes,
            Trial::At { .. } => self.trial = Trial::In { bytes: 0 },
        }
    }

    /// Copies through the caches to where it belongs, and past them to memory that nobody reads: on the peer's lines that would leave
    /// traces, and make what is written there later slower.
    #[cold]
    fn try_both(&mut self, to: &mut [u8], from: &[u8]) {
        let begin = cycles_after_stores();
        copy_through_caches(to, from);
        let middle = cycles_after_stores();
        copy_past_caches(&mut self.unread, from);
        let end = cycles_after_stores();
        self.judge(middle.saturating_sub(begin), end.saturating_sub(middle));
    }

    /// Takes the other way when two trials in a row have spoken for it.
    fn judge(&mut self, through_caches: u64, past_caches: u64) {
        let percent = if self.way == Way::PastCaches { KEEP_PERCENT } else { TAKE_PERCENT };
        let is_past = through_caches.saturating_mul(100) > past_caches.saturating_mul(percent);
        let better = Way::of(is_past);
        if better == self.way || self.is_doubted {
            (self.way, self.is_doubted) = (better, false);
            self.trial = Trial::In { bytes: self.between_trials_bytes };
            self.between_trials_bytes = (2 * self.between_trials_bytes).min(*BETWEEN_TRIALS_BYTES.end());
        } else {
            self.is_doubted = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD_BYTES: usize = 64 << 10;

    /// Times of trials, in cycles, that speak for either way.
    const FOR_THROUGH_CACHES: (u64, u64) = (1500, 1000);
    const FOR_PAST_CACHES: (u64, u64) = (2001, 1000);
    const FOR_NO_CHANGE: (u64, u64) = (1501, 1000);

    impl Copier {
        fn judge_all(&mut self, times: &[(u64, u64)]) {
            times.iter().for_each(|&(through_caches, past_caches)| self.judge(through_caches, past_caches));
        }

        fn is_past_caches(&self) -> bool {
            self.goes_past_caches(PAYLOAD_BYTES)
        }
    }

    fn past_caches() -> Copier {
        let mut copier = Copier::new(None);
        copier.judge_all(&[FOR_PAST_CACHES, FOR_PAST_CACHES]);
        copier
    }

    /// Copies that much and checks it, always to the same memory.
    fn copy_all(copier: &mut Copier, to: &mut [u8]) {
        let from: Vec<u8> = (0..to.len()).map(|at| (at % 251) as u8 + 1).collect();
        to.fill(0);
        copier.copy(to, &from);
        assert_eq!(to, from);
    }

    #[test]
    fn all_is_copied_whichever_way_and_tried_or_not() {
        for bytes in [0, 1, LONG_COPY_BYTES, TRIAL_BYTES - 1, TRIAL_BYTES, PAYLOAD_BYTES] {
            for mut copier in [Copier::new(None), Copier::new(Some(false)), Copier::new(Some(true))] {
                copy_all(&mut copier, &mut vec![0; bytes]);
            }
        }
    }

    #[test]
    fn the_other_way_is_taken_when_two_trials_in_a_row_speak_for_it() {
        let mut copier = Copier::new(None);
        copier.judge_all(&[FOR_PAST_CACHES]);
        assert!(!copier.is_past_caches(), "it may have been an accident");
        assert!(copier.trial_is_due(PAYLOAD_BYTES), "so it is tried again at once");
        copier.judge_all(&[FOR_PAST_CACHES]);
        assert!(copier.is_past_caches());
        assert!(!copier.goes_past_caches(LONG_COPY_BYTES - 1), "nothing to win");
        copier.judge_all(&[FOR_THROUGH_CACHES, FOR_NO_CHANGE, FOR_THROUGH_CACHES]);
        assert!(copier.is_past_caches(), "not in a row");
        copier.judge_all(&[FOR_THROUGH_CACHES]);
        assert!(!copier.is_past_caches());
        copier.judge_all(&[FOR_NO_CHANGE; 3]);
        assert!(!copier.is_past_caches());
    }

    #[test]
    fn a_trial_is_due_at_first_and_when_enough_was_copied() {
        let mut copier = Copier::new(None);
        assert!(copier.trial_is_due(PAYLOAD_BYTES) && !copier.trial_is_due(TRIAL_BYTES - 1));
        copier.judge_all(&[FOR_THROUGH_CACHES]);
        let mut memory = vec![0; PAYLOAD_BYTES];
        for _ in 0..BETWEEN_TRIALS_BYTES.start() / PAYLOAD_BYTES {
            assert_eq!(copier.place_of_trial(&memory), None);
            copy_all(&mut copier, &mut memory);
        }
        assert_eq!(copier.place_of_trial(&memory), Some(0));
    }

    #[test]
    fn past_the_caches_a_place_is_tried_that_was_written_through_them() {
        let mut copier = past_caches();
        let mut memory = vec![0; PAYLOAD_BYTES];
        while !copier.trial_is_due(PAYLOAD_BYTES) {
            copy_all(&mut copier, &mut memory);
        }
        assert_eq!(copier.place_of_trial(&memory), None, "its lines were written past the caches");
        copy_all(&mut copier, &mut memory[1024..2048]);
        copy_all(&mut copier, &mut memory[1024..]);
        assert_eq!(copier.place_of_trial(&memory), Some(1024), "that place, also in other copies");
        assert_eq!(copier.place_of_trial(&memory[1025..]), None, "not all of it");
        assert_eq!(copier.place_of_trial(&memory[..1023 + TRIAL_BYTES]), None, "not all of it");
        copy_all(&mut copier, &mut memory);
        let is_decided = matches!(copier.trial, Trial::In { bytes: 1.. });
        assert!(is_decided != copier.is_doubted, "it was tried: {copier:?}");
    }

    #[test]
    fn a_place_that_is_not_written_again_is_given_up() {
        let mut copier = past_caches();
        copier.trial = Trial::At { address: usize::MAX, within_bytes: TURN_BYTES_MAX };
        let mut memory = vec![0; PAYLOAD_BYTES];
        for _ in 0..TURN_BYTES_MAX / PAYLOAD_BYTES {
            assert!(!copier.trial_is_due(PAYLOAD_BYTES));
            copy_all(&mut copier, &mut memory);
        }
        assert!(copier.trial_is_due(PAYLOAD_BYTES));
    }

    #[test]
    fn a_way_that_is_given_is_not_tried() {
        for past_caches in [false, true] {
            let mut copier = Copier::new(Some(past_caches));
            copy_all(&mut copier, &mut vec![0; 2 * BETWEEN_TRIALS_BYTES.end()]);
            assert_eq!(copier.trial, Trial::Never);
            assert_eq!(copier.is_past_caches(), past_caches);
        }
    }

    #[test]
    fn lines_are_wanted_ahead_only_for_what_goes_through_caches_and_is_not_tried() {
        assert!(Copier::new(Some(false)).wants_lines_ahead(PAYLOAD_BYTES));
        assert!(!Copier::new(Some(true)).wants_lines_ahead(PAYLOAD_BYTES));
        assert!(Copier::new(Some(true)).wants_lines_ahead(LONG_COPY_BYTES - 1));
        let mut copier = Copier::new(None);
        assert!(!copier.wants_lines_ahead(PAYLOAD_BYTES));
        copier.judge_all(&[FOR_THROUGH_CACHES]);
        assert!(copier.wants_lines_ahead(PAYLOAD_BYTES));
    }

    #[test]
    fn trials_become_rarer() {
        let mut copier = Copier::new(None);
        let mut memory = vec![0; PAYLOAD_BYTES];
        let mut pauses = Vec::new();
        for _ in 0..10 {
            copier.judge_all(&[FOR_THROUGH_CACHES]);
            let Trial::In { bytes } = copier.trial else { panic!("it pauses") };
            pauses.push(bytes);
            while !copier.trial_is_due(PAYLOAD_BYTES) {
                copy_all(&mut copier, &mut memory);
            }
        }
        let (least, most) = BETWEEN_TRIALS_BYTES.into_inner();
        assert_eq!(pauses[..3], [least, 2 * least, 4 * least]);
        assert_eq!(pauses[7..], [most; 3]);
    }
}
