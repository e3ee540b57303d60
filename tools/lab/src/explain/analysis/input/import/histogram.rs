//! Percentile distributions as HdrHistogram prints them: also at the end of wrk2's output, and Aeron's.

use super::{Imported, Row, between, numbers, table};

/// Shares that a row takes from a distribution.
const SHARES: [f64; 6] = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999];

/// One row for each heading `Value Percentile TotalCount 1/(1-Percentile)`.
pub fn read(text: &str) -> Option<Imported> {
    let mut rows: Vec<Row> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.starts_with("Value") && trimmed.contains("Percentile") && trimmed.contains("TotalCount") {
            rows.push(Row::at(index + 1));
        }
        if let Some(row) = rows.last_mut() {
            take(row, trimmed);
        }
    }
    let readings =
        ["the unit of the times is not stated and taken as us: laws among them do not depend on it"];
    (!rows.is_empty()).then(|| table(rows, &readings))
}

fn take(row: &mut Row, line: &str) {
    if let Some(totals) = line.strip_prefix("#[") {
        for (name, heading) in
            [("Mean", "mean_us"), ("StdDeviation", "stdev_us"), ("Max", "max_us"), ("Total count", "samples")]
        {
            let value = between(totals, name, ",").or(between(totals, name, "]"));
            row.set(heading, value.map(|value| value.trim_start_matches([' ', '=']).trim()));
        }
        return;
    }
    let last = line.strip_suffix("inf").map_or(line.to_owned(), |rest| format!("{rest}0"));
    let cells = numbers(&last, 4).or(numbers(&last, 3));
    let Some((value, share)) =
        cells.and_then(|cells| Some((cells[0].clone(), cells[1].parse::<f64>().ok()?)))
    else {
        return;
    };
    // The first line at or above a share has its value.
    for wanted in SHARES.into_iter().filter(|wanted| share >= *wanted) {
        row.set(&format!("p{}_us", wanted * 100.0), Some(&value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_a_row() {
        let text = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n      18.479 0.000000000000          1           1.00\n      \
                    65.855 0.500000000000     500201           2.00\n     102.207 0.900000000000     \
                    900247          10.00\n     200.1 \
                    0.999000000000     999247          1000.00\n     300.5 1.000000000000    1000000       \
                    inf\n#[Mean    =       \
                    70.1, StdDeviation   =       20.5]\n#[Max     =      300.5, Total count    =      1000000]\n";
        let table = read(text).expect("a distribution").expect("few cells");
        assert_eq!(
            table.headings,
            [
                "p50_us",
                "p75_us",
                "p90_us",
                "p99_us",
                "p99.9_us",
                "p99.99_us",
                "mean_us",
                "stdev_us",
                "max_us",
                "samples"
            ]
        );
        assert_eq!(
            table.rows[0].1,
            ["65.855", "102.207", "102.207", "200.1", "200.1", "300.5", "70.1", "20.5", "300.5", "1000000"]
        );
    }
}
