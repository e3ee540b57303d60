//! One shard, used through slots of its daemon and by Redis clients at the same time.

mod common;
mod redis;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{LONG, endpoint, settings};
use farcall::TransportKind;
use farcall::bootstrap::{HostPort, Rendezvous};
use farcall_kv::daemon::{Daemon, DaemonClient};
use farcall_kv::slots::{SlotLayout, SlotServer};
use farcall_kv::{Name, TableId};
use redis::Served;

const LAYOUT: SlotLayout = SlotLayout { slots: 4, request_bytes: 120, response_bytes: 120 };

/// Increments of each client.
const TIMES: i64 = 2_000;

#[test]
fn both_doors_count_exactly_and_neither_starves() {
    let served = Served::start();
    let name_of_slots = format!("farcall-test-doors-{}", std::process::id());
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 1).expect("a rendezvous on loopback");
    let address = HostPort::from(rendezvous.address());
    let stop = AtomicBool::new(false);
    let table = TableId::of("default").expect("short");
    let number = Name::new(table, b"number").expect("short");
    std::thread::scope(|scope| {
        let _stop = StopWhenDropped(&stop);
        scope.spawn(|| {
            let endpoint = endpoint(&address, 0, 1, TransportKind::RING_SHM, &settings(&[]));
            let slots = SlotServer::bind(&name_of_slots, LAYOUT, 2).expect("a free name");
            let mut daemon = Daemon::sharing(&endpoint, &served.shared, (0, 1), slots);
            while !stop.load(Ordering::Relaxed) {
                daemon.turn_idle();
            }
        });
        let by_slots: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = DaemonClient::attach(&name_of_slots, LONG).expect("a place");
                    client.respond_within(LONG);
                    for _ in 0..TIMES {
                        client.increment(number, 1).expect("a number");
                    }
                })
            })
            .collect();
        let by_redis: Vec<_> = (0..3)
            .map(|_| {
                let mut client = served.client();
                scope.spawn(move || {
                    (0..TIMES).for_each(|_| assert!(client.ask("INCRBY number 1").starts_with(':')));
                })
            })
            .collect();
        by_slots.into_iter().chain(by_redis).for_each(|thread| thread.join().expect("it ends"));
        let mut slots = DaemonClient::attach(&name_of_slots, LONG).expect("a place");
        let (_, value) = slots.get(number).expect("it answers").expect("it is there");
        assert_eq!(value, (5 * TIMES).to_string().as_bytes());
        let mut redis = served.client();
        assert_eq!(redis.ask("PEXPIRE number 1"), ":1");
        wait_until(|| slots.get(number).expect("it answers").is_none());
        assert_eq!(redis.ask("EXISTS number"), ":0");
    });
}

#[test]
fn a_daemon_that_sleeps_keeps_no_client_waiting() {
    /// Turns after which it sleeps in each.
    const UNTIL_IT_SLEEPS: u64 = 270;
    const SLEEPS: u64 = 10;
    let served = Served::start();
    let name_of_slots = format!("farcall-test-sleeps-{}", std::process::id());
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 1).expect("a rendezvous on loopback");
    let address = HostPort::from(rendezvous.address());
    let (stop, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _stop = StopWhenDropped(&stop);
        scope.spawn(|| {
            let endpoint =
                endpoint(&address, 0, 1, TransportKind::RING_SHM, &settings(&["endpoint.spin_time=0us"]));
            let slots = SlotServer::bind(&name_of_slots, LAYOUT, 2).expect("a free name");
            let mut daemon = Daemon::sharing(&endpoint, &served.shared, (0, 1), slots);
            while !stop.load(Ordering::Relaxed) {
                daemon.turn_idle();
                turns.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut client = served.client();
        wait_until(|| turns.load(Ordering::Relaxed) > UNTIL_IT_SLEEPS);
        let end = turns.load(Ordering::Relaxed) + SLEEPS;
        let mut answered = 0;
        while turns.load(Ordering::Relaxed) < end {
            assert_eq!(client.ask("PING"), "+PONG");
            answered += 1;
        }
        assert!(answered > 10 * SLEEPS, "{answered} answers in {SLEEPS} sleeps: they waited for the daemon");
    });
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "it never is");
        std::thread::sleep(Duration::from_micros(100));
    }
}

struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
