//! Recorded runs as tables for the analysis: the same laws for our own figures as for everybody's.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{REFERENCE, RecordedFigure, RecordedRun};
use crate::explain::analysis::input::{
    Axis, Comparison, Document, Latency, Observation, PrintedFigure, Table, ThroughputUnit,
};

/// Fields of records that tell one series from another.
const LABELS: [&str; 10] = [
    "buffers",
    "push",
    "chunk_bytes",
    "max_pending",
    "distribution",
    "read_ratio",
    "ranks",
    "workload",
    "load",
    "decile",
];

/// Fields of records that are places on an axis.
const AXES: [(&str, Axis); 5] = [
    ("nodes", Axis::Nodes),
    ("clients", Axis::Clients),
    ("servers", Axis::Servers),
    ("size_bytes", Axis::Size),
    ("message_bytes", Axis::Size),
];

/// Bits per second in the unit of the tables.
const GIGABIT: f64 = 1e9;

/// A figure of a record has at least that many digits.
const ROUNDING: f64 = 1e-6;

/// The tables of some runs, one for each test. Of the runs that have a test, those with the same parameters
/// are of one configuration, which is called by the first of them; what the other configurations change
/// against the first run's is a comparison.
pub fn document(runs: &[RecordedRun]) -> Document {
    let mut tests: BTreeMap<String, Vec<&RecordedRun>> = BTreeMap::new();
    for run in runs {
        let names: BTreeSet<_> = measured(run).map(|(_, figure)| name_of(figure)).collect();
        names.into_iter().for_each(|name| tests.entry(name).or_default().push(run));
    }
    let tables: Vec<_> = tests.iter().map(|(name, runs)| table(name, runs)).collect();
    let comparisons = tables.iter().zip(tests.values()).flat_map(|(table, runs)| comparisons(table, runs));
    Document { comparisons: comparisons.collect(), tables, ..Document::default() }
}

/// The figures of a run with their places, those of the reference left out.
fn measured(run: &RecordedRun) -> impl Iterator<Item = (usize, &RecordedFigure)> {
    run.figures.iter().enumerate().filter(|(_, figure)| figure.test != REFERENCE)
}

/// The table that a figure is in.
fn name_of(figure: &RecordedFigure) -> String {
    format!("{} {}", figure.command, figure.test)
}

/// The table of a test, of the runs that have it.
fn table(name: &str, runs: &[&RecordedRun]) -> Table {
    let mut rows: BTreeMap<String, Observation> = BTreeMap::new();
    for (place, run) in runs.iter().enumerate() {
        for (index, figure) in measured(run).filter(|(_, figure)| name_of(figure) == name) {
            let mut row = row_of(figure);
            if runs.len() > 1 {
                row.labels.insert(CONFIGURATION.to_owned(), configuration_of(run, runs));
            }
            let key = format!("{place:06} {:?} {:?}", row.labels, row.axes);
            let row = rows.entry(key).or_insert(row);
            if row.line == 0 {
                row.line = index + 1;
            }
            add(row, figure);
        }
    }
    let rows = rows.into_values().filter(|row| !row.times.is_empty() || row.merit().is_some()).collect();
    Table { name: name.to_owned(), rows, ..Table::default() }
}

/// The label of rows that says under which parameters they were measured.
const CONFIGURATION: &str = "configuration";

fn configuration_of(run: &RecordedRun, runs: &[&RecordedRun]) -> String {
    let same = runs.iter().find(|other| other.run.parameters == run.run.parameters);
    same.map_or(&run.name, |other| &other.name).clone()
}

/// The first run's configuration against each other one, series by series: what a change did to one transport
/// is not told from the rows of another.
fn comparisons(table: &Table, runs: &[&RecordedRun]) -> Vec<Comparison> {
    let Some(first) = runs.first() else { return Vec::new() };
    let before = series_of(table, first);
    let other = |run: &&&RecordedRun| configuration_of(run, runs) == run.name && run.name != first.name;
    let of_run = |run: &&RecordedRun| {
        let change = change(&first.run.parameters, &run.run.parameters);
        let after = series_of(table, run);
        let both: Vec<Labels> = before.iter().filter(|series| after.contains(series)).cloned().collect();
        let alone = both.len() == 1;
        let comparison = move |series: Labels| {
            let name = series.values().cloned().collect::<Vec<_>>().join(", ");
            let of = |run: &RecordedRun| {
                let own = (CONFIGURATION.to_owned(), run.name.clone());
                series.iter().map(|(label, text)| (label.clone(), text.clone())).chain([own]).collect()
            };
            Comparison {
                change: if alone { change.clone() } else { format!("{change} ({name})") },
                table: table.name.clone(),
                before: of(first),
                after: of(run),
                tests: None,
            }
        };
        both.into_iter().map(comparison).collect::<Vec<_>>()
    };
    runs.iter().filter(other).flat_map(of_run).collect()
}

type Labels = BTreeMap<String, String>;

/// What else tells the rows of a run's configuration apart.
fn series_of(table: &Table, run: &RecordedRun) -> BTreeSet<Labels> {
    let own = table.rows.iter().filter(|row| row.labels.get(CONFIGURATION) == Some(&run.name));
    let without = |row: &Observation| {
        let mut labels = row.labels.clone();
        labels.remove(CONFIGURATION);
        labels
    };
    own.map(without).collect()
}

/// What is set that was not, and the other way round.
fn change(before: &[String], after: &[String]) -> String {
    let set = after.iter().filter(|text| !before.contains(text)).cloned();
    let gone = before.iter().filter(|text| !after.contains(text)).map(|text| format!("without {text}"));
    set.chain(gone).collect::<Vec<_>>().join(" ")
}

/// What tells the figure's row from others.
fn row_of(figure: &RecordedFigure) -> Observation {
    let mut row = Observation::default();
    row.labels.insert("transport".to_owned(), figure.transport.clone());
    for label in LABELS {
        match figure.more.get(label) {
            Some(Value::String(text)) => drop(row.labels.insert(label.to_owned(), text.clone())),
            Some(Value::Number(number)) => {
                drop(row.labels.insert(label.to_owned(), format!("{label} {number}")))
            }
            _ => {}
        }
    }
    if figure.has_row_for_each_regime()
        && let Some(Value::String(regime)) = figure.more.get("regime")
    {
        row.labels.insert("cores".to_owned(), regime.clone());
    }
    for class in ["local", "remote"] {
        if figure.command == "benchkv" && figure.name.split('.').next() == Some(class) {
            row.labels.insert("class".to_owned(), class.to_owned());
        }
    }
    for (field, axis) in AXES {
        if let Some(value) = positive(figure.more.get(field)) {
            row.axes.insert(axis, value);
        }
    }
    if figure.in_flight > 0 {
        row.axes.insert(Axis::InFlight, figure.in_flight as f64);
    }
    row
}

fn positive(value: Option<&Value>) -> Option<f64> {
    value.and_then(Value::as_f64).filter(|value| value.is_finite() && *value > 0.0)
}

/// Puts the figure where its unit and statistic say; those that stand for no row of a table are left out.
fn add(row: &mut Observation, figure: &RecordedFigure) {
    if !(figure.value.is_finite() && figure.value > 0.0) {
        return;
    }
    let printed = |value: f64| PrintedFigure { value, rounding: value * ROUNDING };
    match (figure.unit.as_str(), figure.statistic.as_str()) {
        ("ns", statistic) => {
            let Some(latency) = latency_of(statistic) else { return };
            row.times.entry(latency).or_insert(printed(figure.value));
            row.samples = row.samples.or(Some(figure.samples as f64));
        }
        ("B/s", "p50" | "over_wall_clock") => {
            row.throughput = Some((printed(figure.value * 8.0 / GIGABIT), ThroughputUnit::Gigabits));
        }
        ("1/s", "over_wall_clock") => row.operations_per_second = Some(figure.value),
        _ => {}
    }
    let rate = positive(figure.more.get("calls_per_second"));
    row.operations_per_second = row.operations_per_second.or(rate);
    if let (Some(rate), Some(in_flight)) = (rate, positive(figure.more.get("implied_in_flight"))) {
        row.times.entry(Latency::Mean).or_insert(printed(in_flight / rate * 1e9));
    }
}

fn latency_of(statistic: &str) -> Option<Latency> {
    Some(match statistic {
        "min" => Latency::Min,
        "p50" => Latency::P50,
        "p90" => Latency::P90,
        "p99" => Latency::P99,
        "p999" => Latency::P999,
        "max" => Latency::Max,
        "mean" => Latency::Mean,
        _ => return None,
    })
}
