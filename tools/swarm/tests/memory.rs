//! The memory of a run is bounded by a formula, whatever goes wrong in it.
#![expect(unsafe_code, reason = "an allocator that counts is an allocator")]

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};

use farcall::TransportKind;
use farcall_swarm::{Scenario, run};

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, which counts the bytes of each thread. A simulation runs in one.
struct Counting;

fn count(bytes: isize) {
    // At the end of a thread there is nothing to count with any more.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: everything is passed on to the system's allocator; the count allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes as isize - layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Seeds of each transport.
const SEEDS: u64 = 40;

/// What a run held at its peak, and what its endpoints may hold.
fn peak_and_bound(seed: u64, transport: TransportKind) -> (usize, usize) {
    let scenario = Scenario::draw(seed, transport);
    let before = LIVE.get();
    PEAK.set(before);
    let findings = run(&scenario).expect("it can be run");
    let peak = (PEAK.get() - before) as usize;
    (peak, scenario.memory_bytes_max() + findings.totals.memory_bytes)
}

#[test]
fn no_run_takes_more_memory_than_its_endpoints_may_hold() {
    // What is made once for all runs is no run's.
    peak_and_bound(1, TransportKind::RING_SIM);
    for &transport in TransportKind::SIMULATED {
        let runs = (1..=SEEDS).map(|seed| (seed, peak_and_bound(seed, transport)));
        let share = |(peak, bound): (usize, usize)| peak as f64 / bound as f64;
        let worst = runs.max_by(|one, other| share(one.1).total_cmp(&share(other.1)));
        let (seed, (peak, bound)) = worst.expect("there are seeds");
        println!("over {transport} seed {seed} holds most: {peak} of {bound} bytes");
        assert!(peak <= bound, "over {transport} seed {seed} holds {peak} bytes, and may hold {bound}");
    }
}

#[test]
fn memory_that_is_never_given_back_would_show() {
    let before = LIVE.get();
    for seed in 1..=20 {
        peak_and_bound(seed, TransportKind::BASIC_SIM);
    }
    // Names and counters of the process may stay.
    let kept = LIVE.get() - before;
    assert!(kept < 1 << 20, "{kept} bytes are left of 20 runs");
}
