//! The calls of a session that wait for their responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many of our calls have no response yet. Shared, because calls are made while a burst of responses is
/// taken.
#[derive(Clone, Default)]
pub(crate) struct Unanswered(Arc<AtomicUsize>);

impl Unanswered {
    #[inline]
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Not a step of the processor's that would be atomic: all who change it are in one thread.
    #[inline]
    pub fn set(&self, calls: usize) {
        self.0.store(calls, Ordering::Relaxed);
    }

    #[inline]
    pub fn add(&self, calls: usize) {
        self.set(self.get() + calls);
    }

    /// So many of them were taken back before they left. Fewer may be there, if the peer has answered what it
    /// was never asked.
    #[inline]
    pub fn take_back(&self, calls: usize) {
        self.set(self.get().saturating_sub(calls));
    }

    /// There is a response for one of them; false when there are none.
    #[inline(always)]
    pub fn take_one(&self) -> bool {
        match self.get().checked_sub(1) {
            Some(left) => {
                self.set(left);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_were_answered_before_they_left_are_not_taken_back_twice() {
        let unanswered = Unanswered::default();
        unanswered.add(2);
        assert!(unanswered.take_one(), "the peer answers what it was never asked");
        unanswered.take_back(2);
        assert_eq!(unanswered.get(), 0);
        assert!(!unanswered.take_one(), "there is nothing left to be answered");
    }
}
