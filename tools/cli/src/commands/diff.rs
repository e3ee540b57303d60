//! `farcall diff`: what differs between runs. The exit status is 1 when a figure is worse beyond doubt.

use farcall_lab::explain::recorded::{Cell, Difference, RecordedRun, diff};
use serde_json::json;

use crate::arguments::runs::Diff;
use crate::failure::Failure;
use crate::output::Report;

/// The version of the JSON objects of this command.
const SCHEMA: &str = "farcall.diff.v1";

/// Compares pair by pair.
pub fn run(arguments: &Diff) -> Result<(), Failure> {
    if arguments.before.len() != arguments.after.len() {
        return Err(Failure::Usage(
            "give as many runs before as after; they are compared pair by pair".into(),
        ));
    }
    let read = |path: &std::path::PathBuf| RecordedRun::read(path).map_err(Failure::run);
    let before = arguments.before.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let after = arguments.after.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let difference = diff(&before, &after, arguments.seed);
    let mut report = Report::open(arguments.json.as_ref())?;
    show(&difference, &mut report)?;
    match difference.cells.iter().filter(|cell| cell.is_worse() == Some(true)).count() {
        0 => Ok(()),
        1 => Err(Failure::Run("1 figure is worse by more than 1 %".to_owned())),
        worse => Err(Failure::Run(format!("{worse} figures are worse by more than 1 %"))),
    }
}

fn show(difference: &Difference, report: &mut Report) -> Result<(), Failure> {
    for (name, before, after) in &difference.environment {
        report.line(format_args!("# {name} differs: {before} before, {after} after"))?;
        let object = json!({ "schema": SCHEMA, "kind": "surroundings", "name": name, "before": before, "after": after });
        report.object(&object)?;
    }
    if difference.cells.is_empty() {
        report.line("nothing to compare: no figure is in both; give runs of the same command")?;
    } else {
        report.line(format_args!(
            "# {:<30} {:>12} {:>12} {:<4} after / before [95 % of all]  verdict",
            "figure", "before", "after", "unit"
        ))?;
    }
    for cell in &difference.cells {
        show_cell(cell, report)?;
    }
    if difference.unmatched > 0 {
        report.line(format_args!("# {} figures are on one side only", difference.unmatched))?;
    }
    if difference.cells.iter().any(|cell| cell.ratio.interval.is_none()) {
        report.line("# fewer than 5 pairs of runs: no intervals, so nothing is decided")?;
    }
    Ok(())
}

fn show_cell(cell: &Cell, report: &mut Report) -> Result<(), Failure> {
    let ratio = cell.ratio;
    let interval = ratio.interval.map_or(String::new(), |(low, high)| format!(" [{low:.3}, {high:.3}]"));
    let (name, unit, verdict) = (&cell.name, &cell.unit, cell.verdict());
    let (before, after) = (shown(cell.before), shown(cell.after));
    report.line(format_args!(
        "{name:<32} {before:>12} {after:>12} {unit:<4} {:>8.3}{interval:<16} {verdict}",
        ratio.ratio
    ))?;
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "figure",
        "name": name,
        "unit": unit,
        "before": cell.before,
        "after": cell.after,
        "ratio": ratio.ratio,
        "ratio_low": ratio.interval.map(|(low, _)| low),
        "ratio_high": ratio.interval.map(|(_, high)| high),
        "pairs": ratio.blocks,
        "verdict": verdict,
    }))
}

/// A value in its base unit, in few characters.
fn shown(value: f64) -> String {
    match value {
        many if many >= 1e9 => format!("{:.3}e9", many / 1e9),
        some if some >= 1e6 => format!("{:.3}e6", some / 1e6),
        few => format!("{few:.3}"),
    }
}
