//! The shipping transports over both simulated drivers, between several hosts, with and without faults.

mod common;

use common::cluster::{Protocol, Run, run};
use farcall_sim::{Profile, Schedule};

const BOTH: [Protocol; 2] = [Protocol::Basic, Protocol::Ring];
const HOSTS: usize = 6;
const CALLS: u64 = 300;

/// Two racks of machines with two servers each.
fn profile() -> Profile {
    let overrides = [
        "topology={ two-level = { racks = 2, machines_per_rack = 2, servers_per_machine = 2, \
         uplinks_per_rack = 2, uplink_gbps = 50, uplink_choice = 'packet' } }",
        "nic.pcie_round_trip_ns=500",
        "nic.signal_period=4",
        "host.handler_ns=100",
    ];
    Profile::load_with("ideal", &overrides).unwrap_or_else(|error| panic!("{error}"))
}

fn schedule(text: &str) -> Schedule {
    Schedule::parse("test", text).unwrap_or_else(|error| panic!("{error}"))
}

fn cluster(protocol: Protocol, seed: u64, faults: &str) -> Run {
    run(protocol, profile(), seed, HOSTS, CALLS, schedule(faults))
}

#[test]
fn every_call_is_answered_without_faults() {
    for protocol in BOTH {
        let run = cluster(protocol, 1, "");
        assert_eq!((run.answered as u64, run.lost), (HOSTS as u64 * CALLS, 0), "{protocol:?}");
        assert_eq!(run.fabric.totals().drops(), 0, "{protocol:?}");
    }
}

#[test]
fn every_call_is_answered_under_faults_of_packets() {
    let faults = "packets = { drop = 0.02, duplicate = 0.02, reorder = 0.05, delay = 0.01, delay_us = 50, \
                  corrupt = 0.01, truncate = 0.01 }";
    for seed in 0..10 {
        let run = cluster(Protocol::Basic, seed, faults);
        assert_eq!((run.answered as u64, run.lost), (HOSTS as u64 * CALLS, 0));
        let totals = run.fabric.totals();
        let happened =
            [totals.drops_fault, totals.duplicated, totals.reordered, totals.delayed, totals.corrupted];
        assert!(happened.iter().chain([&totals.truncated]).all(|count| *count > 0), "{totals:?}");
    }
    let run = cluster(Protocol::Ring, 0, faults);
    assert_eq!((run.answered as u64, run.lost), (HOSTS as u64 * CALLS, 0), "lanes are reliable");
}

#[test]
fn a_partition_that_heals_in_time_loses_no_call() {
    let faults = "
        [[event]]
        at_us = 100
        action = { partition = { from = [0, 1, 2], to = [3, 4, 5] } }
        [[event]]
        at_us = 3000
        action = 'heal'
        [[event]]
        at_us = 3050
        action = { partition = { from = [0], to = [1, 2, 3], one_way = true } }
        [[event]]
        at_us = 6000
        action = 'heal'
    ";
    for protocol in BOTH {
        let run = cluster(protocol, 3, faults);
        assert_eq!((run.answered as u64, run.lost), (HOSTS as u64 * CALLS, 0), "{protocol:?}");
        assert!(run.fabric.now().0 > 3_000_000_000, "{protocol:?} did not have to wait");
    }
}

#[test]
fn paused_and_slow_hosts_answer_late() {
    let faults = "
        [[event]]
        at_us = 50
        action = { pause = [2] }
        [[event]]
        at_us = 50
        action = { slow = { hosts = [3, 4], factor = 20 } }
        [[event]]
        at_us = 2000
        action = { resume = [2] }
    ";
    for protocol in BOTH {
        let run = cluster(protocol, 4, faults);
        assert_eq!((run.answered as u64, run.lost), (HOSTS as u64 * CALLS, 0), "{protocol:?}");
        assert!(run.fabric.now().0 > 2_000_000_000, "{protocol:?} did not have to wait");
    }
}

#[test]
fn a_crash_loses_calls_and_runs_none_twice() {
    let faults = "
        [[event]]
        at_us = 100
        action = { crash = [1, 4] }
        [[event]]
        at_us = 500
        action = { restart = [1] }
        [[event]]
        at_us = 4000
        action = { restart = [4] }
        [[event]]
        at_us = 4200
        action = { crash = [0] }
        [[event]]
        at_us = 4300
        action = { restart = [0] }
    ";
    for (protocol, seed) in BOTH.into_iter().flat_map(|protocol| (0..5).map(move |seed| (protocol, seed))) {
        let run = cluster(protocol, seed, faults);
        assert!(run.lost > 0, "{protocol:?}, seed {seed}: nobody noticed");
    }
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_another() {
    let faults = "
        packets = { drop = 0.01, reorder = 0.01 }
        [[event]]
        at_us = 100
        action = { crash = [1] }
        [[event]]
        at_us = 600
        action = { restart = [1] }
    ";
    for protocol in BOTH {
        let fingerprint = |seed: u64| {
            let run = cluster(protocol, seed, faults);
            (run.fabric.trace_hash(), run.fabric.totals(), run.answered, run.lost)
        };
        let first = fingerprint(7);
        assert_eq!(first, fingerprint(7), "{protocol:?}");
        assert_ne!(first.0, fingerprint(8).0, "{protocol:?}");
    }
}
