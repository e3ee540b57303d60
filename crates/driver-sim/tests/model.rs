//! The model against results that can be worked out by hand.

mod common;

use common::{Probe, arrival, fabric};
use farcall_driver::Datagram;

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
