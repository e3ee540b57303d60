//! Cells and headings that enter no law: impossible numbers, figures whose heading is not known, and how text
//! was read.

use std::collections::BTreeMap;

use super::lines;
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Axis, Latency, Observation, Role, Table};

/// A time of a hundred years is a counter that went below zero.
const SECONDS_POSSIBLE_MAX: f64 = 3.2e9;

/// All of a table.
pub fn check(table: &Table) -> Vec<Finding> {
    let mut findings = odd(table);
    findings.extend(overflows(table));
    findings.extend(unknown(table));
    findings.extend(readings(table));
    findings
}

/// One finding for each kind of impossible number in a column.
fn odd(table: &Table) -> Vec<Finding> {
    let mut kinds: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    // A message without bytes moves none.
    let empty =
        |line: usize| table.rows.iter().any(|row| row.line == line && row.at(Axis::Size) == Some(0.0));
    for cell in table.odd_cells.iter().filter(|cell| cell.value != 0.0 || !empty(cell.line)) {
        let kind = match cell.value {
            value if value.is_nan() => "no number, as of a division by zero",
            value if value.is_infinite() => "infinite",
            value if value < 0.0 => {
                "below zero, as of a difference of two clocks or a counter that overflowed"
            }
            _ => "zero, as of nothing measured or a unit that is too coarse",
        };
        kinds.entry((cell.heading.as_str(), kind)).or_default().push(cell.line);
    }
    let finding = |((heading, kind), found): (&(&str, &str), &Vec<usize>)| {
        let (section, rule) = match kind.starts_with("zero") {
            true => (Section::Caution, "zero"),
            false => (Section::Contradiction, "impossible_number"),
        };
        let sentence =
            format!("`{heading}` is {kind} ({}); the cells are left out of everything else", lines(found));
        Finding::new(section, rule, &table.name, sentence).with([("cells", found.len() as f64)])
    };
    kinds.iter().map(finding).collect()
}

fn overflows(table: &Table) -> Option<Finding> {
    let overflowed = |row: &&Observation| {
        let times = row.times.values().map(|figure| figure.value / 1e9).chain(row.seconds);
        times.into_iter().any(|seconds| seconds > SECONDS_POSSIBLE_MAX)
    };
    let found: Vec<_> = table.rows.iter().filter(overflowed).map(|row| row.line).collect();
    (!found.is_empty()).then(|| {
        let sentence = format!(
            "a time is longer than a hundred years ({}): a minimum that nothing was compared with, or a counter that went \
             below zero",
            lines(&found)
        );
        Finding::new(Section::Contradiction, "impossible_number", &table.name, sentence)
            .with([("cells", found.len() as f64)])
    })
}

fn unknown(table: &Table) -> Option<Finding> {
    (!table.unknown_headings.is_empty()).then(|| {
        let headings: Vec<_> = table.unknown_headings.iter().map(|heading| format!("`{heading}`")).collect();
        let sentence = format!(
            "{}: the cells are numbers and the heading says no quantity and unit that is known, so no law is held against them",
            headings.join(", ")
        );
        Finding::new(Section::NotIdentifiable, "unknown_heading", &table.name, sentence)
            .with([("columns", headings.len() as f64)])
    })
}

fn readings(table: &Table) -> Option<Finding> {
    let mut readings = table.readings.clone();
    let statisticless = table.columns.iter().filter(|column| {
        let role = column.role;
        matches!(role, Role::Time(Latency::Mean, _))
            && !["mean", "avg", "average"].iter().any(|word| column.heading.to_lowercase().contains(word))
    });
    readings.extend(statisticless.map(|column| format!("`{}` is a mean time", column.heading)));
    (!readings.is_empty()).then(|| {
        let sentence = format!("it was read so: {}", readings.join("; "));
        Finding::new(Section::Assumption, "reading", &table.name, sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    fn rules(text: &str) -> Vec<&'static str> {
        check(&parse("t", text).expect("a table")).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn impossible_cells_are_findings() {
        assert_eq!(rules("p50_us,p99_us\n0,5\n-1,6\n"), ["impossible_number", "zero"]);
        assert_eq!(rules("min_ms\n9223372036854776.000\n"), ["impossible_number"]);
        assert_eq!(rules("p50_us,p99_us\n3,5\n"), [""; 0]);
    }

    #[test]
    fn readings_are_shown() {
        assert_eq!(rules("size;p50_us\n1K;5,1\n"), ["reading"]);
        assert_eq!(rules("latency_us\n5\n"), ["reading"]);
    }
}
