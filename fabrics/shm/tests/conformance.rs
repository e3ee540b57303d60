//! The lanes of shared memory, in several configurations, against the contract of their seam.

use core::time::Duration;

use farcall_driver::clock::Clock;
use farcall_driver::decorate::{LaneDelay, LaneDelayConfig};
use farcall_driver::lane_conformance;
use farcall_shm::access::Trust;
use farcall_shm::{ShmConfig, ShmLanes};

fn lanes(count: usize, config: ShmConfig) -> Vec<ShmLanes> {
    (0..count).map(|_| ShmLanes::new(config.clone()).expect("shared memory")).collect()
}

fn lanes_plain(count: usize) -> Vec<ShmLanes> {
    lanes(count, ShmConfig { ring_bytes: 1 << 18, block_bytes: 1 << 22, ..ShmConfig::default() })
}

/// The smallest ring, and just enough memory for the loans of the suite.
fn lanes_frugal(count: usize) -> Vec<ShmLanes> {
    lanes(count, ShmConfig { ring_bytes: 4096, block_bytes: 1 << 18, ..ShmConfig::default() })
}

/// Payloads go straight to their places.
fn lanes_through_caches(count: usize) -> Vec<ShmLanes> {
    lanes(
        count,
        ShmConfig {
            ring_bytes: 1 << 16,
            block_bytes: 1 << 22,
            nontemporal: Some(false),
            ..ShmConfig::default()
        },
    )
}

/// They never do.
fn lanes_nontemporal(count: usize) -> Vec<ShmLanes> {
    lanes(
        count,
        ShmConfig {
            ring_bytes: 1 << 16,
            block_bytes: 1 << 22,
            nontemporal: Some(true),
            ..ShmConfig::default()
        },
    )
}

/// Peers are not trusted: what they write is copied, and each has a block memory of its own.
fn lanes_copied(count: usize) -> Vec<ShmLanes> {
    lanes(
        count,
        ShmConfig { ring_bytes: 1 << 16, block_bytes: 1 << 22, trust: Trust::None, ..ShmConfig::default() },
    )
}

/// Behind a decorator that passes everything on: its delays have tests of their own.
fn lanes_decorated(count: usize) -> Vec<LaneDelay<ShmLanes>> {
    let config = LaneDelayConfig { seed: 1, delay: 0.0, delay_time: Duration::ZERO };
    lanes_plain(count)
        .into_iter()
        .map(|lanes| LaneDelay::new(lanes, config, Clock::new(), "delayed"))
        .collect()
}

lane_conformance!(lanes_shm_decorated, lanes_decorated);
lane_conformance!(lanes_shm_through_caches, lanes_through_caches);
lane_conformance!(lanes_shm_nontemporal, lanes_nontemporal);
lane_conformance!(lanes_shm, lanes_plain);
lane_conformance!(lanes_shm_copied, lanes_copied);
lane_conformance!(lanes_shm_frugal, lanes_frugal);
