//! How many packet events a second the fabric handles on one core: all hosts exchange packets at random,
//! without any protocol on top. Prints the median of several runs.

use std::time::Instant;

use farcall_base::Random;
use farcall_driver::{Datagram, Destination, Packet};
use farcall_sim::{Fabric, Host, Profile, Program, SimDatagram, Simulation};

/// Simulated time of a run.
const MICROS: u64 = 4_000;
/// Packets that a host keeps on their way.
const WINDOW: usize = 4;
/// Runs of each figure.
const RUNS: usize = 5;

fn main() {
    println!(
        "fabric            hosts  bytes  carried   packet events/s  events/s  packets/s  peak events  memory"
    );
    for (profile, hosts, bytes, carried_bytes) in [
        ("ideal", 2, 100, 100),
        ("ideal", 16, 100, 100),
        ("ideal", 200, 100, 100),
        ("ideal", 200, 1400, 1400),
        ("connectx2-qdr", 80, 100, 100),
        ("omni-path-100", 200, 4000, 4000),
        ("omni-path-100", 200, 40_000, 40_000),
        ("omni-path-100", 200, 40_000, 100),
    ] {
        let mut runs: Vec<_> = (0..RUNS).map(|_| run(profile, hosts, bytes, carried_bytes)).collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (seconds, totals) = runs[RUNS / 2];
        let rate = |count: u64| count as f64 / seconds / 1e6;
        println!(
            "{profile:16} {hosts:6} {bytes:6} {carried_bytes:8} {:13.2} M {:7.2} M {:8.2} M {:12} {:5.1} MB",
            rate(totals.packet_events),
            rate(totals.events),
            rate(totals.packets_delivered),
            totals.peak_events,
            totals.memory_bytes as f64 / 1e6
        );
    }
}

fn run(profile: &str, hosts: usize, bytes: usize, carried_bytes: usize) -> (f64, farcall_sim::Totals) {
    let profile = Profile::load(profile).expect("an embedded profile");
    let fabric = Fabric::new(profile, 1, hosts).expect("it has the places");
    fabric.carry_at_most(carried_bytes);
    let mut simulation = Simulation::new(fabric.clone());
    for host in 0..hosts {
        simulation.start(host, move |host: &Host| Box::new(Exchange::new(host, hosts, bytes)));
    }
    let started = Instant::now();
    simulation.run_until(farcall_base::Instant::from_nanos(MICROS * 1000));
    (started.elapsed().as_secs_f64(), fabric.totals())
}

/// Answers each packet with one to somebody else.
struct Exchange {
    driver: SimDatagram,
    random: Random,
    hosts: u64,
    payload: Vec<u8>,
    owed: usize,
    packets: Vec<Packet>,
}

impl Exchange {
    fn new(host: &Host, hosts: usize, bytes: usize) -> Self {
        let random = Random::new(host.number() as u64);
        let (driver, packets) = (host.datagram(), Vec::new());
        Self { driver, random, hosts: hosts as u64, payload: vec![7; bytes], owed: WINDOW, packets }
    }
}

impl Program for Exchange {
    fn turn(&mut self) -> usize {
        let received = self.driver.receive(&mut self.packets);
        self.owed += received;
        self.packets.drain(..).for_each(|packet| self.driver.release(packet));
        let sent = self.owed.min(self.driver.send_room());
        for _ in 0..sent {
            let to = Destination(self.random.below(self.hosts) as u32);
            self.driver.send(to, 0, &[&self.payload]).expect("there is room");
        }
        self.owed -= sent;
        self.driver.flush();
        received + sent
    }

    fn next_deadline(&self) -> Option<farcall_base::Instant> {
        (self.owed > 0).then_some(farcall_base::Instant::ZERO)
    }
}
