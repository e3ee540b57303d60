//! What ships fastest runs in the swarm too: runs over rings take their fast ways, by their counters.

use std::collections::BTreeMap;

use farcall::TransportKind;
use farcall_driver::CounterFile;
use farcall_swarm::{Scenario, run_and};

/// Ways that a message or call can go in a ring, by the counters of those that took them. That a deferred
/// message is received in place is counted in `crates/farcall/tests/simulated_batches.rs`: the hosts of a
/// swarm hardly ever ask for one in the turn behind its arrival.
const WAYS: [&str; 9] = [
    "request_batches",
    "response_batches",
    "matched_batches",
    "message_batches",
    "unexpected",
    "waited_for_room",
    "blocks_sent",
    "credit_records_sent",
    "wrap_records_sent",
];

/// Seeds within which each way must be taken.
const SEEDS: u64 = 100;

/// How often this process took each way, all of its groups together.
fn counted() -> BTreeMap<String, u64> {
    let snapshot = CounterFile::open_process(std::process::id()).expect("this process counts");
    let mut sums = BTreeMap::new();
    let counters = snapshot.groups.iter().flat_map(|group| &group.counters);
    for counter in counters.filter(|counter| WAYS.contains(&&*counter.name)) {
        *sums.entry(counter.name.clone()).or_default() += counter.value;
    }
    sums
}

#[test]
fn a_swarm_over_rings_takes_their_fast_ways() {
    let mut left: Vec<&str> = WAYS.to_vec();
    for seed in 1..=SEEDS {
        let scenario = Scenario::draw(seed, TransportKind::RING_SIM);
        let findings = run_and(&scenario, || {
            let counted = counted();
            left.retain(|way| counted.get(*way).is_none_or(|count| *count == 0));
        });
        let findings = findings.expect("it can be run");
        assert_eq!(findings.violations, Vec::<String>::new(), "seed {seed}");
        if left.is_empty() {
            return;
        }
    }
    panic!("in {SEEDS} seeds nothing went by {left:?}");
}
