//! What each operation in flight adds to the time of one: a cost that grows with the number in flight is a
//! scan.

use std::collections::BTreeMap;

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::fit::FittedLine;
use crate::explain::analysis::input::{Axis, Latency, Observation, Table};

/// From this ratio of the in-flight counts on, the ends of a series say what lies between them.
const SPAN_MIN: f64 = 100.0;

/// A time counts as growing when it is this many times the first.
const GROWTH_MIN: f64 = 2.0;

/// Finds series whose time per operation grows with the operations in flight.
pub fn per_operation_in_flight(table: &Table) -> Vec<Finding> {
    let mut series: BTreeMap<String, Vec<&Observation>> = BTreeMap::new();
    for row in &table.rows {
        if row.operations_per_second.is_none() && row.throughput.is_none() {
            let size = row.at(Axis::Size).map_or(String::new(), |size| format!(", {size} bytes"));
            series.entry(format!("{}{size}", row.series())).or_default().push(row);
        }
    }
    let mut findings: Vec<_> = series.iter().filter_map(|(name, rows)| growth(table, name, rows)).collect();
    if !findings.is_empty() && table.time_units.len() > 1 {
        let units: Vec<_> = table.time_units.iter().map(|(name, _)| name.as_str()).collect();
        let sentence = format!(
            "the unit of the times is not stated and no figure here decides between {}",
            units.join(" and ")
        );
        findings.push(Finding::new(Section::NotIdentifiable, "unit_not_stated", &table.name, sentence));
    }
    findings
}

/// Growth in the first unit that the times may be in; the others only scale it, and are said beside it.
fn growth(table: &Table, name: &str, rows: &[&Observation]) -> Option<Finding> {
    let stated = ("as stated".to_owned(), 1.0);
    let unit = table.time_units.first().unwrap_or(&stated);
    let mut finding = growth_in(table, name, rows, unit)?;
    let slope = finding.figure("slope_ns")?;
    let other = |(name, nanos): &(String, f64)| {
        format!("{:.1} ns if the times are in {name}", slope * nanos / unit.1)
    };
    let others: Vec<_> = table.time_units.iter().skip(1).map(other).collect();
    if !others.is_empty() {
        finding.sentence += &format!(" ({})", others.join("; "));
    }
    Some(finding)
}

fn growth_in(
    table: &Table,
    name: &str,
    rows: &[&Observation],
    (unit, nanos): &(String, f64),
) -> Option<Finding> {
    let time = |row: &Observation| row.time_without_unit.map(|time| time * nanos).or(row.nanos(Latency::P50));
    let mut points: Vec<_> =
        rows.iter().filter_map(|row| Some((row.at(Axis::InFlight)?, time(row)?))).collect();
    points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let ((first, low), (last, high)) = (*points.first()?, *points.last()?);
    if points.len() < 3 || last < first * SPAN_MIN || high < low * GROWTH_MIN {
        return None;
    }
    let line = FittedLine::through(&[(first, low), (last, high)])?;
    let between = &points[1..points.len() - 1];
    let off = |(x, y): &(f64, f64)| (line.at(*x) / y - 1.0).abs();
    let worst = between.iter().max_by(|a, b| off(a).total_cmp(&off(b)))?;
    let (predicted, measured) = (line.at(worst.0), worst.1);
    let sentence = format!(
        "`{name}`, times in {unit}: each operation in flight adds {:.1} ns to the time of one, which predicts {predicted:.0} ns at {} \
         where {measured:.0} was measured: consistent with a scan of all that are in flight",
        line.slope, worst.0,
    );
    let figures = [("slope_ns", line.slope), ("predicted_ns", predicted), ("measured_ns", measured)];
    Some(Finding::new(Section::Regime, "cost_per_in_flight", &table.name, sentence).with(figures))
}
