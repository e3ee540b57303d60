//! Packets arrive as they were sent.

use super::{pattern, receive, receive_bytes, receive_one, send_now};
use crate::conformance::{made, until};
use crate::{Datagram, SendError};

/// A packet of no bytes is a packet, with and without parts.
pub fn an_empty_packet_arrives<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    let empty: [&[&[u8]]; 3] = [&[], &[b""], &[b"", b""]];
    for parts in empty {
        send_now(&mut a, to_b, parts);
        assert_eq!(receive_one(&mut b), b"", "{} parts", parts.len());
    }
    send_now(&mut a, to_b, &[b"not empty"]);
    assert_eq!(receive_one(&mut b), b"not empty");
}

/// A packet of exactly the MTU passes.
pub fn the_longest_packet_arrives<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    let longest = pattern(1, a.limits().mtu_bytes);
    for _ in 0..3 {
        send_now(&mut a, to_b, &[&longest]);
        assert!(receive_one(&mut b) == longest, "the longest packet was altered");
    }
}

/// One byte more does not, and does no harm.
pub fn a_packet_over_the_mtu_is_refused<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    let mtu_bytes = a.limits().mtu_bytes;
    let refused = Err(SendError::TooLong { bytes: mtu_bytes + 1, mtu_bytes });
    assert_eq!(a.send(to_b, 0, &[&vec![0; mtu_bytes + 1]]), refused);
    assert_eq!(a.send(to_b, 0, &[&vec![0; mtu_bytes], b"1"]), refused);
    send_now(&mut a, to_b, &[b"next"]);
    assert_eq!(receive_one(&mut b), b"next");
}

/// The parts of a packet arrive as one, in order, however many there are and wherever they are cut.
pub fn parts_are_gathered<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    for length in [100, a.limits().mtu_bytes] {
        let whole = pattern(length as u64, length);
        for part_bytes in [1, 7, 64, 1000, length].map(|bytes| bytes.max(length / 100).min(length)) {
            let mut parts: Vec<&[u8]> = whole.chunks(part_bytes).collect();
            parts.insert(parts.len() / 2, &[]);
            send_now(&mut a, to_b, &parts);
            assert!(receive_one(&mut b) == whole, "{length} bytes in parts of {part_bytes} were altered");
        }
    }
}

/// Every length passes, and the buffer that carried the packet may be overwritten at once.
pub fn packets_of_all_lengths_arrive_unaltered<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    let mtu_bytes = a.limits().mtu_bytes;
    let around_powers = (8..20).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]);
    for length in (0..256).chain(around_powers).chain([mtu_bytes - 1]).filter(|length| *length <= mtu_bytes) {
        let original = pattern(length as u64, length);
        let mut sent = original.clone();
        until("the queue takes a packet", || a.send(to_b, 0, &[&sent]).ok());
        sent.fill(0);
        a.flush();
        assert!(receive_one(&mut b) == original, "a packet of {length} bytes was altered");
    }
}

/// What is queued before one flush all arrives, more than a burst of it as well.
pub fn bursts_arrive_whole<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    let packets = (a.limits().burst_packets * 3 / 2).min(a.send_room()).min(500);
    for round in 0..4_u32 {
        let sent: Vec<_> =
            (0..packets as u32).map(|number| [round.to_le_bytes(), number.to_le_bytes()]).collect();
        for [round, number] in &sent {
            a.send(to_b, 0, &[round, number]).expect("room for a burst");
        }
        a.flush();
        let mut arrived: Vec<_> =
            receive_bytes(&mut b, packets).into_iter().map(|(_, bytes)| bytes).collect();
        let mut sent: Vec<_> = sent.iter().map(|parts| parts.concat()).collect();
        // Packets are unordered: only the multiset is promised.
        sent.sort_unstable();
        arrived.sort_unstable();
        assert_eq!(arrived, sent, "round {round}");
    }
}

/// Packets that leave together are cut where they were sent, whatever the lengths and destinations of
/// neighbours.
pub fn equal_and_unequal_neighbours_stay_apart<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b, mut c] = made(make);
    let to = [a.resolve(&b.address()).expect("b"), a.resolve(&c.address()).expect("c")];
    let seed = 0xb0a7;
    println!("seed {seed:#x}");
    let mut random = farcall_base::Random::new(seed);
    for round in 0..50 {
        let mut sent = [Vec::new(), Vec::new()];
        for _ in 0..a.send_room().min(40) {
            // Few lengths, so that runs of equal ones are common.
            let length = [0, 1, 100, 100, 100, 99, 101][random.below(7) as usize].min(a.limits().mtu_bytes);
            let (peer, bytes) = (usize::from(random.chance(0.2)), pattern(random.bits(), length));
            a.send(to[peer], 0, &[&bytes]).expect("room");
            sent[peer].push(bytes);
        }
        a.flush();
        for (driver, mut sent) in [&mut b, &mut c].into_iter().zip(sent) {
            let arrived = receive(driver, sent.len());
            let mut contents: Vec<_> = arrived.iter().map(|packet| packet.to_vec()).collect();
            arrived.into_iter().for_each(|packet| driver.release(packet));
            contents.sort_unstable();
            sent.sort_unstable();
            assert_eq!(contents, sent, "round {round}");
        }
    }
}
