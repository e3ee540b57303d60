//! wrk and wrk2.

use super::{Imported, Row, between, table, word_before};

/// One row for each line `Running 30s test @ …`.
pub fn read(text: &str) -> Option<Imported> {
    let mut rows: Vec<Row> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.contains("Running ") && line.contains(" test @") {
            rows.push(Row::at(index + 1));
        }
        if let Some(row) = rows.last_mut() {
            take(row, line.trim());
        }
    }
    let rows: Vec<_> = rows.into_iter().filter(|row| row.has("requests/s") || row.has("mean_us")).collect();
    let readings =
        ["each connection has one request in flight", "times are those of wrk: of all threads together"];
    (!rows.is_empty()).then(|| table(rows, &readings))
}

fn take(row: &mut Row, line: &str) {
    let words: Vec<_> = line.split_whitespace().collect();
    match words.as_slice() {
        ["Latency", mean, deviation, max, ..]
            if mean.starts_with(|c: char| c.is_ascii_digit() || c == '-') =>
        {
            row.set("mean_us", Some(mean));
            row.set("stdev_us", Some(deviation));
            row.set("max_us", Some(max));
        }
        [percent, time] if percent.ends_with('%') && is_time(time) => {
            row.set(&format!("{percent} us"), Some(time));
        }
        ["Requests/sec:", rate] => row.set("requests/s", Some(rate)),
        _ => {
            row.set("in_flight", word_before(line, " connections"));
            if line.contains(" requests in ") {
                row.set("requests", word_before(line, " requests in "));
                row.set("duration_s", between(line, " requests in ", ",").and_then(seconds).as_deref());
            }
        }
    }
}

fn is_time(word: &str) -> bool {
    word.ends_with('s') && word.starts_with(|c: char| c.is_ascii_digit())
}

/// `999.94ms`, `30.10s`, `4.00m` in seconds, with the digits that were printed.
fn seconds(text: &str) -> Option<String> {
    let (digits, factor) = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)]
        .into_iter()
        .find_map(|(unit, factor)| Some((text.trim().strip_suffix(unit)?, factor)))?;
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let value: f64 = digits.parse().ok()?;
    // Minutes of two decimals are known to 0.3 s.
    let decimals = match factor {
        1e-3 => decimals + 3,
        1.0 => decimals,
        _ => decimals.saturating_sub(2),
    };
    Some(format!("{:.decimals$}", value * factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "Running 4m test @ https://internal.test\n  16 threads and 640 connections\n  Thread Stats   Avg      \
        Stdev     Max   +/- Stdev\n    Latency    77.42ms    9.42ms 338.57ms   85.77%\n    Req/Sec   \
                    519.26    114.78   808.00     \
        60.27%\n  Latency Distribution\n     50%   75.09ms\n     99%  102.85ms\n  1980525 requests in \
                    4.00m, 417.42MB read\n\
        Requests/sec:   8248.78\nTransfer/sec:      1.74MB\n";

    #[test]
    fn a_run_is_a_row() {
        let table = read(OUTPUT).expect("wrk").expect("few cells");
        let cell = |heading: &str| {
            let at = table.headings.iter().position(|own| own == heading).expect("a column");
            table.rows[0].1[at].clone()
        };
        assert_eq!(
            (cell("in_flight").as_str(), cell("mean_us").as_str(), cell("99% us").as_str()),
            ("640", "77.42ms", "102.85ms")
        );
        assert_eq!(
            (cell("requests").as_str(), cell("duration_s").as_str(), cell("requests/s").as_str()),
            ("1980525", "240", "8248.78")
        );
    }

    #[test]
    fn several_runs_are_several_rows() {
        assert_eq!(read(&OUTPUT.repeat(3)).expect("wrk").expect("few cells").rows.len(), 3);
        assert_eq!(read("Running out of memory\n"), None);
    }
}
