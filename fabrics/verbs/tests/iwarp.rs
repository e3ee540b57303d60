//! Lanes over an iWARP device, which rdma_cm connects and messages announce, against the contract of their
//! seam.

use farcall_driver::lane_conformance;
use farcall_verbs::{DeviceChoice, VerbsLaneConfig, VerbsLanes};

fn lanes(count: usize, config: &VerbsLaneConfig) -> Vec<VerbsLanes> {
    let device = DeviceChoice { device: Some("siw0".into()), ..DeviceChoice::default() };
    let config = VerbsLaneConfig { device, ..config.clone() };
    (0..count).map(|_| VerbsLanes::open(&config).expect("the virtual machine has this device")).collect()
}

fn lanes_plain(count: usize) -> Vec<VerbsLanes> {
    lanes(count, &VerbsLaneConfig { block_bytes: 1 << 22, ..VerbsLaneConfig::default() })
}

/// The smallest ring, every request reported, nothing inline, and just enough memory for loans.
fn lanes_frugal(count: usize) -> Vec<VerbsLanes> {
    let config = VerbsLaneConfig {
        ring_bytes: 4096,
        block_bytes: 1 << 18,
        signal_period: 1,
        inline_bytes: 0,
        huge_pages: false,
        ..VerbsLaneConfig::default()
    };
    lanes(count, &config)
}

lane_conformance!(lanes_iwarp, lanes_plain);
lane_conformance!(lanes_iwarp_frugal, lanes_frugal);
