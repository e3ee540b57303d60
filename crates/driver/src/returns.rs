//! Word of blocks and loans that were dropped, by whatever thread, for the driver whose they are.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::BlockDescriptor;

/// What was dropped and has yet to be given back.
#[derive(Debug, Default)]
pub struct Returns {
    due: Mutex<Vec<BlockDescriptor>>,
    any_due: AtomicBool,
}

impl Returns {
    /// The one that was dropped last; costs one load when there is none.
    #[inline]
    pub fn next(&self) -> Option<BlockDescriptor> {
        if !self.any_due.load(Ordering::Relaxed) {
            return None;
        }
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let block = due.pop();
        self.any_due.store(!due.is_empty(), Ordering::Relaxed);
        block
    }

    /// Adds one.
    pub fn add(&self, block: BlockDescriptor) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.push(block);
        self.any_due.store(true, Ordering::Relaxed);
    }
}
