//! Faults, each alone and all together.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::*;
use crate::decorate::loopback::{Loopback, drain};

const SEED: u64 = 0xfa_017;
const PACKETS: u32 = 200;

/// Sends numbered packets, a flush after each, and then turns until nothing is kept back; what arrived.
fn run(config: FaultConfig) -> (Vec<Vec<u8>>, Fault<Loopback>) {
    let mut driver = Fault::new(Loopback::with_room(1000), config, Clock::new(), "fault-test");
    let to = driver.resolve(&driver.address()).expect("its own address");
    for number in 0..PACKETS {
        driver.send(to, 0, &[&number.to_le_bytes(), &[0xaa; 28]]).expect("room");
        driver.flush();
    }
    while driver.held_packets() > 0 {
        driver.flush();
    }
    (drain(&mut driver), driver)
}

fn numbers(packets: &[Vec<u8>]) -> Vec<u32> {
    packets.iter().map(|packet| u32::from_le_bytes(packet[..4].try_into().expect("whole"))).collect()
}

#[test]
fn without_faults_everything_passes_in_order() {
    let (packets, _) = run(FaultConfig::none(SEED));
    assert_eq!(numbers(&packets), (0..PACKETS).collect::<Vec<_>>());
}

#[test]
fn dropped_packets_are_missing_and_counted() {
    let (packets, driver) = run(FaultConfig { drop: 0.3, ..FaultConfig::none(SEED) });
    let dropped = driver.counters().dropped.get();
    assert!(dropped > 0 && packets.len() as u64 + dropped == u64::from(PACKETS));
    assert!(numbers(&packets).is_sorted());
}

#[test]
fn duplicated_packets_come_twice_and_are_counted() {
    let (packets, driver) = run(FaultConfig { duplicate: 0.3, ..FaultConfig::none(SEED) });
    let duplicated = driver.counters().duplicated.get();
    assert!(duplicated > 0 && packets.len() as u64 == u64::from(PACKETS) + duplicated);
    let mut distinct = numbers(&packets);
    distinct.dedup();
    assert_eq!(distinct, (0..PACKETS).collect::<Vec<_>>());
}

#[test]
fn reordered_and_delayed_packets_all_arrive_late() {
    let none = FaultConfig::none(SEED);
    for config in [FaultConfig { reorder: 0.3, ..none.clone() }, FaultConfig { delay: 0.3, ..none }] {
        let (packets, driver) = run(config);
        let late = driver.counters().reordered.get() + driver.counters().delayed.get();
        let mut numbers = numbers(&packets);
        assert!(late > 0 && !numbers.is_sorted(), "{late} late packets");
        numbers.sort_unstable();
        assert_eq!(numbers, (0..PACKETS).collect::<Vec<_>>());
    }
}

#[test]
fn corrupted_packets_differ_in_one_to_three_bits() {
    let (packets, driver) = run(FaultConfig { corrupt: 1.0, ..FaultConfig::none(SEED) });
    assert_eq!(driver.counters().corrupted.get(), u64::from(PACKETS));
    for (number, packet) in (0..PACKETS).zip(&packets) {
        let original = [&number.to_le_bytes()[..], &[0xaa; 28]].concat();
        let flipped: u32 = original.iter().zip(packet).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert!((1..=3).contains(&flipped), "{flipped} bits of packet {number}");
    }
}

#[test]
fn truncated_packets_are_shorter() {
    let (packets, driver) = run(FaultConfig { truncate: 1.0, ..FaultConfig::none(SEED) });
    assert_eq!(driver.counters().truncated.get(), u64::from(PACKETS));
    assert!(packets.len() == PACKETS as usize && packets.iter().all(|packet| packet.len() < 32));
}

#[test]
fn a_seed_gives_the_same_run_and_another_seed_another() {
    let mixed = |seed| {
        let none = FaultConfig::none(seed);
        let config =
            FaultConfig { drop: 0.1, duplicate: 0.1, reorder: 0.1, delay: 0.1, corrupt: 0.1, ..none };
        run(FaultConfig { truncate: 0.1, ..config }).0
    };
    assert_eq!(mixed(SEED), mixed(SEED));
    assert_ne!(mixed(SEED), mixed(SEED + 1));
}

#[test]
fn no_more_packets_are_kept_back_than_the_bound() {
    let config = FaultConfig { delay: 1.0, delay_turns_max: u32::MAX, ..FaultConfig::none(SEED) };
    let mut driver = Fault::new(Loopback::with_room(1000), config, Clock::new(), "fault-test");
    let to = driver.resolve(&driver.address()).expect("its own address");
    (0..300).for_each(|_| driver.send(to, 0, &[b"x"]).expect("room"));
    assert_eq!(driver.held_packets(), super::super::HELD_PACKETS_MAX);
    driver.flush();
    assert_eq!(drain(&mut driver).len(), 300 - super::super::HELD_PACKETS_MAX);
}

#[test]
fn a_delay_in_time_ends_by_the_clock_and_not_by_turns() {
    let nanos = Arc::new(AtomicU64::new(0));
    let config =
        FaultConfig { delay: 1.0, delay_time: Some(Duration::from_micros(5)), ..FaultConfig::none(SEED) };
    let clock = Clock::simulated(Arc::clone(&nanos));
    let mut driver = Fault::new(Loopback::with_room(1000), config, clock, "fault-test");
    let to = driver.resolve(&driver.address()).expect("its own address");
    driver.send(to, 0, &[b"a"]).expect("room");
    nanos.store(1_000, Ordering::Relaxed);
    driver.send(to, 0, &[b"b"]).expect("room");
    assert_eq!(driver.next_deadline(), Some(Instant::from_nanos(5_000)));
    for (now, arrived) in [(4_999, &[][..]), (5_000, &[b"a".to_vec()]), (6_000, &[b"b".to_vec()])] {
        nanos.store(now, Ordering::Relaxed);
        (0..1000).for_each(|_| driver.flush());
        assert_eq!(drain(&mut driver), arrived, "at {now} ns");
    }
    assert_eq!((driver.next_deadline(), driver.counters().delayed.get()), (None, 2));
}

#[test]
fn a_full_queue_keeps_what_is_due_for_later() {
    let config = FaultConfig { delay: 1.0, delay_turns_max: 1, ..FaultConfig::none(SEED) };
    let mut driver = Fault::new(Loopback::with_room(2), config, Clock::new(), "fault-test");
    let to = driver.resolve(&driver.address()).expect("its own address");
    (0..5).for_each(|_| driver.send(to, 0, &[b"x"]).expect("kept back"));
    let arrived: Vec<_> = (0..3)
        .map(|_| {
            driver.flush();
            drain(&mut driver).len()
        })
        .collect();
    assert_eq!((arrived.iter().sum::<usize>(), driver.held_packets()), (5, 0), "{arrived:?}");
}

#[test]
fn a_packet_that_is_too_long_is_refused_before_any_draw() {
    let mut driver = Fault::new(
        Loopback::with_room(2),
        FaultConfig { drop: 1.0, ..FaultConfig::none(SEED) },
        Clock::new(),
        "f",
    );
    let mtu_bytes = driver.limits().mtu_bytes;
    let to = driver.resolve(&driver.address()).expect("its own address");
    let refused = driver.send(to, 0, &[&vec![0; mtu_bytes + 1]]);
    assert_eq!(refused, Err(SendError::TooLong { bytes: mtu_bytes + 1, mtu_bytes }));
}
