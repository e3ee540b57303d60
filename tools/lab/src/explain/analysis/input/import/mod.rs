//! What measuring programs print, as tables: perftest, OSU's and Intel's MPI benchmarks, the tests of NCCL,
//! NetPIPE, wrk and wrk2, redis-benchmark, memtier_benchmark, YCSB, fio, iperf3, and files of HdrHistogram.
//!
//! An importer knows its program by a line that only that prints, takes figures and leaves prose. It converts
//! nothing: a heading carries the unit that the program printed.

mod fio;
mod histogram;
mod interval_log;
mod json;
mod memtier;
mod mpi;
mod nccl;
mod netpipe;
mod perftest;
mod redis;
mod wrk;
mod ycsb;

use super::text::TextTable;

/// Programs whose output is read, for people.
pub const PROGRAMS: &str = "perftest, OSU's and Intel's MPI benchmarks, NCCL's tests, NetPIPE, wrk, wrk2, redis-benchmark, memtier, YCSB, fio, \
     iperf3 and HdrHistogram";

/// The table in a program's output; `None` when it is of no program that is known.
pub fn read(text: &str) -> Option<TextTable> {
    let importers: [fn(&str) -> Option<TextTable>; 14] = [
        json::fio,
        json::iperf,
        interval_log::read,
        perftest::read,
        mpi::osu,
        mpi::intel,
        nccl::read,
        netpipe::read,
        wrk::read,
        redis::read,
        memtier::read,
        ycsb::read,
        fio::read,
        histogram::read,
    ];
    importers.into_iter().find_map(|importer| importer(text)).filter(|table| !table.rows.is_empty())
}

/// The text between two marks.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    Some(&rest[..rest.find(after)?])
}

/// The word before a mark.
fn word_before<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text[..text.find(mark)?].split_whitespace().last()
}

/// Whether every word of a line is a number, and there are that many.
fn numbers(line: &str, count: usize) -> Option<Vec<String>> {
    let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
    let are_numbers = words.iter().all(|word| word.parse::<f64>().is_ok());
    (words.len() == count && are_numbers).then_some(words)
}

/// A row that is put together from single figures; its columns are those of all rows.
#[derive(Debug, Default)]
struct Row {
    /// The line of the file where it begins.
    line: usize,
    cells: Vec<(String, String)>,
}

impl Row {
    /// A row that begins at this line.
    fn at(line: usize) -> Self {
        Self { line, cells: Vec::new() }
    }

    /// Adds a figure, if there is one. The first of a name stays.
    fn set(&mut self, heading: &str, cell: Option<&str>) {
        let there = self.cells.iter().any(|(own, _)| own == heading);
        if let Some(cell) = cell.filter(|_| !there) {
            self.cells.push((heading.to_owned(), cell.to_owned()));
        }
    }

    /// What it has under a heading.
    fn cell(&self, heading: &str) -> Option<&str> {
        self.cells.iter().find(|(own, _)| own == heading).map(|(_, cell)| cell.as_str())
    }

    /// Whether it has anything under that heading.
    fn has(&self, heading: &str) -> bool {
        self.cell(heading).is_some()
    }
}

/// Rows as a table.
fn table(rows: Vec<Row>, readings: &[&str]) -> TextTable {
    let mut headings: Vec<String> = Vec::new();
    for (heading, _) in rows.iter().flat_map(|row| &row.cells) {
        if !headings.contains(heading) {
            headings.push(heading.clone());
        }
    }
    let cell = |row: &Row, heading: &String| {
        row.cells.iter().find(|(own, _)| own == heading).map_or(String::new(), |(_, cell)| cell.clone())
    };
    let cells = |row: &Row| (row.line, headings.iter().map(|heading| cell(row, heading)).collect());
    let rows = rows.iter().map(cells).collect();
    TextTable {
        rows,
        headings: headings.clone(),
        readings: readings.iter().map(|&text| text.to_owned()).collect(),
    }
}
