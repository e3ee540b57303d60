//! The second socket, which is connected to the peer of a conversation: nothing is lost by it, and nobody is
//! left out.

use std::net::SocketAddr;

use farcall_driver::conformance::until;
use farcall_driver::{Datagram, Destination, Wait};
use farcall_udp::{BindError, UdpConfig, UdpDriver};
use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};

/// Turns after which both sides of a conversation are connected.
const TURNS: u64 = 200;

fn driver(config: &UdpConfig) -> UdpDriver {
    UdpDriver::bind(config).expect("a loopback socket")
}

fn drivers<const N: usize>() -> [UdpDriver; N] {
    [(); N].map(|()| driver(&UdpConfig::default()))
}

/// The next packet, and who sent it.
fn next(driver: &mut UdpDriver) -> (Vec<u8>, Destination) {
    let mut packets = Vec::new();
    until("a packet arrives", || (driver.receive(&mut packets) > 0).then_some(()));
    assert_eq!(packets.len(), 1, "one is in flight at a time");
    let packet = packets.remove(0);
    let (bytes, source) = (packet.to_vec(), packet.source());
    driver.release(packet);
    (bytes, source)
}

fn send(driver: &mut UdpDriver, to: Destination, bytes: &[u8]) {
    driver.send(to, 0, &[bytes]).expect("room");
    driver.flush();
}

/// Sends numbers to and fro; each must arrive once, and in its turn.
fn talk(near: &mut UdpDriver, far: &mut UdpDriver, turns: u64) {
    let to = near.resolve(&far.address()).expect("an address of this kind");
    for turn in 0..turns {
        send(near, to, &turn.to_le_bytes());
        let (asked, source) = next(far);
        assert_eq!(asked, turn.to_le_bytes());
        send(far, source, &[&asked[..], b"!"].concat());
        assert_eq!(next(near), ([&turn.to_le_bytes()[..], b"!"].concat(), to));
    }
}

fn connections(drivers: [&UdpDriver; 2]) -> [u64; 2] {
    drivers.map(|driver| driver.counters().connections.get())
}

#[test]
fn two_that_talk_only_with_each_other_are_connected_once() {
    let [mut near, mut far] = drivers();
    talk(&mut near, &mut far, 3);
    assert_eq!(connections([&near, &far]), [0, 0], "not for a few packets");
    talk(&mut near, &mut far, TURNS);
    assert_eq!(connections([&near, &far]), [1, 1]);
    assert_eq!(
        (near.wait_descriptors().len(), far.wait_descriptors().len()),
        (2, 2),
        "either can wake a sleeper"
    );
}

#[test]
fn without_permission_nobody_is_connected() {
    let config = UdpConfig { connect: false, ..UdpConfig::default() };
    let (mut near, mut far) = (driver(&config), driver(&config));
    talk(&mut near, &mut far, TURNS);
    assert_eq!(connections([&near, &far]), [0, 0]);
}

#[test]
fn others_are_heard_and_answered_beside_a_conversation() {
    let [mut near, mut far, mut other] = drivers();
    talk(&mut near, &mut far, TURNS);
    for _ in 0..TURNS {
        talk(&mut other, &mut near, 1);
        talk(&mut near, &mut far, 1);
    }
    assert_eq!(connections([&near, &far]), [1, 1], "neither is alone with it now");
    // A burst that is for both leaves whole, and in order for each.
    let [to_far, to_other] =
        [&far, &other].map(|peer| near.resolve(&peer.address()).expect("an address of this kind"));
    (0..9_u8).for_each(|number| {
        near.send([to_far, to_other][usize::from(number) % 2], 0, &[&[number]]).expect("room")
    });
    near.flush();
    for (peer, numbers) in [(&mut far, vec![0, 2, 4, 6, 8]), (&mut other, vec![1, 3, 5, 7])] {
        let mut packets = Vec::new();
        until("the burst arrives", || {
            peer.receive(&mut packets);
            (packets.len() == numbers.len()).then_some(())
        });
        assert_eq!(packets.iter().map(|packet| packet[0]).collect::<Vec<_>>(), numbers);
    }
}

#[test]
fn who_speaks_up_after_a_silence_is_heard() {
    let [mut near, mut far, mut other] = drivers();
    talk(&mut near, &mut far, TURNS);
    let mut packets = Vec::new();
    assert_eq!((0..10).map(|_| near.receive(&mut packets)).sum::<usize>(), 0, "nobody speaks");
    talk(&mut other, &mut near, 1);
}

#[test]
fn the_next_conversation_takes_the_place_of_the_last() {
    let [mut near, mut far, mut other] = drivers();
    talk(&mut near, &mut far, TURNS);
    talk(&mut near, &mut other, TURNS);
    assert_eq!(connections([&near, &other]), [2, 1]);
    talk(&mut near, &mut far, TURNS);
    assert_eq!(connections([&near, &far]), [3, 1]);
}

#[test]
fn nobody_else_gets_the_address() {
    let [mut near, mut far] = drivers();
    talk(&mut near, &mut far, TURNS);
    let refused = UdpDriver::bind(&UdpConfig { bind: near.local(), ..UdpConfig::default() }).err();
    assert!(matches!(refused, Some(BindError::System { .. })), "{refused:?}");
    let willing_to_share = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("a socket");
    sockopt::set_socket_reuseaddr(&willing_to_share, true).expect("an option of every socket");
    assert_eq!(bind(&willing_to_share, &near.local()), Err(rustix::io::Errno::ADDRINUSE));
}

#[test]
fn a_partner_that_goes_takes_its_socket_with_it_but_nothing_that_it_has_sent() {
    let [mut near, mut far] = drivers();
    talk(&mut near, &mut far, TURNS);
    let to = near.resolve(&far.address()).expect("an address of this kind");
    let source = far.resolve(&near.address()).expect("an address of this kind");
    (0..3_u8).for_each(|number| send(&mut far, source, &[number]));
    drop(far);
    // Each of these makes the kernel tell once more that nobody is there.
    let mut packets = Vec::new();
    for _ in 0..5 {
        send(&mut near, to, b"nobody is there");
        near.receive(&mut packets);
    }
    until("its socket is closed", || {
        near.receive(&mut packets);
        (near.wait_descriptors().len() == 1).then_some(())
    });
    assert_eq!(packets.iter().map(|packet| packet[0]).collect::<Vec<_>>(), [0, 1, 2]);
    let [mut other] = drivers();
    talk(&mut near, &mut other, TURNS);
    assert_eq!(connections([&near, &other]), [2, 1]);
}

/// What is sent first to a peer that came back is told that nobody was there before.
#[test]
fn a_partner_that_comes_back_gets_the_first_packet_of_any_kind() {
    let [mut near, mut far] = drivers();
    talk(&mut near, &mut far, TURNS);
    let to = near.resolve(&far.address()).expect("an address of this kind");
    let address: SocketAddr = far.local();
    drop(far);
    let long = vec![7; 20_000];
    let kinds: [&[&[u8]]; 3] = [&[b"one"], &[b"a burst", b"of two"], &[&long]];
    for packets in kinds {
        send(&mut near, to, b"nobody is there");
        let mut back = driver(&UdpConfig { bind: address, ..UdpConfig::default() });
        packets.iter().for_each(|packet| near.send(to, 0, &[packet]).expect("room"));
        near.flush();
        let mut arrived = Vec::new();
        until("they arrive", || {
            back.receive(&mut arrived);
            (arrived.len() == packets.len()).then_some(())
        });
        arrived.iter().zip(packets).for_each(|(packet, sent)| assert_eq!(packet[..], **sent));
    }
    assert_eq!(near.counters().packets_unsendable.get(), 0);
}
