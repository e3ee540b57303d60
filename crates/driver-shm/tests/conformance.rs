//! Both drivers of shared memory, in several configurations, against the contracts of their seams.

use farcall_driver::lane_conformance;
use farcall_driver_shm::{ShmConfig, ShmLanes};

fn lanes(count: usize, config: ShmConfig) -> Vec<ShmLanes> {
    (0..count).map(|_| ShmLanes::new(config).expect("shared memory")).collect()
}

fn lanes_plain(count: usize) -> Vec<ShmLanes> {
    lanes(count, ShmConfig { ring_bytes: 1 << 18, block_bytes: 1 << 22, may_sleep: true })
}

/// The smallest ring, and just enough memory for the loans of the suite.
fn lanes_frugal(count: usize) -> Vec<ShmLanes> {
    lanes(count, ShmConfig { ring_bytes: 4096, block_bytes: 1 << 18, may_sleep: true })
}

lane_conformance!(lanes_shm, lanes_plain);
lane_conformance!(lanes_shm_frugal, lanes_frugal);
