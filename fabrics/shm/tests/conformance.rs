//! Both drivers of shared memory, in several configurations, against the contracts of their seams.

use farcall_driver::{datagram_conformance, lane_conformance};
use farcall_shm::{ShmConfig, ShmDatagram, ShmDatagramConfig, ShmLanes};

fn lanes(count: usize, config: ShmConfig) -> Vec<ShmLanes> {
    (0..count).map(|_| ShmLanes::new(config).expect("shared memory")).collect()
}

fn lanes_plain(count: usize) -> Vec<ShmLanes> {
    lanes(count, ShmConfig { ring_bytes: 1 << 18, block_bytes: 1 << 22, may_sleep: true, past_caches: None })
}

/// The smallest ring, and just enough memory for the loans of the suite.
fn lanes_frugal(count: usize) -> Vec<ShmLanes> {
    lanes(count, ShmConfig { ring_bytes: 4096, block_bytes: 1 << 18, may_sleep: true, past_caches: None })
}

/// Payloads go straight to their places.
fn lanes_through_caches(count: usize) -> Vec<ShmLanes> {
    lanes(
        count,
        ShmConfig { ring_bytes: 1 << 16, block_bytes: 1 << 22, may_sleep: true, past_caches: Some(false) },
    )
}

/// They never do.
fn lanes_past_caches(count: usize) -> Vec<ShmLanes> {
    lanes(
        count,
        ShmConfig { ring_bytes: 1 << 16, block_bytes: 1 << 22, may_sleep: true, past_caches: Some(true) },
    )
}

lane_conformance!(lanes_shm_through_caches, lanes_through_caches);
lane_conformance!(lanes_shm_past_caches, lanes_past_caches);
lane_conformance!(lanes_shm, lanes_plain);
lane_conformance!(lanes_shm_frugal, lanes_frugal);

fn packets(count: usize, config: &ShmDatagramConfig) -> Vec<ShmDatagram> {
    (0..count).map(|_| ShmDatagram::new(config.clone()).expect("shared memory")).collect()
}

fn packets_plain(count: usize) -> Vec<ShmDatagram> {
    packets(count, &ShmDatagramConfig::default())
}

/// Short packets, a short queue, and just enough slots for those that the suite holds.
fn packets_frugal(count: usize) -> Vec<ShmDatagram> {
    let config = ShmDatagramConfig {
        mtu_bytes: 500,
        slots_per_peer: 80,
        queue_packets: 40,
        may_sleep: false,
        ..ShmDatagramConfig::default()
    };
    packets(count, &config)
}

datagram_conformance!(packets_shm, packets_plain);
datagram_conformance!(packets_shm_frugal, packets_frugal);
