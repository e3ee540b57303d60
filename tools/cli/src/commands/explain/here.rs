//! Causes put in on this machine on purpose, over real transports, and whether `explain` names them first.
//!
//! A machine is never as quiet as a simulation: whoever else uses its cores is a cause, too, and may rightly
//! be the first one. So an answer is one of three: right, another one, or none.

use farcall_lab::explain::analysis::finding::{Finding, Section};
use farcall_lab::explain::recorded::explain;
use serde_json::json;

use super::rerun::Words;
use super::score::{Injection, chosen, put_in};
use crate::arguments::runs::Causes;
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// The version of the objects that `--json` writes.
const SCHEMA: &str = "farcall.causes-here.v1";

/// All that this machine can be given without rights of its own.
const INJECTIONS: &[Injection] = &[
    put_in("handler", "perf echo --transport ring+shm --sizes 100 --in-flight 8 --handler 20us --trace"),
    put_in("handler", "perf echo --transport basic+udp --sizes 100 --in-flight 8 --handler 200us --trace"),
    put_in(
        "loss",
        "perf echo --transport basic+udp --sizes 1K --in-flight 2 --set fault.drop_permille=50 --trace",
    ),
    put_in(
        "ring_room",
        "perf echo --transport ring+shm --sizes 1K --in-flight 256 --set ring.ring_bytes=4K --trace",
    ),
    put_in(
        "callback",
        "msgrate --transport ring+shm --mode callbacks-avail --sizes 8 --in-flight 16 --count 2000 --handler 100us --trace",
    ),
    put_in(
        "callback",
        "msgrate --transport basic+udp --mode callbacks-avail --sizes 8 --in-flight 16 --count 2000 --handler 200us --trace",
    ),
    put_in(
        "flush",
        "perf writeThroughput --transport ring+shm --durability flushed --objects 500 --count 500",
    ),
    put_in(
        "saturation",
        "perf echoWorkload --transport basic+udp --nodes 2 --workload W4 --link-gbps 400 --load 0.9 --seconds 1",
    ),
];

/// What was answered to the runs of a cause.
#[derive(Default)]
struct Score {
    first: u64,
    unknown: u64,
    /// Runs that found nothing: on a machine that others use a measurement may take too long.
    failed: u64,
    /// What was named first instead, of the last run where something was.
    instead: Option<&'static str>,
}

/// Puts every cause in as many times as there are seeds.
pub fn run(causes: &Causes) -> Result<(), Failure> {
    let injections = chosen(INJECTIONS, causes)?;
    let mut report = Report::open(causes.output.json.as_ref())?;
    let progress = Progress::new(injections.len() * causes.seeds as usize, causes.output.quiet);
    report.line("| cause | put in by `farcall …` | named first | not known | failed |")?;
    report.line("|---|---|---|---|---|")?;
    let (mut right, mut unknown, mut failed, mut all) = (0, 0, 0, 0);
    for injection in injections {
        let (words, mut score) = (Words::of(&injection.words()), Score::default());
        for seed in causes.seed..causes.seed + causes.seeds {
            progress.begin(injection.rule);
            match words.run(seed) {
                Ok(run) => score.add(injection.rule, &explain(&[run])),
                Err(failure) => {
                    score.failed += 1;
                    let said = failure.sentences().join("; ");
                    progress.suspend(|| report.line(format_args!("# {said}")))?;
                }
            }
            progress.step();
        }
        progress.suspend(|| score.show(injection.rule, &words, causes.seeds, &mut report))?;
        (right, unknown) = (right + score.first, unknown + score.unknown);
        (failed, all) = (failed + score.failed, all + causes.seeds);
    }
    report.line(format_args!("\nnamed first: {right} of {all}; not known: {unknown}; failed: {failed}"))
}

impl Score {
    fn add(&mut self, rule: &str, findings: &[Finding]) {
        match first(findings) {
            None => self.unknown += 1,
            Some(named) if named == rule => self.first += 1,
            other => self.instead = other,
        }
    }

    fn show(&self, rule: &str, words: &Words, runs: u64, report: &mut Report) -> Result<(), Failure> {
        let Self { first, unknown, failed, .. } = self;
        let instead = self.instead.map_or_else(String::new, |rule| format!(", else {rule}"));
        report.line(format_args!(
            "| {rule} | `{words}` | {first} of {runs}{instead} | {unknown} | {failed} |"
        ))?;
        report.object(&json!({
            "schema": SCHEMA, "cause": rule, "command": words.to_string(), "runs": runs,
            "first": first, "not_known": unknown, "failed": failed, "instead": self.instead,
        }))
    }
}

/// The cause that is named first.
fn first(findings: &[Finding]) -> Option<&'static str> {
    let is_first = |one: &&Finding| {
        one.section == Section::Hypothesis && one.figure("rank").is_none_or(|rank| rank == 1.0)
    };
    findings.iter().find(is_first).map(|finding| finding.rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_right_another_one_or_none() {
        let named =
            |rule, rank| Finding::new(Section::Hypothesis, rule, "a", String::new()).with([("rank", rank)]);
        let idle = Finding::new(Section::NotIdentifiable, "log_idle", "a", String::new());
        let mut score = Score::default();
        score.add("flush", &[named("core", 2.0), named("flush", 1.0)]);
        score.add("flush", &[named("core", 1.0), named("flush", 2.0)]);
        score.add("flush", &[idle]);
        assert_eq!((score.first, score.unknown, score.instead), (1, 1, Some("core")));
    }
}
