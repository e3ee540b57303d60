//! Power cuts at every write of short histories, and at random in longer ones.

use farcall_swarm::{PowerCase, PowerCut, PowerFindings};

/// The first seed, which is the process's number unless it is given.
fn seed() -> u64 {
    let given = std::env::var("FARCALL_TEST_POWER_SEED").ok();
    let seed = given.map_or(u64::from(std::process::id()) << 16, |text| text.parse().expect("a number"));
    println!("FARCALL_TEST_POWER_SEED={seed}");
    seed
}

fn judged(case: PowerCase) -> PowerFindings {
    let findings = case.judge();
    assert_eq!(findings.violations, Vec::<String>::new(), "{case:?}");
    findings
}

const SHORT: PowerCase = PowerCase {
    seed: 0,
    operations: 10,
    cuts: 1,
    cut: PowerCut::Random,
    value_bytes_max: 20_000,
    flips: false,
};

#[test]
fn a_cut_at_any_write_of_a_short_history_loses_nothing() {
    let first = seed();
    let (mut cuts, mut acknowledged) = (0, 0);
    for seed in first..first + 3 {
        let whole = judged(PowerCase { seed, cuts: 0, ..SHORT });
        assert!(whole.jobs > 5, "{whole:?}");
        // A short history may have no write that is acknowledged.
        acknowledged += whole.acknowledged;
        for after in 0..=whole.jobs + 1 {
            judged(PowerCase { seed, cut: PowerCut::After(after), ..SHORT });
            cuts += 1;
        }
    }
    println!("{cuts} cuts");
    assert!(acknowledged > 0, "nothing was acknowledged");
}

#[test]
fn random_cuts_of_longer_histories_lose_nothing() {
    let first = seed();
    let mut acknowledged = 0;
    for seed in first..first + 20 {
        acknowledged += judged(PowerCase { seed, operations: 60, cuts: 4, ..SHORT }).acknowledged;
    }
    assert!(acknowledged > 200, "{acknowledged} changes were acknowledged");
}

#[test]
fn cleaned_segments_take_nothing_with_them() {
    let first = seed();
    let mut cleaned = 0;
    for seed in first..first + 4 {
        let case = PowerCase { seed, operations: 400, cuts: 2, value_bytes_max: 600_000, ..SHORT };
        cleaned += judged(case).cleaned;
    }
    assert!(cleaned > 0, "no segment was cleaned");
}

#[test]
fn a_damaged_segment_is_refused_and_never_shortened() {
    let first = seed();
    let (mut refused, mut opened) = (0, 0);
    for seed in first..first + 30 {
        let case = PowerCase { seed, operations: 20, cuts: 6, flips: true, ..SHORT };
        match judged(case).refused {
            true => refused += 1,
            false => opened += 1,
        }
    }
    println!("{refused} refused, {opened} opened");
    assert!(refused > 0, "no damage was noticed");
}
