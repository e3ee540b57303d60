//! Random workloads over random networks.
//!
//! Whatever the network does, short of cutting off for good: every call completes once, every request runs
//! once at most, every byte is right, and in the end nothing is held. A failure prints the case; proptest
//! replays it.

use core::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::Tested;
use super::world::{ECHO, Faults, World, request};
use crate::basic::BasicConfig;
use crate::calls::{fuzz_messages, fuzz_sessions};

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    faults: [u64; 5],
    mtu_bytes: u32,
    unscheduled_bytes: u32,
    calls_max: u16,
    /// Caller, bytes of request and response, and whether it is cancelled half way.
    calls: Vec<(bool, usize, u32, bool)>,
}

fn case() -> impl Strategy<Value = Case> {
    let size = prop_oneof![4 => 8_usize..300, 2 => 300_usize..5000, 1 => 5000_usize..60_000];
    let call = (any::<bool>(), size.clone(), size, prop::bool::weighted(0.1));
    let calls = prop::collection::vec(call.prop_map(|it| (it.0, it.1, it.2 as u32, it.3)), 1..60);
    let faults = [0..200_u64, 0..200_u64, 0..100_u64, 0..50_u64, 0..400_u64];
    let limits = (256..4000_u32, 1..40_000_u32, 1..20_u16);
    (any::<u64>(), faults, limits, calls).prop_map(|(seed, faults, limits, calls)| Case {
        seed,
        faults,
        mtu_bytes: limits.0,
        unscheduled_bytes: limits.1,
        calls_max: limits.2,
        calls,
    })
}

fn world_of<P: Tested>(case: &Case) -> World<P> {
    let mut config = BasicConfig::default();
    config.session.offer.mtu_bytes = case.mtu_bytes;
    config.session.offer.unscheduled_bytes = case.unscheduled_bytes;
    config.session.offer.calls_max = case.calls_max;
    // The networks here lose up to a fifth of all packets in each direction: give the pings time.
    config.session.peer_timeout = Duration::from_secs(20);
    let mut world = World::new(&[config; 2], case.seed);
    let [lost, duplicated, corrupted, truncated, delayed] = case.faults;
    world.faults = Faults { lost, duplicated, corrupted, truncated, delayed, delay_nanos_max: 20_000_000 };
    world
}

/// Makes the calls as fast as slots become free, and checks all that must hold.
fn run<P: Tested>(case: &Case) {
    let mut world = world_of::<P>(case);
    let (here, there) = world.connected(0, 1);
    let sessions = [here, there];
    let mut cancelled = Vec::new();
    let mut occupied = [Vec::new(), Vec::new()];
    for (operation, &(by_second, bytes, answer, cancel)) in case.calls.iter().enumerate() {
        let (node, operation) = (usize::from(by_second), operation as u32);
        let done = |world: &World<P>, operation: &u32| world.nodes[node].completed.contains_key(operation);
        world.run_until(Duration::from_secs(600), |world| {
            occupied[node].iter().filter(|it| !done(world, it)).count() < usize::from(case.calls_max)
        });
        world.call(node, sessions[node], operation, ECHO, &request(operation, bytes, answer));
        if cancel {
            world.run_for(Duration::from_micros(u64::from(answer) % 30));
            if !done(&world, &operation) {
                world.nodes[node].calls.cancel(sessions[node], operation);
                cancelled.push(operation);
            }
        }
        if !cancelled.contains(&operation) {
            occupied[node].push(operation);
        }
    }
    let expected = case.calls.len() - cancelled.len();
    world.run_until(Duration::from_secs(600), |world| {
        world.nodes.iter().map(|node| node.completed.len()).sum::<usize>() >= expected
    });
    world.faults = Faults::default();
    world.run_until(Duration::from_secs(60), World::is_idle);
    check(case, &world, &cancelled);
}

fn check<P: Tested>(case: &Case, world: &World<P>, cancelled: &[u32]) {
    for node in &world.nodes {
        assert!(!node.completed_twice && node.downs.is_empty());
        assert!(node.ran.values().all(|count| *count == 1), "an operation ran twice");
    }
    for (operation, &(by_second, _, answer, _)) in case.calls.iter().enumerate() {
        let (node, operation) = (&world.nodes[usize::from(by_second)], operation as u32);
        if cancelled.contains(&operation) {
            assert!(!node.completed.contains_key(&operation), "a cancelled call was answered");
        } else {
            node.assert_answered(operation, answer as usize);
            assert_eq!(world.nodes[1 - usize::from(by_second)].ran[&operation], 1);
        }
    }
}

/// Runs a test on cases of a strategy, as `proptest!` does for functions that are not generic.
fn with_cases<T: core::fmt::Debug>(strategy: impl Strategy<Value = T>, test: impl Fn(T)) {
    let mut runner = TestRunner::new(ProptestConfig::with_source_file(file!()));
    let tested = runner.run(&strategy, |case| {
        test(case);
        Ok(())
    });
    tested.unwrap_or_else(|failure| panic!("{failure}\n{runner}"));
}

fn calls_complete_once_with_the_right_bytes_over_any_network<P: Tested>() {
    with_cases(case(), |case| run::<P>(&case));
}

fn many_calls_complete_while_one_packet_in_ten_is_altered<P: Tested>() {
    let mut world = World::<P>::pair(60);
    let (session, _) = world.connected(0, 1);
    world.faults.corrupted = 100;
    let (mut made, calls) = (0, 20_000);
    while made < calls {
        world.run_until(Duration::from_secs(600), |world| made < world.nodes[0].completed.len() as u32 + 200);
        world.call(0, session, made, ECHO, &request(made, 8 + made as usize % 100, made % 200));
        made += 1;
    }
    world.run_until(Duration::from_secs(60), |world| world.nodes[0].completed.len() as u32 == calls);
    (0..calls).for_each(|it| world.nodes[0].assert_answered(it, it as usize % 200));
    assert!(world.nodes[1].ran.values().all(|count| *count == 1));
    assert!(world.nodes[1].calls.sessions().counters().checksum_errors > 1000);
}

fn hostile_packets_cost_nobody_but_their_sender<P: Tested>() {
    with_cases(prop::collection::vec(any::<u8>(), 0..2000), |bytes| {
        fuzz_messages(&bytes, P::default);
        fuzz_sessions(&bytes, P::default);
    });
}

for_every_protocol!(
    calls_complete_once_with_the_right_bytes_over_any_network,
    many_calls_complete_while_one_packet_in_ten_is_altered,
    hostile_packets_cost_nobody_but_their_sender,
);
