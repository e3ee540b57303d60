//! redis-benchmark, without `--csv`: that is a table already.

use super::{Imported, Row, table, word_before};

/// One row for each line `====== SET ======`.
pub fn read(text: &str) -> Option<Imported> {
    let mut rows: Vec<Row> = Vec::new();
    let mut columns: Vec<String> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if let Some(test) = trimmed.strip_prefix("====== ").and_then(|rest| rest.strip_suffix(" ======")) {
            let mut row = Row::at(index + 1);
            row.set("test", Some(test));
            rows.push(row);
        }
        if let Some(row) = rows.last_mut() {
            take(row, trimmed, &mut columns);
        }
    }
    let rows: Vec<_> = rows.into_iter().filter(|row| row.has("requests")).collect();
    let readings =
        ["each client has one request in flight: redis-benchmark does not print the depth of its pipeline"];
    (!rows.is_empty()).then(|| table(rows, &readings))
}

fn take(row: &mut Row, line: &str, columns: &mut Vec<String>) {
    let words: Vec<_> = line.split_whitespace().collect();
    match words.as_slice() {
        [requests, "requests", "completed", "in", seconds, "seconds"] => {
            row.set("requests", Some(requests));
            row.set("seconds", Some(seconds));
        }
        [clients, "parallel", "clients"] => row.set("in_flight", Some(clients)),
        [share, "<=", time, "milliseconds", ..] if share.ends_with('%') => {
            // The least time that is printed stands for the whole.
            if !share.starts_with("0.000") && !share.starts_with("100.") {
                row.set(&format!("{share} ms"), Some(time));
            }
        }
        ["avg", rest @ ..] if rest.contains(&"p50") => {
            *columns = words.iter().map(|word| format!("{word}_ms")).collect();
        }
        cells if !columns.is_empty() && cells.len() == columns.len() => {
            for (column, cell) in columns.drain(..).zip(cells) {
                row.set(&column, Some(cell));
            }
        }
        _ => row.set("requests/s", word_before(line, " requests per second")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_row() {
        let text = "====== SET ======\n  100000 requests completed in 0.86 seconds\n  50 parallel clients\n  3 bytes payload\n\n\
                    Latency by percentile distribution:\n0.000% <= 0.103 milliseconds (cumulative count 3)\n\
                    50.000% <= 0.295 milliseconds (cumulative count 50885)\n\nSummary:\n  throughput \
                    summary: 116144.02 requests per second\n  \
                    latency summary (msec):\n          avg       min       p50       p95       p99       \
                    max\n        0.331     0.096     \
                    0.295     0.639     0.879     5.615\n";
        let table = read(text).expect("redis-benchmark").expect("few cells");
        let row = &table.rows[0];
        let cell = |heading: &str| {
            let at = table.headings.iter().position(|own| own == heading).expect("a column");
            row.1[at].clone()
        };
        assert_eq!(
            (cell("requests").as_str(), cell("seconds").as_str(), cell("in_flight").as_str()),
            ("100000", "0.86", "50")
        );
        assert_eq!(
            (cell("requests/s").as_str(), cell("avg_ms").as_str(), cell("max_ms").as_str()),
            ("116144.02", "0.331", "5.615")
        );
        assert_eq!((cell("50.000% ms").as_str(), cell("p99_ms").as_str()), ("0.295", "0.879"));
        assert_eq!(read("=======\n"), None);
    }
}
