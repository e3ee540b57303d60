//! The driver over libfabric's `udp` provider, in several configurations, against the contract of its seam.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use farcall_driver::datagram_conformance;
use farcall_ofi::OfiError;
use farcall_ofi::datagram::{OfiDatagram, OfiDatagramConfig};

fn config() -> OfiDatagramConfig {
    OfiDatagramConfig {
        provider: Some("udp".to_owned()),
        local: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        mtu_bytes: None,
        tx_depth: 128,
        rx_depth: 256,
        inject_bytes: 256,
        may_sleep: true,
    }
}

fn drivers(count: usize, config: &OfiDatagramConfig) -> Vec<OfiDatagram> {
    (0..count).map(|_| OfiDatagram::open(config).expect("an endpoint on loopback")).collect()
}

fn plain(count: usize) -> Vec<OfiDatagram> {
    drivers(count, &config())
}

/// Everything has a completion, and all bounds are small.
fn frugal(count: usize) -> Vec<OfiDatagram> {
    drivers(count, &OfiDatagramConfig { tx_depth: 16, rx_depth: 64, inject_bytes: 0, ..config() })
}

/// Packets that the kernel cuts and joins.
fn long(count: usize) -> Vec<OfiDatagram> {
    drivers(count, &OfiDatagramConfig { mtu_bytes: Some(8000), ..config() })
}

fn over_ipv6(count: usize) -> Vec<OfiDatagram> {
    let local = Some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    drivers(count, &OfiDatagramConfig { local, ..config() })
}

/// Whether libfabric and its provider are here.
fn support() -> Result<(), OfiError> {
    OfiDatagram::open(&config()).map(drop)
}

datagram_conformance!(udp, plain, support);
datagram_conformance!(udp_frugal, frugal, support);
datagram_conformance!(udp_long, long, support);
datagram_conformance!(udp_over_ipv6, over_ipv6, support);
