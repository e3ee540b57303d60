//! Runs of the swarm: what they say, and that they can be repeated.

mod common;

use common::{farcall, records, sentence};
use serde_json::Value;

#[test]
fn a_seed_of_the_swarm_is_described_and_gives_the_same_run_twice() {
    let seed = ["sim", "swarm", "--seeds", "1", "--seed", "7"];
    let runs = records(&[&seed[..], &["--json", "-"]].concat());
    let mut transports: Vec<_> = runs.iter().map(|run| run["transport"].as_str()).collect();
    transports.sort_unstable();
    assert_eq!(transports, [Some("basic+sim"), Some("homa+sim"), Some("ring+sim")]);
    let command = |run: &Value| run["again"].as_str().expect("a command").to_owned();
    for run in &runs {
        let again = command(run);
        let words: Vec<_> = again.split(' ').skip(1).chain(["--json", "-"]).collect();
        assert_eq!(records(&words), core::slice::from_ref(run));
    }
    let table = farcall(&seed);
    let table = String::from_utf8(table.stdout).expect("tables are text");
    for part in
        ["fabric: nic.mtu_bytes=", "settings: endpoint.peer_timeout=", "call 0: ", "3 runs, 0 of which"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn the_swarm_runs_on_simulated_fabrics_only() {
    assert_eq!(
        sentence(&["sim", "swarm", "--transport", "ring+shm"], 2),
        "farcall: --transport: ring+shm is not simulated; choose from basic+sim, homa+sim and ring+sim"
    );
    assert_eq!(
        sentence(&["sim", "swarm", "--seeds", "0"], 2),
        "farcall: --seeds: `0` is not a whole number from 1 to 4294967295"
    );
}
