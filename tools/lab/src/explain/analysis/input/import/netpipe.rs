//! NetPIPE: what it prints, and the files that it writes.

use super::{Imported, Row, numbers, table};

/// Ping-pong: one message is in flight, and the time is that of one way.
const READINGS: [&str; 1] = ["one message is in flight at a time, and times are of one way"];

/// How far size over time may be off the rate for three bare columns to be NetPIPE's.
const FILE_TOLERANCE: f64 = 0.25;

/// Lines such as `68: 16383 bytes 22340 times --> 22114.91 Mbps in 0.000005652 sec`, or files of bytes, Mb/s
/// and seconds.
pub fn read(text: &str) -> Option<Imported> {
    let rows: Vec<_> =
        text.lines().enumerate().filter_map(|(index, line)| printed(index + 1, line)).collect();
    if !rows.is_empty() {
        return Some(table(rows, &READINGS));
    }
    let lines = || text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let rows: Option<Vec<_>> = lines().map(|(index, line)| written(index + 1, line)).collect();
    rows.filter(|rows| !rows.is_empty()).map(|rows| table(rows, &READINGS))
}

fn row(line: usize, bytes: &str, mbps: &str, time: &str) -> Row {
    let mut row = Row::at(line);
    row.set("size", Some(bytes));
    row.set("in_flight", Some("1"));
    row.set("Mbps", Some(mbps));
    row.set("mean_us", Some(time));
    row
}

fn printed(line: usize, text: &str) -> Option<Row> {
    let (before, after) = text.split_once("-->")?;
    let bytes = before[..before.find(" bytes")?].split_whitespace().last()?;
    let at = after.find(" Mbps in ")?;
    let mbps = after[..at].split_whitespace().last()?;
    let mut time = after[at + " Mbps in ".len()..].split_whitespace();
    let (time, unit) = (time.next()?, time.next().unwrap_or("sec"));
    let mut row = row(line, bytes, mbps, &format!("{time}{unit}"));
    row.set("iterations", before[..before.find(" times")?].split_whitespace().last());
    Some(row)
}

fn written(line: usize, text: &str) -> Option<Row> {
    let cells = numbers(text, 3)?;
    let value = |index: usize| cells[index].parse::<f64>().ok();
    let (bytes, mbps, seconds) = (value(0)?, value(1)?, value(2)?);
    let off = (bytes * 8.0 / seconds / 1e6 / mbps - 1.0).abs();
    (off < FILE_TOLERANCE).then(|| row(line, &cells[0], &cells[1], &format!("{}s", cells[2])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_prints_and_what_it_writes_are_read() {
        let printed = read(" 68:     16383 bytes 22340 times -->   22114.91 Mbps in 0.000005652 sec\n")
            .expect("NetPIPE")
            .expect("few cells");
        assert_eq!(printed.headings, ["size", "in_flight", "Mbps", "mean_us", "iterations"]);
        assert_eq!(printed.rows[0].1, ["16383", "1", "22114.91", "0.000005652sec", "22340"]);
        let written = read("    1024 2548.265054   0.00000307\n").expect("NetPIPE").expect("few cells");
        assert_eq!(written.rows[0].1[..3], ["1024", "1", "2548.265054"]);
        assert_eq!(read("1 2 3\n"), None);
    }
}
