//! What is particular to the UDP driver: its bounds, its counts, and the kernel's refusals.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use farcall_base::AddressError;
use farcall_driver::conformance::until;
use farcall_driver::{CounterFile, Datagram, Destination, Packet};
use farcall_udp::{BindError, UdpConfig, UdpDriver, address_of};

fn driver(config: UdpConfig) -> UdpDriver {
    UdpDriver::bind(&config).expect("a loopback socket")
}

/// Two drivers, and the second one's number at the first.
fn pair(near: UdpConfig, far: UdpConfig) -> (UdpDriver, UdpDriver, Destination) {
    let (mut near, far) = (driver(near), driver(far));
    let to = near.resolve(&far.address()).expect("an address of this kind");
    (near, far, to)
}

fn receive(driver: &mut UdpDriver, count: usize) -> Vec<Packet> {
    let mut packets = Vec::new();
    until("packets arrive", || {
        driver.receive(&mut packets);
        (packets.len() >= count).then_some(())
    });
    packets
}

#[test]
fn all_interfaces_are_no_address() {
    let bind = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let refused = UdpDriver::bind(&UdpConfig { bind, ..UdpConfig::default() }).err();
    assert!(matches!(refused, Some(BindError::Unspecified { address }) if address == bind), "{refused:?}");
}

#[test]
fn values_out_of_range_are_named() {
    let good = UdpConfig::default();
    for (bad, name) in [
        (UdpConfig { mtu_bytes: Some(65_508), ..good.clone() }, "mtu_bytes"),
        (UdpConfig { mtu_bytes: Some(0), ..good.clone() }, "mtu_bytes"),
        (UdpConfig { send_queue_packets: 0, ..good.clone() }, "send_queue_packets"),
        (UdpConfig { copy_bytes_max: 1 << 20, ..good.clone() }, "copy_bytes_max"),
        (UdpConfig { receive_buffers: 0, ..good.clone() }, "receive_buffers"),
        (UdpConfig { burst_packets: 1025, ..good.clone() }, "burst_packets"),
        (UdpConfig { socket_buffer_bytes: usize::MAX, ..good }, "socket_buffer_bytes"),
    ] {
        let refused = UdpDriver::bind(&bad).err();
        assert!(
            matches!(refused, Some(BindError::OutOfRange { parameter, .. }) if parameter == name),
            "{name}"
        );
    }
}

#[test]
fn an_address_in_use_is_refused_with_the_systems_reason() {
    let first = driver(UdpConfig::default());
    let refused = UdpDriver::bind(&UdpConfig { bind: first.local(), ..UdpConfig::default() }).err();
    let in_use = std::io::ErrorKind::AddrInUse;
    assert!(matches!(refused, Some(BindError::System { source, .. }) if source.kind() == in_use));
}

#[test]
fn an_address_of_the_other_family_is_refused() {
    let mut driver = driver(UdpConfig::default());
    let other = address_of("[::1]:7000".parse().expect("an address"));
    let refused = driver.resolve(&other);
    assert!(matches!(&refused, Err(AddressError::OutOfReach { why }) if why.contains("IPv6")), "{refused:?}");
}

#[test]
fn packets_over_the_receivers_mtu_are_dropped_and_counted_one_by_one_and_in_bursts() {
    let short = UdpConfig { mtu_bytes: Some(100), ..UdpConfig::default() };
    for coalescing in [Some(false), Some(true)] {
        let far = UdpConfig { coalescing, ..short.clone() };
        let (mut near, mut far, to) = pair(UdpConfig::default(), far);
        for length in [101, 100, 3000, 101, 1] {
            near.send(to, 0, &[&vec![7; length]]).expect("room");
            near.flush();
        }
        let lengths: Vec<_> = receive(&mut far, 2).iter().map(|packet| packet.len()).collect();
        assert_eq!((lengths, far.counters().packets_truncated.get()), (vec![100, 1], 3), "{coalescing:?}");
    }
}

#[test]
fn a_burst_leaves_in_one_call_and_a_lone_packet_too() {
    let (mut near, mut far, to) = pair(UdpConfig::default(), UdpConfig::default());
    (0..10).for_each(|_| near.send(to, 0, &[&[1; 100]]).expect("room"));
    assert_eq!(near.counters().send_calls.get(), 0, "nothing leaves before the flush");
    near.flush();
    assert_eq!((near.counters().send_calls.get(), near.counters().packets_sent.get()), (1, 10));
    near.send(to, 0, &[b"lone"]).expect("room");
    near.flush();
    assert_eq!((near.counters().send_calls.get(), near.counters().bytes_sent.get()), (2, 1004));
    receive(&mut far, 11).into_iter().for_each(|packet| far.release(packet));
    assert_eq!((far.counters().packets_received.get(), far.counters().bytes_received.get()), (11, 1004));
}

#[test]
fn a_long_packet_leaves_at_once_but_not_before_those_queued() {
    let (mut near, mut far, to) = pair(UdpConfig::default(), UdpConfig::default());
    near.send(to, 0, &[b"queued"]).expect("room");
    near.send(to, 0, &[&[1; 20_000], &[2; 20_000]]).expect("room");
    let lengths: Vec<_> = receive(&mut far, 2).iter().map(|packet| packet.len()).collect();
    assert_eq!(lengths, [6, 40_000]);
}

#[test]
fn without_free_buffers_packets_wait_in_the_socket() {
    let few = UdpConfig { receive_buffers: 4, ..UdpConfig::default() };
    let (mut near, mut far, to) = pair(UdpConfig::default(), few);
    (0..10_u8).for_each(|number| near.send(to, 0, &[&[number]]).expect("room"));
    near.flush();
    let held = receive(&mut far, 4);
    let mut more = Vec::new();
    assert_eq!((far.receive(&mut more), far.counters().buffers_exhausted.get()), (0, 1));
    held.into_iter().for_each(|packet| far.release(packet));
    let mut rest = Vec::new();
    until("the rest arrives", || {
        far.receive(&mut more);
        for packet in more.drain(..) {
            rest.push(packet[0]);
            far.release(packet);
        }
        (rest.len() == 6).then_some(())
    });
    assert_eq!(rest, [4, 5, 6, 7, 8, 9]);
}

#[test]
fn what_the_kernel_refuses_is_a_loss_and_stops_nothing() {
    let (mut near, mut far, to) = pair(UdpConfig::default(), UdpConfig::default());
    // A socket must ask for the right to broadcast; this one did not, so nothing leaves the machine.
    let of_loopback = Ipv4Addr::new(127, 255, 255, 255);
    let broadcast = address_of(SocketAddr::from((of_loopback, 9)));
    let refused = near.resolve(&broadcast).expect("an address of this kind");
    near.send(refused, 0, &[b"alone"]).expect("room");
    near.flush();
    for (to, bytes) in [(refused, b"x"), (refused, b"x"), (to, b"1"), (refused, b"y"), (to, b"2"), (to, b"3")]
    {
        near.send(to, 0, &[bytes]).expect("room");
    }
    near.flush();
    near.send(refused, 0, &[&[0; 20_000]]).expect("taken and lost");
    let arrived: Vec<_> = receive(&mut far, 3).iter().map(|packet| packet[0]).collect();
    assert_eq!((arrived.as_slice(), near.counters().packets_unsendable.get()), (&b"123"[..], 5));
}

#[test]
fn a_closed_port_is_a_loss_and_stops_nothing() {
    let (mut near, mut far, to) = pair(UdpConfig::default(), UdpConfig::default());
    let gone = driver(UdpConfig::default());
    let to_gone = near.resolve(&gone.address()).expect("an address of this kind");
    drop(gone);
    for number in 0..20_u8 {
        near.send(to_gone, 0, &[b"nobody"]).expect("room");
        near.flush();
        near.send(to, 0, &[&[number]]).expect("room");
        near.flush();
        assert_eq!(receive(&mut far, 1)[0][..], [number]);
    }
}

#[test]
fn what_lies_behind_reports_of_closed_ports_is_received_in_bursts() {
    let mut server = driver(UdpConfig::default());
    for _ in 0..64 {
        // Closed before it is answered.
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket on the loopback interface");
        stranger.send_to(b"?", server.local()).expect("loopback takes it");
    }
    let (mut packets, mut received, mut calls) = (Vec::new(), 0, 0);
    while received < 64 {
        calls += 1;
        assert!(calls < 1000, "{received} of 64 have come");
        received += server.receive(&mut packets);
        for packet in packets.drain(..) {
            server.send(packet.source(), 0, &[b"!"]).expect("room for a burst");
            server.release(packet);
        }
        server.flush();
        while server.next_unreachable().is_some() {}
    }
    assert!(server.counters().undelivered.get() > 0, "the ports are closed");
    assert!(calls <= 20, "{calls} calls for 64 packets");
}

#[test]
fn a_drivers_counters_are_in_the_processs_file() {
    let (mut near, _far, to) = pair(UdpConfig::default(), UdpConfig::default());
    near.send(to, 0, &[b"counted"]).expect("room");
    near.flush();
    let snapshot = CounterFile::open_process(std::process::id()).expect("our own counters");
    let label = format!("udp {}", near.local());
    let group = snapshot.groups.iter().find(|group| group.label == label).expect("the driver's group");
    let value =
        |name| group.counters.iter().find(|counter| counter.name == name).map(|counter| counter.value);
    assert_eq!((value("packets_sent"), value("bytes_sent")), (Some(1), Some(7)));
}
