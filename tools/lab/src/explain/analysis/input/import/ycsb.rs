//! YCSB: lines such as `[READ], AverageLatency(us), 594.86`.

use std::collections::BTreeMap;

use super::{Imported, Row, between, table};

/// The section of the whole run.
const OVERALL: &str = "OVERALL";

/// Operations that are made of others, or are no requests.
const NO_OPERATIONS: [&str; 2] = ["READ-MODIFY-WRITE", "CLEANUP"];

/// One row for each kind of operation, and one for the run.
pub fn read(text: &str) -> Option<Imported> {
    let (mut rows, mut places): (Vec<(String, Row)>, _) = (Vec::new(), BTreeMap::new());
    for (index, line) in text.lines().enumerate() {
        let mut cells = line.split(", ");
        let (Some(section), Some(name), Some(value), None) =
            (cells.next(), cells.next(), cells.next(), cells.next())
        else {
            continue;
        };
        let Some(section) = between(section, "[", "]").filter(|name| !name.starts_with("TOTAL_GC")) else {
            continue;
        };
        let Some(heading) = heading_of(name) else { continue };
        let place = *places.entry(section).or_insert_with(|| {
            let mut row = Row::at(index + 1);
            row.set("operation", Some(section));
            rows.push((section.to_owned(), row));
            rows.len() - 1
        });
        rows[place].1.set(&heading, Some(value.trim()));
    }
    // Where nothing is counted twice, the operations of the run are those of all kinds.
    let kinds = || rows.iter().filter(|(section, _)| !NO_OPERATIONS.contains(&section.as_str()));
    let counts = kinds().filter_map(|(_, row)| row.cell("samples")?.parse::<u64>().ok());
    let all = counts.fold(0_u64, u64::saturating_add);
    let twice = rows.iter().any(|(section, _)| section == NO_OPERATIONS[0]);
    if let Some((_, row)) = rows.iter_mut().find(|(section, _)| section == OVERALL && !twice) {
        row.set("samples", Some(&all.to_string()));
    }
    let is_of_run = rows.iter().any(|(section, row)| section == OVERALL && row.has("ops/s"));
    rows.retain(|(section, _)| !NO_OPERATIONS.contains(&section.as_str()));
    let rows = rows.into_iter().map(|(_, row)| row).collect();
    is_of_run.then(|| {
        table(rows, &["the throughput and the operations of [OVERALL] are those of all kinds together"])
    })
}

/// Other names, such as those of return codes and of collections of garbage, are left out.
fn heading_of(name: &str) -> Option<String> {
    let unit = between(name, "(", ")").unwrap_or_default();
    Some(match name.split('(').next()?.trim() {
        "RunTime" => format!("runtime_{unit}"),
        "Throughput" => "ops/s".to_owned(),
        "Operations" => "samples".to_owned(),
        "AverageLatency" => format!("mean_{unit}"),
        "MinLatency" => format!("min_{unit}"),
        "MaxLatency" => format!("max_{unit}"),
        other => {
            let share = other.strip_suffix("PercentileLatency")?;
            let digits = share.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            format!("{digits}%_{unit}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_operation_is_a_row() {
        let text = "[OVERALL], RunTime(ms), 10110\n[OVERALL], Throughput(ops/sec), 98.9\n[READ], Operations, 516\n\
                    [READ], AverageLatency(us), 594.86\n[READ], MinLatency(us), 266\n\
                    [READ], MaxLatency(us), 6899\n\
                    [READ], 95thPercentileLatency(us), 846\n[READ], 99.9PercentileLatency(us), 1263\n\
                    [READ], Return=OK, 516\n[CLEANUP], Operations, 1\n";
        let table = read(text).expect("YCSB").expect("few cells");
        assert_eq!(
            table.headings,
            [
                "operation",
                "runtime_ms",
                "ops/s",
                "samples",
                "mean_us",
                "min_us",
                "max_us",
                "95%_us",
                "99.9%_us"
            ]
        );
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[0].1[..4], ["OVERALL", "10110", "98.9", "516"]);
        assert_eq!(table.rows[1].1[3..], ["516", "594.86", "266", "6899", "846", "1263"]);
        assert_eq!(read("[READ], Operations, 516\n"), None);
    }
}
