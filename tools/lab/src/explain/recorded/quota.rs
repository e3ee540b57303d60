//! What a quota of processor time did to a run: beyond it all processes of the control group stand still
//! until its next period, which no figure can tell from a slow machine.

use super::RecordedRun;
use super::environment::{QUOTA, THROTTLED};
use crate::explain::analysis::finding::{Finding, Section};

/// Cautions about runs that stood still because their time was used up.
pub fn throttled(runs: &[RecordedRun]) -> Vec<Finding> {
    runs.iter().filter_map(of_run).collect()
}

fn of_run(run: &RecordedRun) -> Option<Finding> {
    let facts = &run.run.environment.facts;
    let periods: f64 = facts.get(THROTTLED)?.parse().ok()?;
    let quota = facts.get(QUOTA)?;
    (periods > 0.0).then(|| {
        let sentence = format!(
            "the processes stood still in {periods} periods because the quota of their control group, {quota}, was used up: \
             tails and rates are the quota's; raise it (cpu.max) or measure outside"
        );
        Finding::new(Section::Caution, "quota", &run.name, sentence).with([("periods_throttled", periods)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::recorded::Run;

    fn run(periods: &str) -> RecordedRun {
        let mut run = Run::begin(Vec::new(), 1, Vec::new());
        let facts = [(QUOTA, "0.4 cores"), (THROTTLED, periods)];
        run.environment.facts.extend(facts.map(|(name, fact)| (name.to_owned(), fact.to_owned())));
        RecordedRun { name: "run".to_owned(), run, figures: Vec::new() }
    }

    #[test]
    fn a_run_that_stood_still_by_a_quota_is_a_caution() {
        assert_eq!(throttled(&[run("0")]).len(), 0);
        let findings = throttled(&[run("12")]);
        assert_eq!(findings.iter().map(|finding| finding.rule).collect::<Vec<_>>(), ["quota"]);
    }
}
