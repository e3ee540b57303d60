//! What the tests share: fabrics with known costs, and hosts that are driven by hand.

#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]

mod by_hand;
pub mod cluster;
pub mod echo;

pub use by_hand::ByHand;
use farcall_driver::clock::Clock;
use farcall_driver::{Datagram, Destination, Packet};
use farcall_sim::{Fabric, Profile, SimDatagram};

/// A fabric of `hosts` hosts on the ideal profile with `overrides`.
pub fn fabric(overrides: &[&str], hosts: usize) -> Fabric {
    let profile = Profile::load_with("ideal", overrides).unwrap_or_else(|error| panic!("{error}"));
    Fabric::new(profile, 1, hosts).unwrap_or_else(|error| panic!("{error}"))
}

/// A host that a test drives by hand.
pub struct Probe {
    pub number: usize,
    pub driver: SimDatagram,
    pub clock: Clock,
    packets: Vec<Packet>,
}

impl Probe {
    pub fn new(fabric: &Fabric, number: usize) -> Self {
        let host = fabric.host(number);
        Self { number, driver: host.datagram(), clock: host.clock(), packets: Vec::new() }
    }

    /// Queues a packet of `bytes` bytes.
    pub fn send(&mut self, to: &Probe, priority: u8, bytes: usize) {
        let payload = vec![priority; bytes];
        self.driver.send(Destination(to.number as u32), priority, &[&payload]).expect("room in the queue");
    }

    /// All that has arrived: the sender.
    pub fn receive_sources(&mut self) -> Vec<u32> {
        self.receive_each(|packet| packet.source().0)
    }

    /// All that has arrived: first bytes and lengths.
    pub fn receive(&mut self) -> Vec<(Option<u8>, usize)> {
        self.receive_each(|packet| (packet.first().copied(), packet.len()))
    }

    fn receive_each<T>(&mut self, look: impl Fn(&Packet) -> T) -> Vec<T> {
        let mut arrived = Vec::new();
        while self.driver.receive(&mut self.packets) > 0 {
            for packet in self.packets.drain(..) {
                arrived.push(look(&packet));
                self.driver.release(packet);
            }
        }
        arrived
    }
}

/// Nanoseconds until a packet of `bytes` bytes from one host is in the other's memory.
pub fn arrival(fabric: &Fabric, from: usize, to: usize, bytes: usize) -> f64 {
    let (mut near, mut far) = (Probe::new(fabric, from), Probe::new(fabric, to));
    near.send(&far, 0, bytes);
    near.driver.flush();
    fabric.settle();
    assert_eq!(far.receive(), [((bytes > 0).then_some(0), bytes)]);
    fabric.now().0 as f64 / 1000.0
}
