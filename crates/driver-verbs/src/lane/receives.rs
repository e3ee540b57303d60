//! The receives that all lanes of a driver share: one is used up by every write that announces itself.
//!
//! They have no memory, because the data goes into the rings. What was used up is posted again in batches, counted over
//! all lanes, so that a lane with little traffic cannot keep receives from the others. When a lane ends, some of what it had
//! used up may never have been reported; the queue is then filled to its brim, which makes up for any miscount.

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
            let mut owed = self.owed.swap(0, Ordering::Relaxed);
            while owed > 0 {
                let posted = self.post(owed.min(BATCH));
                if posted == 0 {
                    // Full already: the queue was filled in between.
                    return;
                }
                owed -= posted;
            }
        }
    }

    /// Posts receives until the queue takes no more.
    pub fn fill(&self) {
        self.owed.store(0, Ordering::Relaxed);
        // Bounded, should a provider's queue be longer than it says.
        for _ in 0..self.queue.depth.div_ceil(BATCH) {
            if self.post(BATCH) < BATCH {
                return;
            }
        }
    }

    /// Posts up to `count` receives, at most a batch; returns how many the queue took.
    fn post(&self, count: usize) -> usize {
        let mut requests = [sys::ibv_recv_wr::new(); BATCH];
        for index in 0..count - 1 {
            requests[index].next = &raw mut requests[index + 1];
        }
        // SAFETY: a live queue, and a chain that lives for the call and names no memory.
        let (result, bad) = unsafe { sys::post_srq_recv(self.queue.raw(), requests.as_mut_ptr()) };
        let refused = || (0..count).find(|index| core::ptr::eq(bad, &raw const requests[*index]));
        if result == 0 { count } else { refused().unwrap_or(0) }
    }
}
