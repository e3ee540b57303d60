//! Primaries and backups end, stand still and cannot reach each other, message by message.

use farcall_swarm::{FailoverCase, FailoverFindings};

/// How many seeds each test tries.
const SEEDS: &str = "FARCALL_TEST_FAILOVER_SEEDS";

/// The first seed, which is the process's number unless it is given.
fn seeds() -> core::ops::Range<u64> {
    let given = std::env::var("FARCALL_TEST_FAILOVER_SEED").ok();
    let first = given.map_or(u64::from(std::process::id()) << 16, |text| text.parse().expect("a number"));
    println!("FARCALL_TEST_FAILOVER_SEED={first}");
    let count = std::env::var(SEEDS).map_or(15, |text| text.parse().expect("a number"));
    first..first + count
}

const CASE: FailoverCase =
    FailoverCase { seed: 0, steps: 8000, backups: 4, replicas: 2, flushed: false, shards: 1 };

fn judged(case: FailoverCase) -> FailoverFindings {
    let mut all = FailoverFindings::default();
    let seeds = seeds();
    for seed in seeds.clone() {
        let case = FailoverCase { seed, ..case };
        let findings = case.judge();
        assert_eq!(findings.violations, Vec::<String>::new(), "{case:?}");
        all.operations += findings.operations;
        all.done += findings.done;
        all.primaries += findings.primaries;
        all.deposed += findings.deposed;
        all.spreads += findings.spreads;
    }
    let FailoverFindings { operations, done, primaries, deposed, spreads, .. } = all;
    println!(
        "{operations} operations, {done} answers, {primaries} primaries, {deposed} deposed, in {spreads} \
         histories a shard taken over in parts"
    );
    let count = seeds.end - seeds.start;
    assert!(all.done > 3 * count && all.primaries > count, "{all:?}");
    all
}

#[test]
fn nothing_acknowledged_is_lost_with_replicas_in_memory() {
    judged(CASE);
}

#[test]
fn nothing_acknowledged_is_lost_with_replicas_on_disks_that_all_lose_their_power() {
    judged(FailoverCase { flushed: true, ..CASE });
}

#[test]
fn one_replica_and_few_backups_are_enough() {
    judged(FailoverCase { replicas: 1, backups: 2, ..CASE });
}

/// A store of three shards, of which the last one has a primary, is taken over by the others, or is served
/// again.
const SPREAD: FailoverCase = FailoverCase { shards: 3, steps: 16_000, ..CASE };

#[test]
fn nothing_acknowledged_is_lost_when_others_take_over_a_shard_in_parts() {
    let found = judged(SPREAD);
    assert!(found.spreads > 0, "{found:?}");
}

#[test]
fn nor_with_replicas_on_disks_that_all_lose_their_power() {
    judged(FailoverCase { flushed: true, ..SPREAD });
}
