//! A table of figures: text into observations.

use std::collections::{BTreeMap, BTreeSet};

use super::heading::{Axis, Latency, Role, counted_parts, role_of};
use super::number::{self, Cell, DecimalMark, PrintedFigure};
use super::size::{SizeText, size_of};
use super::text::{self, Excess, PrintedSum, TextTable};
use super::throughput::ThroughputUnit;

/// The longest table, in rows.
pub const ROWS_MAX: usize = 10_000;

/// The widest, in columns: more than any program prints.
pub const COLUMNS_MAX: usize = 256;

/// From this many rows on a column of text that never repeats says nothing about series.
const NOTES_ROWS_MIN: usize = 8;

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
    /// The standard deviation of the times, in nanoseconds.
    pub deviation: Option<PrintedFigure>,
    /// A time in a unit that the table does not say.
    pub time_without_unit: Option<f64>,
    /// Bytes or bits per second: the first such column.
    pub throughput: Option<(PrintedFigure, ThroughputUnit)>,
    /// Operations per second.
    pub operations_per_second: Option<f64>,
    /// How many samples it rests on.
    pub samples: Option<f64>,
    /// How long it was measured, in seconds.
    pub seconds: Option<f64>,
    /// Every figure as it was printed, by the number of its column.
    pub cells: BTreeMap<usize, PrintedFigure>,
}

impl Observation {
    /// A time in nanoseconds.
    pub fn nanos(&self, latency: Latency) -> Option<f64> {
        self.times.get(&latency).map(|figure| figure.value)
    }

    /// The known quantiles from low to high: share, and the figure in nanoseconds.
    pub fn quantiles(&self) -> Vec<(f64, PrintedFigure)> {
        let share = |(latency, figure): (&Latency, &PrintedFigure)| Some((latency.share()?, *figure));
        let mut known: Vec<_> = self.times.iter().filter_map(share).collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        known
    }

    /// A place on an axis.
    pub fn at(&self, axis: Axis) -> Option<f64> {
        self.axes.get(&axis).copied()
    }

    /// The throughput in bits per second, by the decimal reading of its unit.
    pub fn bits_per_second(&self) -> Option<f64> {
        self.throughput.map(|(figure, unit)| figure.value * unit.bits())
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

/// A column as its heading says.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The heading.
    pub heading: String,
    /// What it says.
    pub role: Role,
}

/// A cell that holds a number which nothing measured can be.
#[derive(Clone, Debug, PartialEq)]
pub struct OddCell {
    /// The line of the file.
    pub line: usize,
    /// The heading of its column.
    pub heading: String,
    /// The number.
    pub value: f64,
}

/// A table of figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What findings call it.
    pub name: String,
    /// Its rows.
    pub rows: Vec<Observation>,
    /// Its columns; none for recorded runs.
    pub columns: Vec<Column>,
    /// Cells that hold impossible numbers; their rows are without them.
    pub odd_cells: Vec<OddCell>,
    /// Headings that are not known and whose cells are numbers.
    pub unknown_headings: Vec<String>,
    /// How the text was read where it could be read otherwise, in sentences.
    pub readings: Vec<String>,
    /// Figures that the program that measured prints beside their parts.
    pub sums: Vec<PrintedSum>,
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
        "no column of the table `{table}` has a heading that says what it measures, such as p50_us or throughput_gbps; \
         it has {headings}"
    )]
    NoFigures {
        /// The table.
        table: String,
        /// The headings that it has.
        headings: String,
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
    #[error("line {line} of the table `{table}`: `{cell}` in column `{heading}` is not a number")]
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
    /// Too wide.
    #[error("the table `{table}` has more than {COLUMNS_MAX} columns")]
    TooWide {
        /// The table.
        table: String,
    },
}

impl TableError {
    /// There is too much of it.
    pub(super) fn of_excess(table: &str, excess: Excess) -> Self {
        let table = table.to_owned();
        match excess {
            Excess::Rows => Self::TooLong { table },
            Excess::Columns => Self::TooWide { table },
        }
    }
}

/// Reads the text of a table.
pub fn parse(name: &str, text: &str) -> Result<Table, TableError> {
    typed(name, text::parse(name, text)?)
}

/// Gives the cells of a table their meaning.
pub fn typed(name: &str, text: TextTable) -> Result<Table, TableError> {
    let columns = columns_of(name, &text)?;
    let (readings, sums) = (text.readings.clone(), text.sums.clone());
    let mut table = Table { name: name.to_owned(), readings, sums, ..Table::default() };
    let marks = marks(&columns, &text, &mut table.readings);
    let notes = notes(&columns, &text, &mut table.unknown_headings);
    for (line, cells) in &text.rows {
        let mut row = Observation { line: *line, ..Observation::default() };
        for (index, (column, cell)) in columns.iter().zip(cells).enumerate() {
            if let Some(number) = number_of_parts(column, cell, marks[index]) {
                row.cells.insert(index, number);
            }
            if notes.contains(&index) {
                continue;
            }
            let odd =
                fill(&mut row, (index, column), cell, marks[index]).ok_or_else(|| TableError::Number {
                    table: name.to_owned(),
                    line: *line,
                    heading: column.heading.clone(),
                    cell: cell.clone(),
                })?;
            let odd = odd.map(|value| OddCell { line: *line, heading: column.heading.clone(), value });
            table.odd_cells.extend(odd);
        }
        table.rows.push(row);
    }
    table.columns = columns;
    Ok(table)
}

/// Single figures as a table of one row: a name that says a quantity and a unit is its heading; `None` when
/// fewer than two do, or two say the same.
pub fn figures_table(figures: &BTreeMap<String, f64>) -> Option<Table> {
    let known: Vec<_> =
        figures.iter().filter(|(name, value)| role_of(name) != Role::Label && **value > 0.0).collect();
    let roles: Vec<_> = known.iter().map(|(name, _)| core::mem::discriminant(&role_of(name))).collect();
    let one_each = roles.iter().enumerate().all(|(index, role)| !roles[..index].contains(role));
    let text = TextTable {
        headings: known.iter().map(|(name, _)| (*name).clone()).collect(),
        rows: vec![(1, known.iter().map(|(_, value)| value.to_string()).collect())],
        ..TextTable::default()
    };
    (known.len() > 1 && one_each).then(|| typed("figures", text).ok()).flatten()
}

fn columns_of(name: &str, text: &TextTable) -> Result<Vec<Column>, TableError> {
    for (index, heading) in text.headings.iter().enumerate() {
        if text.headings[..index].contains(heading) {
            return Err(TableError::HeadingTwice { table: name.to_owned(), heading: heading.clone() });
        }
    }
    let column = |heading: &String| Column { heading: heading.clone(), role: role_of(heading) };
    let columns: Vec<_> = text.headings.iter().map(column).collect();
    let is_figure = |column: &Column| !matches!(column.role, Role::Label | Role::Axis(_) | Role::Samples);
    if columns.iter().any(is_figure) {
        return Ok(columns);
    }
    Err(TableError::NoFigures { table: name.to_owned(), headings: text.headings.join(", ") })
}

/// The decimal mark of each column.
fn marks(columns: &[Column], text: &TextTable, readings: &mut Vec<String>) -> Vec<DecimalMark> {
    let cells = |index: usize| text.rows.iter().map(move |(_, cells)| cells[index].as_str());
    let figures = || columns.iter().enumerate().filter(|(_, column)| column.role != Role::Label);
    // One hand wrote all columns: what one column can only mean, the others mean too.
    let read =
        |index: usize, mark| cells(index).filter(|cell| number::time(cell, mark, 1.0).is_some()).count();
    // A cell that is not as the others of its column is the odd one out, and decides nothing.
    let of_column = |index: usize| {
        let commas = number::decimal_mark(cells(index))? == DecimalMark::Comma;
        let most = commas && read(index, DecimalMark::Comma) >= read(index, DecimalMark::Point);
        Some(if most { DecimalMark::Comma } else { DecimalMark::Point })
    };
    let found: Vec<_> = figures().filter_map(|(index, _)| of_column(index)).collect();
    let mark = match found.as_slice() {
        [] => DecimalMark::Point,
        _ if found.contains(&DecimalMark::Comma) => DecimalMark::Comma,
        _ => DecimalMark::Point,
    };
    match (mark, found.is_empty()) {
        (DecimalMark::Comma, _) => readings.push("commas in numbers are decimal commas".to_owned()),
        (DecimalMark::Point, false) => readings.push("commas in numbers are between thousands".to_owned()),
        (DecimalMark::Point, true) => {}
    }
    let mut marks = vec![mark; columns.len()];
    for (index, column) in figures().filter(|_| mark == DecimalMark::Comma) {
        if read(index, DecimalMark::Comma) < read(index, DecimalMark::Point) {
            marks[index] = DecimalMark::Point;
            readings.push(format!("`{}` has decimal points, which it can only be read with", column.heading));
        }
    }
    marks
}

/// Label columns that tell no series from another because they never repeat. Those with numbers are figures
/// under a heading that is not known, and are named.
fn notes(columns: &[Column], text: &TextTable, unknown: &mut Vec<String>) -> BTreeSet<usize> {
    let labels: Vec<_> = (0..columns.len()).filter(|index| columns[*index].role == Role::Label).collect();
    let mut notes = BTreeSet::new();
    for &index in &labels {
        let cells =
            || text.rows.iter().map(|(_, cells)| cells[index].as_str()).filter(|cell| !cell.is_empty());
        let different: BTreeSet<_> = cells().collect();
        let numbers = !different.is_empty()
            && cells().all(|cell| {
                matches!(number::cell(cell, DecimalMark::Point), Some(Cell::Figure(_) | Cell::Odd(_)))
            });
        if numbers && counted_parts(&columns[index].heading).is_none() {
            unknown.push(columns[index].heading.clone());
        }
        let many = different.len() * 2 > text.rows.len() && text.rows.len() > 2;
        let never_repeats = different.len() == text.rows.len() && text.rows.len() >= NOTES_ROWS_MIN;
        if numbers && many || never_repeats && labels.len() > 1 && columns[index].heading != "series" {
            notes.insert(index);
        }
    }
    notes
}

/// How many parts a label says that there are: it tells series apart all the same.
fn number_of_parts(column: &Column, cell: &str, mark: DecimalMark) -> Option<PrintedFigure> {
    counted_parts(&column.heading).filter(|_| column.role == Role::Label)?;
    match number::cell(cell, mark)? {
        Cell::Figure(number) => Some(number),
        Cell::Missing | Cell::Odd(_) => None,
    }
}

/// Puts a cell where its role says, and returns the number that it should not be; `None` when it is no number
/// and should be.
fn fill(
    row: &mut Observation,
    (index, column): (usize, &Column),
    cell: &str,
    mark: DecimalMark,
) -> Option<Option<f64>> {
    match column.role {
        Role::Label => {
            row.labels.insert(column.heading.clone(), cell.to_owned());
            return Some(None);
        }
        Role::Axis(Axis::Size) if !cell.is_empty() => {
            let SizeText { bytes, suffix } = size_of(cell, mark)?;
            row.size_suffix = suffix;
            row.axes.insert(Axis::Size, bytes);
            row.cells.insert(index, PrintedFigure { value: bytes, rounding: 0.0 });
            return Some(None);
        }
        _ => {}
    }
    let read = match column.role {
        Role::Time(_, nanos) | Role::TimeOfKind(_, nanos) | Role::Deviation(nanos) => {
            number::time(cell, mark, nanos)?
        }
        _ => number::cell(cell, mark)?,
    };
    let figure = match read {
        Cell::Figure(figure) => figure,
        Cell::Missing => return Some(None),
        Cell::Odd(value) => return Some(Some(value)),
    };
    row.cells.insert(index, figure);
    place(row, column.role, figure);
    Some(None)
}

fn place(row: &mut Observation, role: Role, figure: PrintedFigure) {
    match role {
        // Looked up among the cells.
        Role::Label | Role::Moved | Role::TimeSum(_) | Role::RateOfEach(..) | Role::TimeOfKind(..) => {}
        Role::Axis(axis) => drop(row.axes.insert(axis, figure.value)),
        Role::Time(latency, _) => drop(row.times.insert(latency, figure)),
        Role::Deviation(_) => row.deviation = Some(figure),
        Role::TimeWithoutUnit => row.time_without_unit = Some(figure.value),
        Role::Throughput(unit) => row.throughput = row.throughput.or(Some((figure, unit))),
        Role::Operations(scale) => {
            row.operations_per_second = row.operations_per_second.or(Some(figure.value * scale));
        }
        Role::Samples => row.samples = Some(figure.value),
        Role::Duration(seconds) => row.seconds = Some(figure.value * seconds),
    }
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
        assert!(refusal("series,nodes\nA,1\n").ends_with("it has series, nodes"));
        assert_eq!(
            refusal("p50_us,nodes\n1,2,3\n"),
            "line 2 of the table `t` has 3 cells where the heading has 2"
        );
        assert_eq!(refusal("p50_us\nx\n"), "line 2 of the table `t`: `x` in column `p50_us` is not a number");
        assert_eq!(refusal("p50_us,p50_us\n1,2\n"), "the table `t` has two columns `p50_us`");
    }

    #[test]
    fn impossible_numbers_are_kept_for_a_finding() {
        let table = parse("t", "p50_us,p99_us\n-1,5\n0,nan\n3,inf\n").expect("a table");
        assert_eq!(table.odd_cells.len(), 4);
        assert_eq!((table.odd_cells[0].line, table.odd_cells[0].value), (2, -1000.0));
        assert_eq!(table.rows[0].nanos(Latency::P99), Some(5000.0));
    }

    #[test]
    fn decimal_commas_and_semicolons_are_read_and_said() {
        let table = parse("t", "size;p50_us;throughput_mb_s\n1K;5,1;183,8\n").expect("a table");
        assert_eq!(table.rows[0].nanos(Latency::P50), Some(5100.0));
        assert_eq!(table.readings.len(), 2, "{:?}", table.readings);
        let table = parse("t", "size;p50_us;avg_ms\n1;5,1;0.08\n2;5,3;0.09\n").expect("a table");
        assert_eq!(table.rows[0].nanos(Latency::Mean), Some(80_000.0));
        assert!(table.readings.iter().any(|reading| reading.contains("avg_ms")), "{:?}", table.readings);
        parse("t", "size;p50_us;avg_ms\n1;5,1;0.08\n2;5,3;0,09\n").expect_err("a column has one mark");
    }

    #[test]
    fn of_a_mark_that_is_not_that_of_its_column_the_odd_cell_is_blamed() {
        let text = "threads\tops/s\tmean_us\n1\t96712\t10.34\n2\t191022\t10.47\n4\t372787\t10,73\n8\t711111\t11.25\n";
        let refusal = parse("t", text).expect_err("one cell has a comma").to_string();
        assert_eq!(refusal, "line 4 of the table `t`: `10,73` in column `mean_us` is not a number");
        let refusal = parse("t", &text.replace('.', ",").replace("11,25", "11.25")).expect_err("a point");
        assert!(refusal.to_string().starts_with("line 5 "), "{refusal}");
        // In another column a comma may be what it is in all of it.
        let two = parse("t", "p50_us;p99_us\n1.25;5,1\n1.5;5,25\n").expect("a table");
        assert_eq!(two.rows[0].nanos(Latency::P50), Some(1250.0));
        assert_eq!(two.rows[0].nanos(Latency::P99), Some(5100.0));
    }

    #[test]
    fn a_column_of_unknown_figures_splits_no_series() {
        let rows: Vec<_> = (0..6).map(|i| format!("a,{i}.5,{}", 10 + i)).collect();
        let table = parse("t", &format!("series,cpu_watts,p50_us\n{}\n", rows.join("\n"))).expect("a table");
        assert_eq!(table.unknown_headings, ["cpu_watts"]);
        assert!(table.rows.iter().all(|row| row.series() == "a"));
    }

    #[test]
    fn figures_with_telling_names_are_a_row() {
        let figures =
            |text: &[(&str, f64)]| text.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let table =
            figures_table(&figures(&[("seconds", 60.0), ("ops_per_s", 5.0), ("odd", 3.0)])).expect("a row");
        assert_eq!(table.columns.len(), 2);
        assert_eq!(figures_table(&figures(&[("seconds", 60.0)])), None);
        assert_eq!(figures_table(&figures(&[("read_ops_per_s", 6.0), ("write_ops_per_s", 5.0)])), None);
    }
}
