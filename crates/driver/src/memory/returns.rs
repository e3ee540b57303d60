//! Word of blocks and loans that were dropped, by whatever thread, for the driver whose they are.
//!
//! Nearly always one is dropped at a time, and the driver looks before the next is. That one has a place of
//! its own, which costs one locked instruction; a list behind a lock, which costs four, takes what is dropped
//! while the place is full.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::BlockDescriptor;

/// What was dropped and has yet to be given back.
#[derive(Debug, Default)]
pub struct Returns {
    first: Place,
    others: Mutex<VecDeque<BlockDescriptor>>,
    any_others: AtomicBool,
}

impl Returns {
    /// One that was dropped; costs two loads when there is none. Only the driver asks, from one thread at a
    /// time.
    #[inline]
    pub fn next(&self) -> Option<BlockDescriptor> {
        self.first.take().or_else(|| self.next_of_others())
    }

    #[inline]
    fn next_of_others(&self) -> Option<BlockDescriptor> {
        if !self.any_others.load(Ordering::Relaxed) {
            return None;
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let block = others.pop_front();
        self.any_others.store(!others.is_empty(), Ordering::Relaxed);
        block
    }

    /// Adds one, behind those that wait: a thread's come back in the order in which it dropped them, which is
    /// that of their addresses where they were lent so, and they are to be lent so again.
    #[inline]
    pub fn add(&self, block: BlockDescriptor) {
        if self.any_others.load(Ordering::Relaxed) || !self.first.put(block) {
            self.add_to_others(block);
        }
    }

    #[cold]
    fn add_to_others(&self, block: BlockDescriptor) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.push_back(block);
        self.any_others.store(true, Ordering::Relaxed);
    }
}

/// Room for one descriptor, which any thread may fill and one empties.
#[derive(Debug, Default)]
struct Place {
    state: AtomicU8,
    offset: AtomicU64,
    length: AtomicU64,
}

/// Nobody has the descriptor.
const EMPTY: u8 = 0;
/// The thread that made it so writes the descriptor.
const FILLING: u8 = 1;
/// The driver may read the descriptor.
const FULL: u8 = 2;

impl Place {
    /// Puts a descriptor here, if there is none.
    #[inline]
    fn put(&self, block: BlockDescriptor) -> bool {
        // Acquires what `take` released: it has read the last descriptor.
        if self.state.compare_exchange(EMPTY, FILLING, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        self.offset.store(block.offset, Ordering::Relaxed);
        self.length.store(block.length, Ordering::Relaxed);
        self.state.store(FULL, Ordering::Release);
        true
    }

    /// Takes the descriptor out, if there is one.
    #[inline]
    fn take(&self) -> Option<BlockDescriptor> {
        if self.state.load(Ordering::Acquire) != FULL {
            return None;
        }
        let (offset, length) = (self.offset.load(Ordering::Relaxed), self.length.load(Ordering::Relaxed));
        self.state.store(EMPTY, Ordering::Release);
        Some(BlockDescriptor { offset, length })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const THREADS: u64 = 3;
    const BLOCKS_OF_EACH: u64 = 10_000;

    #[test]
    fn what_several_threads_drop_is_due_once_each() {
        let returns = Returns::default();
        let mut seen = vec![false; (THREADS * BLOCKS_OF_EACH) as usize];
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let returns = &returns;
                scope.spawn(move || {
                    for offset in thread * BLOCKS_OF_EACH..(thread + 1) * BLOCKS_OF_EACH {
                        returns.add(BlockDescriptor { offset, length: offset + 1 });
                    }
                });
            }
            let mut due = 0;
            while due < seen.len() {
                let Some(block) = returns.next() else {
                    thread::yield_now();
                    continue;
                };
                assert_eq!(block.length, block.offset + 1, "a descriptor is read as it was written");
                assert!(!seen[block.offset as usize], "block {} is due once", block.offset);
                seen[block.offset as usize] = true;
                due += 1;
            }
        });
        assert_eq!(returns.next(), None, "nothing else is due");
    }

    #[test]
    fn several_are_due_in_the_order_in_which_they_were_dropped() {
        let returns = Returns::default();
        let add = |offset| returns.add(BlockDescriptor { offset, length: 64 });
        let next = || returns.next().map(|block| block.offset);
        (0..3).for_each(add);
        assert_eq!(next(), Some(0));
        (3..5).for_each(add);
        assert_eq!([next(), next(), next(), next()], [1, 2, 3, 4].map(Some));
        assert_eq!(next(), None);
        (5..7).for_each(add);
        assert_eq!([next(), next(), next()], [Some(5), Some(6), None]);
    }
}
