//! `farcall kv check`: whether an order explains what clients of a store were told.

use std::fs;

use farcall_swarm::history::{Operation, Verdict, check, parse};
use serde_json::json;

use super::SCHEMA;
use crate::arguments::kv::KvCheck;
use crate::failure::Failure;
use crate::output::Report;

/// Looks for an order in every history.
pub fn run(arguments: &KvCheck) -> Result<(), Failure> {
    let mut report = Report::open(arguments.json.as_ref())?;
    let mut without = 0;
    for path in &arguments.files {
        let file = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| Failure::Run(format!("{file}: {error}")))?;
        let history = parse(&text).map_err(|error| Failure::Run(format!("{file}: {error}")))?;
        let verdict = check(&history);
        without += usize::from(!verdict.unexplained.is_empty() || !verdict.undecided.is_empty());
        show(&file, &history, &verdict, &mut report)?;
    }
    if without == 0 {
        return Ok(());
    }
    let (of, verb) = (arguments.files.len(), if without == 1 { "has" } else { "have" });
    Err(Failure::Run(format!(
        "{without} of {of} histories {verb} no order that explains them, or none was found"
    )))
}

fn show(file: &str, history: &[Operation], verdict: &Verdict, report: &mut Report) -> Result<(), Failure> {
    let Verdict { keys, operations, unknown, unexplained, undecided } = verdict;
    let ends: Vec<_> = unexplained
        .iter()
        .map(|one| json!({ "key": one.key, "operation": history[one.operation].to_string() }))
        .collect();
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "history",
        "file": file,
        "keys": keys,
        "operations": operations,
        "unknown": unknown,
        "unexplained": ends,
        "undecided": undecided,
    }))?;
    let how = if unexplained.is_empty() && undecided.is_empty() { ": an order explains them" } else { "" };
    report.line(format_args!(
        "{file}: {operations} operations on {keys} keys, {unknown} with an unknown outcome{how}"
    ))?;
    for one in unexplained {
        let operation = &history[one.operation];
        report.line(format_args!(
            "  {}: no order explains what was told; every one ends before `{operation}`",
            one.key
        ))?;
    }
    for key in undecided {
        report.line(format_args!("  {key}: there are too many orders to try them all"))?;
    }
    Ok(())
}
