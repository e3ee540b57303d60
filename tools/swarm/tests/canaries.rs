//! The swarm finds what is there to be found: each build in which one rule is left out breaks a rule of the
//! swarm, and the violation says which.

use farcall::TransportKind;
use farcall_base::canary::{Rule, leave_out};
use farcall_swarm::Case;

/// A rule that is left out, where that shows, and what the swarm must say of it.
const CANARIES: [(Rule, TransportKind, &str); 7] = [
    (Rule::AtMostOnce, TransportKind::BASIC_SIM, "ran 2 times"),
    (Rule::AtMostOnce, TransportKind::HOMA_SIM, "ran 2 times"),
    (Rule::Checksums, TransportKind::BASIC_SIM, "arrived changed"),
    (Rule::Checksums, TransportKind::HOMA_SIM, "arrived changed"),
    (Rule::SettledCalls, TransportKind::HOMA_SIM, "still holds"),
    (Rule::OneSession, TransportKind::BASIC_SIM, "two sessions at once"),
    (Rule::SettledCalls, TransportKind::BASIC_SIM, "still holds"),
];

/// Seeds within which a canary must be noticed.
const SEEDS: u64 = 600;

/// The first seed that breaks a rule so.
fn noticed_at(transport: TransportKind, words: &str) -> Option<u64> {
    (1..=SEEDS).find(|&seed| {
        let findings = Case { seed, transport }.judge();
        findings.violations.iter().any(|violation| violation.contains(words))
    })
}

#[test]
fn each_rule_that_is_left_out_is_noticed_by_name() {
    for (rule, transport, words) in CANARIES {
        leave_out(Some(rule));
        let noticed_at = noticed_at(transport, words);
        leave_out(None);
        println!("{rule:?} left out over {transport}: seed {noticed_at:?}");
        assert!(noticed_at.is_some(), "{rule:?} left out over {transport} is not noticed in {SEEDS} seeds");
        let whole = Case { seed: noticed_at.unwrap_or(1), transport }.judge();
        assert_eq!(whole.violations, Vec::<String>::new(), "without the canary nothing is wrong");
    }
}
