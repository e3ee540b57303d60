//! No memory is allocated per packet, once the buffers of the caller have grown.
#![expect(unsafe_code, reason = "an allocator that counts is an allocator")]

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};

use farcall_driver::conformance::until;
use farcall_driver::{Datagram, Destination, Packet};
use farcall_udp::{UdpConfig, UdpDriver};

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

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sends `count` packets of `bytes` from one driver to the other and gives them back.
fn exchange(
    [near, far]: &mut [UdpDriver; 2],
    to: Destination,
    packets: &mut Vec<Packet>,
    count: usize,
    bytes: &[u8],
) {
    let (header, payload) = bytes.split_at(1);
    (0..count).for_each(|_| near.send(to, 0, &[header, payload]).expect("room"));
    near.flush();
    let mut received = 0;
    until("packets arrive", || {
        received += far.receive(packets);
        packets.drain(..).for_each(|packet| far.release(packet));
        (received == count).then_some(())
    });
}

#[test]
fn packets_cost_no_allocation() {
    for coalescing in [Some(false), Some(true)] {
        let config = UdpConfig { coalescing, ..UdpConfig::default() };
        let mut pair = [(); 2].map(|()| UdpDriver::bind(&config).expect("a loopback socket"));
        let to = {
            let far_address = pair[1].address();
            pair[0].resolve(&far_address).expect("an address of this kind")
        };
        let mut packets = Vec::with_capacity(64);
        let mut run = |rounds: u64| {
            for _ in 0..rounds {
                for (count, length) in [(1, 100), (64, 100), (1, 30_000), (3, 1000)] {
                    exchange(&mut pair, to, &mut packets, count, &[7; 30_000][..length]);
                }
            }
            ALLOCATIONS.with(Cell::get)
        };
        let warm = run(2);
        assert_eq!(run(100) - warm, 0, "allocations in 6900 packets, coalescing {coalescing:?}");
    }
}
