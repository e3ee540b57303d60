//! Checks that figures have to pass before anything is concluded from them.

mod arithmetic;
mod context;
mod formula;
mod quantiles;
mod search;
mod slope;
mod tails;
mod units;

use super::finding::Finding;
use super::input::{Document, Table};

/// All checks of one table.
pub fn table(table: &Table, document: &Document) -> Vec<Finding> {
    let mut findings = quantiles::check(table);
    findings.extend(tails::check(table, &document.timers_nanos));
    findings.extend(formula::infer(table));
    findings.extend(units::infer(table));
    findings.extend(arithmetic::little(table));
    findings.extend(arithmetic::link(table));
    findings.extend(slope::per_operation_in_flight(table));
    findings.extend(context::spread(table));
    findings
}

/// All checks of what stands beside the tables.
pub fn figures(document: &Document) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(document.balances.iter().map(|balance| arithmetic::balance(balance, &document.figures)));
    findings.extend(document.classes.iter().map(arithmetic::class));
    for search in &document.searches {
        findings.extend(search::check(search));
    }
    findings
}

/// At most this many lines are named one by one.
const LINES_SHOWN: usize = 5;

/// The first lines of many, in words.
fn lines(lines: &[usize]) -> String {
    let shown: Vec<_> = lines.iter().take(LINES_SHOWN).map(usize::to_string).collect();
    let more = lines.len().saturating_sub(LINES_SHOWN);
    match more {
        0 => format!("line {}", shown.join(", ")),
        more => format!("line {} and {more} more", shown.join(", ")),
    }
}
