//! The rows that people read, named as RAMCloud's clusterperf names them: `echo100`, `echo100.99`,
//! `echoBw100`.

use core::fmt;

use crate::record::Statistic;
use crate::statistics::histogram::LatencySummary;
use crate::units::{Size, in_readable_unit};

/// Bytes in the MB of a bandwidth: 2^20, as in clusterperf.
const MEGABYTE: f64 = 1_048_576.0;

/// Bytes in the GB of a bandwidth: 2^30, as in clusterperf.
const GIGABYTE: f64 = 1_073_741_824.0;

/// What every table must say about its units.
pub const UNITS_NOTE: &str =
    "sizes and bandwidths are binary: 1K = 1024 bytes, 1 MB = 2^20, 1 GB = 2^30 bytes";

/// A line of a table: a name, a figure and what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The name, unique in its table.
    pub name: String,
    /// The figure, in `unit`.
    pub value: f64,
    /// A unit in which the figure is easy to read.
    pub unit: &'static str,
    /// What it is.
    pub description: String,
}

impl Row {
    /// A row for a time.
    pub fn latency(name: String, nanos: f64, description: String) -> Self {
        let (value, unit) = in_readable_unit(nanos);
        Self { name, value, unit, description }
    }

    /// A row for a bandwidth.
    pub fn bandwidth(name: String, bytes_per_second: f64, description: String) -> Self {
        let (value, unit) = match bytes_per_second {
            many if many >= GIGABYTE => (many / GIGABYTE, "GB/s"),
            few => (few / MEGABYTE, "MB/s"),
        };
        Self { name, value, unit, description }
    }

    /// A row for a rate of calls.
    pub fn rate(name: String, per_second: f64, description: String) -> Self {
        let (value, unit) = match per_second {
            many if many >= 1e6 => (many / 1e6, "M/s"),
            few => (few / 1e3, "K/s"),
        };
        Self { name, value, unit, description }
    }
}

/// Columns as in clusterperf: the name 20 wide, the value with at most three decimals, its unit, the
/// description.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = match self.value {
            small if small < 10.0 => 3,
            middling if middling < 100.0 => 2,
            _ => 1,
        };
        write!(f, "{:<20} {:>8.decimals$} {:<5} {}", self.name, self.value, self.unit, self.description)
    }
}

/// One statistic of a latency: the suffix of its row's name, its figure, and its words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyRow {
    /// What follows the name of the test and its size.
    pub suffix: &'static str,
    /// What it says of the samples.
    pub statistic: Statistic,
    /// The figure, in nanoseconds.
    pub nanos: f64,
    /// The statistic in words.
    pub words: &'static str,
}

/// The rows of a latency in clusterperf's order; those without enough samples are left out.
pub fn latency_rows(summary: &LatencySummary) -> Vec<LatencyRow> {
    let rows = [
        ("", Statistic::P50, summary.p50_nanos, "median"),
        (".min", Statistic::Min, Some(summary.min_nanos), "minimum"),
        (".9", Statistic::P90, summary.p90_nanos, "90 %"),
        (".99", Statistic::P99, summary.p99_nanos, "99 %"),
        (".999", Statistic::P999, summary.p999_nanos, "99.9 %"),
    ];
    let row = |(suffix, statistic, nanos, words)| {
        let nanos: Option<u64> = nanos;
        nanos.map(|nanos| LatencyRow { suffix, statistic, nanos: nanos as f64, words })
    };
    rows.into_iter().filter_map(row).collect()
}

/// The name of a row: the test, the size and a suffix.
pub fn row_name(test: &str, size: Size, suffix: &str) -> String {
    format!("{test}{size}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::histogram::LatencyHistogram;

    #[test]
    fn names_are_those_of_clusterperf() {
        let mut histogram = LatencyHistogram::new();
        (0..3000).for_each(|nanos| histogram.record(1000 + nanos));
        let rows = latency_rows(&histogram.summary().expect("there are samples"));
        let names: Vec<_> = rows.iter().map(|row| row_name("echo", Size(10_240), row.suffix)).collect();
        assert_eq!(names, ["echo10K", "echo10K.min", "echo10K.9", "echo10K.99", "echo10K.999"]);
        assert_eq!(row_name("echoBw", Size(1 << 20), ""), "echoBw1M");
    }

    #[test]
    fn rows_without_enough_samples_are_left_out() {
        let mut histogram = LatencyHistogram::new();
        (0..300).for_each(|nanos| histogram.record(1000 + nanos));
        let rows = latency_rows(&histogram.summary().expect("there are samples"));
        let suffixes: Vec<_> = rows.iter().map(|row| row.suffix).collect();
        assert_eq!(suffixes, ["", ".min", ".9", ".99"]);
    }

    #[test]
    fn units_suit_the_figure() {
        let latency = |nanos| Row::latency("echo100".to_owned(), nanos, "round trip".to_owned()).to_string();
        assert_eq!(latency(131.0), "echo100                 0.131 us    round trip");
        assert_eq!(latency(1310.0), "echo100                 1.310 us    round trip");
        assert_eq!(latency(13_100_000.0), "echo100                 13.10 ms    round trip");
        let bandwidth = |bytes| Row::bandwidth("echoBw1M".to_owned(), bytes, String::new());
        assert_eq!((bandwidth(5.0 * GIGABYTE).value, bandwidth(5.0 * GIGABYTE).unit), (5.0, "GB/s"));
        assert_eq!((bandwidth(5.0 * MEGABYTE).value, bandwidth(5.0 * MEGABYTE).unit), (5.0, "MB/s"));
        assert_eq!(
            Row::rate("rate".to_owned(), 31.5e6, String::new()).to_string(),
            "rate                    31.50 M/s   "
        );
    }
}
