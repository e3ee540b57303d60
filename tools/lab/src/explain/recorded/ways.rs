//! Which way the sessions of a run took, where they had several, and why not the others.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::RecordedRun;
use crate::explain::analysis::finding::{Finding, Section};
use crate::run::ways::Ways;

/// What the figures were taken for granted to be of: the ways of each run, once.
pub fn ways(runs: &[RecordedRun]) -> Vec<Finding> {
    runs.iter().flat_map(of_run).collect()
}

fn of_run(run: &RecordedRun) -> Vec<Finding> {
    let figures = run.figures.iter().flat_map(|figure| {
        let asides = [("clients", "counters"), ("servers", "server_counters")];
        asides.into_iter().filter_map(|(side, field)| Some((side, figure.more.get(field)?.as_object()?)))
    });
    let said: BTreeSet<_> = figures.flat_map(|(side, counters)| sentences(side, counters)).collect();
    said.into_iter().map(|said| Finding::new(Section::Assumption, "ways", &run.name, said)).collect()
}

fn sentences(side: &str, counters: &Map<String, Value>) -> Vec<String> {
    let counted = counters.iter().filter_map(|(name, count)| Some((&**name, count.as_u64()?)));
    Ways::of(counted).iter().map(|ways| format!("{side}: {ways}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_side_says_its_ways_without_other_counters() {
        let counters = json!({
            "auto#0 ring+shm.sessions": 1,
            "auto#0 tcp not taken: ring+shm is preferred": 1,
            "auto#0 ring+shm.records_sent": 100,
        });
        let counters = counters.as_object().expect("an object");
        let said = "clients: auto#0: 1 session over ring+shm; not tcp: ring+shm is preferred (1)";
        assert_eq!(sentences("clients", counters), [said]);
        let alone = json!({"ring+shm#0.records_sent": 100});
        assert!(sentences("clients", alone.as_object().expect("an object")).is_empty());
    }
}
