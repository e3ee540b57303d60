//! What is printed.

use std::collections::BTreeMap;

use farcall_base::printable;
use farcall_tune::plan::Plan;
use farcall_tune::result::{Summary, lines};
use farcall_tune::search::Problem;
use farcall_tune::space::{Coverage, lint};
use serde_json::json;

use super::directory::Directory;
use super::load::Loaded;
use crate::failure::Failure;
use crate::output::Report;

/// The version of the JSON objects of this command.
const SCHEMA: &str = "farcall.tune.v1";

/// The rows, what each requirement rejects, what a search would do, and what looks wrong.
pub fn dry_run(loaded: &Loaded, plan: &Plan, rows: bool, report: &mut Report) -> Result<(), Failure> {
    let problem = &loaded.problem;
    let Problem { space, environments, .. } = problem;
    show_coverage(problem, report)?;
    let (trials, strategy) = (loaded.trials(plan)?, plan.strategy.name());
    let on = match (plan.rehearsal, plan.flat) {
        (false, _) => "",
        (true, false) => " on a synthetic landscape",
        (true, true) => " on a flat synthetic landscape",
    };
    let (confirm, seed) = (plan.confirm, plan.seed);
    report.line(format_args!(
        "{strategy}: about {trials} trials{on}, with {confirm} blocks of confirmation, by seed {seed}"
    ))?;
    let found: Vec<String> = lint(space, &problem.rows, environments)
        .iter()
        .map(ToString::to_string)
        .chain(loaded.missing(plan))
        .collect();
    for finding in &found {
        report.line(format_args!("warning: {finding}"))?;
    }
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "space",
        "rows": problem.rows.len(),
        "environments": environments.len(),
        "complete": matches!(problem.rows.coverage(), Coverage::Whole { .. }),
        "strategy": strategy,
        "trials": trials,
        "confirm": confirm,
        "seed": seed,
        "warnings": found,
    }))?;
    if rows {
        show_rows(problem, report)?;
    }
    Ok(())
}

/// How many rows there are, and of how many combinations.
fn show_coverage(problem: &Problem, report: &mut Report) -> Result<(), Failure> {
    let Problem { rows, space, environments, .. } = problem;
    let count = rows.len();
    match rows.coverage() {
        Coverage::Whole { candidates, rejected, merged } => {
            report.line(format_args!(
                "{count} rows of {candidates} combinations; {} different to the program",
                environments.len()
            ))?;
            for (requirement, rejected) in space.requirements.iter().zip(rejected) {
                report.line(format_args!("  {rejected} rejected by `{}`", requirement.text))?;
            }
            if *merged > 0 {
                report
                    .line(format_args!("  {merged} are the same row because a parameter is not in play"))?;
            }
        }
        Coverage::Sample { candidates } => {
            let candidates = match *candidates {
                u128::MAX => "more than 10^38".to_owned(),
                candidates => candidates.to_string(),
            };
            report.line(format_args!(
                "{count} rows drawn from {candidates} combinations, which are too many to list"
            ))?;
        }
    }
    Ok(())
}

fn show_rows(problem: &Problem, report: &mut Report) -> Result<(), Failure> {
    for row in problem.rows.iter() {
        let levels = problem.space.describe(row);
        let words: Vec<String> = levels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        report.line(words.join(" "))?;
        let levels: BTreeMap<_, _> = levels.into_iter().collect();
        report.object(&json!({ "schema": SCHEMA, "kind": "row", "row": levels }))?;
    }
    Ok(())
}

/// What looks wrong, before a search.
pub fn findings(problem: &Problem, report: &mut Report) -> Result<(), Failure> {
    let findings = lint(&problem.space, &problem.rows, &problem.environments);
    findings.iter().try_for_each(|finding| report.line(format_args!("# warning: {finding}")))
}

/// Says what is about to be run.
pub fn command(loaded: &Loaded, directory: &Directory, report: &mut Report) -> Result<(), Failure> {
    loaded.commands(directory).iter().try_for_each(|command| {
        report.line(format_args!("# runs {}", printable(command)))?;
        report.object(&json!({ "schema": SCHEMA, "kind": "command", "command": command }))
    })
}

/// The result.
pub fn summary(summary: &Summary, report: &mut Report) -> Result<(), Failure> {
    lines(summary).into_iter().try_for_each(|line| report.line(line))?;
    let mut object = json!(summary);
    object["schema"] = json!(SCHEMA);
    object["kind"] = json!("result");
    report.object(&object)
}

/// The finalists alone.
pub fn confirmation(summary: &Summary, report: &mut Report) -> Result<(), Failure> {
    lines(summary)
        .into_iter()
        .filter(|line| line.starts_with("confirmed"))
        .try_for_each(|line| report.line(line))?;
    report.object(&json!({ "schema": SCHEMA, "kind": "confirmation", "confirmation": summary.confirmation }))
}
