//! The swarm over many seeds, and over those that once found a bug.

use std::collections::BTreeSet;

use farcall::TransportKind;
use farcall_swarm::{Case, FAULT_KINDS, Findings, Scenario, explore};

/// Seeds of every run of the tests. `farcall sim swarm` looks at more.
const SEEDS: u64 = 200;

/// Cases that broke a rule, by what was wrong. They are kept although a change to how scenarios are drawn
/// turns them into others.
const ONCE_BROKEN: [(u64, TransportKind, &str); 44] = [
    (1, TransportKind::BASIC_SIM, "all simulated endpoints drew the same session numbers"),
    (10, TransportKind::HOMA_SIM, "the same: a new life's reset ended a session of another host"),
    (15, TransportKind::RING_SIM, "a lane that was gone before it was up was reported as an unknown peer's"),
    (177, TransportKind::RING_SIM, "the same, twice on one host"),
    (
        17,
        TransportKind::BASIC_SIM,
        "a timeout became an event only at the next poll, which nobody knew was due",
    ),
    (50, TransportKind::RING_SIM, "the time that an endpoint waited was added to a deadline"),
    (92, TransportKind::RING_SIM, "the same, with a peer that stands still"),
    (58, TransportKind::RING_SIM, "a block that had arrived was gone after its lender's crash"),
    (
        268,
        TransportKind::RING_SIM,
        "the return of a block was a violation once the block's reader had crashed",
    ),
    (10_536, TransportKind::BASIC_SIM, "a peer was dead whose packets lay unread behind those of others"),
    (
        12_242,
        TransportKind::RING_SIM,
        "the rule was wrong: the call of a lane is lost with the host that it reaches",
    ),
    (
        200_393,
        TransportKind::BASIC_SIM,
        "the rule was wrong: who stands still while a session opens is forgotten",
    ),
    (94, TransportKind::HOMA_SIM, "the rule was wrong: a former life that is dead may be called so"),
    (
        1_000_396,
        TransportKind::RING_SIM,
        "a crash was not noticed over a lane whose good-bye a partition held up",
    ),
    (3_017_052, TransportKind::RING_SIM, "the same"),
    (
        3_026_039,
        TransportKind::HOMA_SIM,
        "the rule was wrong: a host that sends does something, although its turns say nothing of it",
    ),
    (
        1_019_058,
        TransportKind::RING_SIM,
        "the rule was wrong: an unexpected message holds memory that the answers before a probe need",
    ),
    (2_004_670, TransportKind::RING_SIM, "two sides waited for each other's blocks"),
    (2_011_353, TransportKind::RING_SIM, "the same"),
    (2_018_248, TransportKind::RING_SIM, "the same"),
    (2_024_984, TransportKind::RING_SIM, "the same"),
    (2_033_717, TransportKind::RING_SIM, "the same"),
    (2_043_166, TransportKind::RING_SIM, "the same"),
    (2_051_853, TransportKind::BASIC_SIM, "a rule was wrong, in the days of those before it"),
    (
        3_019_223,
        TransportKind::BASIC_SIM,
        "packets of one forgotten session used up the answers that a ping of another one needed",
    ),
    (3_028_015, TransportKind::BASIC_SIM, "a call that was cancelled before it left was never settled"),
    (3_028_015, TransportKind::HOMA_SIM, "the same seed over the other protocol"),
    (
        5_045_969,
        TransportKind::RING_SIM,
        "the rule was wrong: the call of a lane is late behind what others send",
    ),
    (
        6_000_012,
        TransportKind::BASIC_SIM,
        "messages that waited for a session took slots out of order, and more than it turned out to have",
    ),
    (6_001_960, TransportKind::BASIC_SIM, "the same"),
    (6_001_211, TransportKind::HOMA_SIM, "the same"),
    (
        6_001_227,
        TransportKind::BASIC_SIM,
        "a call over the agreed limit waited for ever beside a slot that another one had left",
    ),
    (
        7_101_590,
        TransportKind::BASIC_SIM,
        "a session in which a new life of the peer answered ended as if the peer had closed it",
    ),
    (
        9_000_664,
        TransportKind::RING_SIM,
        "the rule was wrong: messages of a former life may come behind those of the next",
    ),
    (
        10_001_943,
        TransportKind::BASIC_SIM,
        "a peer that stood still from the first microseconds of a session was dead: no ping had told its life port",
    ),
    (10_012_705, TransportKind::HOMA_SIM, "the same, twice"),
    (
        10_014_004,
        TransportKind::BASIC_SIM,
        "the rule was wrong: a partition of a quarter of the timeout swallows both questions to a process",
    ),
    (
        10_009_735,
        TransportKind::BASIC_SIM,
        "long messages crawled through a port with room for four packets: each question asked for all of them again",
    ),
    (10_004_978, TransportKind::HOMA_SIM, "the same"),
    (
        30_002_321,
        TransportKind::RING_SIM,
        "a tag was granted again while the message of its promise waited for block memory",
    ),
    (30_001_437, TransportKind::RING_SIM, "the same"),
    (
        90_003_158,
        TransportKind::BASIC_SIM,
        "messages that a full queue had dropped were asked for together each time, and the last was always dropped",
    ),
    (
        97_017_190,
        TransportKind::RING_SIM,
        "a collective operation that had ended well waited past its deadline until aborts had left",
    ),
    (
        140_020_560,
        TransportKind::BASIC_SIM,
        "a queue of five packets lost most of every window, which was never less than sixteen: a millisecond a KB",
    ),
];

fn cases(seeds: core::ops::RangeInclusive<u64>) -> Vec<Case> {
    let of_seed = |seed| TransportKind::SIMULATED.iter().map(move |&transport| Case { seed, transport });
    seeds.flat_map(of_seed).collect()
}

/// Runs the cases in all threads that there are; fails with the commands of those that break a rule.
fn all_hold(cases: &[Case]) -> Vec<(Case, Findings)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all = Vec::new();
    explore(cases, threads, |case, findings| all.push((case, findings)));
    assert_eq!(all.len(), cases.len(), "every case is judged");
    let broken = all.iter().filter(|(_, findings)| !findings.violations.is_empty());
    let broken: Vec<_> = broken
        .map(|(case, findings)| format!("{}\n  {}", case.command(), findings.violations.join("\n  ")))
        .collect();
    assert!(broken.is_empty(), "{} cases break a rule:\n{}", broken.len(), broken.join("\n"));
    all
}

#[test]
fn no_seed_breaks_a_rule() {
    let all = all_hold(&cases(1..=SEEDS));
    for &transport in TransportKind::SIMULATED {
        let of_it =
            || all.iter().filter(|(case, _)| case.transport == transport).map(|(_, findings)| findings);
        let sum = |figure: fn(&Findings) -> usize| of_it().map(figure).sum::<usize>();
        // Rules are only worth something where there was something to break.
        let calls = sum(|findings| findings.calls);
        assert!(sum(|findings| findings.answered) > calls / 3, "{transport}: hardly any call is answered");
        assert!(sum(|findings| findings.failed) > calls / 50, "{transport}: hardly any call fails");
        assert!(sum(|findings| findings.refused) > calls / 50, "{transport}: hardly any call is refused");
        assert!(
            sum(|findings| findings.peers_lost) > SEEDS as usize / 4,
            "{transport}: hardly any peer is lost"
        );
        let few = SEEDS as usize / 4;
        assert!(sum(|findings| findings.collectives) > few, "{transport}: hardly any collective ends well");
        assert!(sum(|findings| findings.stored) > few, "{transport}: hardly any operation of a store");
        // Errands over rings' hosts are packets.
        let has_dropped = |(case, findings): &&(Case, Findings)| {
            let is_bare = Scenario::draw(case.seed, case.transport).errands.is_empty();
            is_bare && case.transport == transport && findings.totals.drops_port > 0
        };
        let lossy = transport != TransportKind::RING_SIM;
        assert_eq!(all.iter().any(|run| has_dropped(&run)), lossy, "{transport}: overflow of switches");
    }
}

/// Few seeds have hosts that prove who they are: these are looked for.
#[test]
fn hosts_that_prove_who_they_are_break_no_rule() {
    let proves = |case: &Case| {
        let tuning = Scenario::draw(case.seed, case.transport).tuning;
        tuning.assignments.iter().any(|assignment| assignment.starts_with("security.identity_file="))
    };
    let cases: Vec<_> = cases(1..=600).into_iter().filter(proves).take(24).collect();
    assert_eq!(cases.len(), 24);
    let all = all_hold(&cases);
    let answered: usize = all.iter().map(|(_, findings)| findings.answered).sum();
    assert!(answered > 0, "sessions come up");
}

#[test]
fn what_once_broke_a_rule_breaks_none_now() {
    all_hold(&ONCE_BROKEN.map(|(seed, transport, _)| Case { seed, transport }));
}

#[test]
fn a_seed_gives_the_same_run_every_time_and_another_seed_another() {
    let all = all_hold(&cases(3..=8));
    for (case, findings) in &all {
        assert_eq!(case.judge(), *findings, "{}", case.command());
    }
    for transport in TransportKind::SIMULATED {
        let of_it = all.iter().filter(|(case, _)| case.transport == *transport);
        let hashes: BTreeSet<_> = of_it.map(|(_, findings)| findings.trace_hash).collect();
        assert_eq!(hashes.len(), 6, "{transport}: some runs are the same");
    }
}

#[test]
fn the_list_of_faults_in_the_documents_is_that_of_the_program() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/simulation.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    for kind in &FAULT_KINDS {
        let row = format!("| {} | {} |", kind.name, kind.about);
        assert!(page.contains(&row), "docs/simulation.md has no row `{row}`");
    }
}
