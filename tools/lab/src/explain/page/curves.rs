//! Which charts a table has: times and rates along the axis that it varies most, and the quantiles of its
//! rows.

use core::cmp::Ordering;

use super::chart::{Chart, Curve};
use crate::explain::analysis::input::{Axis, Latency, Observation, Table};
use crate::explain::analysis::regimes::along;
use crate::explain::recorded::RecordedRun;
use crate::units::Size;

/// At most this many curves share a chart; more cannot be told apart.
const CURVES_MAX: usize = 6;

/// All charts that have something to show.
pub fn of(table: &Table, runs: &[RecordedRun]) -> Vec<Chart> {
    let mut charts = Vec::new();
    if let Some(axis) = varied(table) {
        let series: Vec<_> = along(table, axis).into_iter().filter(|(_, rows)| rows.len() > 1).collect();
        for some in series.chunks(CURVES_MAX / 2) {
            charts.push(times(table, axis, some, runs));
        }
        for some in series.chunks(CURVES_MAX) {
            charts.push(rates(table, axis, some));
        }
    }
    // Tails of one transport in one chart, in the order of their sizes.
    let mut rows: Vec<_> = table.rows.iter().collect();
    rows.sort_by(|a, b| a.series().cmp(&b.series()).then_with(|| by_axes(a, b)));
    for same in rows.chunk_by(|a, b| a.series() == b.series()) {
        charts.extend(same.chunks(CURVES_MAX).map(|rows| quantiles(table, rows)));
    }
    charts.retain(|chart| chart.curves.iter().any(|curve| curve.points.len() > 1));
    charts
}

/// What was chosen for a row, in words; lengths as people write them.
pub fn axes(row: &Observation) -> String {
    let place = |(axis, value): (&Axis, &f64)| match axis {
        Axis::Size => Size(*value as usize).to_string() + "B",
        Axis::Clients if *value == 1.0 => "1 client".to_owned(),
        Axis::Servers if *value == 1.0 => "1 server".to_owned(),
        axis => format!("{value} {axis}"),
    };
    row.axes.iter().map(place).collect::<Vec<_>>().join(", ")
}

/// The order of rows along their axes.
pub fn by_axes(a: &Observation, b: &Observation) -> Ordering {
    let mut places = a.axes.iter().zip(&b.axes);
    places
        .find_map(|(a, b)| Some(a.1.total_cmp(b.1)).filter(|order| order.is_ne()))
        .unwrap_or(Ordering::Equal)
}

/// The axis with the most places, if one has more than one.
fn varied(table: &Table) -> Option<Axis> {
    let places = |axis: Axis| {
        let mut places: Vec<_> = table.rows.iter().filter_map(|row| row.at(axis)).map(f64::to_bits).collect();
        places.sort_unstable();
        places.dedup();
        places.len()
    };
    let axes = [Axis::Size, Axis::Nodes, Axis::InFlight, Axis::Clients, Axis::Servers];
    axes.into_iter().max_by_key(|axis| places(*axis)).filter(|axis| places(*axis) > 1)
}

type Series<'a> = (String, Vec<&'a Observation>);

fn curve(name: String, points: impl Iterator<Item = Option<(f64, f64)>>) -> Curve {
    Curve { name, points: points.flatten().collect() }
}

fn times(table: &Table, axis: Axis, series: &[Series<'_>], runs: &[RecordedRun]) -> Chart {
    let mut curves = Vec::new();
    for (name, rows) in series {
        for latency in [Latency::P50, Latency::P99] {
            let points = rows.iter().map(|row| Some((row.at(axis)?, row.nanos(latency)? / 1e3)));
            curves.push(curve(format!("{name}, {latency}"), points));
        }
    }
    if axis == Axis::Size {
        curves.extend(published(table, runs));
    }
    Chart::new(format!("{}: time by {axis}", table.name), axis.to_string(), "us", curves)
}

/// What others published for such a fabric, where records have it.
fn published(table: &Table, runs: &[RecordedRun]) -> Option<Curve> {
    let figures = runs.iter().flat_map(|run| &run.figures);
    let medians = figures.filter(|figure| {
        figure.statistic == "p50"
            && figure.unit == "ns"
            && table.name == format!("{} {}", figure.command, figure.test)
    });
    let mut points: Vec<_> = medians
        .filter_map(|figure| {
            let published = figure.more.get("published")?.as_f64()? / 1e3;
            Some((figure.more.get("size_bytes")?.as_f64()?, published))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup();
    (points.len() > 1).then(|| Curve { name: "published, p50".to_owned(), points })
}

fn rates(table: &Table, axis: Axis, series: &[Series<'_>]) -> Chart {
    let in_bits = series.iter().flat_map(|(_, rows)| rows).any(|row| row.throughput.is_some());
    let rate = |row: &Observation| match in_bits {
        true => row.throughput.map(|(figure, _)| figure.value),
        false => row.operations_per_second.map(|rate| rate / 1e3),
    };
    let unit = if in_bits { "Gb/s" } else { "K operations/s" };
    let points =
        |rows: &[&Observation]| rows.iter().map(|row| Some((row.at(axis)?, rate(row)?))).collect::<Vec<_>>();
    let curves = series.iter().map(|(name, rows)| curve(name.clone(), points(rows).into_iter()));
    Chart::new(format!("{}: rate by {axis}", table.name), axis.to_string(), unit, curves.collect())
}

/// Time by how rare it is: one in 2, 10, 100, 1000.
fn quantiles(table: &Table, rows: &[&Observation]) -> Chart {
    let one_in =
        |latency: Latency| latency.share().filter(|share| *share < 1.0).map(|share| 1.0 / (1.0 - share));
    let curves = rows.iter().map(|row| {
        let points =
            Latency::QUANTILES.iter().map(|latency| Some((one_in(*latency)?, row.nanos(*latency)? / 1e3)));
        curve(format!("{}, {}", row.series(), axes(row)), points)
    });
    let title = format!("{}: time that one in N operations exceeds", table.name);
    Chart::new(title, "one in".to_owned(), "us", curves.collect())
}
