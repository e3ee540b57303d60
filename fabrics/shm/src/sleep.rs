//! How a sleeper and whoever wakes it agree without a lock.
//!
//! The sleeper announces that it will sleep and then looks for work once more; the other side publishes its
//! work and then looks for an announcement. A full fence between the two steps on either side makes sure that
//! at least one of them sees what the other did: work is never left lying while its reader sleeps.
//!
//! The announcement is reached through [`SleepWord`], so that the same steps run in shared memory and in a
//! model checker.

use core::sync::atomic::Ordering;

/// The word in which a sleeper announces itself: 1 while it sleeps or is about to, else 0.
pub trait SleepWord {
    /// Reads the word.
    fn load(&self, order: Ordering) -> u32;
    /// Writes the word.
    fn store(&self, value: u32, order: Ordering);
    /// Replaces the word, and returns the old one.
    fn swap(&self, value: u32, order: Ordering) -> u32;
    /// A fence that orders everything before it before everything after it.
    fn full_fence(&self);
}

/// The sleeper's part: after this it must look for work once more before it blocks.
pub fn announce(word: &impl SleepWord) {
    word.store(1, Ordering::Relaxed);
    word.full_fence();
}

/// The sleeper is awake again.
pub fn withdraw(word: &impl SleepWord) {
    word.store(0, Ordering::Relaxed);
}

/// The other part, after publishing work: whether the doorbell must be rung. Of several that ask, one is told
/// so.
#[inline]
pub fn must_ring(word: &impl SleepWord) -> bool {
    word.full_fence();
    word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::Relaxed) != 0
}

impl SleepWord for core::sync::atomic::AtomicU32 {
    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        Self::load(self, order)
    }

    #[inline]
    fn store(&self, value: u32, order: Ordering) {
        Self::store(self, value, order);
    }

    #[inline]
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        Self::swap(self, value, order)
    }

    #[inline]
    fn full_fence(&self) {
        core::sync::atomic::fence(Ordering::SeqCst);
    }
}
