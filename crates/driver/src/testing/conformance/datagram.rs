//! The cases of the datagram seam.

mod delivery;
mod memory;
mod queue;
mod reach;

pub use delivery::*;
pub use memory::*;
pub use queue::*;
pub use reach::*;

use super::until;
use crate::{Datagram, Destination, Packet, SendError};

/// Makes a test of every case of the datagram seam in a module `$name`; `$factory` is a
/// `Fn(usize) -> Vec<D>`.
///
/// A driver that needs something which may be absent gives `$support` too, a function whose error says what
/// is missing.
#[macro_export]
macro_rules! datagram_conformance {
    ($name:ident, $factory:expr) => {
        $crate::datagram_conformance!($name, $factory, $crate::conformance::nothing_needed);
    };
    ($name:ident, $factory:expr, $support:expr) => {
        $crate::datagram_conformance!(
            @module $name, $factory, $support, addresses_lead_back, a_wrong_address_is_refused, an_empty_packet_arrives,
            the_longest_packet_arrives, a_packet_over_the_mtu_is_refused, parts_are_gathered,
            packets_of_all_lengths_arrive_unaltered, bursts_arrive_whole, equal_and_unequal_neighbours_stay_apart,
            a_full_queue_is_reported_and_recovers, the_room_is_what_was_promised, all_priorities_are_accepted,
            a_source_can_be_replied_to, a_source_is_the_resolved_destination, nothing_is_received_before_something_is_sent,
            held_packets_stay_unaltered, released_packets_are_used_again, a_packet_outlives_its_driver,
            a_driver_can_change_threads, the_wait_descriptor_becomes_readable
        );
    };
    (@module $name:ident, $factory:expr, $support:expr, $($case:ident),+) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $(
                #[test]
                fn $case() {
                    match $support() {
                        Ok(()) => $crate::conformance::datagram::$case($factory),
                        Err(why) => println!("unsupported: {why}"),
                    }
                }
            )+
        }
    };
}

/// Sends one packet, and flushes.
///
/// # Panics
/// When it is not taken although the queue is drained.
fn send_now(driver: &mut impl Datagram, to: Destination, parts: &[&[u8]]) {
    until("the queue takes a packet", || match driver.send(to, 0, parts) {
        Ok(()) => Some(()),
        Err(SendError::QueueFull(_)) => {
            driver.flush();
            None
        }
        Err(error) => panic!("{error}"),
    });
    driver.flush();
}

/// Receives `count` packets.
fn receive(driver: &mut impl Datagram, count: usize) -> Vec<Packet> {
    let mut packets = Vec::new();
    let burst_packets = driver.limits().burst_packets;
    until("packets arrive", || {
        let before = packets.len();
        let received = driver.receive(&mut packets);
        assert_eq!(packets.len() - before, received, "a receive says how many packets it appended");
        assert!(received <= burst_packets, "a receive appends a burst at most");
        (packets.len() >= count).then_some(())
    });
    assert_eq!(packets.len(), count, "no more packets arrive than were sent");
    packets
}

/// Receives `count` packets, gives them back, and returns their sources and contents in the order of arrival.
fn receive_bytes(driver: &mut impl Datagram, count: usize) -> Vec<(Destination, Vec<u8>)> {
    let packets = receive(driver, count);
    let copies = packets.iter().map(|packet| (packet.source(), packet.to_vec())).collect();
    packets.into_iter().for_each(|packet| driver.release(packet));
    copies
}

/// The contents of the next packet, which is given back.
fn receive_one(driver: &mut impl Datagram) -> Vec<u8> {
    receive_bytes(driver, 1).remove(0).1
}

/// `length` bytes that differ from place to place and from `seed` to `seed`.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut random = farcall_base::Random::new(seed);
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}
