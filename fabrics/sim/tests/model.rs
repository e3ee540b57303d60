//! The model against results that can be worked out by hand.

mod common;

use common::{Probe, arrival, fabric};
use farcall_driver::Datagram;
use farcall_sim::Picos;

/// A profile with costs that are easy to tell apart in a sum.
const PLAIN: &[&str] = &[
    "host.send_packet_ns=100",
    "host.send_byte_ns=0.5",
    "nic.descriptor_ns=10",
    "nic.doorbell_ns=20",
    "nic.pcie_round_trip_ns=600",
    "nic.pcie_gbps=64",
    "nic.dma_read_bytes=512",
    "nic.dma_read_ns=7",
    "nic.inline_bytes=100",
    "nic.transmit_packet_ns=30",
    "nic.receive_packet_ns=40",
    "link.gbps=80",
    "link.header_bytes=40",
    "link.propagation_ns=50",
    "switch.latency_ns=200",
];

#[test]
fn the_latency_of_a_packet_is_the_sum_of_its_parts() {
    let fabric = fabric(PLAIN, 2);
    let sender_ns = 100.0 + 1000.0 * 0.5 + 10.0 + 20.0;
    let doorbell_ns = 300.0;
    // Two reads of 512 bytes, one after the other on PCIe, then their round trip.
    let fetch_ns = 2.0 * 7.0 + 1000.0 / 8.0 + 600.0;
    let links_ns = 2.0 * (1040.0 / 10.0 + 50.0);
    let receiver_ns = 40.0 + 1000.0 / 8.0 + 300.0;
    let expected_ns = sender_ns + doorbell_ns + fetch_ns + 30.0 + links_ns + 200.0 + receiver_ns;
    assert_eq!(arrival(&fabric, 0, 1, 1000), expected_ns);
}

#[test]
fn an_inline_packet_saves_the_read() {
    let [inline, read] = [100, 101].map(|bytes| arrival(&fabric(PLAIN, 2), 0, 1, bytes));
    let byte_ns = 0.5 + 2.0 * 0.1 + 0.125;
    assert_eq!(read - inline, 600.0 + 7.0 + 101.0 / 8.0 + byte_ns);
}

#[test]
fn a_later_packet_of_a_turn_leaves_later() {
    let fabric = fabric(PLAIN, 2);
    let (mut near, mut far) = (Probe::new(&fabric, 0), Probe::new(&fabric, 1));
    near.send(&far, 0, 10);
    near.driver.flush();
    let first = near.clock.now();
    near.send(&far, 0, 10);
    near.driver.flush();
    assert_eq!((near.clock.now() - first).as_nanos(), 100 + 5 + 10 + 20);
    fabric.settle();
    assert_eq!(far.receive().len(), 2);
}

/// Sends `packets` packets of `bytes` bytes as fast as the host can.
fn blast(near: &mut Probe, far: &Probe, packets: usize, bytes: usize) {
    for _ in 0..packets {
        near.send(far, 0, bytes);
    }
    near.driver.flush();
}

/// A fabric where only links count.
const LINKS_ONLY: &[&str] = &[
    "host.send_packet_ns=0",
    "nic.send_queue_packets=100000",
    "nic.pcie_gbps=8000",
    "link.gbps=80",
    "link.header_bytes=0",
    "link.propagation_ns=0",
    "switch.latency_ns=0",
    "switch.port_buffer_bytes=100000000",
];

/// What reading a packet of 1000 bytes from memory and writing it there adds.
const MEMORY_NS: u64 = 2;

#[test]
fn a_saturated_link_carries_its_rate() {
    let fabric = fabric(LINKS_ONLY, 2);
    let (mut near, mut far) = (Probe::new(&fabric, 0), Probe::new(&fabric, 1));
    blast(&mut near, &far, 1000, 1000);
    fabric.settle();
    assert_eq!(far.receive().len(), 1000);
    // A packet takes 100 ns on each of two links, of which the second works while the first does.
    assert_eq!(fabric.now().0 / 1000, 1001 * 100 + MEMORY_NS);
    assert_eq!(fabric.host(1).port_usage().busy, Picos(100_000_000));
}

#[test]
fn two_senders_share_a_port() {
    let fabric = fabric(LINKS_ONLY, 3);
    let [mut one, mut two, mut far] = [0, 1, 2].map(|host| Probe::new(&fabric, host));
    blast(&mut one, &far, 500, 1000);
    blast(&mut two, &far, 500, 1000);
    fabric.settle();
    let sources = far.receive_sources();
    let first_half = sources[..500].iter().filter(|source| **source == 0).count();
    assert_eq!((sources.len(), first_half), (1000, 250), "the port takes turns as packets come");
    assert_eq!(fabric.now().0 / 1000, 1001 * 100 + MEMORY_NS);
}

#[test]
fn higher_priorities_overtake_in_the_switch() {
    let fabric = fabric(LINKS_ONLY, 3);
    let [mut one, mut two, mut far] = [0, 1, 2].map(|host| Probe::new(&fabric, host));
    blast(&mut one, &far, 20, 1000);
    (0..10).for_each(|_| two.send(&far, 0, 1000));
    two.send(&far, 7, 1000);
    two.driver.flush();
    fabric.settle();
    let place = far.receive().iter().position(|(priority, _)| *priority == Some(7));
    // The eleventh of its sender: the port has sent ten of those that came before, and ten wait.
    assert_eq!(place, Some(10));
}

#[test]
fn a_full_buffer_drops_what_comes_and_counts_it() {
    let overrides = [LINKS_ONLY, &["switch.port_buffer_bytes=10000"]].concat();
    let fabric = fabric(&overrides, 3);
    let [mut one, mut two, mut far] = [0, 1, 2].map(|host| Probe::new(&fabric, host));
    blast(&mut one, &far, 100, 1000);
    blast(&mut two, &far, 100, 1000);
    fabric.settle();
    // While 200 packets come, two in each slot of time, the port sends 99; ten are left in the buffer.
    let (arrived, totals) = (far.receive().len() as u64, fabric.totals());
    assert_eq!((arrived, totals.drops_port, totals.drops()), (109, 91, 91));
    assert_eq!(fabric.host(2).port_usage().peak_bytes, 10_000);
}

#[test]
fn an_oversubscribed_uplink_is_the_limit_between_racks() {
    let topology = "topology={ two-level = { racks = 2, machines_per_rack = 4, servers_per_machine = 1, \
                    uplinks_per_rack = 1, uplink_gbps = 40, uplink_choice = 'flow' } }";
    let overrides = [LINKS_ONLY, &[topology]].concat();
    let fabric = fabric(&overrides, 8);
    let mut probes: Vec<_> = (0..8).map(|host| Probe::new(&fabric, host)).collect();
    let (near, far) = probes.split_at_mut(4);
    for (near, far) in near.iter_mut().zip(far.iter()) {
        blast(near, far, 100, 1000);
    }
    fabric.settle();
    assert!(far.iter_mut().all(|far| far.receive().len() == 100));
    // Four senders of 80 Gb/s have 40 Gb/s together: 200 ns a packet, then the last two hops of the last
    // packet.
    assert_eq!(fabric.now().0 / 1000, 100 + 400 * 200 + 200 + 100 + MEMORY_NS);
    assert_eq!(fabric.uplink_usage()[0].packets, 400);
}

#[test]
fn a_cut_through_switch_saves_one_serialisation() {
    let stored = arrival(&fabric(LINKS_ONLY, 2), 0, 1, 1000);
    let through = arrival(&fabric(&[LINKS_ONLY, &["switch.cut_through=true"]].concat(), 2), 0, 1, 1000);
    assert_eq!(stored - through, 100.0);
}

#[test]
fn the_message_rate_of_a_card_is_a_limit_each_way() {
    for limit in ["nic.transmit_packet_ns=250", "nic.receive_packet_ns=250"] {
        let fabric = fabric(&[LINKS_ONLY, &[limit]].concat(), 2);
        let (mut near, far) = (Probe::new(&fabric, 0), Probe::new(&fabric, 1));
        blast(&mut near, &far, 1000, 100);
        fabric.settle();
        let packet_ns = fabric.now().0 as f64 / 1e3 / 1000.0;
        assert!((250.0..251.0).contains(&packet_ns), "{limit}: {packet_ns} ns a packet");
    }
}

#[test]
fn servers_of_a_machine_share_its_card() {
    let topology = |servers: usize| {
        format!("topology={{ single-switch = {{ machines = 3, servers_per_machine = {servers} }} }}")
    };
    let finished = |servers: usize, receivers: [usize; 2]| {
        let topology = topology(servers);
        let fabric = fabric(&[LINKS_ONLY, &[&topology]].concat(), 3 * servers);
        let [mut one, mut two] = [0, 1].map(|host| Probe::new(&fabric, host));
        let far = receivers.map(|host| Probe::new(&fabric, host));
        blast(&mut one, &far[0], 100, 1000);
        blast(&mut two, &far[1], 100, 1000);
        fabric.settle();
        fabric.now().0 / 1000
    };
    // Two hosts of one machine take twice as long to two other machines as hosts of two machines would.
    assert_eq!(finished(2, [2, 4]), 201 * 100 + MEMORY_NS);
    // Within the machine nothing passes the link.
    assert!(finished(2, [1, 0]) < 1000);
}

#[test]
fn the_send_queue_gives_places_back_by_the_period() {
    let overrides = [LINKS_ONLY, &["nic.send_queue_packets=10", "nic.signal_period=4"]].concat();
    let fabric = fabric(&overrides, 2);
    let (mut near, far) = (Probe::new(&fabric, 0), Probe::new(&fabric, 1));
    blast(&mut near, &far, 10, 1000);
    assert_eq!(near.driver.send_room(), 0);
    fabric.settle();
    assert_eq!(near.driver.send_room(), 8, "two completions have come, and two packets wait for a third");
    blast(&mut near, &far, 8, 1000);
    fabric.settle();
    assert_eq!(near.driver.send_room(), 8);
}

#[test]
fn a_shared_receive_path_tightens_with_the_number_of_senders() {
    let path = "receive_path={ gbps = 40, slowdown_per_source = 0.5, source_window_us = 1000 }";
    let byte_time = |senders: usize, overrides: &[&str]| {
        let fabric = fabric(&[LINKS_ONLY, overrides].concat(), senders + 1);
        let mut probes: Vec<_> = (0..=senders).map(|host| Probe::new(&fabric, host)).collect();
        let far = probes.remove(senders);
        probes.iter_mut().for_each(|near| blast(near, &far, 3000 / senders, 1000));
        fabric.settle();
        fabric.now().0 as f64 / 3_000_000.0
    };
    let near = |expected: f64, senders, overrides: &[&str]| {
        let picos = byte_time(senders, overrides);
        assert!(
            (picos / expected - 1.0).abs() < 0.01,
            "{senders} senders: {picos} ps a byte, not {expected}"
        );
    };
    near(200.0, 1, &[path]);
    near(200.0 * 1.5, 2, &[path]);
    near(200.0 * 2.0, 3, &[path]);
    near(200.0, 3, &[path, "receive_path.slowdown_per_source=0"]);
    near(100.0, 3, &[]);
}
