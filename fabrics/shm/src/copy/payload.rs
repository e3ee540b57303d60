//! Copies of long payloads, and which stores they use.
//!
//! Cached stores are timed on a part of what is copied anyway, non-temporal ones on memory that nobody reads.

use farcall_driver::clock::cycles_after_stores;

use super::choice::{Choice, Rules};
use super::nontemporal::{Stores, copy_cached, copy_nontemporal};

/// What is shorter is copied by cached stores: there is nothing to win.
pub const LONG_COPY_BYTES: usize = 2048;

/// What is copied by either stores in a trial: long enough for the times to say something.
const TRIAL_BYTES: usize = 4096;

/// Where the peer is far, a trial takes as long as fifty thousand bytes. The first pause is short: what is
/// written for the first time, no peer has read. A doubt is cleared up at once.
static RULES: Rules = Rules { pauses_bytes: 64 << 10..=4 << 20, confirm_bytes: 0 };

/// So much is copied, at most, until memory that is to be tried is written again.
const TURN_BYTES_MAX: usize = 16 << 20;

/// In how many percent of the time of non-temporal stores cached ones must come at least, for the former to
/// be taken: the peer reads as fast as payloads are written, and has to fetch from memory what it could have
/// had from a cache.
const TAKE_PERCENT: u64 = 200;

/// And to be kept.
const KEEP_PERCENT: u64 = 150;

/// A place of trial. It was written by cached stores although everything else is not: how long that takes
/// depends on where its lines were left the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marked {
    address: usize,
    /// It is given up when this many bytes more have been copied.
    within_bytes: usize,
}

/// Copies payloads to one peer.
#[derive(Debug)]
pub struct PayloadCopier {
    choice: Choice,
    /// Where cached stores are tried while others are in use.
    marked: Option<Marked>,
    /// Memory for trials.
    unread: Box<[u8]>,
}

impl PayloadCopier {
    /// One that uses non-temporal stores or not, as it is told; with `None`, as trials tell.
    pub fn new(nontemporal: Option<bool>) -> Self {
        let choice = Choice::new(nontemporal, &RULES);
        Self { choice, marked: None, unread: vec![0; TRIAL_BYTES].into() }
    }

    /// Whether `bytes` bytes are copied by non-temporal stores.
    #[inline]
    pub fn is_nontemporal(&self, bytes: usize) -> bool {
        self.choice.stores() == Stores::NonTemporal && bytes >= LONG_COPY_BYTES
    }

    /// Whether `bytes` bytes are copied faster to lines that this core owns already. Where a trial is due,
    /// it must not.
    #[inline]
    pub fn wants_lines_ahead(&self, bytes: usize) -> bool {
        !self.is_nontemporal(bytes) && !self.trial_is_due(bytes)
    }

    /// Whether it may be copied part by part, as it comes: where no trial is due, for which much has to come
    /// together, and stores are cached, since others write whole lines.
    #[inline]
    pub fn may_go_by_parts(&self) -> bool {
        self.choice.stores() == Stores::Cached && !self.choice.trial_is_due()
    }

    /// Copies a part, by cached stores.
    ///
    /// # Panics
    /// When the lengths differ.
    #[inline]
    pub fn copy_part(&mut self, to: &mut [u8], from: &[u8]) {
        to.copy_from_slice(from);
        self.count(from.len());
    }

    /// Copies a payload, or a part of one.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn copy(&mut self, to: &mut [u8], from: &[u8]) {
        let stores = Stores::of(self.is_nontemporal(from.len()));
        if let Some(begin) = self.place_of_trial(to) {
            let end = begin + TRIAL_BYTES;
            stores.copy(&mut to[..begin], &from[..begin]);
            self.try_both(&mut to[begin..end], &from[begin..end]);
            stores.copy(&mut to[end..], &from[end..]);
        } else if stores == Stores::NonTemporal && self.marked.is_none() && self.trial_is_due(from.len()) {
            let (place, to) = to.split_at_mut(TRIAL_BYTES);
            copy_cached(place, &from[..TRIAL_BYTES]);
            stores.copy(to, &from[TRIAL_BYTES..]);
            self.marked = Some(Marked { address: place.as_ptr().addr(), within_bytes: TURN_BYTES_MAX });
        } else {
            stores.copy(to, from);
        }
        self.count(from.len());
    }

    #[inline]
    fn trial_is_due(&self, bytes: usize) -> bool {
        bytes >= TRIAL_BYTES && self.choice.trial_is_due()
    }

    /// Where in this memory cached stores are to be tried now.
    fn place_of_trial(&self, to: &[u8]) -> Option<usize> {
        if let Some(Marked { address, .. }) = self.marked {
            let place = address.checked_sub(to.as_ptr().addr())?;
            return (place.checked_add(TRIAL_BYTES)? <= to.len()).then_some(place);
        }
        (self.choice.stores() == Stores::Cached && self.trial_is_due(to.len())).then_some(0)
    }

    #[inline]
    fn count(&mut self, copied_bytes: usize) {
        self.choice.count(copied_bytes);
        if let Some(marked) = &mut self.marked {
            marked.within_bytes = marked.within_bytes.saturating_sub(copied_bytes);
            if marked.within_bytes == 0 {
                self.marked = None;
            }
        }
    }

    /// Copies by cached stores to where it belongs, and by others to memory that nobody reads: on the peer's
    /// lines that would leave traces, and make what is written there later slower.
    #[cold]
    fn try_both(&mut self, to: &mut [u8], from: &[u8]) {
        let begin = cycles_after_stores();
        copy_cached(to, from);
        let middle = cycles_after_stores();
        copy_nontemporal(&mut self.unread, from);
        let end = cycles_after_stores();
        self.judge(middle.saturating_sub(begin), end.saturating_sub(middle));
    }

    fn judge(&mut self, cached: u64, nontemporal: u64) {
        let in_use = self.choice.stores();
        let percent = if in_use == Stores::NonTemporal { KEEP_PERCENT } else { TAKE_PERCENT };
        let better = Stores::of(cached.saturating_mul(100) > nontemporal.saturating_mul(percent));
        self.choice.judge(better != in_use);
        // A doubt is cleared up at the same place.
        if !self.choice.trial_is_due() {
            self.marked = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD_BYTES: usize = 64 << 10;

    /// Times of trials, in cycles, that speak for either stores.
    const FOR_CACHED: (u64, u64) = (1500, 1000);
    const FOR_NONTEMPORAL: (u64, u64) = (2001, 1000);
    const FOR_NO_CHANGE: (u64, u64) = (1501, 1000);

    impl PayloadCopier {
        fn judge_all(&mut self, times: &[(u64, u64)]) {
            times.iter().for_each(|&(cached, nontemporal)| self.judge(cached, nontemporal));
        }
    }

    fn nontemporal() -> PayloadCopier {
        let mut copier = PayloadCopier::new(None);
        copier.judge_all(&[FOR_NONTEMPORAL, FOR_NONTEMPORAL]);
        copier
    }

    /// Copies that much and checks it, always to the same memory.
    fn copy_all(copier: &mut PayloadCopier, to: &mut [u8]) {
        let from: Vec<u8> = (0..to.len()).map(|at| (at % 251) as u8 + 1).collect();
        to.fill(0);
        copier.copy(to, &from);
        assert_eq!(to, from);
    }

    #[test]
    fn all_is_copied_by_whichever_stores_and_tried_or_not() {
        for bytes in [0, 1, LONG_COPY_BYTES, TRIAL_BYTES - 1, TRIAL_BYTES, PAYLOAD_BYTES] {
            for nontemporal in [None, Some(false), Some(true)] {
                copy_all(&mut PayloadCopier::new(nontemporal), &mut vec![0; bytes]);
            }
        }
    }

    #[test]
    fn nontemporal_stores_are_taken_for_half_the_time_and_kept_for_two_thirds() {
        let mut copier = nontemporal();
        assert!(copier.is_nontemporal(PAYLOAD_BYTES));
        assert!(!copier.is_nontemporal(LONG_COPY_BYTES - 1), "nothing to win");
        copier.judge_all(&[FOR_NO_CHANGE; 3]);
        assert!(copier.is_nontemporal(PAYLOAD_BYTES));
        copier.judge_all(&[FOR_CACHED; 2]);
        assert!(!copier.is_nontemporal(PAYLOAD_BYTES));
        copier.judge_all(&[FOR_NO_CHANGE; 3]);
        assert!(!copier.is_nontemporal(PAYLOAD_BYTES));
    }

    #[test]
    fn a_trial_is_due_at_first_and_when_enough_was_copied() {
        let mut copier = PayloadCopier::new(None);
        assert!(copier.trial_is_due(PAYLOAD_BYTES) && !copier.trial_is_due(TRIAL_BYTES - 1));
        copier.judge_all(&[FOR_CACHED]);
        let mut memory = vec![0; PAYLOAD_BYTES];
        for _ in 0..RULES.pauses_bytes.start() / PAYLOAD_BYTES {
            assert_eq!(copier.place_of_trial(&memory), None);
            copy_all(&mut copier, &mut memory);
        }
        assert_eq!(copier.place_of_trial(&memory), Some(0));
    }

    #[test]
    fn while_stores_are_nontemporal_a_place_is_tried_that_was_written_by_cached_ones() {
        let mut copier = nontemporal();
        let mut memory = vec![0; PAYLOAD_BYTES];
        while !copier.trial_is_due(PAYLOAD_BYTES) {
            copy_all(&mut copier, &mut memory);
        }
        assert_eq!(copier.place_of_trial(&memory), None, "its lines were written by others");
        copy_all(&mut copier, &mut memory[1024..2048]);
        copy_all(&mut copier, &mut memory[1024..]);
        assert_eq!(copier.place_of_trial(&memory), Some(1024), "that place, also in other copies");
        assert_eq!(copier.place_of_trial(&memory[1025..]), None, "not all of it");
        assert_eq!(copier.place_of_trial(&memory[..1023 + TRIAL_BYTES]), None, "not all of it");
        copier.judge_all(&[FOR_CACHED]);
        assert_eq!(copier.place_of_trial(&memory), Some(1024), "a doubt is cleared up there");
        copier.judge_all(&[FOR_NO_CHANGE]);
        assert_eq!(copier.place_of_trial(&memory), None, "it is decided");
    }

    #[test]
    fn a_place_that_is_not_written_again_is_given_up() {
        let mut copier = nontemporal();
        copier.choice.make_trial_due();
        let mut memory = vec![0; PAYLOAD_BYTES];
        copy_all(&mut copier, &mut memory);
        let marked = copier.marked;
        assert!(marked.is_some());
        let mut elsewhere = vec![0; PAYLOAD_BYTES];
        for _ in 1..TURN_BYTES_MAX / PAYLOAD_BYTES {
            assert_eq!(copier.marked.map(|marked| marked.address), marked.map(|marked| marked.address));
            copy_all(&mut copier, &mut elsewhere);
        }
        assert_eq!(copier.marked, None);
        assert!(copier.trial_is_due(PAYLOAD_BYTES));
    }

    #[test]
    fn lines_are_wanted_ahead_only_for_cached_stores_that_are_not_tried() {
        assert!(PayloadCopier::new(Some(false)).wants_lines_ahead(PAYLOAD_BYTES));
        assert!(!PayloadCopier::new(Some(true)).wants_lines_ahead(PAYLOAD_BYTES));
        assert!(PayloadCopier::new(Some(true)).wants_lines_ahead(LONG_COPY_BYTES - 1));
        let mut copier = PayloadCopier::new(None);
        assert!(!copier.wants_lines_ahead(PAYLOAD_BYTES));
        copier.judge_all(&[FOR_CACHED]);
        assert!(copier.wants_lines_ahead(PAYLOAD_BYTES));
    }
}
