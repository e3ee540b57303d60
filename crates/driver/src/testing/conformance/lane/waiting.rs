//! Whoever blocks is woken.

use super::records::{read, write};
use super::{WITHIN, next_down, next_event, pair};
use crate::conformance::{becomes_readable, made};
use crate::{LaneDriver, LaneEvent, LaneSender};

/// Announces that the caller will block, and blocks on another thread until `cause` wakes it.
fn assert_wakes<L: LaneDriver>(waiter: &mut L, cause: impl FnOnce()) {
    waiter.prepare_wait();
    let descriptors = waiter.wait_descriptors();
    let woken = std::thread::spawn(move || becomes_readable(&descriptors));
    cause();
    assert!(woken.join().expect("no panic"), "the descriptors stay silent");
    waiter.finish_wait();
}

/// A doorbell after a publication wakes a waiter, again and again.
pub fn a_doorbell_wakes_a_waiter<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (_a, mut b, mut at_a, at_b) = pair(make);
    for round in 0..5 {
        let offset = round * 64;
        assert_wakes(&mut b, || {
            write(&mut at_a.sender, offset, &[round as u8], offset + 64);
            at_a.sender.ring_doorbell();
        });
        assert_eq!(read(&at_b.receiver, offset), [round as u8]);
    }
}

/// So does a caller.
pub fn a_connection_wakes_a_waiter<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let [mut a, mut b] = made(make);
    let address = b.address();
    assert_wakes(&mut b, || {
        a.connect(&address, b"", WITHIN).expect("an address of this kind");
    });
    assert!(matches!(next_event(&mut b), LaneEvent::Accepted { .. }));
}

/// So does the end of a lane.
pub fn a_closed_lane_wakes_a_waiter<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (mut a, mut b, at_a, at_b) = pair(make);
    assert_wakes(&mut b, || a.close(at_a.lane));
    next_down(&mut b, at_b.lane);
}
