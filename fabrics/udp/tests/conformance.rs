//! The UDP driver, in its configurations and under every decorator, against the contract of its seam.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use farcall_driver::clock::Clock;
use farcall_driver::datagram_conformance;
use farcall_driver::decorate::{Count, Fault, FaultConfig, Pcap, Trace};
use farcall_driver::trace::Tracer;
use farcall_udp::{UdpConfig, UdpDriver};

/// `count` drivers on loopback.
fn drivers(count: usize, config: &UdpConfig) -> Vec<UdpDriver> {
    (0..count).map(|_| UdpDriver::bind(config).expect("a loopback socket")).collect()
}

fn plain(count: usize) -> Vec<UdpDriver> {
    drivers(count, &UdpConfig::default())
}

/// As on Ethernet, with buffers that the kernel joins and cuts.
fn offloaded(count: usize) -> Vec<UdpDriver> {
    drivers(count, &UdpConfig { mtu_bytes: Some(1472), coalescing: Some(true), ..UdpConfig::default() })
}

/// Nothing is copied, joined or cut, and all bounds are small.
fn frugal(count: usize) -> Vec<UdpDriver> {
    let config = UdpConfig {
        send_queue_packets: 48,
        copy_bytes_max: 16,
        receive_buffers: 100,
        burst_packets: 3,
        segmentation: false,
        ..UdpConfig::default()
    };
    drivers(count, &config)
}

fn over_ipv6(count: usize) -> Vec<UdpDriver> {
    let bind = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0);
    drivers(count, &UdpConfig { bind, ..UdpConfig::default() })
}

fn counted(count: usize) -> Vec<Count<UdpDriver>> {
    plain(count).into_iter().map(|driver| Count::new(driver, "conformance")).collect()
}

fn faultless(count: usize) -> Vec<Fault<UdpDriver>> {
    plain(count)
        .into_iter()
        .map(|driver| Fault::new(driver, FaultConfig::none(1), Clock::new(), "conformance"))
        .collect()
}

fn captured(count: usize) -> Vec<Pcap<UdpDriver, std::io::Sink>> {
    plain(count).into_iter().map(|driver| Pcap::new(driver, std::io::sink()).expect("a sink")).collect()
}

fn traced(count: usize) -> Vec<Trace<UdpDriver>> {
    let traced = |driver| {
        let tracer = Tracer::new(1024);
        tracer.switch(true);
        Trace::new(driver, tracer)
    };
    plain(count).into_iter().map(traced).collect()
}

/// All of them at once, in boxes.
fn decorated(count: usize) -> Vec<Box<dyn farcall_driver::Datagram>> {
    let stack = |driver| {
        let faultless =
            Fault::new(Count::new(driver, "conformance"), FaultConfig::none(2), Clock::new(), "conformance");
        let traced = Trace::new(faultless, Tracer::new(16));
        Box::new(Pcap::new(traced, std::io::sink()).expect("a sink")) as Box<dyn farcall_driver::Datagram>
    };
    plain(count).into_iter().map(stack).collect()
}

datagram_conformance!(udp, plain);
datagram_conformance!(udp_offloaded, offloaded);
datagram_conformance!(udp_frugal, frugal);
datagram_conformance!(udp_over_ipv6, over_ipv6);
datagram_conformance!(count, counted);
datagram_conformance!(fault, faultless);
datagram_conformance!(pcap, captured);
datagram_conformance!(trace, traced);
datagram_conformance!(all_decorators, decorated);

/// Who chooses decorators at run time keeps drivers in boxes: neither may keep a refusal to itself.
#[test]
fn a_refusal_is_told_through_decorators_and_boxes() {
    let mut drivers = decorated(2);
    let gone = drivers.pop().expect("two drivers").address();
    let mut driver = drivers.pop().expect("two drivers");
    let nobody = driver.resolve(&gone).expect("an address of this host");
    let mut packets = Vec::new();
    let begun = Instant::now();
    loop {
        driver.send(nobody, 0, &[b"is anybody there?"]).expect("room for one packet");
        driver.flush();
        driver.receive(&mut packets);
        if let Some(told) = driver.next_unreachable() {
            break assert_eq!(told, nobody);
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "nobody refused, and nobody said so");
    }
}
