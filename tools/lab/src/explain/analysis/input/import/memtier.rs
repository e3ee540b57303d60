//! memtier_benchmark, in its output for people.

use super::super::text::{NamedFigure, PrintedSum};
use super::{Imported, Row, table};

/// Hits, misses and requests are counted at the same places.
const HITS_TOLERANCE: f64 = 0.01;

/// One row for each kind of request below the heading that begins with `Type`.
pub fn read(text: &str) -> Option<Imported> {
    let mut rows: Vec<Row> = Vec::new();
    let mut headings: Vec<String> = Vec::new();
    let (mut threads, mut connections) = (None, None);
    for (index, line) in text.lines().enumerate() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            [number, "Threads"] => threads = number.parse::<u64>().ok(),
            [number, "Connections", "per", "thread"] => connections = number.parse::<u64>().ok(),
            ["Type", "Ops/sec", rest @ ..] if rest.contains(&"KB/sec") => headings = headings_of(&words),
            [kind, ..] if !headings.is_empty() && words.len() == headings.len() && is_kind(kind) => {
                rows.extend(row(index + 1, &headings, &words));
            }
            _ => {}
        }
    }
    let is_total = |row: &&mut Row| row.cells.iter().any(|(_, cell)| cell == "Totals");
    let in_flight = threads.zip(connections).and_then(|(threads, each)| threads.checked_mul(each));
    // Which part of them each kind of request has is not printed.
    if let (Some(in_flight), Some(total)) = (in_flight, rows.iter_mut().find(is_total)) {
        total.set("in_flight", Some(&in_flight.to_string()));
    }
    let readings = [
        "times are milliseconds",
        "each connection has one request in flight: memtier_benchmark does not print the depth of its pipeline",
    ];
    (!rows.is_empty()).then(|| table(rows, &readings))
}

fn is_kind(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// `Avg. Latency` and `p99.9 Latency` are two words each.
fn headings_of(words: &[&str]) -> Vec<String> {
    let mut headings: Vec<String> = Vec::new();
    for word in words {
        match headings.last_mut() {
            Some(before) if *word == "Latency" && before == "Avg." => *before = "mean_ms".to_owned(),
            Some(before) if *word == "Latency" && before.starts_with('p') => before.push_str("_ms"),
            _ if *word == "Latency" => headings.push("mean_ms".to_owned()),
            _ => headings.push((*word).to_owned()),
        }
    }
    headings
}

/// The row of a kind; `None` without times, because then there were no requests of it.
fn row(line: usize, headings: &[String], words: &[&str]) -> Option<Row> {
    let mut row = Row::at(line);
    for (heading, word) in headings.iter().zip(words) {
        let is_measured = *word != "---" && heading != "Hits/sec" && heading != "Misses/sec";
        row.set(heading, is_measured.then_some(*word));
    }
    row.sums.extend(looked_up(line, headings, words));
    row.has("mean_ms").then_some(row)
}

/// Lookups hit or miss.
fn looked_up(line: usize, headings: &[String], words: &[&str]) -> Option<PrintedSum> {
    let of = |name: &'static str| {
        let place = headings.iter().position(|heading| heading == name)?;
        NamedFigure::of(name, words.get(place)?, 1.0)
    };
    let parts: Vec<_> = ["Hits/sec", "Misses/sec"].into_iter().filter_map(of).collect();
    let is_lookups = words.first() == Some(&"Gets") && !parts.is_empty();
    let whole = of("Ops/sec").filter(|_| is_lookups)?;
    Some(PrintedSum { line, whole, parts, tolerance: HITS_TOLERANCE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_request_is_a_row_and_the_total_has_what_is_in_flight() {
        let text = "4 Threads\n50 Connections per thread\n10000 Requests per client\n\nALL STATS\n=====\n\
            Type Ops/sec Hits/sec Misses/sec Avg. Latency p50 Latency p99.9 Latency KB/sec \n\
            ----------\n\
            Sets 6369.36 --- --- 2.85700 2.83100 7.96700 490.55 \n\
            Gets 63686.43 0.00 63686.43 2.85600 2.83100 7.93500 2480.81 \n\
            Waits 0.00 --- --- --- --- --- --- \n\
            Totals 70055.79 0.00 63686.43 2.85610 2.83100 7.93500 2971.36 \n";
        let table = read(text).expect("memtier").expect("few cells");
        assert_eq!(
            table.headings,
            ["Type", "Ops/sec", "mean_ms", "p50_ms", "p99.9_ms", "KB/sec", "in_flight"]
        );
        assert_eq!(table.rows[0].1, ["Sets", "6369.36", "2.85700", "2.83100", "7.96700", "490.55", ""]);
        assert_eq!(table.rows.last().map(|row| row.1[6].as_str()), Some("200"));
        let sum = &table.sums[0];
        assert_eq!((sum.line, sum.parts.len(), sum.whole.figure.value), (10, 1, 63_686.43));
        assert_eq!(table.sums.len(), 1, "of lookups alone");
        assert_eq!(read("Type Ops/sec\nSets 5\n"), None);
    }
}
