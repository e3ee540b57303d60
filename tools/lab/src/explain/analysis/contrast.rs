//! What a change did to a sweep of operations in flight: to the time of one alone, to the work of the busiest
//! resource, or to how much can be in flight.
//!
//! A closed system has two numbers, the time alone and the greatest demand. A change that adds to the first
//! only is a delay: it moves the knee and not the ceiling. One that adds to both adds work to the busiest
//! resource. One that adds to the second only holds operations back: a window, a ring without room.

use std::collections::BTreeMap;

use super::bounds::ClosedSystem;
use super::finding::{Finding, Section};
use super::input::{Axis, Comparison, Document, Observation, Table};
use super::regimes::along;

/// Numbers that differ by less than this part are the same.
const SAME: f64 = 0.1;

/// A sweep has that many points.
const POINTS_MIN: usize = 3;

/// Compares the sweeps before and after a change, series by series.
pub fn find(comparison: &Comparison, document: &Document) -> Vec<Finding> {
    let Some(table) = document.table(&comparison.table) else { return Vec::new() };
    let (before, after) = (systems(table, &comparison.before), systems(table, &comparison.after));
    let both = before.iter().filter_map(|(series, system)| Some((series, system, after.get(series)?)));
    both.filter_map(|(series, before, after)| finding(table, comparison, series, *before, *after)).collect()
}

/// The closed systems of the series with these labels, by what else tells them apart.
fn systems(table: &Table, labels: &BTreeMap<String, String>) -> BTreeMap<String, ClosedSystem> {
    let wanted = |row: &&Observation| labels.iter().all(|(label, text)| row.labels.get(label) == Some(text));
    let mut rows: Vec<_> = table.rows.iter().filter(wanted).cloned().collect();
    rows.iter_mut().for_each(|row| row.labels.retain(|label, _| !labels.contains_key(label)));
    let table = Table { rows, ..Table::default() };
    along(&table, Axis::InFlight)
        .into_iter()
        .filter_map(|(name, rows)| {
            let points: Vec<_> = rows
                .iter()
                .filter_map(|row| Some((row.at(Axis::InFlight)?, row.operations_per_second?)))
                .collect();
            (points.len() >= POINTS_MIN).then(|| Some((name, ClosedSystem::of(&points)?))).flatten()
        })
        .collect()
}

fn finding(
    table: &Table,
    comparison: &Comparison,
    series: &str,
    before: ClosedSystem,
    after: ClosedSystem,
) -> Option<Finding> {
    let alone = after.alone_seconds - before.alone_seconds;
    let demand = after.demand_seconds - before.demand_seconds;
    let (slower, lower) = (alone > SAME * before.alone_seconds, demand > SAME * before.demand_seconds);
    let (rule, what) = match (slower, lower) {
        (true, false) => (
            "delay_added",
            format!("{:.2} us of delay were added: the time alone grew, the ceiling stayed", alone * 1e6),
        ),
        (true, true) => (
            "work_added",
            format!(
                "{:.2} us of time and {:.2} us of work of the busiest resource were added, such as a handler or a core that it shares",
                alone * 1e6,
                demand * 1e6
            ),
        ),
        (false, true) => (
            "held_back",
            format!(
                "operations are held back: the time alone stayed, and the ceiling is that of {:.1} in flight; a window, or a ring \
                 without room",
                after.knee()
            ),
        ),
        (false, false) => return None,
    };
    let sentence = format!("{series}: confirmed by `{}`: {what}", comparison.change);
    let figures = [("alone_us", alone * 1e6), ("demand_us", demand * 1e6), ("knee", after.knee())];
    Some(Finding::new(Section::Effect, rule, &table.name, sentence).with(figures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    fn rules(after: ClosedSystem, window: usize) -> Vec<&'static str> {
        let before = ClosedSystem { alone_seconds: 5e-6, demand_seconds: 0.5e-6 };
        let mut text = "set,in_flight,operations_per_s\n".to_owned();
        for n in [1, 2, 4, 8, 16, 32, 64] {
            text += &format!("a,{n},{}\nb,{n},{}\n", before.mean_value(n), after.mean_value(n.min(window)));
        }
        let table = parse("t", &text).expect("a table");
        let labels = |text: &str| BTreeMap::from([("set".to_owned(), text.to_owned())]);
        let comparison = Comparison {
            change: "on".to_owned(),
            table: "t".to_owned(),
            before: labels("a"),
            after: labels("b"),
            tests: None,
        };
        let document = Document { tables: vec![table], ..Document::default() };
        find(&comparison, &document).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn delays_work_and_windows_are_told_apart() {
        let system = |alone, demand| ClosedSystem { alone_seconds: alone, demand_seconds: demand };
        assert_eq!(rules(system(5e-6, 0.5e-6), 64), [""; 0]);
        assert_eq!(rules(system(10e-6, 0.5e-6), 64), ["delay_added"]);
        assert_eq!(rules(system(6e-6, 1.5e-6), 64), ["work_added"]);
        assert_eq!(rules(system(5e-6, 0.5e-6), 2), ["held_back"]);
    }
}
