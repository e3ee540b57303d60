//! The send queue and its bound.

use super::{receive_bytes, receive_one, send_now};
use crate::conformance::{made, until};
use crate::{Datagram, SendError, SendQueueFull};

/// No driver has a queue this long: one that takes so many packets without a flush has no bound.
const QUEUE_PACKETS_MAX: usize = 1 << 20;

/// A full queue says so, loses nothing that it took, and takes packets again after a flush.
pub fn a_full_queue_is_reported_and_recovers<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    for round in 0..3_u8 {
        let mut taken = 0;
        let refusal = loop {
            match a.send(to_b, 0, &[&[round]]) {
                Ok(()) => taken += 1,
                Err(refusal) => break refusal,
            }
            assert!(taken < QUEUE_PACKETS_MAX, "the queue has no bound");
        };
        assert_eq!((refusal, a.send_room()), (SendError::QueueFull(SendQueueFull), 0));
        let mut arrived = 0;
        let mut packets = Vec::new();
        until("the queue is emptied", || {
            a.flush();
            arrived += b.receive(&mut packets);
            for packet in packets.drain(..) {
                assert_eq!(&*packet, [round]);
                b.release(packet);
            }
            (arrived == taken).then_some(())
        });
        assert!(a.send_room() > 0, "there is room after everything has arrived");
    }
}

/// As many packets as the room says are taken.
pub fn the_room_is_what_was_promised<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    let room = a.send_room();
    assert!(room > 0, "an idle driver has room");
    let packets = room.min(1000);
    for number in 0..packets {
        let left = a.send_room();
        assert!(left >= room - number, "{left} places are left of {room} after {number} packets");
        assert_eq!(a.send(to_b, 0, &[b"promised"]), Ok(()), "packet {number} of {packets}");
    }
    let mut arrived = 0;
    let mut received = Vec::new();
    until("the promised packets arrive", || {
        a.flush();
        arrived += b.receive(&mut received);
        received.drain(..).for_each(|packet| b.release(packet));
        (arrived == packets).then_some(())
    });
}

/// Every priority is taken, those beyond the limit too.
pub fn all_priorities_are_accepted<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    assert!((1..=8).contains(&a.limits().priorities), "one to eight priorities");
    for priority in [0, 1, 7, 8, u8::MAX] {
        a.send(to_b, priority, &[&[priority]]).expect("room");
    }
    a.flush();
    let mut arrived: Vec<_> = receive_bytes(&mut b, 5).into_iter().flat_map(|(_, bytes)| bytes).collect();
    arrived.sort_unstable();
    assert_eq!(arrived, [0, 1, 7, 8, u8::MAX]);
    send_now(&mut a, to_b, &[b"after"]);
    assert_eq!(receive_one(&mut b), b"after");
}
