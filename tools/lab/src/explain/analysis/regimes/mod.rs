//! Ranges over which one law holds, along each axis that a table varies.

mod shared;
mod size;

use std::collections::BTreeMap;

use super::finding::Finding;
use super::input::{Axis, Observation, Table};

pub use shared::{SharedRange, shared_range};

/// All regimes of a table.
pub fn find(table: &Table) -> Vec<Finding> {
    let mut findings = size::find(table);
    findings.extend(shared::findings(table));
    findings
}

/// Rows that differ in `axis` only (and in how many samples they have), in the order of the axis. Of rows at
/// one place the one with the most samples stays.
pub fn along(table: &Table, axis: Axis) -> Vec<(String, Vec<&Observation>)> {
    let mut groups: BTreeMap<String, Vec<&Observation>> = BTreeMap::new();
    for row in table.rows.iter().filter(|row| row.axes.contains_key(&axis)) {
        let others = row.axes.iter().filter(|(other, _)| **other != axis);
        let others: Vec<_> = others.map(|(axis, value)| format!("{value} {axis}")).collect();
        let name = [row.series()].into_iter().chain(others).filter(|part| !part.is_empty());
        groups.entry(name.collect::<Vec<_>>().join(", ")).or_default().push(row);
    }
    for rows in groups.values_mut() {
        let place = |row: &Observation| row.at(axis).unwrap_or_default();
        let samples = |row: &Observation| row.samples.unwrap_or_default();
        rows.sort_by(|a, b| place(a).total_cmp(&place(b)).then(samples(b).total_cmp(&samples(a))));
        rows.dedup_by(|later, kept| place(later) == place(kept));
    }
    groups.into_iter().collect()
}
