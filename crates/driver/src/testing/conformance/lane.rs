//! The cases of the lane seam.

mod blocks;
mod connections;
mod records;
mod waiting;

pub use blocks::*;
pub use connections::*;
pub use records::*;
pub use waiting::*;

use core::time::Duration;

use super::{made, until};
use crate::{LaneDriver, LaneEvent, LaneFault, LaneId};

/// How long peers may take to connect.
const WITHIN: Duration = Duration::from_secs(20);

/// Makes a test of every case of the lane seam in a module `$name`; `$factory` is a `Fn(usize) -> Vec<L>`.
///
/// Drivers should have at least 4 KiB of ring, memory for a few loans of the largest size
/// ([`LaneLimits`](crate::LaneLimits)), and be set up so that their owner may block.
#[macro_export]
macro_rules! lane_conformance {
    ($name:ident, $factory:expr) => {
        $crate::lane_conformance!(
            @module $name, $factory, hello_and_welcome_arrive, the_longest_hello_and_welcome_arrive,
            a_wrong_address_is_refused, nobody_is_there, closing_is_seen_on_both_sides, a_dropped_driver_is_seen,
            a_lane_closed_before_it_is_up_leaves_nothing,
            ends_of_a_closed_lane_do_no_harm, lanes_are_taken_once, lane_numbers_are_not_used_again,
            a_driver_has_many_lanes, nothing_is_there_before_publication, records_of_all_lengths_pass,
            records_with_payloads_between_words_pass, records_pass_at_every_offset, a_record_can_be_looked_at_again,
            both_directions_are_apart, batches_arrive_in_order, records_pass_between_threads, records_outside_the_ring_are_refused,
            a_loan_is_read_in_place_and_comes_back, a_double_return_is_a_fault, an_unknown_return_is_a_fault,
            a_nonsense_block_is_a_fault, payloads_copied_into_loans_arrive,
            a_block_outlives_lane_and_driver, loans_have_limits,
            unsent_loans_come_back, lent_blocks_come_home_when_the_lane_closes, loans_know_their_driver,
            a_doorbell_wakes_a_waiter, a_connection_wakes_a_waiter, a_closed_lane_wakes_a_waiter
        );
    };
    (@module $name:ident, $factory:expr, $($case:ident),+) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $(
                #[test]
                fn $case() {
                    $crate::conformance::lane::$case($factory);
                }
            )+
        }
    };
}

/// The next event of a driver.
fn next_event(driver: &mut impl LaneDriver) -> LaneEvent {
    until("something happens to a connection", || driver.poll_event())
}

/// The fault with which `lane` goes down, next.
fn next_down(driver: &mut impl LaneDriver, lane: LaneId) -> LaneFault {
    match next_event(driver) {
        LaneEvent::Down { lane: down, fault } if down == lane => fault,
        other => panic!("instead of {lane:?} going down: {other:?}"),
    }
}

/// A lane that has come up at one of its drivers.
struct End<L: LaneDriver> {
    lane: LaneId,
    sender: L::Sender,
    receiver: L::Receiver,
}

/// Connects two drivers: the lane's ends at `a`, who calls, and at `b`.
fn connect<L: LaneDriver>(a: &mut L, b: &mut L) -> (End<L>, End<L>) {
    let called = a.connect(&b.address(), b"", WITHIN).expect("an address of this kind");
    let accepted = match next_event(b) {
        LaneEvent::Accepted { lane, .. } => lane,
        other => panic!("instead of a caller: {other:?}"),
    };
    match next_event(a) {
        LaneEvent::Connected { lane, .. } => assert_eq!(lane, called),
        other => panic!("instead of a connection: {other:?}"),
    }
    (take(a, called), take(b, accepted))
}

fn take<L: LaneDriver>(driver: &mut L, lane: LaneId) -> End<L> {
    let (sender, receiver) = driver.take(lane).expect("a lane that is up");
    End { lane, sender, receiver }
}

/// Two drivers and the lane between them.
fn pair<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) -> (L, L, End<L>, End<L>) {
    let [mut a, mut b] = made(make);
    let (at_a, at_b) = connect(&mut a, &mut b);
    (a, b, at_a, at_b)
}
