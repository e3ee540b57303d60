//! Groups in threads of this process and on hosts of a simulated fabric, which run the same tests.

#![allow(dead_code, reason = "each test file uses its part")]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Barrier;
use std::time::Duration;

use farcall::bootstrap::{Bootstrap, LocalRanks, random_incarnation};
use farcall::parameters::Settings;
use farcall::simulated::{Cluster, Outcome, Profile, Tasks};
use farcall::{Endpoint, Node};
use farcall_base::Random;
use farcall_collective::{Algorithms, Group, GroupId};

/// Generous: reached only when something hangs.
pub const LONG: Duration = Duration::from_secs(20);

/// Where tests run: transports, of which some are simulated.
pub const PLACES: [&str; 3] = ["ring+shm", "ring+sim", "basic+sim"];

/// The sizes of groups, powers of two and others.
pub const GROUP_SIZES: core::ops::RangeInclusive<u32> = 1..=9;

/// Runs `member` for each member of a group of this size over a transport.
pub fn run(
    transport: &'static str,
    size: u32,
    algorithms: Algorithms,
    member: impl AsyncFn(&mut Group<'_>) + Copy + Send + Sync + 'static,
) {
    run_endpoints(transport, size, async move |endpoint: &Endpoint, rank: u32| {
        let group = Group::new(endpoint, GroupId::new(3), rank, 0..size).expect("a member");
        let mut group = group.with_algorithms(algorithms).with_timeout(LONG);
        member(&mut group).await;
        // What the others need has left when all have come here.
        group.barrier().await.expect("a whole group");
    });
}

/// Runs `rank` for each rank of a cluster of this size over a transport.
pub fn run_endpoints(
    transport: &'static str,
    size: u32,
    rank: impl AsyncFn(&Endpoint, u32) + Copy + Send + Sync + 'static,
) {
    if transport.ends_with("sim") {
        run_simulated(transport, size, rank);
    } else {
        run_threads(transport, size, rank);
    }
}

fn run_threads(transport: &str, size: u32, run: impl AsyncFn(&Endpoint, u32) + Copy + Send + Sync) {
    let (ranks, have_ended) = (LocalRanks::new(size), Barrier::new(size as usize));
    std::thread::scope(|scope| {
        for rank in 0..size {
            let (ranks, have_ended) = (&ranks, &have_ended);
            scope.spawn(move || {
                let bootstrap = Bootstrap::among(ranks, rank, random_incarnation());
                let node = Node::new(bootstrap, Settings::default());
                let endpoint = node.endpoint(transport).expect("an endpoint");
                endpoint.block_on(run(&endpoint, rank));
                endpoint.poll_once();
                have_ended.wait();
            });
        }
    });
}

fn run_simulated(transport: &'static str, size: u32, run: impl AsyncFn(&Endpoint, u32) + Copy + 'static) {
    let profile = Profile::load("omni-path-100").expect("an embedded profile");
    let mut cluster = Cluster::new(profile, size, 7, Settings::default()).expect("a fabric");
    let left = Rc::new(Cell::new(size));
    for rank in 0..size {
        let left = Rc::clone(&left);
        cluster.start(rank, move |node| {
            let endpoint = node.endpoint(transport).expect("an endpoint");
            let left = Rc::clone(&left);
            Box::new(Tasks::new(endpoint, async move |endpoint: Rc<Endpoint>| {
                run(&endpoint, rank).await;
                left.set(left.get() - 1);
            }))
        });
    }
    let until = farcall::Instant::ZERO + 10 * LONG;
    let outcome = cluster.run_while_until(|| left.get() > 0, until);
    assert_eq!((left.get(), outcome), (0, Outcome::Done), "{transport}, {size} members");
}

/// What a member has for another one: bytes that depend on both and on the length.
pub fn pattern(from: u32, to: u32, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(u64::from(from) << 32 | u64::from(to) << 16 | bytes as u64);
    let mut pattern = Vec::with_capacity(bytes + 8);
    while pattern.len() < bytes {
        pattern.extend(random.bits().to_le_bytes());
    }
    pattern.truncate(bytes);
    pattern
}
