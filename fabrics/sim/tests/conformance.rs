//! Both drivers of the simulated fabric against the contracts of their seams.
//!
//! The suites wait in real time for what must happen; here it happens in simulated time, which somebody has
//! to move on. The wrappers below do so whenever the suite does something that may have an effect elsewhere,
//! or finds nothing.

mod common;

use common::{ByHand, fabric};
use farcall_driver::{datagram_conformance, lane_conformance};
use farcall_sim::{SimDatagram, SimLanes};

fn packets(count: usize, overrides: &[&str]) -> Vec<ByHand<SimDatagram>> {
    let fabric = fabric(overrides, count);
    (0..count).map(|host| ByHand::new(&fabric, fabric.host(host).datagram())).collect()
}

fn packets_plain(count: usize) -> Vec<ByHand<SimDatagram>> {
    packets(count, &[])
}

/// Everything costs something, and all bounds are small.
fn packets_frugal(count: usize) -> Vec<ByHand<SimDatagram>> {
    let overrides = [
        "host.send_packet_ns=100",
        "host.burst_packets=3",
        "nic.mtu_bytes=500",
        "nic.pcie_round_trip_ns=800",
        "nic.inline_bytes=64",
        "nic.transmit_packet_ns=50",
        "nic.send_queue_packets=48",
        "nic.signal_period=16",
    ];
    packets(count, &overrides)
}

/// Between racks and inside machines.
fn packets_far_and_near(count: usize) -> Vec<ByHand<SimDatagram>> {
    let topology = "topology={ two-level = { racks = 2, machines_per_rack = 1, servers_per_machine = 2, \
                    uplinks_per_rack = 2, uplink_gbps = 40, uplink_choice = 'packet' } }";
    packets(count, &[topology])
}

datagram_conformance!(packets_sim, packets_plain);
datagram_conformance!(packets_sim_frugal, packets_frugal);
datagram_conformance!(packets_sim_far_and_near, packets_far_and_near);

fn lanes(count: usize, overrides: &[&str]) -> Vec<ByHand<SimLanes>> {
    let fabric = fabric(overrides, count);
    // Lanes are whole whatever is left out of datagrams.
    fabric.carry_at_most(16);
    (0..count).map(|host| ByHand::new(&fabric, fabric.host(host).lanes())).collect()
}

fn lanes_plain(count: usize) -> Vec<ByHand<SimLanes>> {
    lanes(count, &[])
}

/// The smallest ring, packets much smaller than records, and buffers that hardly hold one.
fn lanes_frugal(count: usize) -> Vec<ByHand<SimLanes>> {
    let overrides = [
        "lanes.ring_bytes=4096",
        "lanes.block_bytes=262144",
        "nic.mtu_bytes=300",
        "nic.receive_buffer_bytes=300",
        "switch.port_buffer_bytes=400",
    ];
    lanes(count, &overrides)
}

lane_conformance!(lanes_sim, lanes_plain);
lane_conformance!(lanes_sim_frugal, lanes_frugal);
