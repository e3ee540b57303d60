//! The lock-free protocols in every order of events that the memory model allows, for small sizes.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p farcall-shm --release --test loom`
#![cfg(loom)]

mod model;

/// What the programs are made of.
mod checker {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
    pub use loom::sync::{Condvar, Mutex};
    pub use loom::thread::{spawn, yield_now};

    /// Memory that must not be written while another thread may read or write it: the checker finds out.
    pub struct Cell(loom::cell::UnsafeCell<u64>);

    // SAFETY: the checker itself makes sure that accesses do not overlap, and panics before they do.
    #[allow(unsafe_code, reason = "a cell whose accesses the checker orders")]
    unsafe impl Sync for Cell {}

    #[allow(unsafe_code, reason = "a cell whose accesses the checker orders")]
    impl Cell {
        pub fn new() -> Self {
            Self(loom::cell::UnsafeCell::new(0))
        }

        pub fn read(&self) -> u64 {
            // SAFETY: the pointer is valid for the call, and the checker panics if a write is concurrent.
            self.0.with(|value| unsafe { *value })
        }

        pub fn write(&self, new: u64) {
            // SAFETY: the pointer is valid for the call, and the checker panics if another access is
            // concurrent.
            self.0.with_mut(|value| unsafe { *value = new });
        }
    }
}

use model::{Orders, a_block_is_used_again, no_wake_up_is_lost, records_pass};

/// Switches of threads, where both could go on, that an order of events has at most.
const PREEMPTIONS_MAX: usize = 3;

fn check(program: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.max_branches = 10_000;
    builder.check(program);
}

#[test]
fn records_are_seen_whole_and_across_the_wrap() {
    check(|| records_pass(16, 6, 5, Orders::Right));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn records_published_without_release_are_caught() {
    check(|| records_pass(16, 2, 3, Orders::Weak));
}

#[test]
fn a_returned_block_may_be_written_again() {
    check(|| a_block_is_used_again(2, Orders::Right));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_block_returned_without_release_is_caught() {
    check(|| a_block_is_used_again(2, Orders::Weak));
}

#[test]
fn a_sleeper_is_always_woken() {
    check(|| no_wake_up_is_lost(2, Orders::Right));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_up_lost_without_fences_is_caught() {
    check(|| no_wake_up_is_lost(1, Orders::Weak));
}
