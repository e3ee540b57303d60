//! A table of figures: comma-separated text into observations.

use std::collections::BTreeMap;

use super::heading::{Axis, Latency, Role, ThroughputUnit, role_of};
use crate::units::Size;

/// The longest table, in rows.
pub const ROWS_MAX: usize = 10_000;

/// A figure as it was printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrintedFigure {
    /// The figure.
    pub value: f64,
    /// How far the true one may be off because digits were left out.
    pub rounding: f64,
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// The line of the file, from 1.
    pub line: usize,
    /// What tells its series from others: heading and text.
    pub labels: BTreeMap<String, String>,
    /// What was chosen.
    pub axes: BTreeMap<Axis, f64>,
    /// A size that was written with a suffix, as in `10K`: the number and the power of 1000 or 1024.
    pub size_suffix: Option<(f64, i32)>,
    /// Times, in nanoseconds.
    pub times: BTreeMap<Latency, PrintedFigure>,
    /// A time in a unit that the table does not say.
    pub time_without_unit: Option<f64>,
    /// Bytes or bits per second.
    pub throughput: Option<(PrintedFigure, ThroughputUnit)>,
    /// Operations per second.
    pub operations_per_second: Option<f64>,
    /// How many samples it rests on.
    pub samples: Option<f64>,
}

impl Observation {
    /// A time in nanoseconds.
    pub fn nanos(&self, latency: Latency) -> Option<f64> {
        self.times.get(&latency).map(|figure| figure.value)
    }

    /// A place on an axis.
    pub fn at(&self, axis: Axis) -> Option<f64> {
        self.axes.get(&axis).copied()
    }

    /// The figure by which rows are compared, more is better: throughput, else operations, else one over the
    /// median.
    pub fn merit(&self) -> Option<f64> {
        self.throughput
            .map(|(figure, _)| figure.value)
            .or(self.operations_per_second)
            .or_else(|| self.nanos(Latency::P50).map(|nanos| 1.0 / nanos))
            .filter(|merit| *merit > 0.0)
    }

    /// The labels as one text.
    pub fn series(&self) -> String {
        self.labels.values().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join(", ")
    }
}

/// A table of figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What findings call it.
    pub name: String,
    /// Its rows.
    pub rows: Vec<Observation>,
    /// What a time without a unit may be: the unit in words, and its nanoseconds.
    pub time_units: Vec<(String, f64)>,
    /// The rate of the link that the figures went over, in bits per second, if it is known.
    pub link_bits_per_second: Option<f64>,
}

/// Why text is not a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Nothing but comments.
    #[error("the table `{table}` has no heading")]
    NoHeading {
        /// The table.
        table: String,
    },
    /// No column holds a figure.
    #[error(
        "no column of the table `{table}` has a heading that says what it measures, such as p50_us or throughput_gbps"
    )]
    NoFigures {
        /// The table.
        table: String,
    },
    /// A heading that is there twice.
    #[error("the table `{table}` has two columns `{heading}`")]
    HeadingTwice {
        /// The table.
        table: String,
        /// The heading.
        heading: String,
    },
    /// A row with more or fewer cells than headings.
    #[error("line {line} of the table `{table}` has {cells} cells where the heading has {headings}")]
    Cells {
        /// The table.
        table: String,
        /// The line, from 1.
        line: usize,
        /// Cells of the row.
        cells: usize,
        /// Columns of the heading.
        headings: usize,
    },
    /// A cell that should be a number.
    #[error("line {line} of the table `{table}`: `{cell}` in column `{heading}` is not a number above 0")]
    Number {
        /// The table.
        table: String,
        /// The line, from 1.
        line: usize,
        /// The column.
        heading: String,
        /// What stands there.
        cell: String,
    },
    /// Too long.
    #[error("the table `{table}` has more than {ROWS_MAX} rows")]
    TooLong {
        /// The table.
        table: String,
    },
}

/// Reads comma-separated text. Lines that begin with `#` and empty ones are comments, empty cells are missing
/// figures.
pub fn parse(name: &str, text: &str) -> Result<Table, TableError> {
    let table = || name.to_owned();
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let (_, heading) = lines.next().ok_or_else(|| TableError::NoHeading { table: table() })?;
    let headings: Vec<_> = heading.split(',').map(str::trim).collect();
    for (index, heading) in headings.iter().enumerate() {
        if headings[..index].contains(heading) {
            return Err(TableError::HeadingTwice { table: table(), heading: (*heading).to_owned() });
        }
    }
    let roles: Vec<_> = headings.iter().map(|heading| role_of(heading)).collect();
    if roles.iter().all(|role| matches!(role, Role::Label | Role::Axis(_) | Role::Samples)) {
        return Err(TableError::NoFigures { table: table() });
    }
    let mut rows = Vec::new();
    for (line, text) in lines {
        if rows.len() == ROWS_MAX {
            return Err(TableError::TooLong { table: table() });
        }
        let cells: Vec<_> = text.split(',').map(str::trim).collect();
        if cells.len() != headings.len() {
            let (cells, headings) = (cells.len(), headings.len());
            return Err(TableError::Cells { table: table(), line, cells, headings });
        }
        let mut row = Observation { line, ..Observation::default() };
        for ((heading, role), cell) in headings.iter().zip(&roles).zip(cells) {
            let wrong = || TableError::Number {
                table: table(),
                line,
                heading: (*heading).to_owned(),
                cell: cell.to_owned(),
            };
            fill(&mut row, heading, *role, cell).ok_or_else(wrong)?;
        }
        rows.push(row);
    }
    Ok(Table { name: table(), rows, ..Table::default() })
}

/// Puts a cell where its role says; `None` when it is no number and should be.
fn fill(row: &mut Observation, heading: &str, role: Role, cell: &str) -> Option<()> {
    if role == Role::Label {
        row.labels.insert(heading.to_owned(), cell.to_owned());
        return Some(());
    }
    if cell.is_empty() {
        return Some(());
    }
    if let Role::Axis(Axis::Size) = role {
        row.size_suffix = size_suffix(cell);
        let bytes = cell.parse::<Size>().ok().filter(|size| size.0 > 0)?;
        row.axes.insert(Axis::Size, bytes.0 as f64);
        return Some(());
    }
    let figure = figure(cell)?;
    match role {
        Role::Label => {}
        Role::Axis(axis) => {
            row.axes.insert(axis, figure.value);
        }
        Role::Time(latency, nanos) => {
            let scaled = PrintedFigure { value: figure.value * nanos, rounding: figure.rounding * nanos };
            row.times.insert(latency, scaled);
        }
        Role::TimeWithoutUnit => row.time_without_unit = Some(figure.value),
        Role::Throughput(unit) => row.throughput = Some((figure, unit)),
        Role::Operations => row.operations_per_second = Some(figure.value),
        Role::Samples => row.samples = Some(figure.value),
    }
    Some(())
}

/// `10K` is 10 of the first power, `1M` 1 of the second.
fn size_suffix(cell: &str) -> Option<(f64, i32)> {
    let power = match cell.chars().last()? {
        'K' => 1,
        'M' => 2,
        'G' => 3,
        _ => return None,
    };
    Some((cell[..cell.len() - 1].parse().ok()?, power))
}

fn figure(cell: &str) -> Option<PrintedFigure> {
    let value = cell.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0)?;
    let decimals = cell.split_once('.').map_or(0, |(_, decimals)| decimals.len()).min(15);
    Some(PrintedFigure { value, rounding: 0.5 * 10_f64.powi(-(decimals as i32)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_observations_in_base_units() {
        let text = "# a comment\nseries,size_bytes,p50_us,throughput_gbps\n\nA,1K,1.50,2.1\nB,10,,3\n";
        let table = parse("t", text).expect("a table");
        assert_eq!(table.rows.len(), 2);
        let first = &table.rows[0];
        assert_eq!((first.line, first.series().as_str()), (4, "A"));
        assert_eq!(first.at(Axis::Size), Some(1024.0));
        assert_eq!(first.nanos(Latency::P50), Some(1500.0));
        assert!((first.times[&Latency::P50].rounding - 5.0).abs() < 1e-9);
        assert_eq!(table.rows[1].nanos(Latency::P50), None);
    }

    #[test]
    fn wrong_text_is_refused_with_its_place() {
        let refusal = |text: &str| parse("t", text).expect_err("no table").to_string();
        assert_eq!(refusal("# nothing\n"), "the table `t` has no heading");
        assert!(refusal("series,nodes\nA,1\n").starts_with("no column of the table `t` has a heading"));
        assert_eq!(
            refusal("p50_us,nodes\n1,2,3\n"),
            "line 2 of the table `t` has 3 cells where the heading has 2"
        );
        for cell in ["x", "-1", "0", "nan", "inf", "1e999"] {
            let expected =
                format!("line 2 of the table `t`: `{cell}` in column `p50_us` is not a number above 0");
            assert_eq!(refusal(&format!("p50_us\n{cell}\n")), expected);
        }
        assert_eq!(refusal("p50_us,p50_us\n1,2\n"), "the table `t` has two columns `p50_us`");
    }
}
