//! Time as a function of size: flat while the number of messages counts, then a time and a rate (LogGP:
//! Alexandrov, Ionescu, Schauser and Scheiman, 1995).

use super::along;
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::fit::{FirstPiece, pieces};
use crate::explain::analysis::input::{Axis, Latency, Observation, Table};

/// Fewer sizes than this have no regimes.
const SIZES_MIN: usize = 5;

/// Fits every series that has enough sizes, by the medians, or by the shortest times where there are no
/// medians: means and tails have the losses in them.
pub fn find(table: &Table) -> Vec<Finding> {
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
    let gbps = 8.0 / line.slope;
    let flat = fitted.first.map(|(count, flat)| (points[count - 1].0, points[count].0, flat.intercept));
    let first = match flat {
        Some((last, _, nanos)) => format!("{:.2} us a message up to {last} bytes, then ", nanos / 1e3),
        None => String::new(),
    };
    let sentence = format!(
        "{name}: {first}{:.2} us + {:.3} ns a byte ({gbps:.0} Gb/s), by the {latency}",
        line.intercept / 1e3,
        line.slope
    );
    let mut figures =
        vec![("intercept_us", line.intercept / 1e3), ("ns_per_byte", line.slope), ("gbps", gbps)];
    if let Some((last, next, nanos)) = flat {
        figures.extend([("flat_us", nanos / 1e3), ("flat_to_bytes", last), ("affine_from_bytes", next)]);
    }
    (line.slope > 0.0)
        .then(|| Finding::new(Section::Regime, "time_of_size", &table.name, sentence).with(figures))
}
