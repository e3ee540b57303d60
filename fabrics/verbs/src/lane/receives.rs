//! The receives that all lanes of a driver share: one is used up by every write that announces itself.
//!
//! They have no memory, because the data goes into the rings. What was used up is posted again in batches,
//! counted over all lanes, so that a lane with little traffic cannot keep receives from the others. When a
//! lane ends, some of what it had used up may never have been reported; the queue is then filled to its brim,
//! which makes up for any miscount.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::device::Device;
use crate::error::VerbsError;
use crate::queues::SharedReceives;
use crate::sys;

/// Receives that are posted together.
const BATCH: usize = 32;

/// The shared receives and how many of them are used up.
pub struct Receives {
    pub queue: Arc<SharedReceives>,
    owed: AtomicUsize,
}

impl Receives {
    /// A full queue of at least `depth` receives.
    pub fn new(device: &Arc<Device>, depth: usize) -> Result<Self, VerbsError> {
        let queue = SharedReceives::new(device, depth.max(2 * BATCH))?;
        let this = Self { queue, owed: AtomicUsize::new(0) };
        this.fill();
        Ok(this)
    }

    /// Notes that `count` receives are used up, and posts new ones when a batch is due.
    #[inline]
    pub fn used(&self, count: usize) {
        if self.owed.fetch_add(count, Ordering::Relaxed) + count >= BATCH {
            self.post_owed();
        }
    }

    #[inline(never)]
    fn post_owed(&self) {
        let take = |owed: usize| owed.checked_sub(BATCH);
        while self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            if self.post() < BATCH {
                // Full already: the queue was filled in between.
                return;
            }
        }
    }

    /// Posts receives until the queue takes no more.
    pub fn fill(&self) {
        self.owed.store(0, Ordering::Relaxed);
        // Bounded, should a provider's queue be longer than it says.
        for _ in 0..self.queue.depth.div_ceil(BATCH) {
            if self.post() < BATCH {
                return;
            }
        }
    }

    /// Posts a batch of receives; returns how many the queue took.
    fn post(&self) -> usize {
        let mut requests = [const { sys::ibv_recv_wr::new() }; BATCH];
        let first = requests.as_mut_ptr();
        for index in 1..BATCH {
            // SAFETY: both are in the array.
            unsafe { (*first.add(index - 1)).next = first.add(index) };
        }
        // SAFETY: a live queue, and a chain that lives for the call and names no memory.
        let (result, bad) = unsafe { sys::post_srq_recv(self.queue.raw(), first) };
        let refused = || (0..BATCH).find(|index| core::ptr::eq(bad, first.wrapping_add(*index)));
        if result == 0 { BATCH } else { refused().unwrap_or(0) }
    }
}
