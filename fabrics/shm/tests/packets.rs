//! What is particular to packets through shared memory: bounds, waiting, hanging peers, and dead ones.

use core::time::Duration;

use farcall_driver::conformance::until;
use farcall_driver::{Datagram, Destination, Packet, SendError, wait_readable};
use farcall_shm::{ShmDatagram, ShmDatagramConfig};

/// As long as any test may wait for a wake-up; nothing measures it.
const PATIENCE: Duration = Duration::from_secs(20);

fn driver(config: ShmDatagramConfig) -> ShmDatagram {
    ShmDatagram::new(config).expect("shared memory")
}

/// Two drivers that have exchanged a packet, and the second one's number at the first.
fn pair(near: ShmDatagramConfig, far: ShmDatagramConfig) -> (ShmDatagram, ShmDatagram, Destination) {
    let (mut near, mut far) = (driver(near), driver(far));
    let to = near.resolve(&far.address()).expect("an address of this kind");
    near.send(to, 0, &[b"first"]).expect("room");
    near.flush();
    receive(&mut far, 1).into_iter().for_each(|packet| far.release(packet));
    until("the caller learns that it is connected", || {
        near.flush();
        (near.counters().connections_up.get() == 1).then_some(())
    });
    (near, far, to)
}

fn receive(driver: &mut ShmDatagram, count: usize) -> Vec<Packet> {
    let mut packets = Vec::new();
    until("packets arrive", || {
        driver.receive(&mut packets);
        (packets.len() >= count).then_some(())
    });
    packets
}

#[test]
fn a_packet_wakes_a_sleeper_again_and_again() {
    let (mut near, mut far, to) = pair(ShmDatagramConfig::default(), ShmDatagramConfig::default());
    let sleeper = std::thread::spawn(move || {
        let mut packets = Vec::new();
        let mut wakings = 0_u32;
        while packets.len() < 100 {
            far.prepare_wait();
            if far.receive(&mut packets) == 0 {
                // Whoever is not woken fails the test: nothing else ends this wait for so long.
                let before = std::time::Instant::now();
                wait_readable(&far.wait_descriptors(), PATIENCE);
                assert!(before.elapsed() < PATIENCE, "a wake-up was lost");
                wakings += 1;
            }
            far.finish_wait();
            far.receive(&mut packets);
            if let Some(packet) = packets.last() {
                far.send(packet.source(), 0, &[b"next"]).expect("room");
                far.flush();
            }
        }
        (wakings, packets.len())
    });
    for _ in 0..100 {
        near.send(to, 0, &[b"wake up"]).expect("room");
        near.flush();
        receive(&mut near, 1).into_iter().for_each(|packet| near.release(packet));
    }
    let (_, received) = sleeper.join().expect("no wake-up was lost");
    assert_eq!(received, 100);
}

#[test]
fn a_peer_that_hangs_does_not_stop_the_others() {
    let config = ShmDatagramConfig {
        slots_per_peer: 16,
        queue_packets: 8,
        stall_within: Duration::ZERO,
        ..ShmDatagramConfig::default()
    };
    let (mut near, mut far, to) = pair(config.clone(), config.clone());
    let sent_before = near.counters().packets_sent.get();
    while near.send(to, 0, &[b"to a peer that hangs"]).is_ok() {}
    assert_eq!(near.send_room(), 0, "its packets fill the queue");
    near.flush();
    assert_eq!(
        (near.send_room(), near.counters().dropped_stalled.get()),
        (8, 8),
        "until it counts as stalled"
    );
    (0..100).for_each(|_| near.send(to, 0, &[b"dropped"]).expect("taken and dropped"));
    assert_eq!(near.counters().dropped_stalled.get(), 108);
    let in_slots = near.counters().packets_sent.get() - sent_before;
    let mut other = driver(config);
    let to_other = near.resolve(&other.address()).expect("an address of this kind");
    near.send(to_other, 0, &[b"to another"]).expect("room");
    near.flush();
    assert_eq!(&*receive(&mut other, 1)[0], b"to another");
    // It wakes up, reads, and is served again.
    receive(&mut far, in_slots as usize).into_iter().for_each(|packet| far.release(packet));
    near.send(to, 0, &[b"again"]).expect("room");
    assert_eq!(&*receive(&mut far, 1)[0], b"again");
}

#[test]
fn a_caller_that_holds_all_slots_gets_packets_again_when_it_releases_one() {
    let config = ShmDatagramConfig { slots_per_peer: 16, ..ShmDatagramConfig::default() };
    let (mut near, mut far, to) = pair(ShmDatagramConfig::default(), config);
    (0..20_u8).for_each(|number| near.send(to, 0, &[&[number]]).expect("room"));
    let mut held = Vec::new();
    until("all slots are held", || {
        near.flush();
        far.receive(&mut held);
        (held.len() == 16).then_some(())
    });
    let before = far.counters().slots_exhausted.get();
    assert_eq!((far.receive(&mut Vec::new()), far.counters().slots_exhausted.get()), (0, before + 1));
    // The middle one first: the order of release does not matter.
    far.release(held.swap_remove(8));
    near.flush();
    assert_eq!(&*receive(&mut far, 1)[0], [16]);
}

#[test]
fn a_packet_over_the_peers_mtu_is_dropped_and_counted_before_and_after_it_is_connected() {
    let short = ShmDatagramConfig { mtu_bytes: 100, ..ShmDatagramConfig::default() };
    let (mut near, mut far) = (driver(ShmDatagramConfig::default()), driver(short));
    let to = near.resolve(&far.address()).expect("an address of this kind");
    for bytes in [&[1; 101][..], &[2; 100]] {
        near.send(to, 0, &[bytes]).expect("taken");
    }
    assert_eq!(*receive(&mut far, 1)[0], [2; 100]);
    until("the caller learns that it is connected", || {
        near.flush();
        (near.counters().connections_up.get() == 1).then_some(())
    });
    near.send(to, 0, &[&[3; 101]]).expect("taken and dropped");
    near.send(to, 0, &[&[4; 100]]).expect("taken");
    assert_eq!(*receive(&mut far, 1)[0], [4; 100]);
    assert_eq!(near.counters().dropped_too_long.get(), 2);
    assert_eq!(near.counters().packets_sent.get(), 2);
}

#[test]
fn packets_before_a_drivers_end_are_still_received_and_its_number_leads_nowhere() {
    let (near, mut far, _) = {
        let (mut near, far, to) = pair(ShmDatagramConfig::default(), ShmDatagramConfig::default());
        near.send(to, 0, &[b"last words"]).expect("room");
        (near, far, to)
    };
    drop(near);
    until("the end is noticed", || {
        far.flush();
        (far.counters().connections_down.get() == 1).then_some(())
    });
    let packets = receive(&mut far, 1);
    assert_eq!(&*packets[0], b"last words");
    let source = packets[0].source();
    assert_eq!(far.send(source, 0, &[b"too late"]), Ok(()));
    packets.into_iter().for_each(|packet| far.release(packet));
    far.receive(&mut Vec::new());
    assert_eq!(far.send(source, 0, &[b"too late"]), Ok(()));
    assert_eq!(far.counters().dropped_stale.get(), 1, "strangers are forgotten with their connection");
}

#[test]
fn packets_to_nobody_leave_the_queue() {
    let config = ShmDatagramConfig { queue_packets: 4, ..ShmDatagramConfig::default() };
    let mut near = driver(config.clone());
    let gone = driver(config);
    let to = near.resolve(&gone.address()).expect("an address of this kind");
    drop(gone);
    let mut taken = 0;
    until("the call fails", || {
        taken += u64::from(near.send(to, 0, &[b"anybody?"]).is_ok());
        near.flush();
        (near.counters().connections_down.get() == 1).then_some(())
    });
    assert_eq!(near.send_room(), 4);
    near.send(to, 0, &[b"anybody?"]).expect("dropped");
    assert_eq!(near.counters().dropped_gone.get(), taken + 1);
}

#[test]
fn both_may_call_at_once_and_a_driver_may_call_itself() {
    let (mut a, mut b) = (driver(ShmDatagramConfig::default()), driver(ShmDatagramConfig::default()));
    let (to_b, to_a) = (a.resolve(&b.address()).expect("b"), b.resolve(&a.address()).expect("a"));
    let to_self = a.resolve(&a.address()).expect("a");
    for _ in 0..50 {
        a.send(to_b, 0, &[b"to b"]).expect("room");
        b.send(to_a, 0, &[b"to a"]).expect("room");
        a.send(to_self, 0, &[b"to self"]).expect("room");
        a.flush();
        b.flush();
        let at_b = receive(&mut b, 1);
        assert_eq!((&*at_b[0], at_b[0].source()), (&b"to b"[..], to_a));
        at_b.into_iter().for_each(|packet| b.release(packet));
        let mut at_a: Vec<_> = receive(&mut a, 2);
        at_a.sort_by_key(|packet| packet.len());
        assert_eq!((&*at_a[0], at_a[0].source()), (&b"to a"[..], to_b));
        assert_eq!((&*at_a[1], at_a[1].source()), (&b"to self"[..], to_self));
        at_a.into_iter().for_each(|packet| a.release(packet));
    }
}

#[test]
fn a_full_queue_refuses_and_says_so() {
    let config = ShmDatagramConfig { slots_per_peer: 16, queue_packets: 2, ..ShmDatagramConfig::default() };
    let (mut near, mut far, to) = pair(config.clone(), config);
    let refusal = loop {
        if let Err(refusal) = near.send(to, 0, &[b"more"]) {
            break refusal;
        }
    };
    assert!(matches!(refusal, SendError::QueueFull(_)));
    assert_eq!((near.counters().packets_kept.get(), near.counters().queue_full.get()), (3, 1));
    near.flush();
    assert!(near.is_backed_up(), "the peer has not made room");
    until("nothing waits once the peer has made room", || {
        receive(&mut far, 1).into_iter().for_each(|packet| far.release(packet));
        near.flush();
        (!near.is_backed_up()).then_some(())
    });
}
