//! Power cuts find what is there to be found: a log in which one rule is left out loses or keeps what it must
//! not, and the violation says which.

use farcall_base::canary::{Rule, leave_out};
use farcall_swarm::{PowerCase, PowerCut};

const CASE: PowerCase = PowerCase {
    seed: 0,
    operations: 60,
    cuts: 3,
    cut: PowerCut::Random,
    value_bytes_max: 2_000,
    flips: false,
};

/// A rule that is left out, on a damaged disk the longest value, and what must be said of it. Long values are
/// hit by most of the damage.
const CANARIES: [(Rule, Option<u64>, &str); 3] = [
    (Rule::FlushedGroups, None, "an acknowledged write is lost"),
    (Rule::Tombstones, None, "is invented"),
    (Rule::Digests, Some(300_000), "an acknowledged write is lost"),
];

/// Seeds within which a canary must be noticed.
const SEEDS: u64 = 60;

#[test]
fn each_rule_of_the_log_that_is_left_out_is_noticed_by_name() {
    for (rule, damaged, words) in CANARIES {
        let value_bytes_max = damaged.unwrap_or(CASE.value_bytes_max);
        let case = |seed| PowerCase { seed, flips: damaged.is_some(), value_bytes_max, ..CASE };
        leave_out(Some(rule));
        let noticed_at = (1..=SEEDS)
            .find(|&seed| case(seed).judge().violations.iter().any(|violation| violation.contains(words)));
        leave_out(None);
        println!("{rule:?} left out: seed {noticed_at:?}");
        assert!(noticed_at.is_some(), "{rule:?} left out is not noticed in {SEEDS} seeds");
        let whole = case(noticed_at.unwrap_or(1)).judge();
        assert_eq!(whole.violations, Vec::<String>::new(), "without the canary nothing is wrong");
    }
}
