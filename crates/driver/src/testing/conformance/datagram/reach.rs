//! Addresses, sources, threads and waiting.

use super::{receive_bytes, receive_one, send_now};
use crate::Datagram;
use crate::conformance::{becomes_readable, made};
use farcall_base::{ADDRESS_BYTES_MAX, Address, AddressError};

/// An address that travelled as bytes still leads to its driver, always under one number.
pub fn addresses_lead_back<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b, mut c] = made(make);
    let travelled = |driver: &D| Address::new(driver.address().as_bytes()).expect("it was an address");
    let (to_b, to_c) = (a.resolve(&travelled(&b)).expect("b"), a.resolve(&travelled(&c)).expect("c"));
    assert_ne!(to_b, to_c, "two drivers have two numbers");
    assert_eq!(a.resolve(&b.address()), Ok(to_b), "one driver has one number");
    send_now(&mut a, to_b, &[b"to b"]);
    send_now(&mut a, to_c, &[b"to c"]);
    assert_eq!((receive_one(&mut b), receive_one(&mut c)), (b"to b".to_vec(), b"to c".to_vec()));
}

/// Bytes that no driver of this kind made are refused as such.
pub fn a_wrong_address_is_refused<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut driver] = made(make);
    let refusal = AddressError::WrongKind { driver: driver.name() };
    for bytes in [&b""[..], b"?", &[0; 20], &[0xff; ADDRESS_BYTES_MAX]] {
        let address = Address::new(bytes).expect("short enough");
        assert_eq!(driver.resolve(&address), Err(refusal.clone()), "{address:?}");
    }
    let mut longer = driver.address().as_bytes().to_vec();
    longer.push(0);
    let longer = Address::new(longer).expect("short enough");
    assert_eq!(driver.resolve(&longer), Err(refusal), "{longer:?}");
}

/// A packet's source is a destination, also for peers that were never resolved.
pub fn a_source_can_be_replied_to<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b, mut c] = made(make);
    for (peer, text) in [(&mut b, b"b"), (&mut c, b"c")] {
        let to_a = peer.resolve(&a.address()).expect("a");
        send_now(peer, to_a, &[text]);
    }
    let arrived = receive_bytes(&mut a, 2);
    assert_ne!(arrived[0].0, arrived[1].0, "two sources have two numbers");
    for (source, bytes) in arrived {
        send_now(&mut a, source, &[b"back to ", &bytes]);
    }
    assert_eq!((receive_one(&mut b), receive_one(&mut c)), (b"back to b".to_vec(), b"back to c".to_vec()));
}

/// A peer has one number, whether it was resolved first or heard first.
pub fn a_source_is_the_resolved_destination<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b, mut c] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    let [to_a_from_b, to_a_from_c] = [&mut b, &mut c].map(|peer| peer.resolve(&a.address()).expect("a"));
    send_now(&mut b, to_a_from_b, &[b"resolved first"]);
    assert_eq!(receive_bytes(&mut a, 1)[0].0, to_b);
    send_now(&mut c, to_a_from_c, &[b"heard first"]);
    let heard = receive_bytes(&mut a, 1)[0].0;
    assert_eq!(a.resolve(&c.address()), Ok(heard));
}

/// A receive without packets returns at once, with nothing.
pub fn nothing_is_received_before_something_is_sent<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut driver, _other] = made(make);
    let mut packets = Vec::new();
    assert!((0..100).all(|_| driver.receive(&mut packets) == 0));
    assert!(packets.is_empty());
    driver.flush();
}

/// A driver and its packets may move to another thread.
pub fn a_driver_can_change_threads<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || {
            send_now(&mut a, to_b, &[b"from another thread"]);
            a
        });
        let packets = scope.spawn(|| super::receive(&mut b, 1)).join().expect("no panic");
        assert_eq!(&*packets[0], b"from another thread");
        drop((sender.join().expect("no panic"), packets));
    });
    assert_eq!(b.receive(&mut Vec::new()), 0);
}

/// Whoever blocks on the descriptors wakes up for a packet.
pub fn the_wait_descriptor_becomes_readable<D: Datagram>(make: impl Fn(usize) -> Vec<D>) {
    let [mut a, mut b] = made(make);
    let to_b = a.resolve(&b.address()).expect("b");
    let descriptors = b.wait_descriptors();
    let woken = std::thread::spawn(move || becomes_readable(&descriptors));
    send_now(&mut a, to_b, &[b"wake up"]);
    assert!(woken.join().expect("no panic"), "the descriptors stay silent");
    assert_eq!(receive_one(&mut b), b"wake up");
}
