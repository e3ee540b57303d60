//! The lanes of shared memory, in several configurations, against the contract of their seam.

use farcall_driver::lane_conformance;
use farcall_shm::{ShmConfig, ShmLanes};

fn lanes(count: usize, config: ShmConfig) -> Vec<ShmLanes> {
    (0..count).map(|_| ShmLanes::new(config).expect("shared memory")).collect()
}

fn lanes_plain(count: usize) -> Vec<ShmLanes> {
    lanes(count, ShmConfig { ring_bytes: 1 << 18, block_bytes: 1 << 22, may_sleep: true, nontemporal: None })
}

/// The smallest ring, and just enough memory for the loans of the suite.
fn lanes_frugal(count: usize) -> Vec<ShmLanes> {
    lanes(count, ShmConfig { ring_bytes: 4096, block_bytes: 1 << 18, may_sleep: true, nontemporal: None })
}

/// Payloads go straight to their places.
fn lanes_through_caches(count: usize) -> Vec<ShmLanes> {
    lanes(
        count,
        ShmConfig { ring_bytes: 1 << 16, block_bytes: 1 << 22, may_sleep: true, nontemporal: Some(false) },
    )
}

/// They never do.
fn lanes_nontemporal(count: usize) -> Vec<ShmLanes> {
    lanes(
        count,
        ShmConfig { ring_bytes: 1 << 16, block_bytes: 1 << 22, may_sleep: true, nontemporal: Some(true) },
    )
}

lane_conformance!(lanes_shm_through_caches, lanes_through_caches);
lane_conformance!(lanes_shm_nontemporal, lanes_nontemporal);
lane_conformance!(lanes_shm, lanes_plain);
lane_conformance!(lanes_shm_frugal, lanes_frugal);
