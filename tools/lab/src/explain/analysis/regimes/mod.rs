//! Ranges over which one law holds, along each axis that a table varies.

mod shared;

use std::collections::BTreeMap;

use super::finding::{Finding, Section};
use super::fit::{FirstPiece, pieces};
use super::input::{Axis, Latency, Observation, Table};
use crate::units::bits_in_words;

pub use shared::{SharedRange, shared_range};

/// Fewer sizes than this have no regimes.
const SIZES_MIN: usize = 5;

/// All regimes of a table.
pub fn find(table: &Table) -> Vec<Finding> {
    let mut findings = of_size(table);
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

/// Time as a function of size: flat while the number of messages counts, then a time and a rate (LogGP:
/// Alexandrov, Ionescu, Schauser and Scheiman, 1995).
///
/// Fits every series that has enough sizes, by the medians, or by the shortest times where there are no
/// medians: means and tails have the losses in them.
fn of_size(table: &Table) -> Vec<Finding> {
    let series = along(table, Axis::Size);
    series.iter().filter_map(|(name, rows)| regime(table, name, rows)).collect()
}

/// Time of a message: that of the operation over the messages that a node sends in it.
fn per_message(row: &Observation, latency: Latency) -> Option<(f64, f64)> {
    Some((row.at(Axis::Size)?, row.nanos(latency)? / row.at(Axis::Nodes).unwrap_or(1.0)))
}

fn regime(table: &Table, name: &str, rows: &[&Observation]) -> Option<Finding> {
    let points = |latency| rows.iter().filter_map(|row| per_message(row, latency)).collect::<Vec<_>>();
    let (latency, points) = [Latency::P50, Latency::Min]
        .map(|latency| (latency, points(latency)))
        .into_iter()
        .find(|(_, points)| points.len() >= SIZES_MIN)?;
    let fitted = pieces(&points, FirstPiece::Flat)?;
    let line = fitted.last;
    // With several in flight a byte costs the caller its time only once for all of them.
    let in_flight = rows.first().and_then(|row| row.at(Axis::InFlight)).unwrap_or(1.0);
    let gbps = 8.0 * in_flight / line.slope;
    let flat = fitted.first.map(|(count, flat)| (points[count - 1].0, points[count].0, flat.intercept));
    let first = match flat {
        Some((last, _, nanos)) => format!("{:.2} us a message up to {last} bytes, then ", nanos / 1e3),
        None => String::new(),
    };
    // Without a name of its own the series is what the finding is about.
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    let sentence = format!(
        "{name}{first}{:.2} us + {:.3} ns a byte ({}{}), by the {latency}",
        line.intercept / 1e3,
        line.slope,
        bits_in_words(gbps * 1e9),
        if in_flight > 1.0 { format!(" with {in_flight} in flight") } else { String::new() },
    );
    let mut figures =
        vec![("intercept_us", line.intercept / 1e3), ("ns_per_byte", line.slope), ("gbps", gbps)];
    if let Some((last, next, nanos)) = flat {
        figures.extend([("flat_us", nanos / 1e3), ("flat_to_bytes", last), ("affine_from_bytes", next)]);
    }
    (line.slope > 0.0)
        .then(|| Finding::new(Section::Regime, "time_of_size", &table.name, sentence).with(figures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    #[test]
    fn a_series_without_a_name_begins_with_its_figures() {
        let rows: String = (1..=8).map(|n| format!("{},{}\n", 1000 * n, 10_000 + 800_000 * n)).collect();
        let found = find(&parse("t", &format!("size,p50_us\n{rows}")).expect("a table"));
        let said = &found[0].sentence;
        assert!(!said.starts_with(':') && said.contains("(10 kb/s)"), "{said}");
    }
}
