//! Received packets are on loan.

use std::collections::HashSet;

use super::{pattern, receive, receive_one, send_now};
use crate::Datagram;
use crate::conformance::{made, until};

/// Packets in the long run of [`released_packets_are_used_again`].
const LONG_RUN_PACKETS: usize = 200_000;
/// Packets that are on their way at a time in that run.
const WINDOW_PACKETS: usize = 16;
/// Places in memory that a driver may use for so small a window. More means that it does not reuse its
/// buffers.
const PLACES_MAX: usize = 16_384;

/// A packet keeps its contents while it is held, whatever else comes and goes.
pub fn held_packets_stay_unaltered<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    let length = 300.min(a.limits().mtu_bytes);
    let mut held = Vec::new();
    for number in 0..64 {
        send_now(&mut a, to_b, &[&pattern(number, length)]);
        held.extend(receive(&mut b, 1));
        for _ in 0..8 {
            send_now(&mut a, to_b, &[&pattern(1_000 + number, length)]);
            receive_one(&mut b);
        }
    }
    for (number, packet) in (0..).zip(&held) {
        assert!(**packet == pattern(number, length), "packet {number} was altered while it was held");
    }
    held.into_iter().for_each(|packet| b.release(packet));
}

/// A driver runs for ever in bounded memory when its packets come back.
pub fn released_packets_are_used_again<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    let mut places = HashSet::new();
    let (mut sent, mut received, mut packets) = (0, 0, Vec::new());
    until("the long run ends", || {
        for _ in 0..10_000 {
            while sent < LONG_RUN_PACKETS
                && sent - received < WINDOW_PACKETS
                && a.send(to_b, 0, &[b"again"]).is_ok()
            {
                sent += 1;
            }
            a.flush();
            received += b.receive(&mut packets);
            for packet in packets.drain(..) {
                places.insert(packet.as_ptr().addr());
                b.release(packet);
            }
        }
        (received == LONG_RUN_PACKETS).then_some(())
    });
    assert!(places.len() <= PLACES_MAX, "{} places for {WINDOW_PACKETS} packets at a time", places.len());
}

/// Packets of a driver that is gone can still be read and dropped.
pub fn a_packet_outlives_its_driver<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    let lengths = [0, 1, a.limits().mtu_bytes];
    let packets: Vec<_> = lengths
        .iter()
        .flat_map(|length| {
            send_now(&mut a, to_b, &[&pattern(5, *length)]);
            receive(&mut b, 1)
        })
        .collect();
    drop((a, b));
    for (packet, length) in packets.iter().zip(lengths) {
        assert!(**packet == pattern(5, length), "the packet of {length} bytes changed");
    }
}
