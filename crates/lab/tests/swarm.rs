//! The swarm over many seeds.

use farcall::TransportKind;
use farcall_lab::swarm::{Scenario, run};

#[test]
fn explore() {
    let get =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (first, count, which) = (get("FIRST", 1), get("COUNT", 30), get("WHICH", 3));
    for seed in first..first + count {
        for (number, &transport) in TransportKind::SIMULATED.iter().enumerate() {
            if which != 3 && which as usize != number {
                continue;
            }
            let begun = std::time::Instant::now();
            let scenario = Scenario::draw(seed, transport);
            let outcome = std::panic::catch_unwind(|| run(&scenario));
            match outcome {
                Ok(Ok(f)) => println!(
                    "{seed} {transport} hosts {} {:?} viol {} answered {} failed {} ref {} lost {} of {} downs {} packets {}",
                    scenario.hosts,
                    begun.elapsed(),
                    f.violations.len(),
                    f.answered,
                    f.failed,
                    f.refused,
                    f.lost,
                    f.calls,
                    f.peers_lost,
                    f.totals.packets_sent
                ),
                Ok(Err(e)) => println!("{seed} {transport} UNUSABLE {e}"),
                Err(_) => println!("{seed} {transport} PANIC"),
            }
            if let Ok(f) = run_again(&scenario) {
                for v in f.violations.iter().take(3) {
                    println!("     {v}");
                }
            }
        }
    }
}

fn run_again(s: &Scenario) -> Result<farcall_lab::swarm::Findings, ()> {
    std::panic::catch_unwind(|| run(s)).map_err(|_| ()).and_then(|r| r.map_err(|_| ()))
}
