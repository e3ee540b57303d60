//! Drivers over a real device, in several configurations, against the contracts of their seams.

use farcall_driver::{datagram_conformance, lane_conformance};
use farcall_verbs::{ConnectBy, VerbsDatagram, VerbsDatagramConfig, VerbsLaneConfig, VerbsLanes};

fn packets(count: usize, config: &VerbsDatagramConfig) -> Vec<VerbsDatagram> {
    (0..count).map(|_| VerbsDatagram::open(config).expect("an RDMA device")).collect()
}

fn packets_plain(count: usize) -> Vec<VerbsDatagram> {
    packets(count, &VerbsDatagramConfig::default())
}

/// Short packets, a short queue that reports every packet, nothing inline, and just enough buffers for the
/// suite.
fn packets_frugal(count: usize) -> Vec<VerbsDatagram> {
    let config = VerbsDatagramConfig {
        mtu_bytes: Some(500),
        send_queue_packets: 40,
        receive_buffers: 130,
        receive_queue_packets: 64,
        burst_packets: 3,
        signal_period: 1,
        inline_bytes: 0,
        huge_pages: false,
        ..VerbsDatagramConfig::default()
    };
    packets(count, &config)
}

datagram_conformance!(packets_verbs, packets_plain);
datagram_conformance!(packets_verbs_frugal, packets_frugal);

fn lanes(count: usize, config: &VerbsLaneConfig) -> Vec<VerbsLanes> {
    (0..count).map(|_| VerbsLanes::open(config).expect("an RDMA device")).collect()
}

fn lanes_plain(count: usize) -> Vec<VerbsLanes> {
    lanes(count, &VerbsLaneConfig { block_bytes: 1 << 22, ..VerbsLaneConfig::default() })
}

/// The smallest ring, few receives, every write reported, nothing inline, and just enough memory for loans.
fn lanes_frugal(count: usize) -> Vec<VerbsLanes> {
    let config = VerbsLaneConfig {
        ring_bytes: 4096,
        block_bytes: 1 << 18,
        receives: 64,
        signal_period: 1,
        inline_bytes: 0,
        huge_pages: false,
        ..VerbsLaneConfig::default()
    };
    lanes(count, &config)
}

fn lanes_by_cm(count: usize) -> Vec<VerbsLanes> {
    let config =
        VerbsLaneConfig { connect_by: ConnectBy::Cm, block_bytes: 1 << 22, ..VerbsLaneConfig::default() };
    lanes(count, &config)
}

lane_conformance!(lanes_verbs, lanes_plain);
lane_conformance!(lanes_verbs_cm, lanes_by_cm);
lane_conformance!(lanes_verbs_frugal, lanes_frugal);
