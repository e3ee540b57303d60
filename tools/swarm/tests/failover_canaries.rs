//! Histories of fail-over find what is there to be found: a protocol in which one rule is left out loses what
//! was acknowledged, shows what is over, or does twice what must happen once.

use farcall_base::canary::{Rule, leave_out};
use farcall_swarm::FailoverCase;

const CASE: FailoverCase =
    FailoverCase { seed: 0, steps: 8000, backups: 4, replicas: 2, flushed: false, shards: 1 };

/// A store of three shards, of which others take over the last one in parts. The rest of the seed by four
/// says what goes wrong with that.
const fn spread(trouble: u64) -> FailoverCase {
    FailoverCase { shards: 3, steps: 6000, seed: trouble, ..CASE }
}

/// What is said of a shard of which two have what the other one lacks.
const TWO_HAVE_IT: &[&str] = &["an acknowledged write is lost", "two primaries gave it", "no order explains"];

/// A rule that is left out, in which histories, and what must be said of it.
const CANARIES: [(Rule, FailoverCase, &[&str]); 7] = [
    (Rule::Fences, CASE, TWO_HAVE_IT),
    (Rule::Leases, CASE, &["a read went back", "an acknowledged write is lost", "no order explains"]),
    (Rule::RecordedReplicas, CASE, &["an acknowledged write is lost", "no order explains"]),
    (Rule::Results, CASE, &["no order explains", "one addition was answered with"]),
    (Rule::WaitsForTheLog, spread(1), TWO_HAVE_IT),
    (Rule::NextSettles, spread(2), TWO_HAVE_IT),
    (Rule::TakerSettles, spread(3), TWO_HAVE_IT),
];

/// Seeds within which a canary must be noticed.
const SEEDS: u64 = 400;

#[test]
fn each_rule_of_replication_that_is_left_out_is_noticed_by_name() {
    for (rule, case, words) in CANARIES {
        let case = |number| FailoverCase { seed: case.seed + 4 * number, ..case };
        leave_out(Some(rule));
        let noticed = (1..=SEEDS).find_map(|seed| {
            let violations = case(seed).judge().violations;
            violations
                .into_iter()
                .find(|violation| words.iter().any(|words| violation.contains(words)))
                .map(|violation| (seed, violation))
        });
        leave_out(None);
        println!("{rule:?} left out: {noticed:?}");
        let Some((seed, _)) = noticed else { panic!("{rule:?} left out is not noticed in {SEEDS} seeds") };
        assert_eq!(
            case(seed).judge().violations,
            Vec::<String>::new(),
            "without the canary nothing is wrong"
        );
    }
}
