//! What a member of an exchange takes for each other one, everything included: with thousands of members on a
//! simulated fabric that is what decides whether they fit.
#![expect(unsafe_code, reason = "an allocator that counts is an allocator")]

mod common;

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};

use common::run;
use farcall::{Outgoing, Payload};
use farcall_collective::{Algorithms, PushLimits};

/// The most bytes of an end of a session at the peak of a run, with all that stands beside it.
const END_BYTES_MAX: usize = 1500;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting by thread: a simulation runs in one.
struct Counting;

fn change(change: impl FnOnce(usize) -> usize) {
    let held = HELD.with(|held| {
        held.set(change(held.get()));
        held.get()
    });
    PEAK.with(|peak| peak.set(peak.get().max(held)));
}

// SAFETY: everything is passed on to the system's allocator; the count allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        change(|held| held + layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        change(|held| held.saturating_sub(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory that is held while so many members exchange short messages.
fn peak(members: u32) -> usize {
    let before = HELD.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    run("basic+sim", members, Algorithms::default(), async |group| {
        let payload = Payload::from(vec![7; 1000]);
        let others: Vec<u32> = (0..group.size()).filter(|&member| member != group.own()).collect();
        for _ in 0..2 {
            let messages = others.iter().map(|&to| (to, Outgoing::Shared(payload.clone()))).collect();
            let exchange = group.exchange(messages, &others, PushLimits::default(), |_, _| {});
            exchange.await.expect("a whole group");
        }
    });
    PEAK.with(Cell::get) - before
}

#[test]
fn an_end_of_a_session_takes_little_memory_in_an_exchange() {
    // The first run makes what a process has once.
    peak(2);
    let (few, many) = (33, 65);
    let (of_few, of_many) = (peak(few), peak(many));
    let [few, many] = [few, many].map(|members| members as usize);
    // Two equations: each member takes a fixed amount, and so much for each other one.
    let of_end = (of_many / many - of_few / few) / (many - few);
    println!("{of_end} bytes an end of a session");
    assert!(of_end <= END_BYTES_MAX, "{of_end} bytes");
}
