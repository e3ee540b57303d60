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

use std::collections::BTreeMap;

use super::table::{COLUMNS_MAX, ROWS_MAX};
use super::text::{Excess, PrintedSum, TextTable};

/// Programs whose output is read, for people.
pub const PROGRAMS: &str = "perftest, OSU's and Intel's MPI benchmarks, NCCL's tests, NetPIPE, wrk, wrk2, redis-benchmark, memtier, YCSB, fio, \
     iperf3 and HdrHistogram";

/// A table, unless it is larger than any that is read: figures of single rows become cells of all rows, so
/// that a short file could be a table that no memory holds.
type Imported = Result<TextTable, Excess>;

/// The table in a program's output; `None` when it is of no program that is known.
pub fn read(text: &str) -> Option<Imported> {
    let importers: [fn(&str) -> Option<Imported>; 14] = [
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
    let found = importers.into_iter().find_map(|importer| importer(text));
    found.filter(|found| found.as_ref().map_or(true, |table| !table.rows.is_empty()))
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
    sums: Vec<PrintedSum>,
}

impl Row {
    /// A row that begins at this line.
    fn at(line: usize) -> Self {
        Self { line, ..Self::default() }
    }

    /// Adds a figure, if there is one. The first of a name stays; of too many the first that is too many is
    /// kept, so that the table is refused.
    fn set(&mut self, heading: &str, cell: Option<&str>) {
        let there = self.cells.len() > COLUMNS_MAX || self.has(heading);
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
fn table(rows: Vec<Row>, readings: &[&str]) -> Imported {
    if rows.len() > ROWS_MAX {
        return Err(Excess::Rows);
    }
    let (mut headings, mut places) = (Vec::new(), BTreeMap::new());
    for (heading, _) in rows.iter().flat_map(|row| &row.cells) {
        if !places.contains_key(heading.as_str()) {
            places.insert(heading.as_str(), headings.len());
            headings.push(heading.clone());
        }
        if headings.len() > COLUMNS_MAX {
            return Err(Excess::Columns);
        }
    }
    let cells = |row: &Row| {
        let mut cells = vec![String::new(); headings.len()];
        row.cells.iter().for_each(|(heading, cell)| cells[places[heading.as_str()]].clone_from(cell));
        (row.line, cells)
    };
    let sums = rows.iter().flat_map(|row| row.sums.iter().cloned()).collect();
    let rows = rows.iter().map(cells).collect();
    let readings = readings.iter().map(|&text| text.to_owned()).collect();
    Ok(TextTable { rows, headings, readings, sums })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_many_rows_are_no_larger_table_than_is_read() {
        let of = |job: usize| {
            let percentiles: Vec<_> = (0..40).map(|n| format!("\"{job}.{n}\": 5")).collect();
            let percentiles = percentiles.join(",");
            format!("{{\"read\": {{\"total_ios\": 1, \"clat_ns\": {{\"percentile\": {{{percentiles}}}}}}}}}")
        };
        let fio = |jobs: usize| {
            let jobs: Vec<_> = (0..jobs).map(of).collect();
            format!("{{\"fio version\": \"fio-3.33\", \"jobs\": [{}]}}", jobs.join(","))
        };
        assert_eq!(read(&fio(6)).map(|table| table.map(|table| table.rows.len())), Some(Ok(6)));
        assert_eq!(read(&fio(1_000)), Some(Err(Excess::Columns)));
        let section = |n: usize| format!("[KIND-{n}], {n}thPercentileLatency(us), 5\n");
        let ycsb = |lines: usize| {
            let sections: String = (0..lines).map(section).collect();
            format!("[OVERALL], Throughput(ops/sec), 9\n{sections}")
        };
        assert_eq!(read(&ycsb(ROWS_MAX)), Some(Err(Excess::Rows)));
        assert_eq!(read(&ycsb(COLUMNS_MAX)), Some(Err(Excess::Columns)));
        let one_row = (0..100_000).map(|n| format!("[OVERALL], {n}thPercentileLatency(us), 5\n"));
        let one_row = one_row.collect::<String>() + "[OVERALL], Throughput(ops/sec), 9\n";
        // What says that it is YCSB comes too late.
        assert_eq!(read(&one_row), None);
    }
}
