//! The lock-free protocols under random schedules, for sizes that are beyond an exhaustive search.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p farcall-shm --release --test shuttle`; a failure is replayed with
//! the seed that was printed, in `FARCALL_SEED`.
#![cfg(shuttle)]

mod model;

/// What the programs are made of.
mod checker {
    pub use shuttle::sync::atomic::{AtomicU32, AtomicU64, fence};
    pub use shuttle::sync::{Condvar, Mutex};
    pub use shuttle::thread::{spawn, yield_now};

    /// Memory whose accesses may be interleaved with any others.
    pub struct Cell(AtomicU64);

    impl Cell {
        pub fn new() -> Self {
            Self(AtomicU64::new(0))
        }

        pub fn read(&self) -> u64 {
            self.0.load(std::sync::atomic::Ordering::Relaxed)
        }

        pub fn write(&self, new: u64) {
            self.0.store(new, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

use model::{Orders, a_block_is_used_again, no_wake_up_is_lost, records_pass};

/// Schedules of each program.
const SCHEDULES: usize = 300;

fn check(program: impl Fn() + Sync + Send + 'static) {
    let seed = std::env::var("FARCALL_SEED").map_or(0x5eed_0001, |seed| seed.parse().expect("a number"));
    println!("seed {seed}");
    let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(seed, SCHEDULES);
    shuttle::Runner::new(scheduler, shuttle::Config::default()).run(program);
}

#[test]
fn records_of_all_lengths_pass_through_rings_of_all_sizes() {
    for lines in [16, 32, 64] {
        check(move || records_pass(lines, 100, lines / 4, Orders::Right));
    }
}

#[test]
fn a_block_is_used_many_times() {
    check(|| a_block_is_used_again(50, Orders::Right));
}

#[test]
fn a_sleeper_is_woken_every_time() {
    check(|| no_wake_up_is_lost(50, Orders::Right));
}
