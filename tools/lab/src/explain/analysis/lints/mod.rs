//! Checks that figures have to pass before anything is concluded from them.

mod agreement;
mod balances;
mod bus;
mod cells;
mod classes;
mod context;
mod formula;
mod link;
mod little;
mod parts;
mod peaks;
mod quantiles;
mod rates;
mod ratio;
mod same;
mod search;
mod slope;
mod sums;
mod tails;
mod units;
mod whole;

use super::finding::Finding;
use super::input::{Assumption, Document, Table};

/// All checks of one table.
pub fn table(table: &Table, document: &Document) -> Vec<Finding> {
    let kept = |assumption: Assumption| !document.struck.contains(&assumption);
    let mut findings = quantiles::check(table);
    findings.extend(cells::check(table));
    findings.extend(peaks::check(table));
    findings.extend(sums::check(table));
    findings.extend(tails::check(table, &document.timers_nanos));
    findings.extend(formula::infer(table));
    findings.extend(units::infer(table));
    findings.extend(balances::row_laws(table, document));
    if kept(Assumption::TotalOfParts) {
        let mut found = whole::check(table, &document.tolerances);
        found.extend(parts::check(table, &document.tolerances));
        findings.extend(balances::assumed(Assumption::TotalOfParts, found));
    }
    if kept(Assumption::SeparateSeries) {
        findings
            .extend(balances::assumed(Assumption::SeparateSeries, same::check(table, &document.tolerances)));
    }
    findings.extend(bus::check(table, &document.tolerances));
    findings.extend(link::check(table));
    findings.extend(slope::per_operation_in_flight(table));
    findings.extend(context::spread(table));
    findings
}

/// All checks of what stands beside the tables.
pub fn figures(document: &Document) -> Vec<Finding> {
    let mut findings = balances::check(document);
    findings.extend(document.classes.iter().map(|class| classes::check(class, &document.tolerances)));
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
