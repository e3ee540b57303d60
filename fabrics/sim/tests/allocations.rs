//! No memory is allocated per packet, once everything has grown to what it takes.
#![expect(unsafe_code, reason = "an allocator that counts is an allocator")]

mod common;

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};

use common::{Probe, fabric};
use farcall_driver::Datagram;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting by thread.
struct Counting;

// SAFETY: everything is passed on to the system's allocator; the count allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn packets_cost_no_allocation() {
    let fabric = fabric(&[], 3);
    let [mut one, mut two, mut far] = [0, 1, 2].map(|host| Probe::new(&fabric, host));
    let mut packets = Vec::with_capacity(64);
    let mut run = |rounds: u64| {
        for (round, length) in
            (0..rounds).flat_map(|round| [0, 100, 1000, 1500].map(|length| (round, length)))
        {
            for near in [&mut one, &mut two] {
                let to = farcall_driver::Destination(far.number as u32);
                for _ in 0..10 {
                    near.driver.send(to, (round % 8) as u8, &[&[7; 1500][..length]]).expect("room");
                }
                near.driver.flush();
            }
            fabric.settle();
            while far.driver.receive(&mut packets) > 0 {
                packets.drain(..).for_each(|packet| far.driver.release(packet));
            }
        }
        ALLOCATIONS.with(Cell::get)
    };
    let warm = run(8);
    assert_eq!(run(100) - warm, 0, "allocations in 8000 packets");
}
